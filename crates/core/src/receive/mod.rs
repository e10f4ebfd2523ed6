//! The way up in a receiving host: interface, interrupt, poll, and the merging of segments (receive offload, GRO).
//!
//! A packet that arrives waits in the interface's ring until the host polls. When that is, the policy decides: one file per
//! way that drivers have. A poll takes what is there, merges segments of the same flow that follow each other, and hands up the rest as it
//! came. To TCP a merged packet is one arrival, so it is acknowledged once. The application reads after the poll, so that several packets
//! of one poll mostly share an ACK, too (the receiver of `tcp`).

mod gro;
mod processor;

pub use gro::Merged;
pub use processor::Processor;

use self::gro::Gro;
use crate::packet::Packet;
use crate::policy::policies;
use crate::units::Time;

/// Packets that one poll takes at most (NAPI_POLL_WEIGHT). The next follows at once, but nothing stays merged between them.
const BUDGET: usize = 64;

/// When a host polls its interface, and what it keeps between polls.
pub trait ReceiveOffload {
    /// A packet is in the ring, and the device may interrupt: when it does.
    fn interrupt_at(&mut self, now: Time) -> Time;

    /// A packet of this size came. For those who count.
    fn on_received(&mut self, _bytes: u32) {}

    /// The host has sent a packet of this size. For those who count.
    fn on_sent(&mut self, _bytes: u32) {}

    /// The ring is empty after a poll.
    fn on_polled(&mut self, now: Time, polled: &Polled) -> Next;

    /// Number of the tick of the kernel's clock: what was kept longer than within one tick goes up.
    fn tick(&self, _now: Time) -> u64 {
        0
    }
}

/// What a poll was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// An interrupt began it, not a timer.
    pub by_interrupt: bool,
    /// Packets since the last full budget.
    pub last_packets: usize,
    /// Merged packets are held.
    pub holds: bool,
}

/// What follows a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// A timer starts the next one.
    pub poll_at: Time,
    /// What came in this tick of the kernel's clock stays held.
    pub keeps: bool,
    /// The device does not interrupt before.
    pub masked: bool,
}

impl Next {
    /// Nothing before the next packet.
    pub const IDLE: Next = Next { poll_at: Time::NEVER, keeps: false, masked: false };
}

policies! {
    /// One of the registered ways from the device to TCP.
    AnyReceiveOffload: ReceiveOffload,
    /// How a host takes packets from its interface, with its parameters.
    ReceiveOffloadConfig("a receive offload"), built with () {
        off => Off / OffConfig,
        napi => Napi / NapiConfig,
        e1000e => E1000e / E1000eConfig,
        igb => Igb / IgbConfig,
    }
}

impl ReceiveOffloadConfig {
    /// Each packet goes up by itself, and no interface is needed.
    pub fn is_off(&self) -> bool {
        matches!(self, ReceiveOffloadConfig::Off(_))
    }
}

/// The receiving side of a host's network interface.
#[derive(Debug)]
pub struct Interface {
    policy: AnyReceiveOffload,
    ring: Vec<Packet>,
    gro: Gro,
    poll_at: Time,
    /// The poll that is due was asked for by the device.
    by_interrupt: bool,
    masked: bool,
}

impl Interface {
    /// Idle.
    pub fn new(config: &ReceiveOffloadConfig) -> Interface {
        Interface {
            policy: config.build(&()),
            ring: Vec::new(),
            gro: Gro::default(),
            poll_at: Time::NEVER,
            by_interrupt: false,
            masked: false,
        }
    }

