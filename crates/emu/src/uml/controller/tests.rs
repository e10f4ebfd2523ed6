//! Controller and rings against a client that speaks both protocols as a kernel does, and against
//! clients that lie.

mod hostile;

use std::io::{Read, Write};
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use airtcp_core::packet::PacketId;
use nix::poll::{PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::*;
use crate::uml::guest_time::BOOT;

/// As the client writes times, ns.
const NEVER: u64 = GuestTime::NEVER.as_ns();
const MEMORY: u64 = 1 << 20;
/// Where the client's memory begins, for the device.
const START: u64 = 0x6000_0000;
const SIZE: u16 = 256;

/// Carries each packet from one guest to the next in a fixed time, and holds it for another.
#[derive(Debug, Default)]
struct Pipe {
    now: Time,
    inside: VecDeque<(Time, PacketId, usize)>,
    held: VecDeque<(Time, u32)>,
    next: u32,
    holds: Option<Span>,
}

const DELAY: Span = Span::from_ms(10);

impl Network for Pipe {
    fn deadline(&mut self) -> Time {
        let arrival = self.inside.front().map_or(Time::NEVER, |&(time, ..)| time);
        arrival.min(self.held.front().map_or(Time::NEVER, |&(time, _)| time))
    }
    fn run_until(&mut self, time: Time) {
        assert!(time >= self.now, "time goes backwards");
        self.now = time;
    }
    fn inject(&mut self, from: usize, _: &[u8]) -> Result<PacketId, NotSent> {
        let id = PacketId(self.next);
        self.next += 1;
        self.inside.push_back((self.now + DELAY, id, 1 - from));
        if let Some(holds) = self.holds {
            self.held.push_back((self.now + holds, from as u32));
        }
        Ok(id)
    }
    fn take_egress(&mut self, give: &mut dyn FnMut(Delivered)) -> bool {
        let Some(&(time, id, to)) = self.inside.front().filter(|(time, ..)| *time <= self.now) else { return false };
        self.inside.pop_front();
        give(Delivered { id, to, time, is_marked: false });
        true
    }
    fn holding(&self) -> Option<u32> {
        self.holds.and(self.held.back().map(|&(_, from)| from))
    }
    fn take_released(&mut self) -> Option<(u32, u32)> {
        let &(_, from) = self.held.front().filter(|(time, _)| *time <= self.now)?;
        self.held.pop_front();
        Some((from, 1))
    }
    fn inside(&self) -> u32 {
        self.inside.len() as u32
    }
    fn write_mark(_: &Delivered, _: &mut [u8]) {}
}

#[derive(Debug, Default)]
struct Seen(Vec<(u64, usize, bool, Vec<u8>)>);

impl Tap for Seen {
    fn packet(&mut self, time: Time, host: usize, sent: bool, bytes: &[u8]) {
        self.0.push((time.as_ns(), host, sent, bytes.to_vec()));
    }
}

fn write(message: Message, to: &UnixStream) {
    let mut to = to;
    to.write_all(&message.to_bytes()).unwrap();
}

fn read(from: &UnixStream) -> Message {
    let mut from = from;
    let mut bytes = [0; 16];
    from.read_exact(&mut bytes).unwrap();
    Message::from_bytes(bytes).unwrap()
}

/// A client: a kernel's two connections, and its memory.
struct Fake {
    time: UnixStream,
    net: UnixStream,
    calls: UnixStream,
    memory: File,
    seq: u32,
    free_until: u64,
    now: u64,
    available: [u16; 2],
    used: [u16; 2],
    /// When it was woken.
    woken: Vec<u64>,
    /// And for what it has to be.
    wakes_for: u8,
}

fn table(queue: usize) -> u64 {
    START + 0x8000 * queue as u64
}
fn available(queue: usize) -> u64 {
    table(queue) + 0x2000
}
fn used(queue: usize) -> u64 {
    table(queue) + 0x4000
}
fn buffer(queue: usize, slot: u16) -> u64 {
    START + 0x10000 + 0x80000 * queue as u64 + 2048 * u64::from(slot)
}

impl Fake {
    /// Connects, and sets its device up when its turn comes.
    fn new(time: UnixStream, path: &PathBuf) -> Fake {
        let mut time_only = time;
        write(Message { op: Op::Start, seq: 1, time: 0 }, &time_only);
        let mut answer = [0; 16];
        time_only.read_exact(&mut answer).unwrap();
        assert_eq!(Message::from_bytes(answer).unwrap().op, Op::Ack);
        let memory = File::from(memfd_create("fake", MFdFlags::empty()).unwrap());
        memory.set_len(MEMORY).unwrap();
        let (calls, theirs) = UnixStream::pair().unwrap();
        let net = UnixStream::connect(path).unwrap();
        let mut fake = Fake {
            time: time_only,
            net,
            calls,
            memory,
            seq: 1,
            free_until: 0,
            now: 0,
            available: [0; 2],
            used: [0; 2],
            woken: vec![],
            wakes_for: CONNECTIONS,
        };
        fake.ask(3, &[], &[]);
        fake.ask(21, &[], &[theirs.as_raw_fd()]);
        let table_of = [1u64, START, MEMORY, START, 0];
        let fd = fake.memory.as_raw_fd();
        fake.ask(5, &table_of.map(u64::to_ne_bytes).concat(), &[fd]);
        for queue in 0..2 {
            fake.ring(8, queue, u32::from(SIZE));
            fake.ring(10, queue, 0);
            let addresses = [queue as u64, table(queue), used(queue), available(queue), 0];
            fake.ask(9, &addresses.map(u64::to_ne_bytes).concat(), &[]);
            fake.ring(18, queue, 1);
        }
        for slot in 0..SIZE / 2 {
            fake.offer(RECEIVE, slot, 2048, 2);
        }
        fake
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at - START).unwrap();
    }

    fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_exact_at(&mut bytes, at - START).unwrap();
        bytes
    }

    fn ring(&mut self, kind: u32, queue: usize, value: u32) {
        self.ask(kind, &[queue as u32, value].map(u32::to_ne_bytes).concat(), &[]);
    }

    /// Sends a request that wants an answer, and serves the clock until that comes.
    fn ask(&mut self, kind: u32, body: &[u8], files: &[RawFd]) {
        let mut bytes: Vec<u8> = [kind, 1 | 8, body.len() as u32].map(u32::to_ne_bytes).concat();
        bytes.extend_from_slice(body);
        let rights = [ControlMessage::ScmRights(files)];
        let rights = if files.is_empty() { &[][..] } else { &rights[..] };
        let parts = [std::io::IoSlice::new(&bytes)];
        sendmsg::<()>(self.net.as_raw_fd(), &parts, rights, MsgFlags::empty(), None).unwrap();
        loop {
            let mut fds =
                [PollFd::new(self.net.as_fd(), PollFlags::POLLIN), PollFd::new(self.time.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::NONE).unwrap();
            let [net, time] = fds.map(|fd| fd.any().unwrap());
            if time {
                self.hear();
            } else if net {
                let mut answer = [0; 20];
                if self.net.read_exact(&mut answer).is_ok() {
                    assert_eq!(answer[4..8], 5u32.to_ne_bytes());
                }
                return;
            }
        }
    }

    /// Does what the controller says; true: it is its turn.
    fn hear(&mut self) -> bool {
        let message = read(&self.time);
        match message.op {
            Op::Run => {
                assert!(message.time >= self.now, "it is run backwards");
                self.now = message.time;
            }
            Op::FreeUntil => self.free_until = message.time,
            other => panic!("{other:?}"),
        }
        write(Message { op: Op::Ack, seq: message.seq, time: 0 }, &self.time);
        message.op == Op::Run
    }

    fn tell(&mut self, op: Op, time: u64) -> u64 {
        self.seq += 1;
        write(Message { op, seq: self.seq, time }, &self.time);
        let answer = read(&self.time);
        assert_eq!((answer.op, answer.seq), (Op::Ack, self.seq));
        answer.time
    }

    /// Waits until `until`, or until its device has something; false: the controller has gone.
    fn wait(&mut self, until: u64) -> bool {
        if until < self.free_until {
            self.now = until;
            return true;
        }
        self.free_until = 0;
        self.tell(Op::Request, until);
        self.tell(Op::Wait, u64::MAX);
        loop {
            let mut fds =
                [PollFd::new(self.calls.as_fd(), PollFlags::POLLIN), PollFd::new(self.time.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::NONE).unwrap();
            let [call, time] = fds.map(|fd| fd.any().unwrap());
            if call {
                let mut request = [0; 20];
                if self.calls.read_exact(&mut request).is_err() {
                    return false;
                }
                let now = self.tell(Op::Get, u64::MAX);
                self.tell(Op::Request, now);
                let mut answer: Vec<u8> = [4u32, 5, 8].map(u32::to_ne_bytes).concat();
                answer.extend_from_slice(&[0; 8]);
                self.calls.write_all(&answer).unwrap();
            } else if time {
                let mut peek = [0; 1];
                let fd = self.time.as_raw_fd();
                if nix::sys::socket::recv(fd, &mut peek, MsgFlags::MSG_PEEK).unwrap_or(0) == 0 {
                    return false;
                }
                if self.hear() {
                    return true;
                }
            }
        }
    }

    fn offer(&mut self, queue: usize, slot: u16, len: u32, flags: u16) {
        let mut descriptor = buffer(queue, slot).to_le_bytes().to_vec();
        descriptor.extend_from_slice(&len.to_le_bytes());
        descriptor.extend_from_slice(&flags.to_le_bytes());
        descriptor.extend_from_slice(&[0; 2]);
        self.put(table(queue) + 16 * u64::from(slot), &descriptor);
        self.publish(queue, slot);
    }

    fn publish(&mut self, queue: usize, head: u16) {
        let slot = u64::from(self.available[queue] % SIZE);
        self.put(available(queue) + 4 + 2 * slot, &head.to_le_bytes());
        self.available[queue] = self.available[queue].wrapping_add(1);
        self.put(available(queue) + 2, &self.available[queue].to_le_bytes());
    }

    fn send(&mut self, slot: u16, packet: &[u8]) {
        let mut bytes = vec![0; HEADER + 12];
        bytes.extend_from_slice(&[0x08, 0x00]);
        bytes.extend_from_slice(packet);
        self.put(buffer(SEND, slot), &bytes);
        self.offer(SEND, slot, bytes.len() as u32, 0);
        self.tell(Op::Update, self.now);
        self.ring(35, SEND, 0);
    }

    /// Packets that have come since the last look.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let is = u16::from_le_bytes(self.get(used(RECEIVE) + 2, 2).try_into().unwrap());
        while self.used[RECEIVE] != is {
            let entry = self.get(used(RECEIVE) + 4 + 8 * u64::from(self.used[RECEIVE] % SIZE), 8);
            let (head, len) = (u16::from_le_bytes([entry[0], entry[1]]), u16::from_le_bytes([entry[4], entry[5]]));
            let bytes = self.get(buffer(RECEIVE, head), usize::from(len));
            if bytes[HEADER + 12..HEADER + ETHERNET] == WAKE.to_be_bytes() {
                assert_eq!((bytes.len(), bytes[HEADER + ETHERNET]), (HEADER + 60, self.wakes_for));
                self.woken.push(self.now - BOOT.as_ns());
            } else {
                all.push(bytes[HEADER + ETHERNET..].to_vec());
            }
            self.used[RECEIVE] = self.used[RECEIVE].wrapping_add(1);
            self.publish(RECEIVE, head);
        }
        all
    }

    /// Buffers that came back from sending.
    fn sent(&self) -> u16 {
        u16::from_le_bytes(self.get(used(SEND) + 2, 2).try_into().unwrap())
    }
}

