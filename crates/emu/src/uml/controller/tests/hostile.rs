//! A guest's kernel is whatever it wants to be: clients that break both protocols in every way that
//! was thought of, and in random ones.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use nix::sys::socket::recv;

use super::*;

const SILENCE: Duration = Duration::from_millis(150);
const KICK: u32 = 35;

/// Error of the controller about a client that does this when its turn comes, and the time until
/// then. The client hears when the error is there.
fn attack_for(silence: Duration, what: impl FnOnce(&mut Fake, &Receiver<()>) + Send + 'static) -> String {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let (one, time, path) = guest(&format!("hostile{number}"), 0);
    let copy = path.clone();
    let (over, is_over) = channel::<()>();
    let client = std::thread::spawn(move || {
        let mut fake = Fake::new(time, &copy);
        fake.wait(BOOT.as_ns());
        what(&mut fake, &is_over);
    });
    let mut controller = Controller::new(Pipe::default(), Seen::default(), vec![one], Some(Span::from_ms(5)));
    controller.end_after_silence(silence);
    let begun = Instant::now();
    let ended = controller.run(&mut |_| Decision::Continue);
    assert!(begun.elapsed() < Duration::from_secs(30), "it took {:?}", begun.elapsed());
    drop(over);
    drop(controller);
    // It may fail, since nobody answers any more.
    let _ = client.join();
    std::fs::remove_file(path).unwrap();
    ended.map_or_else(|failure| failure.to_string(), |()| "it went on".to_owned())
}

fn attack(what: impl FnOnce(&mut Fake, &Receiver<()>) + Send + 'static) -> String {
    attack_for(SILENCE, what)
}

/// Waits until the controller has ended.
fn hold(over: &Receiver<()>) {
    let _ = over.recv();
}

/// Bytes and descriptors on the device's socket.
fn raw(fake: &Fake, bytes: &[u8], files: &[RawFd]) {
    let rights = [ControlMessage::ScmRights(files)];
    let rights = if files.is_empty() { &[][..] } else { &rights[..] };
    let parts = [std::io::IoSlice::new(bytes)];
    let _ = sendmsg::<()>(fake.net.as_raw_fd(), &parts, rights, MsgFlags::MSG_NOSIGNAL, None);
}

fn request(kind: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = [kind, flags, body.len() as u32].map(u32::to_ne_bytes).concat();
    bytes.extend_from_slice(body);
    bytes
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn time_message(op: u32, seq: u32, time: u64) -> Vec<u8> {
    [&op.to_ne_bytes()[..], &seq.to_ne_bytes(), &time.to_ne_bytes()].concat()
}

const SILENT: &str = "said nothing for too long";
const ENDED: &str = "its kernel has ended";

#[test]
fn messages_that_never_end_are_not_waited_for() {
    let half = |bytes: Vec<u8>| {
        move |fake: &mut Fake, over: &Receiver<()>| {
            raw(fake, &bytes, &[]);
            hold(over);
        }
    };
    let cases: Vec<(&str, String)> = vec![
        ("half a head", attack(half(vec![35, 0, 0, 0, 9]))),
        ("a head without its body", attack(half(request(5, 9, &[0; 64])[..12].to_vec()))),
        ("half a body", attack(half(request(5, 9, &[0; 64])[..50].to_vec()))),
        (
            "half a time",
            attack(|fake, over| {
                (&fake.time).write_all(&[4, 0, 0, 0, 1]).unwrap();
                hold(over);
            }),
        ),
        ("nothing", attack(|_, over| hold(over))),
        (
            "no answer to a time",
            attack(|fake, over| {
                fake.tell(Op::Request, fake.now + 1);
                fake.tell(Op::Wait, 0);
                hold(over);
            }),
        ),
    ];
    for (name, said) in cases {
        assert!(said.contains(SILENT), "{name}: {said}");
    }
}

/// A client that asks on and on, and takes no answers: they fill the socket, and nobody waits for
/// that.
#[test]
fn who_takes_no_answers_does_not_stop_the_controller() {
    let on_time = attack(|fake, _| {
        let message = time_message(4, 7, 0);
        while (&fake.time).write_all(&message).is_ok() {}
    });
    let on_device = attack(|fake, _| while (&fake.net).write_all(&request(1, 9, &[])).is_ok() {});
    for said in [on_time, on_device] {
        assert!(said.contains(SILENT), "{said}");
    }
}

/// A client that asks without end, and takes its answers, keeps time where it is.
#[test]
fn asking_without_end_ends() {
    let silence = Duration::from_millis(40);
    let gets = attack_for(silence, |fake, over| {
        while over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            fake.tell(Op::Get, 0);
        }
    });
    let kicks = attack_for(silence, |fake, _| {
        loop {
            fake.ring(KICK, SEND, 0);
        }
    });
    let again_and_again = attack_for(silence, |fake, _| {
        loop {
            fake.tell(Op::Request, 0);
            fake.tell(Op::Wait, 0);
            while !fake.hear() {}
        }
    });
    for said in [gets, kicks, again_and_again] {
        assert!(said.contains("its time stands still"), "{said}");
    }
}

