//! The way up in a receiving host: interface, interrupt, poll, and the merging of segments (receive
//! offload, GRO).
//!
//! A packet that arrives waits in the interface's ring until the host polls. The policy decides on
//! the time of the poll: each file is one variant that drivers have. A poll takes the packets in
//! the ring, merges consecutive segments of a flow, and hands up the others unchanged. To TCP a
//! merged packet is one arrival, so it is acknowledged once. The application reads after the poll,
//! so that several packets of one poll mostly share an ACK, too (the receiver of `tcp`).

mod gro;
mod processor;

pub use gro::Merged;
pub use processor::Processor;

use self::gro::Gro;
use crate::packet::Packet;
use crate::policy::policies;
use crate::prefetch::prefetch;
use crate::units::Time;

/// Packets that one poll takes at most (NAPI_POLL_WEIGHT). The next follows at once, but nothing
/// stays merged between them.
const BUDGET: usize = 64;

/// The policy by which a host polls its interface and holds segments between polls.
pub trait ReceiveOffload {
    /// Time of the device's interrupt, after a packet has come and the device may interrupt.
    fn interrupt_at(&mut self, now: Time) -> Time;

    /// A packet of this size came, for policies that count.
    fn on_received(&mut self, _bytes: u32) {}

    /// The host has sent a packet of this size, for policies that count.
    fn on_sent(&mut self, _bytes: u32) {}

    /// The ring is empty after a poll.
    fn on_polled(&mut self, now: Time, polled: &Polled) -> Next;

    /// True if segments of a poll that follow each other go up as one.
    fn merges(&self) -> bool {
        true
    }

    /// Number of the tick of the kernel's clock. Segments held from an earlier tick go up.
    fn tick(&self, _now: Time) -> u64 {
        0
    }
}

/// Result of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// An interrupt began it, not a timer.
    pub by_interrupt: bool,
    /// Packets since the last full budget.
    pub last_packets: usize,
    /// Merged packets are held.
    pub holds: bool,
}

/// Actions after a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Time at which a timer starts the next poll.
    pub poll_at: Time,
    /// Segments that came in this tick of the kernel's clock stay held.
    pub keeps: bool,
    /// The device does not interrupt before that poll.
    pub masked: bool,
}

impl Next {
    /// No poll and no interrupt before the next packet.
    pub const IDLE: Next = Next { poll_at: Time::NEVER, keeps: false, masked: false };
}

policies! {
    /// One of the registered receive offloads.
    AnyReceiveOffload: ReceiveOffload,
    /// Receive offload of a host's interface, with its parameters.
    ReceiveOffloadConfig("a receive offload"), built with () {
        off => Off / OffConfig,
        napi => Napi / NapiConfig,
        e1000e => E1000e / E1000eConfig,
        igb => Igb / IgbConfig,
    }
}

/// Makes a call that is generic over the policy. Each policy gets code of its own, since every
/// packet takes this path.
macro_rules! with_policy {
    ($any:expr, $policy:ident => $call:expr) => {
        match $any {
            AnyReceiveOffload::Off($policy) => $call,
            AnyReceiveOffload::Napi($policy) => $call,
            AnyReceiveOffload::E1000e($policy) => $call,
            AnyReceiveOffload::Igb($policy) => $call,
        }
    };
}

impl ReceiveOffloadConfig {
    /// Each packet goes up by itself, and no interface is needed.
    pub fn is_off(&self) -> bool {
        matches!(self, ReceiveOffloadConfig::Off(_))
    }
}

/// Empty rings, shared by all interfaces: few of thousands of interfaces have packets at a time.
#[derive(Debug, Default)]
pub struct Rings(Vec<Vec<Packet>>);

impl Rings {
    /// Takes back an empty ring.
    #[inline]
    fn give_back(&mut self, ring: Vec<Packet>) {
        self.0.push(ring);
    }
}

/// The receiving side of a host's network interface: two cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub struct Interface {
    policy: AnyReceiveOffload,
    state: State,
}

/// State of an interface besides its policy.
#[derive(Debug)]
struct State {
    ring: Vec<Packet>,
    gro: Gro,
    poll_at: Time,
    /// The device has asked for the poll that is due.
    by_interrupt: bool,
    masked: bool,
}

impl Interface {
    /// Idle.
    pub fn new(config: &ReceiveOffloadConfig) -> Interface {
        Interface {
            policy: config.build(&()),
            state: State {
                ring: Vec::new(),
                gro: Gro::default(),
                poll_at: Time::NEVER,
                by_interrupt: false,
                masked: false,
            },
        }
    }

    /// Time at which the owner must call [`Self::poll`].
    #[inline]
    pub fn deadline(&self) -> Time {
        self.state.poll_at
    }

    /// Loads the memory that [`Self::pass`] needs, and changes nothing.
    #[inline]
    pub fn prefetch(&self) {
        prefetch((self.state.ring.len(), self.state.gro.is_empty(), self.state.poll_at));
    }

