//! The order of turns: one guest at a time, and between them the network. Time goes from one
//! instant at which something happens to the next; how long that takes on the machine changes
//! nothing.
//!
//! A guest may move its own time up to the next instant at which anybody else has something to do,
//! without a message. A packet that it sends can make that instant earlier. So the guest hears of
//! the earlier instant before its notice is answered.

// A guest's silence is in the machine's time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use airtcp_core::units::{Span, Time};
use nix::poll::{PollFd, PollFlags};
use nix::sys::memfd::{MFdFlags, memfd_create};

pub use super::guest::{Counts, Guest};
use super::guest_time::GuestTime;
use super::message::{Message, Op};
use super::patience::{Interrupt, Patience};
use super::vhost::{HEADER, RECEIVE, Request, SEND, Todo};
use crate::common::network::{Delivered, Network, NotSent, Tap};
use crate::common::payloads::Payloads;

/// Date at which guests start: 2024-01-01.
const DAY: Span = Span::from_secs(1_704_067_200);
/// A guest that has no request.
const NEVER: GuestTime = GuestTime::NEVER;
/// Before each packet: addresses and protocol of Ethernet.
const ETHERNET: usize = 14;
/// The longest packet that a guest may send, with all that is before it.
const LONGEST: usize = 65536;
/// A guest that says nothing for so long has failed.
const SILENCE: Duration = Duration::from_secs(60);
/// A guest that nobody else needs moves its own time by so much at most. So it is known how far
/// each may be.
const FREE: Span = Span::from_ms(1);

/// Why a network of guests ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A guest's kernel or device.
    #[error("host {host:?}: {why}")]
    Guest {
        /// Which host.
        host: String,
        /// The error that it made.
        why: String,
    },
    /// Nobody will ever do anything again.
    #[error("all programs wait for something that never comes, {0} after the beginning")]
    Idle(Span),
    /// Somebody wanted it to end, while a guest was waited for.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// It is none if somebody wanted the end.
    pub(crate) fn unless_interrupted(self) -> Result<(), Failure> {
        if matches!(self, Failure::Interrupted) { Ok(()) } else { Err(self) }
    }
}

/// Type of the Ethernet frames that wake a guest's first process: for experiments within one
/// network (IEEE 802). The byte behind the header says what to look at: [`CONNECTIONS`],
/// [`COMMANDS`].
pub const WAKE: u16 = 0x88b5;
/// Its TCP connections are to be written down.
pub const CONNECTIONS: u8 = 1;
/// Somebody asks for a command.
pub const COMMANDS: u8 = 2;

/// Result of a look at the outside of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It goes on.
    Continue,
    /// It goes on, and guests look for commands that somebody asks for.
    Wake,
    /// It is over.
    End,
}

/// Answer of somebody outside before time goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It may.
    Continue,
    /// Guests look at what somebody asks for or types, when the network's time is this.
    Wake(Time),
    /// The network is over.
    End,
}

/// Asked before the network's time goes on, with that time and the one it would become. It may
/// wait.
pub type Pacer = Box<dyn FnMut(Time, Time) -> Pace>;

/// Guests on a network.
pub struct Controller<N, T> {
    /// Between them.
    pub network: N,
    /// Sees their packets.
    pub tap: T,
    /// Guests by index of their host.
    pub guests: Vec<Guest>,
    payloads: Payloads,
    now: GuestTime,
    end: GuestTime,
    packet: Vec<u8>,
    /// Guests write down their connections this often, while there is traffic; zero: never.
    snapshot_interval: Span,
    /// When they do so next, if packets have come or gone since the last time.
    snapshot_at: GuestTime,
    /// When they are woken for something else, and for what.
    wake_at: GuestTime,
    wakes_for: u8,
    patience: Patience,
    /// Where somebody types, time goes no faster than theirs.
    pacer: Option<Pacer>,
}

impl<N: Network, T: Tap> Controller<N, T> {
    /// Guests that have connected, and wait to be started. The network ends after `lasts`.
    pub fn new(network: N, tap: T, guests: Vec<Guest>, lasts: Option<Span>) -> Controller<N, T> {
        let end = lasts.map_or(NEVER, |lasts| GuestTime::BEGIN + lasts);
        let payloads = Payloads::default();
        Controller {
            network,
            tap,
            guests,
            payloads,
            now: GuestTime::ZERO,
            end,
            packet: Vec::new(),
            snapshot_interval: Span::ZERO,
            snapshot_at: NEVER,
            wake_at: NEVER,
            wakes_for: 0,
            patience: Patience::new(SILENCE),
            pacer: None,
        }
    }