#[test]
fn whoever_wants_the_end_is_heard_while_a_guest_hangs_and_while_it_floods() {
    for floods in [false, true] {
        let (one, time, path) = guest(&format!("interrupt{floods}"), 0);
        let copy = path.clone();
        let (over, is_over) = channel::<()>();
        let client = std::thread::spawn(move || {
            let mut fake = Fake::new(time, &copy);
            fake.wait(BOOT.as_ns());
            while floods && is_over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                fake.tell(Op::Get, 0);
            }
            hold(&is_over);
        });
        let mut controller = Controller::new(Pipe::default(), Seen::default(), vec![one], None);
        let begun = Instant::now();
        controller.set_interrupt(Box::new(move || begun.elapsed() > Duration::from_millis(200)));
        assert!(matches!(controller.run(&mut |_| Decision::Continue), Err(Failure::Interrupted)));
        assert!(begun.elapsed() < Duration::from_secs(10));
        drop((over, controller));
        let _ = client.join();
        std::fs::remove_file(path).unwrap();
    }
}

/// Messages about time that a client may not send.
#[test]
fn lies_about_time_are_found_out() {
    let says = |bytes: Vec<u8>| {
        move |fake: &mut Fake, over: &Receiver<()>| {
            (&fake.time).write_all(&bytes).unwrap();
            hold(over);
        }
    };
    let boot = BOOT.as_ns();
    for (bytes, expected) in [
        (time_message(5, 1, boot - 1), "further than it may"),
        (time_message(5, 1, u64::MAX), "further than it may"),
        (time_message(0, 1, 0), "may not send now"),
        (time_message(1, 1, 0), "may not send now"),
        (time_message(6, 1, boot), "may not send now"),
        (time_message(7, 1, boot), "may not send now"),
        (time_message(9, 1, 0), "sent the message 9 about time"),
        (time_message(u32::MAX, 1, 0), "about time"),
    ] {
        let said = attack(says(bytes.clone()));
        assert!(said.contains(expected), "{bytes:?}: {said}");
    }
    // A wish for a time that has gone by is one for now, and one for never is none.
    let wishes = attack(|fake, _| {
        for at in [0, u64::MAX, NEVER, 1] {
            fake.tell(Op::Request, at);
        }
        fake.wait(NEVER - 1);
    });
    assert_eq!(wishes, "it went on");
}

/// A guest that waits for its turn may not move time, though it could before.
#[test]
fn who_waits_does_not_move_time() {
    let (one, _time, path) = guest("waits", 0);
    let mut controller = Controller::new(Pipe::default(), Seen::default(), vec![one], None);
    let later = GuestTime::BEGIN + Span::from_us(500);
    controller.now = GuestTime::BEGIN;
    controller.guests[0].free_until = later;
    let update = Message { op: Op::Update, seq: 1, time: later.as_ns() };
    controller.guests[0].is_waiting = true;
    let said = controller.on_time(0, update).unwrap_err().to_string();
    assert!(said.contains("further than it may"), "{said}");
    controller.guests[0].is_waiting = false;
    controller.on_time(0, update).unwrap();
    assert_eq!(controller.now, later);
    std::fs::remove_file(path).unwrap();
}