    /// Segments and packets on their way up, in the ring or held for others to join, and their
    /// bytes at the IP layer.
    pub fn waiting(&self) -> (u64, u64) {
        let ring = self.state.ring.iter().map(|p| (1, u64::from(p.size)));
        let held = self.state.gro.held().map(|merged| (u64::from(merged.segments), merged.bytes()));
        ring.chain(held).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// A packet came from the line.
    #[inline]
    pub fn on_packet(&mut self, now: Time, packet: &Packet, rings: &mut Rings) {
        with_policy!(&mut self.policy, p => self.state.on_packet(p, now, packet, rings));
    }

    /// As [`Self::on_packet`], for a host that polls at once whatever is due. Returns true if the
    /// packet goes up as it is, alone; ring and held packets are not touched then.
    #[inline]
    pub fn pass(&mut self, now: Time, packet: &Packet, rings: &mut Rings) -> bool {
        with_policy!(&mut self.policy, p => self.state.pass(p, now, packet, rings))
    }

    /// The host sends a packet of this size through the interface.
    #[inline]
    pub fn on_sent(&mut self, bytes: u16) {
        with_policy!(&mut self.policy, p => p.on_sent(u32::from(bytes)));
    }

    /// A poll would find a packet, and nothing that it could join.
    #[inline]
    pub fn has_one(&self) -> bool {
        self.state.ring.len() == 1 && self.state.gro.is_empty() && !self.state.masked
    }

    /// Takes out the packet where there is [one](Self::has_one), for a poll by
    /// [`Self::goes_up_alone`].
    #[inline]
    pub fn take_one(&mut self, rings: &mut Rings) -> Option<Packet> {
        let mut ring = std::mem::take(&mut self.state.ring);
        let packet = ring.pop();
        rings.give_back(ring);
        packet
    }

    /// A poll finds one packet and nothing held: it goes up as it is, unless it is held for others
    /// to join.
    #[inline]
    pub fn goes_up_alone(&mut self, now: Time, packet: &Packet) -> bool {
        with_policy!(&mut self.policy, p => self.state.goes_up_alone(p, now, packet))
    }

    /// Polls the interface; appends the packets that go up to `up`, in order.
    pub fn poll(&mut self, now: Time, up: &mut Vec<Merged>, rings: &mut Rings) {
        let tick = self.policy.tick(now);
        let Interface { policy, state } = self;
        let full = state.ring.len() / BUDGET * BUDGET;
        let last_packets = state.ring.len() - full;
        for (i, packet) in state.ring.drain(..).enumerate() {
            if i > 0 && i % BUDGET == 0 {
                state.gro.flush(up);
            }
            if policy.merges() {
                state.gro.receive(packet, tick, up);
            } else {
                up.push(Merged::alone(packet));
            }
        }
        if full > 0 && last_packets == 0 {
            state.gro.flush(up);
        }
        if state.ring.capacity() > 0 {
            rings.give_back(std::mem::take(&mut state.ring));
        }
        let polled = Polled { by_interrupt: state.by_interrupt, last_packets, holds: !state.gro.is_empty() };
        let next = policy.on_polled(now, &polled);
        state.follow(&next);
        if next.keeps {
            state.gro.flush_old(tick, up);
        } else {
            state.gro.flush(up);
        }
    }
}

impl State {
    #[inline]
    fn on_packet(&mut self, policy: &mut impl ReceiveOffload, now: Time, packet: &Packet, rings: &mut Rings) {
        policy.on_received(u32::from(packet.size));
        self.keep(packet, rings);
        if !self.masked && !self.by_interrupt {
            self.interrupt(policy, now);
        }
    }

    #[inline]
    fn keep(&mut self, packet: &Packet, rings: &mut Rings) {
        if self.ring.capacity() == 0 {
            self.ring = rings.0.pop().unwrap_or_default();
        }
        self.ring.push(*packet);
    }

    #[inline]
    fn interrupt(&mut self, policy: &mut impl ReceiveOffload, now: Time) {
        let at = policy.interrupt_at(now);
        if at <= self.poll_at {
            (self.poll_at, self.by_interrupt) = (at, true);
        }
    }

    #[inline]
    fn pass(&mut self, policy: &mut impl ReceiveOffload, now: Time, packet: &Packet, rings: &mut Rings) -> bool {
        if !self.ring.is_empty() || !self.gro.is_empty() || self.masked || self.by_interrupt {
            self.on_packet(policy, now, packet, rings);
            return false;
        }
        policy.on_received(u32::from(packet.size));
        self.interrupt(policy, now);
        if self.poll_at > now {
            self.keep(packet, rings);
            return false;
        }
        self.goes_up_alone(policy, now, packet)
    }

    #[inline]
    fn goes_up_alone(&mut self, policy: &mut impl ReceiveOffload, now: Time, packet: &Packet) -> bool {
        let holds = policy.merges() && gro::may_be_joined(packet);
        let polled = Polled { by_interrupt: self.by_interrupt, last_packets: 1, holds };
        let next = policy.on_polled(now, &polled);
        self.follow(&next);
        if next.keeps && polled.holds {
            let tick = policy.tick(now);
            self.gro.hold(*packet, tick);
            return false;
        }
        true
    }

    #[inline]
    fn follow(&mut self, next: &Next) {
        (self.poll_at, self.masked, self.by_interrupt) = (next.poll_at, next.masked, false);
    }
}

#[cfg(test)]
mod tests;