    /// Asks `pacer` before time goes on, once the network has begun.
    pub fn set_pacer(&mut self, pacer: Pacer) {
        self.pacer = Some(pacer);
    }

    /// Drops the pacer and the check for interrupts. Whatever the pacer held is released: a
    /// terminal is as it was.
    pub fn remove_callbacks(&mut self) {
        self.pacer = None;
        self.patience.remove_interrupt();
    }

    /// Asks this whether the network is to end, while a guest is waited for: then it ends with
    /// [`Failure::Interrupted`].
    pub fn set_interrupt(&mut self, interrupt: Interrupt) {
        self.patience.set_interrupt(interrupt);
    }

    /// A guest that says nothing for so long, in the machine's time, has failed; a minute unless
    /// this is called.
    pub fn end_after_silence(&mut self, silence: Duration) {
        self.patience.set_silence(silence);
    }

    /// Guests write down their connections this often, at multiples of it, while there is traffic:
    /// a network in which all wait stays one.
    pub fn snapshot_every(&mut self, interval: Span) {
        self.snapshot_interval = interval;
    }

    /// Guests write down their connections once more, for which the network goes on for a little
    /// longer than this.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn last_snapshot(&mut self, lasts: Span) -> Result<(), Failure> {
        self.snapshot_interval = Span::ZERO;
        self.snapshot_at = NEVER;
        self.wake_soon(CONNECTIONS);
        self.end = self.wake_at + lasts;
        self.run_loop(&mut |_| Decision::Continue)
    }

    /// Wakes the first process of each guest when none of them can be beyond that.
    fn wake_soon(&mut self, what: u8) {
        self.wakes_for |= what;
        let farthest = self.guests.iter().map(|guest| guest.free_until).max().unwrap_or(GuestTime::ZERO);
        self.wake_at = self.wake_at.min(farthest.max(self.now));
    }

    /// Wakes the first process of each guest.
    fn wake(&mut self, what: u8) -> Result<(), Failure> {
        for guest in &mut self.guests {
            if guest.enqueue(wake_frame(guest.mac, what)) {
                guest.refill().map_err(|fault| guest.fails(fault))?;
            }
        }
        Ok(())
    }

    /// Packets have come or gone.
    fn note_traffic(&mut self) {
        if !self.snapshot_interval.is_zero() && self.snapshot_at == NEVER {
            let so_far = self.now.since(GuestTime::BEGIN).as_ns() / self.snapshot_interval.as_ns();
            self.snapshot_at = GuestTime::BEGIN + self.snapshot_interval * (so_far + 1);
        }
    }

    /// The network's time.
    pub fn now(&self) -> Time {
        self.now.network()
    }

    /// Packets whose bytes were kept at once, at most.
    pub fn most_inside(&self) -> usize {
        self.payloads.len()
    }

    fn has_begun(&self) -> bool {
        self.now >= GuestTime::BEGIN
    }

    /// When the network does something next, in guests' time.
    fn deadline(&mut self) -> GuestTime {
        let at = self.network.deadline();
        GuestTime::of(at).min(self.snapshot_at).min(self.wake_at)
    }

    /// Runs until `check`, asked whenever a guest has nothing more to do at its instant, says that
    /// it is over, or until the end.
    ///
    /// # Errors
    /// A guest has failed, or all of them wait for ever.
    pub fn run(&mut self, check: &mut dyn FnMut(usize) -> Decision) -> Result<(), Failure> {
        for index in 0..self.guests.len() {
            let guest = &self.guests[index];
            self.patience.watch(&guest.time).map_err(|error| guest.fails(error))?;
            self.patience.time_goes_on();
            self.start(index)?;
        }
        self.run_loop(check)
    }

    fn run_loop(&mut self, check: &mut dyn FnMut(usize) -> Decision) -> Result<(), Failure> {
        loop {
            self.collect()?;
            for index in 0..self.guests.len() {
                self.call(index)?;
            }
            let deadline = self.deadline();
            let requests = self.guests.iter().enumerate();
            let (at, index) = requests.map(|(index, guest)| (guest.request, index)).min().unwrap_or((NEVER, 0));
            let next = at.min(deadline).max(self.now);
            if self.has_begun() && next > self.now {
                let (now, then) = (self.now(), next.min(self.end).network());
                let pace = self.pacer.as_mut().map_or(Pace::Continue, |pacer| pacer(now, then));
                self.patience.time_goes_on();
                match pace {
                    Pace::Continue => {}
                    Pace::Wake(at) => {
                        self.now = GuestTime::of(at).clamp(self.now, next);
                        self.network.run_until(self.now());
                        self.wake_soon(COMMANDS);
                        continue;
                    }
                    Pace::End => return Ok(()),
                }
            }
            if next >= self.end {
                if self.end < NEVER {
                    self.now = self.end;
                    self.network.run_until(self.now());
                    self.collect()?;
                    return Ok(());
                }
                return Err(Failure::Idle(self.now().since(Time::ZERO)));
            }
            if next > self.now {
                self.patience.time_goes_on();
            }
            self.now = next;
            if deadline <= next {
                self.network.run_until(self.now());
                if next >= self.snapshot_at {
                    self.snapshot_at = NEVER;
                    self.wakes_for |= CONNECTIONS;
                }
                if next >= self.wake_at {
                    self.wake_at = NEVER;
                }
                if self.wake_at == NEVER && self.wakes_for != 0 {
                    let what = std::mem::take(&mut self.wakes_for);
                    self.wake(what)?;
                }
                continue;
            }
            let others = self.guests.iter().enumerate().filter(|&(other, _)| other != index);
            let others = others.map(|(_, guest)| guest.request).min().unwrap_or(NEVER);
            let free_until = others.min(deadline).min(self.end).min(self.now + FREE);
            self.run_guest(index, free_until)?;
            match check(index) {
                Decision::Continue => {}
                Decision::Wake => self.wake_soon(COMMANDS),
                Decision::End => return Ok(()),
            }
        }
    }

    /// A guest begins, and runs until it waits.
    fn start(&mut self, index: usize) -> Result<(), Failure> {
        let guest = &mut self.guests[index];
        let begun = guest.read_message(&mut self.patience)?;
        if begun.op != Op::Start {
            return Err(guest.fails("its first message is not that it starts"));
        }
        // Linux 6.12 looks at two descriptors here, whether any came or not. The first has a
        // version that it declines.
        let shared = memfd_create("airtcp-time", MFdFlags::MFD_CLOEXEC).map_err(|error| guest.fails(error))?;
        File::from(shared.try_clone().map_err(|error| guest.fails(error))?)
            .set_len(4096)
            .and_then(|()| File::open("/dev/null"))
            .and_then(|log| {
                let id = u64::try_from(index).unwrap_or(0);
                let answer = Message { op: Op::Ack, seq: begun.seq, time: id };
                answer.write_with(&guest.time, &[shared.as_raw_fd(), log.as_raw_fd()])
            })
            .map_err(|error| guest.fails(error))?;
        guest.is_waiting = false;
        guest.free_until = GuestTime::ZERO;
        self.serve(index, &mut |controller| controller.guests[index].is_waiting)
    }

    fn run_guest(&mut self, index: usize, free_until: GuestTime) -> Result<(), Failure> {
        let now = self.now;
        let guest = &mut self.guests[index];
        guest.free_until = now;
        if free_until > now {
            guest.free_until = free_until;
            self.send_time(index, Op::FreeUntil, free_until)?;
        }
        self.guests[index].request = NEVER;
        self.guests[index].is_waiting = false;
        self.send_time(index, Op::Run, now)?;
        self.serve(index, &mut |controller| controller.guests[index].is_waiting)
    }

    /// Tells a guest something about time, and serves it until it has understood.
    fn send_time(&mut self, index: usize, op: Op, time: GuestTime) -> Result<(), Failure> {
        let guest = &mut self.guests[index];
        let seq = guest.send_message(&mut self.patience, op, time).map_err(|error| guest.socket_failure(&error))?;
        loop {
            let guest = &self.guests[index];
            let message = guest.read_message(&mut self.patience)?;
            if message.op == Op::Ack {
                if message.seq == seq {
                    return Ok(());
                }
                return Err(guest.fails("it acknowledges what it was not told"));
            }
            self.on_time(index, message)?;
        }
    }

    /// Answers a guest until `is_done`, or until it has ended.
    fn serve(&mut self, index: usize, is_done: &mut dyn FnMut(&Self) -> bool) -> Result<(), Failure> {
        while !is_done(self) {
            let guest = &self.guests[index];
            let device = guest.net.as_ref().map_or(guest.listener.as_fd(), AsFd::as_fd);
            let mut fds = [PollFd::new(guest.time.as_fd(), PollFlags::POLLIN), PollFd::new(device, PollFlags::POLLIN)];
            self.patience.wait(&mut fds).map_err(|error| guest.socket_failure(&error))?;
            let [time, net] = fds.map(|fd| fd.any().unwrap_or(true));
            if net {
                let Some(device) = &guest.net else {
                    let (stream, _) = guest.listener.accept().map_err(|error| guest.fails(error))?;
                    self.patience.watch(&stream).map_err(|error| guest.fails(error))?;
                    self.guests[index].net = Some(stream);
                    continue;
                };
                let request =
                    Request::read(device, &mut self.patience).map_err(|error| guest.socket_failure(&error))?;
                self.on_request(index, request)?;
            } else if time {
                let message = guest.read_message(&mut self.patience)?;
                self.on_time(index, message)?;
            }
        }
        Ok(())
    }

    fn on_time(&mut self, index: usize, message: Message) -> Result<(), Failure> {
        let mut answer = Message { op: Op::Ack, seq: message.seq, time: 0 };
        match message.op {
            Op::Request => self.guests[index].request = GuestTime::from_ns(message.time).min(NEVER),
            Op::Wait => self.guests[index].is_waiting = true,
            Op::Get => answer.time = self.now.as_ns(),
            Op::Update => {
                let time = GuestTime::from_ns(message.time);
                let guest = &self.guests[index];
                if guest.is_waiting || time < self.now || time > guest.free_until {
                    return Err(self.guests[index].fails("it moved time further than it may"));
                }
                self.now = time;
                if self.has_begun() {
                    self.network.run_until(self.now());
                }
            }
            Op::GetDay => answer.time = DAY.as_ns(),
            Op::Ack | Op::Start | Op::Run | Op::FreeUntil => {
                return Err(self.guests[index].fails("a message about time that it may not send now"));
            }
        }
        let guest = &self.guests[index];
        answer.write(&guest.time, &mut self.patience).map_err(|error| guest.socket_failure(&error))
    }

    fn on_request(&mut self, index: usize, request: Request) -> Result<(), Failure> {
        let guest = &mut self.guests[index];
        let (answer, todo) = guest.device.handle(request).map_err(|fault| guest.fails(fault))?;
        match todo {
            Todo::ReadQueue(queue) if queue == guest.send_queue() => self.read_sent(index)?,
            Todo::ReadQueue(_) => guest.refill().map_err(|fault| guest.fails(fault))?,
            Todo::Nothing => {}
        }
        let must_stop = self.guests[index].needs_call().map_err(|fault| self.guests[index].fails(fault))?;
        let deadline = self.deadline();
        let until = if must_stop { self.now } else { deadline.max(self.now) };
        // While it starts or waits for its turn it was not told any time.
        if until < self.guests[index].free_until && !self.guests[index].is_waiting {
            self.guests[index].free_until = until;
            self.send_time(index, Op::FreeUntil, until)?;
        }
        let Some(answer) = answer else { return Ok(()) };
        let guest = &self.guests[index];
        let Some(device) = guest.net.as_ref() else { return Ok(()) };
        self.patience.write(device, &answer).map_err(|error| guest.socket_failure(&error))
    }

    /// Sends what a guest has put into its queue.
    fn read_sent(&mut self, index: usize) -> Result<(), Failure> {
        let now = self.now();
        let has_begun = self.has_begun();
        let mut is_busy = false;
        let Controller { network, tap, guests, payloads, packet, .. } = self;
        let guest = &mut guests[index];
        let queue = guest.send_queue();
        // It waits meanwhile, unless it lies: then what it offers has no end.
        for _ in 0..guest.device.queues[queue].size() {
            let Guest { device, .. } = &mut *guest;
            let taken = device.queues[queue].take(&device.memory).and_then(|head| {
                device.queues[queue].read(&device.memory, packet, LONGEST)?;
                Ok(head)
            });
            let Some(head) = taken.map_err(|fault| guest.fails(fault))? else { break };
            if guest.has_radio {
                if has_begun {
                    network.take_message(index, packet).map_err(|why| guest.fails(why))?;
                    guest.counts.sent += 1;
                }
                guest.complete(head).map_err(|fault| guest.fails(fault))?;
                continue;
            }
            let bytes = packet.get(HEADER + ETHERNET..).unwrap_or(&[]);
            let mut holding = None;
            if has_begun && is_ip(packet) {
                match network.inject(index, bytes) {
                    Ok(id) => {
                        is_busy = true;
                        tap.packet(now, index, true, bytes);
                        payloads.put(id, bytes);
                        holding = network.holding();
                        guest.counts.sent += 1;
                        guest.counts.sent_bytes += u64::try_from(bytes.len()).unwrap_or(0);
                    }
                    Err(NotSent::Unroutable | NotSent::Unreadable) => guest.counts.unroutable += 1,
                }
            }
            match holding {
                Some(holding) => guest.held.entry(holding).or_default().push_back(head),
                None => guest.complete(head).map_err(|fault| guest.fails(fault))?,
            }
        }
        if is_busy {
            self.note_traffic();
        }
        Ok(())
    }

    /// Hands out what has arrived, and gives back what radios no longer hold.
    fn collect(&mut self) -> Result<(), Failure> {
        let Controller { network, tap, guests, payloads, .. } = self;
        let mut fault = None;
        let mut is_busy = false;
        let mut give = |delivered: Delivered| {
            is_busy = true;
            let packet = payloads.get(delivered.id);
            if delivered.is_marked {
                N::write_mark(&delivered, packet);
            }
            let Some(guest) = guests.get_mut(delivered.to) else { return };
            tap.packet(delivered.time, delivered.to, false, packet);
            let frame = frame(guest.mac, packet);
            let len = u64::try_from(packet.len()).unwrap_or(0);
            if !guest.enqueue(frame) {
                return;
            }
            guest.counts.received += 1;
            guest.counts.received_bytes += len;
            if let Err(found) = guest.refill() {
                fault.get_or_insert(guest.fails(found));
            }
        };
        while network.take_egress(&mut give) {}
        if let Some(fault) = fault {
            return Err(fault);
        }
        while let Some((index, message)) = network.next_message() {
            let Some(guest) = guests.get_mut(index) else { continue };
            if !guest.enqueue(message) {
                continue;
            }
            guest.counts.received += 1;
            guest.refill().map_err(|fault| guest.fails(fault))?;
        }
        while let Some((holding, packets)) = network.take_released() {
            for _ in 0..packets {
                let holder = guests.iter_mut().find(|guest| guest.held.contains_key(&holding));
                let Some(guest) = holder else { break };
                let head = guest.held.get_mut(&holding).and_then(VecDeque::pop_front);
                let Some(head) = head else { break };
                guest.complete(head).map_err(|fault| guest.fails(fault))?;
            }
        }
        if is_busy {
            self.note_traffic();
        }
        Ok(())
    }

    /// Tells a guest of buffers that came back. It asks for its turn then, now.
    fn call(&mut self, index: usize) -> Result<(), Failure> {
        for queue in [RECEIVE, SEND] {
            let guest = &mut self.guests[index];
            if !guest.to_call[queue] {
                continue;
            }
            let wants = guest.device.queues[queue].wants_call(&guest.device.memory);
            guest.to_call[queue] = false;
            if !wants.map_err(|fault| guest.fails(fault))? {
                continue;
            }
            guest.device.call(queue, &mut self.patience).map_err(|error| guest.socket_failure(&error))?;
            loop {
                let guest = &self.guests[index];
                let Some(answers) = guest.device.requests() else { break };
                let mut fds = [
                    PollFd::new(answers.as_fd(), PollFlags::POLLIN),
                    PollFd::new(guest.time.as_fd(), PollFlags::POLLIN),
                ];
                self.patience.wait(&mut fds).map_err(|error| guest.socket_failure(&error))?;
                let [answer, time] = fds.map(|fd| fd.any().unwrap_or(true));
                if time {
                    let message = guest.read_message(&mut self.patience)?;
                    self.on_time(index, message)?;
                } else if answer {
                    guest.device.read_answer(&mut self.patience).map_err(|error| guest.socket_failure(&error))?;
                    break;
                }
            }
        }
        Ok(())
    }
}

/// True if a frame, with the device's header before it, holds IPv4 or IPv6.
fn is_ip(packet: &[u8]) -> bool {
    matches!(packet.get(HEADER + 12..HEADER + ETHERNET), Some([0x08, 0x00] | [0x86, 0xdd]))
}

/// A packet as a guest receives it: the device's header, Ethernet's, and its bytes.
fn frame(mac: [u8; 6], packet: &[u8]) -> Vec<u8> {
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    frame_of(mac, if is_v6 { 0x86dd } else { 0x0800 }, packet)
}

fn frame_of(mac: [u8; 6], kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADER];
    // One buffer.
    frame[10] = 1;
    frame.extend_from_slice(&mac);
    frame.extend_from_slice(&mac);
    frame.extend_from_slice(&kind.to_be_bytes());
    frame.extend_from_slice(packet);
    frame
}

/// The frame that wakes a guest's first process, as long as Ethernet's shortest frames.
fn wake_frame(mac: [u8; 6], what: u8) -> Vec<u8> {
    let mut body = [0; 46];
    body[0] = what;
    frame_of(mac, WAKE, &body)
}

#[cfg(test)]
mod tests;