/// Memory that is none, in every way that a table can say it.
#[test]
fn memory_that_is_none_is_refused() {
    fn table_of(regions: &[[u64; 4]]) -> Vec<u8> {
        words(&[&[regions.len() as u64][..], &regions.concat()].concat())
    }
    let memfd = || memfd_create("memory", MFdFlags::empty()).unwrap();
    type Case = (&'static str, Vec<u8>, Vec<OwnedFd>, &'static str);
    let open = |path: &str| OwnedFd::from(File::open(path).unwrap());
    let whole = [START, MEMORY, START, 0];
    let socket = || OwnedFd::from(UnixStream::pair().unwrap().0);
    let cases: Vec<Case> = vec![
        ("no descriptor", table_of(&[whole]), vec![], "1 regions of memory with 0 descriptors"),
        ("two for one", table_of(&[whole]), vec![memfd(), memfd()], "1 regions of memory with 2 descriptors"),
        ("empty file", table_of(&[whole]), vec![memfd()], "are not in the guest's memory"),
        ("folder", table_of(&[whole]), vec![open("/")], "are not in the guest's memory"),
        ("device", table_of(&[whole]), vec![open("/dev/zero")], "are not in the guest's memory"),
        ("pipe", table_of(&[whole]), vec![nix::unistd::pipe().unwrap().0], "are not in the guest's memory"),
        ("socket", table_of(&[whole]), vec![socket()], "are not in the guest's memory"),
        ("offset", table_of(&[[START, 4096, START, u64::MAX]]), vec![memfd()], "are not in the guest's memory"),
        ("end", table_of(&[[u64::MAX, 4096, u64::MAX, 0]]), vec![memfd()], "are not in the guest's memory"),
        ("huge", table_of(&[[START, u64::MAX, START, 0]]), vec![memfd()], "are not in the guest's memory"),
        ("counts wrong", words(&[u64::MAX, 1, 2, 3, 4]), vec![memfd()], "regions of memory with 1 descriptors"),
        ("cut", words(&[1, START]), vec![memfd()], "too short"),
        ("empty", vec![], vec![], "too short"),
    ];
    for (name, body, files, expected) in cases {
        let said = attack(move |fake, over| {
            let fds: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
            raw(fake, &request(5, 9, &body), &fds);
            hold(over);
        });
        assert!(said.contains(expected), "{name}: {said}");
    }
}

