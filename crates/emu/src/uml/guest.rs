//! A guest as its controller knows it: two sockets, a device, and what waits for it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};

use super::controller::Failure;
use super::guest_time::GuestTime;
use super::message::{Message, Op};
use super::patience::{Lapse, Patience};
use super::ring::Fault;
use super::vhost::{Device, RECEIVE, SEND};

/// Packets that wait for a guest to make room; what comes then is lost.
pub(super) const WAITING: usize = 4096;

/// A radio's guest hears of so many buffers at once that came back: they hold nothing that waits.
const COMPLETION_BATCH: u32 = 64;

/// A guest that has connected.
#[derive(Debug)]
pub struct Guest {
    pub(super) name: String,
    pub(super) time: UnixStream,
    pub(super) listener: UnixListener,
    /// Its device, once its kernel has found it.
    pub(super) net: Option<UnixStream>,
    pub(super) device: Device,
    /// When it wants to run.
    pub(super) request: GuestTime,
    /// Until when it may move its time by itself.
    pub(super) free_until: GuestTime,
    pub(super) seq: u32,
    pub(super) is_waiting: bool,
    /// Buffers that its radio holds, by [`Network::holding`].
    pub(super) held: BTreeMap<u32, VecDeque<u16>>,
    /// Packets for which it has no room yet.
    pub(super) backlog: VecDeque<Vec<u8>>,
    /// By queue: buffers came back, and it has not been told.
    pub(super) to_call: [bool; 2],
    pub(super) mac: [u8; 6],
    /// Its device is a radio, whose queues are the other way round.
    pub(super) has_radio: bool,
    /// For a radio: number of buffers that came back.
    pub(super) completed: u32,
    /// It shall tell when it makes room.
    pub(super) is_asked: bool,
    /// Counts of packets that it sent and received.
    pub counts: Counts,
}

/// Packets of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets that it sent into the network.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that it received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that it had no room for.
    pub lost: u64,
    /// Packets that are for nobody on the network.
    pub unroutable: u64,
}

impl Guest {
    /// A guest whose clock has connected; its device will come to `listener`. `index` tells its
    /// address from those of others.
    pub fn new(name: &str, index: usize, mtu: u16, time: UnixStream, listener: UnixListener) -> Guest {
        let [low, high, ..] = index.to_le_bytes();
        // Locally administered.
        let mac = [0x02, 0, 0, 0, high, low];
        Guest {
            name: name.to_owned(),
            time,
            listener,
            net: None,
            device: Device::new(mac, mtu),
            request: GuestTime::NEVER,
            free_until: GuestTime::ZERO,
            seq: 0,
            is_waiting: false,
            held: BTreeMap::new(),
            backlog: VecDeque::new(),
            to_call: [false; 2],
            mac,
            has_radio: false,
            completed: 0,
            is_asked: true,
            counts: Counts::default(),
        }
    }

    /// The next message about time. If there is none for too long, it has failed.
    pub(super) fn read_message(&self, patience: &mut Patience) -> Result<Message, Failure> {
        Message::read(&self.time, patience).map_err(|error| self.socket_failure(&error))
    }

    /// A guest whose device is a radio.
    pub fn with_radio(name: &str, index: usize, time: UnixStream, listener: UnixListener) -> Guest {
        Guest { device: Device::radio(), has_radio: true, ..Guest::new(name, index, 0, time, listener) }
    }

    /// The queue from which it receives.
    pub(super) fn receive_queue(&self) -> usize {
        if self.has_radio { SEND } else { RECEIVE }
    }

    /// The queue to which it sends.
    pub(super) fn send_queue(&self) -> usize {
        if self.has_radio { RECEIVE } else { SEND }
    }

    /// Its socket does not work.
    pub(super) fn socket_failure(&self, error: &io::Error) -> Failure {
        if let Some(lapse) = Lapse::of(error) {
            return if lapse == Lapse::Interrupted { Failure::Interrupted } else { self.fails(lapse) };
        }
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                self.fails(format!("its kernel has ended: {error}"))
            }
            _ => self.fails(error),
        }
    }

    pub(super) fn fails(&self, why: impl ToString) -> Failure {
        Failure::Guest { host: self.name.clone(), why: why.to_string() }
    }

    /// Sends it a message that it will answer.
    pub(super) fn send_message(&mut self, patience: &mut Patience, op: Op, time: GuestTime) -> io::Result<u32> {
        self.seq = self.seq.wrapping_add(1);
        Message { op, seq: self.seq, time: time.as_ns() }.write(&self.time, patience)?;
        Ok(self.seq)
    }

    /// Puts a packet into its receive queue; false: there is no room.
    fn receive(&mut self, frame: &[u8]) -> Result<bool, Fault> {
        let index = self.receive_queue();
        let Guest { device, to_call, .. } = self;
        let queue = &mut device.queues[index];
        let Some(head) = queue.take(&device.memory)? else { return Ok(false) };
        let fits = queue.write(&device.memory, frame)?;
        let len = if fits { u32::try_from(frame.len()).unwrap_or(0) } else { 0 };
        queue.give(&device.memory, head, len)?;
        to_call[index] = true;
        Ok(true)
    }

    /// Gives it room for what waits.
    pub(super) fn refill(&mut self) -> Result<(), Fault> {
        while let Some(frame) = self.backlog.pop_front() {
            if !self.receive(&frame)? {
                self.backlog.push_front(frame);
                break;
            }
        }
        // A radio's driver offers each buffer by itself, and would tell of each.
        let asks = !self.backlog.is_empty();
        if self.has_radio && asks != self.is_asked {
            let queue = &self.device.queues[self.receive_queue()];
            if queue.is_on() {
                queue.ask_for_notices(&self.device.memory, asks)?;
                self.is_asked = asks;
            }
        }
        Ok(())
    }

    /// Gives a buffer back that was sent from.
    pub(super) fn complete(&mut self, head: u16) -> Result<(), Fault> {
        let index = self.send_queue();
        let Guest { device, to_call, completed, has_radio, .. } = self;
        device.queues[index].give(&device.memory, head, 0)?;
        *completed = completed.wrapping_add(1);
        to_call[index] |= !*has_radio || *completed % COMPLETION_BATCH == 0;
        Ok(())
    }

    /// Something has come for it: it waits for room, or is lost where too much waits already.
    pub(super) fn enqueue(&mut self, frame: Vec<u8>) -> bool {
        let has_room = self.backlog.len() < WAITING;
        if has_room {
            self.backlog.push_back(frame);
        } else {
            self.counts.lost += 1;
        }
        has_room
    }

    /// True if it has to be told of something.
    pub(super) fn needs_call(&self) -> Result<bool, Fault> {
        for (index, queue) in self.device.queues.iter().enumerate() {
            if self.to_call[index] && queue.wants_call(&self.device.memory)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