fn guest(name: &str, index: usize) -> (Guest, UnixStream, PathBuf) {
    let path = std::env::temp_dir().join(format!("airtcp-{}-{name}-{index}.net", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Guest::new(name, index, 1500, ours, listener), theirs, path)
}

/// Two clients: the first sends `packets`, one a millisecond, and the second sends each back.
/// Returns what the tap saw, and when buffers came back to the first.
fn echo(name: &str, packets: u8, holds: Option<Span>) -> (Seen, Vec<(u64, u16)>) {
    let (left, left_time, left_path) = guest(name, 0);
    let (right, right_time, right_path) = guest(name, 1);
    let paths = [left_path.clone(), right_path.clone()];
    let asks: JoinHandle<Vec<(u64, u16)>> = std::thread::spawn(move || {
        let mut fake = Fake::new(left_time, &left_path);
        let mut back = vec![];
        let mut next = BOOT.as_ns();
        let mut number = 0;
        while fake.wait(if number < packets { next } else { NEVER }) {
            if number < packets && fake.now >= next {
                fake.send(u16::from(number), &[0x45, number]);
                number += 1;
                next += 1_000_000;
            }
            let sent = fake.sent();
            if back.last().is_none_or(|&(_, before)| before != sent) {
                back.push((fake.now - BOOT.as_ns().min(fake.now), sent));
            }
            fake.received();
        }
        back
    });
    let answers = std::thread::spawn(move || {
        let mut fake = Fake::new(right_time, &right_path);
        let mut slot = 0;
        while fake.wait(NEVER) {
            for packet in fake.received() {
                fake.send(slot, &packet);
                slot += 1;
            }
        }
    });
    let pipe = Pipe { holds, ..Pipe::default() };
    let mut controller = Controller::new(pipe, Seen::default(), vec![left, right], Some(Span::from_ms(100)));
    controller.run(&mut |_| Decision::Continue).unwrap();
    let Controller { tap, guests, .. } = controller;
    assert_eq!(guests[0].counts.received, u64::from(packets));
    drop(guests);
    answers.join().unwrap();
    for path in paths {
        std::fs::remove_file(path).unwrap();
    }
    (tap, asks.join().unwrap())
}

#[test]
fn packets_travel_there_and_back_at_exact_times() {
    let (seen, _) = echo("exact", 20, None);
    for number in 0..20u8 {
        let of_it: Vec<_> = seen.0.iter().filter(|(.., bytes)| bytes[1] == number).collect();
        let sent = 1_000_000 * u64::from(number);
        let times: Vec<_> = of_it.iter().map(|&&(time, host, sent, _)| (time, host, sent)).collect();
        let expected = [
            (sent, 0, true),
            (sent + 10_000_000, 1, false),
            (sent + 10_000_000, 1, true),
            (sent + 20_000_000, 0, false),
        ];
        assert_eq!(times, expected);
    }
}

#[test]
fn a_buffer_comes_back_when_the_radio_lets_go_of_its_packet() {
    let (_, back) = echo("held", 3, Some(Span::from_us(300)));
    let came: Vec<_> = back.iter().filter(|(_, sent)| *sent > 0).copied().collect();
    assert_eq!(came, [(300_000, 1), (1_300_000, 2), (2_300_000, 3)]);
}

#[test]
fn two_runs_are_equal() {
    assert_eq!(echo("one", 50, Some(Span::from_us(50))).0.0, echo("two", 50, Some(Span::from_us(50))).0.0);
}

/// Error of the controller about a client that does this when its turn comes.
fn lie(name: &'static str, what: impl FnOnce(&mut Fake) + Send + 'static) -> String {
    let (one, time, path) = guest(name, 0);
    let copy = path.clone();
    let liar = std::thread::spawn(move || {
        let mut fake = Fake::new(time, &copy);
        fake.wait(BOOT.as_ns());
        what(&mut fake);
        fake.wait(NEVER - 1);
    });
    let mut controller = Controller::new(Pipe::default(), Seen::default(), vec![one], Some(Span::from_ms(1)));
    let failure = controller.run(&mut |_| Decision::Continue).unwrap_err().to_string();
    drop(controller);
    // It may fail, since nobody answers any more.
    let _ = liar.join();
    std::fs::remove_file(path).unwrap();
    failure
}

fn descriptor(at: u64, len: u32, flags: u16, next: u16) -> Vec<u8> {
    [&at.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
}

#[test]
fn clients_that_lie_are_found_out() {
    let offer = |bytes: Vec<u8>, head: u16| {
        move |fake: &mut Fake| {
            fake.put(table(SEND), &bytes);
            fake.publish(SEND, head);
            fake.tell(Op::Update, fake.now);
            fake.ring(35, SEND, 0);
        }
    };
    let cases: [(&str, String, &str); 9] = [
        (
            "outside",
            lie("outside", offer(descriptor(START + MEMORY - 10, 100, 0, 0), 0)),
            "are not in the guest's memory",
        ),
        ("wraps", lie("wraps", offer(descriptor(u64::MAX - 10, 100, 0, 0), 0)), "are not in the guest's memory"),
        ("loop", lie("loop", offer(descriptor(START, 10, 1, 0), 0)), "has no end"),
        ("beyond", lie("beyond", offer(descriptor(START, 10, 1, 999), 0)), "beyond its end"),
        ("head", lie("head", offer(descriptor(START, 10, 0, 0), 700)), "beyond its end"),
        ("indirect", lie("indirect", offer(descriptor(START, 16, 4, 0), 0)), "indirect"),
        ("long", lie("long", offer(descriptor(START, 900_000, 0, 0), 0)), "too long"),
        (
            "many",
            lie("many", |fake| {
                fake.put(available(SEND) + 2, &2000u16.to_le_bytes());
                fake.ring(35, SEND, 0);
            }),
            "more buffers than it has",
        ),
        (
            "future",
            lie("future", |fake| {
                let late = fake.now + 3_600_000_000_000;
                write(Message { op: Op::Update, seq: 99, time: late }, &fake.time);
            }),
            "further than it may",
        ),
    ];
    for (name, said, expected) in cases {
        assert!(said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn rings_outside_of_memory_are_refused() {
    let memory = File::from(memfd_create("rings", MFdFlags::empty()).unwrap());
    memory.set_len(4096).unwrap();
    let region =
        |start, len, offset| super::super::ring::Region { start, len, offset, file: memory.try_clone().unwrap() };
    let of = |region| super::super::ring::Memory::new(vec![region]);
    assert!(of(region(0, 8192, 0)).is_err());
    assert!(of(region(0, 4096, u64::MAX)).is_err());
    assert!(of(region(u64::MAX, 4096, 0)).is_err());
    let pipe = nix::unistd::pipe().unwrap();
    let not_a_file = super::super::ring::Region { start: 0, len: 0, offset: 0, file: File::from(pipe.0) };
    assert!(of(not_a_file).is_err());
    let memory = of(region(0x1000, 4096, 0)).unwrap();
    let mut queue = super::super::ring::Queue::default();
    assert!(queue.set_addresses(&memory, 0x1000, 0x1000, 0x1000).is_err(), "its size is not known");
    for size in [0, 3, 65536, u32::MAX] {
        assert!(queue.set_size(size).is_err());
    }
    queue.set_size(64).unwrap();
    assert!(queue.set_addresses(&memory, 0x1000, 0x1400, 0x1f00).is_ok());
    assert!(queue.set_addresses(&memory, 0x1fff, 0x1400, 0x1f00).is_err());
    assert!(queue.set_addresses(&memory, 0x1000, u64::MAX, 0x1f00).is_err());
    assert!(queue.set_addresses(&memory, 0x1000, 0x1400, 0x1ff0).is_err());
}

/// While packets come and go guests look at their connections at each interval, once after the
/// last, and at the end. Otherwise nothing would ever be over.
#[test]
fn guests_are_woken_while_there_is_traffic() {
    let (left, left_time, left_path) = guest("woken", 0);
    let (right, right_time, right_path) = guest("woken", 1);
    let paths = [left_path.clone(), right_path.clone()];
    let asks = std::thread::spawn(move || {
        let mut fake = Fake::new(left_time, &left_path);
        let times = [0, 25, 130].map(|ms| BOOT.as_ns() + ms * 1_000_000);
        let mut sent = 0;
        while fake.wait(times.get(sent).copied().unwrap_or(NEVER)) {
            if times.get(sent).is_some_and(|&at| fake.now >= at) {
                fake.send(sent as u16, &[0x45]);
                sent += 1;
            }
            fake.received();
        }
        fake.woken
    });
    let hears = std::thread::spawn(move || {
        let mut fake = Fake::new(right_time, &right_path);
        while fake.wait(NEVER) {
            fake.received();
        }
        fake.woken
    });
    let mut controller = Controller::new(Pipe::default(), Seen::default(), vec![left, right], None);
    controller.snapshot_every(Span::from_ms(10));
    let ended = controller.run(&mut |_| Decision::Continue).unwrap_err();
    assert!(matches!(ended, Failure::Idle(_)), "{ended}");
    controller.last_snapshot(Span::from_ms(1)).unwrap();
    drop(controller);
    for woken in [asks.join().unwrap(), hears.join().unwrap()] {
        // The last time is one that no client can be beyond.
        assert_eq!(woken, [10, 20, 30, 40, 140, 150, 151].map(|ms| ms * 1_000_000));
    }
    for path in paths {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_guest_that_ends_is_named() {
    let (one, time, path) = guest("gone", 0);
    let copy = path.clone();
    let gone = std::thread::spawn(move || {
        let mut fake = Fake::new(time, &copy);
        fake.wait(BOOT.as_ns());
    });
    let mut controller = Controller::new(Pipe::default(), Seen::default(), vec![one], Some(Span::from_ms(1)));
    let failure = controller.run(&mut |_| Decision::Continue).unwrap_err().to_string();
    assert!(failure.starts_with("host \"gone\": its kernel has ended"), "{failure}");
    gone.join().unwrap();
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_guest_that_says_nothing_has_failed() {
    let (one, time, path) = guest("silent", 0);
    let copy = path.clone();
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let silent = std::thread::spawn(move || {
        let mut fake = Fake::new(time, &copy);
        fake.wait(BOOT.as_ns());
        let _ = is_over.recv();
    });
    let mut controller = Controller::new(Pipe::default(), Seen::default(), vec![one], Some(Span::from_ms(1)));
    controller.end_after_silence(Duration::from_millis(50));
    let failure = controller.run(&mut |_| Decision::Continue).unwrap_err().to_string();
    assert!(failure.contains("said nothing for too long"), "{failure}");
    drop(over);
    silent.join().unwrap();
    std::fs::remove_file(path).unwrap();
}

/// A network in which all wait goes on for as long as somebody may type, and guests are woken at
/// the time that the pacer says.
#[test]
fn a_pacer_keeps_a_network_of_waiting_guests_and_wakes_them() {
    let (one, time, path) = guest("paced", 0);
    let copy = path.clone();
    let waits = std::thread::spawn(move || {
        let mut fake = Fake::new(time, &copy);
        fake.wakes_for = COMMANDS;
        let mut next = BOOT.as_ns();
        while fake.wait(next) {
            fake.received();
            next = NEVER;
        }
        fake.woken
    });
    let mut controller = Controller::new(Pipe::default(), Seen::default(), vec![one], None);
    let mut asked = 0;
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    controller.set_pacer(Box::new(move |now, then| {
        asked += 1;
        match asked {
            1 => {
                assert_eq!((now, then), (at(0), Time::NEVER));
                Pace::Wake(at(5))
            }
            // A time that has gone by is now, or when no guest can be beyond it.
            2 => {
                assert_eq!((now, then), (at(5), Time::NEVER));
                Pace::Wake(at(1))
            }
            3 => {
                assert_eq!((now, then), (at(5), at(6)));
                Pace::Continue
            }
            _ => Pace::End,
        }
    }));
    controller.run(&mut |_| Decision::Continue).unwrap();
    controller.remove_callbacks();
    assert!(matches!(controller.run_loop(&mut |_| Decision::Continue), Err(Failure::Idle(_))));
    drop(controller);
    let woken = waits.join().unwrap();
    assert_eq!(woken, [5, 6].map(|ms| ms * 1_000_000));
    std::fs::remove_file(path).unwrap();
}