/// A ring or a request that breaks the rules, when everything was set up well before.
#[test]
fn rings_and_requests_that_break_the_rules_are_found_out() {
    fn sends(bytes: Vec<u8>) -> impl FnOnce(&mut Fake, &Receiver<()>) + Send + 'static {
        move |fake: &mut Fake, over: &Receiver<()>| {
            raw(fake, &bytes, &[]);
            hold(over);
        }
    }
    fn half(low: u32, high: u32) -> Vec<u8> {
        [low, high].map(u32::to_ne_bytes).concat()
    }
    let cases: Vec<(&str, String, &str)> = vec![
        ("unknown", attack(sends(request(99, 9, &[]))), "asks for 99"),
        ("too long", attack(sends(request(5, 9, &[0; 4097]))), "too long"),
        ("longest", attack(sends([5u32, 9, u32::MAX].map(u32::to_ne_bytes).concat())), "too long"),
        ("no queue 2", attack(sends(request(KICK, 9, &half(2, 0)))), "has no queue 2"),
        ("size 0", attack(sends(request(8, 9, &half(1, 0)))), "a power of two up to 1024"),
        ("size 3", attack(sends(request(8, 9, &half(1, 3)))), "a power of two up to 1024"),
        ("size 32768", attack(sends(request(8, 9, &half(1, 32768)))), "a power of two up to 1024"),
        (
            "configuration",
            attack(sends(request(24, 9, &[half(0, 4000), half(0, 0)].concat()))),
            "does not fit its message",
        ),
        (
            "used outside",
            attack(sends(request(9, 9, &words(&[1, table(1), START + MEMORY - 8, available(1), 0])))),
            "are not in the guest's memory",
        ),
        (
            "addresses of another size",
            attack(|fake, over| {
                fake.ring(8, SEND, 1024);
                raw(fake, &request(18, 9, &[1u32, 1].map(u32::to_ne_bytes).concat()), &[]);
                hold(over);
            }),
            "before its addresses were known",
        ),
        (
            "many descriptors",
            attack(|fake, over| {
                let null = File::open("/dev/null").unwrap();
                raw(fake, &request(2, 9, &[0; 8]), &[null.as_raw_fd(); 253]);
                hold(over);
            }),
            "too many descriptors",
        ),
        (
            "notices into a file",
            attack(|fake, over| {
                let null = File::open("/dev/null").unwrap();
                raw(fake, &request(21, 1, &[]), &[null.as_raw_fd()]);
                fake.tell(Op::Request, fake.now + 1);
                fake.send(0, &[0x45]);
                fake.tell(Op::Wait, 0);
                hold(over);
            }),
            "Socket operation on non-socket",
        ),
        (
            "memory that shrinks",
            attack(|fake, over| {
                fake.memory.set_len(0).unwrap();
                raw(fake, &request(KICK, 9, &[1u32, 0].map(u32::to_ne_bytes).concat()), &[]);
                hold(over);
            }),
            "failed to fill whole buffer",
        ),
        (
            "a jump of the ring",
            attack(|fake, over| {
                let far = fake.available[SEND].wrapping_sub(1);
                fake.put(available(SEND) + 2, &far.to_le_bytes());
                raw(fake, &request(KICK, 9, &[1u32, 0].map(u32::to_ne_bytes).concat()), &[]);
                hold(over);
            }),
            "more buffers than it has",
        ),
        ("gone", attack(|_, _| {}), ENDED),
        ("gone in a message", attack(|fake, _| raw(fake, &[35, 0, 0], &[])), ENDED),
    ];
    for (name, said, expected) in cases {
        assert!(said.contains(expected), "{name}: {said}");
    }
}

/// A guest whose packets a radio holds may not send from the same buffers again: what it has under
/// way stays within its ring.
#[test]
fn buffers_that_are_away_cannot_be_sent_again() {
    let (one, time, path) = guest("twice", 0);
    let (other, other_time, other_path) = guest("twice", 1);
    let (copy, other_copy) = (path.clone(), other_path.clone());
    let client = std::thread::spawn(move || {
        let mut fake = Fake::new(time, &copy);
        fake.wait(BOOT.as_ns());
        for _ in 0..2 * SIZE {
            fake.send(0, &[0x45]);
        }
    });
    let waits = std::thread::spawn(move || {
        let mut fake = Fake::new(other_time, &other_copy);
        while fake.wait(NEVER) {}
    });
    let pipe = Pipe { holds: Some(Span::from_secs(1)), ..Pipe::default() };
    let mut controller = Controller::new(pipe, Seen::default(), vec![one, other], Some(Span::from_ms(5)));
    let said = controller.run(&mut |_| Decision::Continue).unwrap_err().to_string();
    assert!(said.contains("it has not got back"), "{said}");
    assert_eq!(controller.guests[0].counts.sent, u64::from(SIZE));
    drop(controller);
    let _ = (client.join(), waits.join());
    for path in [path, other_path] {
        std::fs::remove_file(path).unwrap();
    }
}