    /// When [`Self::poll`] is to be called.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.poll_at
    }

    /// Loads what [`Self::pass`] needs and changes nothing.
    #[inline]
    pub fn touch(&self) {
        std::hint::black_box((self.ring.len(), self.gro.is_empty(), self.poll_at));
    }

    /// Segments and packets on their way up, in the ring or held for others to join, and their bytes at the IP layer.
    pub fn waiting(&self) -> (u64, u64) {
        let ring = self.ring.iter().map(|p| (1, u64::from(p.size)));
        let held = self.gro.held().map(|merged| (u64::from(merged.segments), merged.bytes()));
        ring.chain(held).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// A packet came from the line.
    #[inline]
    pub fn on_packet(&mut self, now: Time, packet: &Packet) {
        self.policy.on_received(u32::from(packet.size));
        self.ring.push(*packet);
        if !self.masked && !self.by_interrupt {
            let at = self.policy.interrupt_at(now);
            if at <= self.poll_at {
                (self.poll_at, self.by_interrupt) = (at, true);
            }
        }
    }

    /// As [`Self::on_packet`] where the host polls at once whatever is due: whether the packet goes up as it is, alone.
    /// Neither the ring nor what is held is touched then.
    #[inline]
    pub fn pass(&mut self, now: Time, packet: &Packet) -> bool {
        if !self.ring.is_empty() || !self.gro.is_empty() || self.masked || self.by_interrupt {
            self.on_packet(now, packet);
            return false;
        }
        self.policy.on_received(u32::from(packet.size));
        let at = self.policy.interrupt_at(now);
        if at <= self.poll_at {
            (self.poll_at, self.by_interrupt) = (at, true);
        }
        if self.poll_at > now {
            self.ring.push(*packet);
            return false;
        }
        self.goes_up_alone(now, packet)
    }

    /// The host sends a packet of this size through the interface.
    #[inline]
    pub fn on_sent(&mut self, bytes: u16) {
        self.policy.on_sent(u32::from(bytes));
    }

    /// A poll would find a packet, and nothing that it could join.
    #[inline]
    pub fn has_one(&self) -> bool {
        self.ring.len() == 1 && self.gro.is_empty() && !self.masked
    }

    /// As [`Self::poll`] where there is [one packet](Self::has_one): what goes up.
    #[inline]
    pub fn poll_one(&mut self, now: Time) -> Option<Packet> {
        let packet = self.ring.pop()?;
        self.goes_up_alone(now, &packet).then_some(packet)
    }

    /// A poll finds one packet and nothing held: it goes up as it is, unless it is held for others to join.
    #[inline]
    fn goes_up_alone(&mut self, now: Time, packet: &Packet) -> bool {
        let polled = Polled { by_interrupt: self.by_interrupt, last_packets: 1, holds: gro::may_be_joined(packet) };
        let next = self.policy.on_polled(now, &polled);
        (self.poll_at, self.masked, self.by_interrupt) = (next.poll_at, next.masked, false);
        if next.keeps && polled.holds {
            let tick = self.policy.tick(now);
            self.gro.hold(*packet, tick);
            return false;
        }
        true
    }

    /// The host polls: what goes up now is added to `up`, in order.
    pub fn poll(&mut self, now: Time, up: &mut Vec<Merged>) {
        let tick = self.policy.tick(now);
        let full = self.ring.len() / BUDGET * BUDGET;
        let last_packets = self.ring.len() - full;
        for (i, packet) in self.ring.drain(..).enumerate() {
            if i > 0 && i % BUDGET == 0 {
                self.gro.flush(up);
            }
            self.gro.receive(packet, tick, up);
        }
        if full > 0 && last_packets == 0 {
            self.gro.flush(up);
        }
        self.complete(now, tick, last_packets, up);
    }

    fn complete(&mut self, now: Time, tick: u64, last_packets: usize, up: &mut Vec<Merged>) {
        let polled = Polled { by_interrupt: self.by_interrupt, last_packets, holds: !self.gro.is_empty() };
        let next = self.policy.on_polled(now, &polled);
        (self.poll_at, self.masked, self.by_interrupt) = (next.poll_at, next.masked, false);
        if next.keeps {
            self.gro.flush_old(tick, up);
        } else {
            self.gro.flush(up);
        }
    }
}

#[cfg(test)]
mod tests;