/// Descriptors of this process, whatever a client sends along, are as many after it as before.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Numbers that look random, the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
    /// Often one that matters.
    fn number(&mut self) -> u64 {
        let all = [0, 1, 2, 8, u64::MAX, START, MEMORY, table(1), used(1), available(0), BOOT.as_ns(), NEVER, 65535];
        let any = self.next();
        if any % 4 == 0 { any } else { all[(any >> 8) as usize % all.len()].wrapping_add(any >> 32 & 3) }
    }
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// One random thing that a client does.
fn mischief(fake: &mut Fake, random: &mut Random) {
    const KINDS: [u32; 15] = [1, 2, 3, 5, 8, 9, 10, 12, 13, 15, 16, 18, 21, 24, 35];
    match random.below(8) {
        // About time.
        0 | 1 => {
            let message = time_message(random.below(11) as u32, random.next() as u32 % 4, random.number());
            let len = if random.below(12) == 0 { random.below(16) as usize } else { 16 };
            let _ = send(fake.time.as_raw_fd(), &message[..len]);
        }
        // To the device.
        2..=4 => {
            let kind = KINDS[random.below(15) as usize];
            let queue = random.below(3);
            let mut body: Vec<u8> = match kind {
                8 | 10 | 18 | 35 => [queue as u32, random.number() as u32].map(u32::to_ne_bytes).concat(),
                9 => words(&[queue, random.number(), random.number(), random.number(), 0]),
                5 => words(&[1, random.number(), random.number(), random.number(), random.number()]),
                _ => {
                    let len = random.below(40) as usize;
                    random.bytes(len)
                }
            };
            if random.below(8) == 0 {
                body.truncate(random.below(9) as usize);
            }
            let mut bytes = request(kind, random.below(16) as u32, &body);
            if random.below(16) == 0 {
                let len = bytes.len();
                bytes[random.below(len as u64) as usize] = random.next() as u8;
            }
            let memory = fake.memory.as_raw_fd();
            let own = fake.net.as_raw_fd();
            let fds = [memory, own, memory, 0];
            let many = if kind == 5 { 1 } else { random.below(3) as usize };
            raw_now(fake, &bytes, &fds[..many]);
        }
        // In memory that the device reads.
        5 | 6 => {
            let index = [table(0), table(1), available(0), available(1), used(1)][random.below(5) as usize];
            let bytes = random.bytes(8);
            fake.put(index + random.below(64), &bytes);
        }
        _ => {
            let mut drain = [0; 4096];
            for fd in [fake.time.as_raw_fd(), fake.net.as_raw_fd(), fake.calls.as_raw_fd()] {
                let _ = recv(fd, &mut drain, MsgFlags::MSG_DONTWAIT);
            }
        }
    }
}

fn send(fd: RawFd, bytes: &[u8]) -> nix::Result<usize> {
    nix::sys::socket::send(fd, bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)
}

fn raw_now(fake: &Fake, bytes: &[u8], files: &[RawFd]) {
    let rights = [ControlMessage::ScmRights(files)];
    let rights = if files.is_empty() { &[][..] } else { &rights[..] };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let _ = sendmsg::<()>(fake.net.as_raw_fd(), &[std::io::IoSlice::new(bytes)], rights, flags, None);
}

/// Sessions of a client that does random things from its first turn on. `AIRTCP_HOSTILE_SESSIONS`:
/// how many.
#[allow(clippy::print_stderr, reason = "only in tests")]
#[test]
fn random_clients_neither_stop_nor_break_the_controller() {
    let sessions = std::env::var("AIRTCP_HOSTILE_SESSIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(400u64);
    let before = descriptors();
    let mut failures = std::collections::BTreeMap::<String, u32>::new();
    for session in 0..sessions {
        let said = attack_for(Duration::from_secs(2), move |fake, _| {
            let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (session << 17 | 1));
            for _ in 0..50 {
                mischief(fake, &mut random);
            }
        });
        *failures.entry(said.split_once(": ").map_or(said.clone(), |(_, why)| why.to_owned())).or_default() += 1;
    }
    // Others of the tests open some meanwhile.
    assert!(descriptors() < before + 100, "{before} descriptors became {}", descriptors());
    assert!(failures.len() > 8, "they all end alike: {failures:?}");
    eprintln!("{sessions} sessions of 50 acts, which ended in {} ways", failures.len());
}
