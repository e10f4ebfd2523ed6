//! Waits for guests, and for no guest without end. A guest is a process whose kernel may do
//! anything: it may fall silent within a message, take no answers, or ask for ever. Whoever wants
//! the network to end is heard meanwhile.

// A guest's silence is in the machine's time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};

/// Whoever wants the network to end is asked this often while nothing comes.
const SLICE: Duration = Duration::from_millis(100);
/// And after so many waits without end.
const WAITS: u32 = 1024;
/// Time that stands still for so many silences does not go on.
const STILL: u32 = 10;

/// Why a wait has ended before what was waited for came. Everything else is an error of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// Nothing came for too long.
    Silent,
    /// Much came, and time has stood still meanwhile.
    Still,
    /// Somebody wants the network to end.
    Interrupted,
}

impl fmt::Display for Lapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lapse::Silent => "it has said nothing for too long: a program of it never waits, or its kernel hangs",
            Lapse::Still => "it asks without end, and its time stands still: a program of it never waits",
            Lapse::Interrupted => "it was interrupted",
        })
    }
}

impl std::error::Error for Lapse {}

impl Lapse {
    /// If that is why.
    pub fn of(error: &io::Error) -> Option<Lapse> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<Lapse> for io::Error {
    fn from(lapse: Lapse) -> io::Error {
        io::Error::other(lapse)
    }
}

/// Says whether somebody wants the network to end.
pub type Interrupt = Box<dyn FnMut() -> bool>;

/// See the module.
pub struct Patience {
    silence: Duration,
    interrupt: Option<Interrupt>,
    waits: u32,
    /// When time has gone on last.
    since: Instant,
}

impl Patience {
    /// With guests that may say nothing for so long.
    pub fn new(silence: Duration) -> Patience {
        Patience { silence, interrupt: None, waits: 0, since: Instant::now() }
    }

    /// Another limit.
    pub fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// Asks this whether the network is to end.
    pub fn set_interrupt(&mut self, interrupt: Interrupt) {
        self.interrupt = Some(interrupt);
    }

    /// Asks nobody any more.
    pub fn remove_interrupt(&mut self) {
        self.interrupt = None;
    }

    /// Time goes on.
    pub fn time_goes_on(&mut self) {
        self.since = Instant::now();
    }

    /// A socket whose other end is a guest's wakes who waits at it now and then. It must be one
    /// whose options no guest can set.
    pub fn watch(&self, socket: &UnixStream) -> io::Result<()> {
        let slice = Some(SLICE.min(self.silence));
        socket.set_read_timeout(slice).and_then(|()| socket.set_write_timeout(slice))
    }

    fn is_interrupted(&mut self) -> bool {
        self.interrupt.as_mut().is_some_and(|interrupt| interrupt())
    }

    /// Nothing has come for a slice.
    fn has_lapsed(&mut self, begun: Instant) -> io::Result<()> {
        if self.is_interrupted() {
            return Err(Lapse::Interrupted.into());
        }
        if begun.elapsed() >= self.silence { Err(Lapse::Silent.into()) } else { Ok(()) }
    }

    /// Something has come.
    fn has_come(&mut self) -> io::Result<()> {
        self.waits = self.waits.wrapping_add(1);
        if self.waits % WAITS != 0 {
            return Ok(());
        }
        if self.is_interrupted() {
            return Err(Lapse::Interrupted.into());
        }
        if self.since.elapsed() >= self.silence * STILL { Err(Lapse::Still.into()) } else { Ok(()) }
    }

    /// Waits until one of these is ready.
    pub fn wait(&mut self, fds: &mut [PollFd<'_>]) -> io::Result<()> {
        let begun = Instant::now();
        let slice = PollTimeout::try_from(SLICE.min(self.silence)).unwrap_or(PollTimeout::ZERO);
        loop {
            match poll(fds, slice) {
                // A process that was stopped and goes on comes back here, too.
                Ok(0) | Err(Errno::EINTR) => self.has_lapsed(begun)?,
                Ok(_) => return self.has_come(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Fills `into` from a socket that is watched.
    pub fn read(&mut self, from: &UnixStream, into: &mut [u8]) -> io::Result<()> {
        let fd = from.as_raw_fd();
        self.all(into.len(), &mut |at| recv(fd, into.get_mut(at..).unwrap_or(&mut []), MsgFlags::empty()))
    }

    /// Writes all of it to a socket that is watched.
    pub fn write(&mut self, to: &UnixStream, bytes: &[u8]) -> io::Result<()> {
        let fd = to.as_raw_fd();
        self.all(bytes.len(), &mut |at| send(fd, bytes.get(at..).unwrap_or(&[]), MsgFlags::MSG_NOSIGNAL))
    }

    fn all(&mut self, len: usize, step: &mut dyn FnMut(usize) -> nix::Result<usize>) -> io::Result<()> {
        let mut begun = None;
        let mut at = 0;
        while at < len {
            match step(at) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(more) if at + more >= len => break,
                // A peer that sends byte after byte has as long for all of them as for none.
                Ok(more) => {
                    at += more;
                    self.has_lapsed(*begun.get_or_insert_with(Instant::now))?;
                }
                Err(Errno::EAGAIN | Errno::EINTR) => self.has_lapsed(*begun.get_or_insert_with(Instant::now))?,
                Err(error) => return Err(error.into()),
            }
        }
        self.has_come()
    }

    /// Fills `into` from a socket that the guest has given, and so can make wait for ever.
    pub fn read_theirs(&mut self, from: &UnixStream, into: &mut [u8]) -> io::Result<()> {
        let fd = from.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        self.all_theirs(from, PollFlags::POLLIN, into.len(), &mut |at| {
            recv(fd, into.get_mut(at..).unwrap_or(&mut []), flags)
        })
    }

    /// Writes all of it to a socket that the guest has given.
    pub fn write_theirs(&mut self, to: &UnixStream, bytes: &[u8]) -> io::Result<()> {
        let fd = to.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        self.all_theirs(to, PollFlags::POLLOUT, bytes.len(), &mut |at| send(fd, bytes.get(at..).unwrap_or(&[]), flags))
    }

    fn all_theirs(
        &mut self,
        socket: &UnixStream,
        ready: PollFlags,
        len: usize,
        step: &mut dyn FnMut(usize) -> nix::Result<usize>,
    ) -> io::Result<()> {
        let begun = Instant::now();
        let mut at = 0;
        while at < len {
            match step(at) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(more) => at += more,
                Err(Errno::EAGAIN | Errno::EINTR) => {
                    self.wait(&mut [PollFd::new(socket.as_fd(), ready)])?;
                    self.has_lapsed(begun)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.has_come()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn why(done: io::Result<()>) -> Option<Lapse> {
        Lapse::of(&done.unwrap_err())
    }

    fn impatient() -> (Patience, UnixStream, UnixStream) {
        let patience = Patience::new(Duration::from_millis(60));
        let (ours, theirs) = UnixStream::pair().unwrap();
        patience.watch(&ours).unwrap();
        (patience, ours, theirs)
    }

    #[test]
    fn half_a_message_is_not_waited_for_without_end() {
        let (mut patience, ours, mut theirs) = impatient();
        theirs.write_all(&[1; 7]).unwrap();
        assert_eq!(why(patience.read(&ours, &mut [0; 16])), Some(Lapse::Silent));
        theirs.write_all(&[1; 7]).unwrap();
        assert_eq!(why(patience.read_theirs(&ours, &mut [0; 16])), Some(Lapse::Silent));
    }

    #[test]
    fn byte_after_byte_is_not_waited_for_without_end() {
        let (mut patience, ours, mut theirs) = impatient();
        let drips = std::thread::spawn(move || {
            while theirs.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        assert_eq!(why(patience.read(&ours, &mut [0; 4096])), Some(Lapse::Silent));
        assert_eq!(why(patience.read_theirs(&ours, &mut [0; 4096])), Some(Lapse::Silent));
        drop(ours);
        drips.join().unwrap();
    }

    #[test]
    fn who_takes_no_answers_is_not_waited_for_without_end() {
        let (mut patience, ours, _theirs) = impatient();
        let all = vec![0; 4 << 20];
        assert_eq!(why(patience.write(&ours, &all)), Some(Lapse::Silent));
        assert_eq!(why(patience.write_theirs(&ours, &all)), Some(Lapse::Silent));
    }

    #[test]
    fn an_interrupt_is_obeyed_while_nothing_comes_and_while_much_does() {
        let (mut patience, ours, mut theirs) = impatient();
        patience.set_silence(Duration::from_secs(600));
        let mut asked = 0;
        patience.set_interrupt(Box::new(move || {
            asked += 1;
            asked > 2
        }));
        assert_eq!(why(patience.read(&ours, &mut [0; 16])), Some(Lapse::Interrupted));
        theirs.write_all(&vec![0; 2048]).unwrap();
        let mut done = Ok(());
        for _ in 0..2048 {
            done = done.and_then(|()| patience.read(&ours, &mut [0]));
        }
        assert_eq!(why(done), Some(Lapse::Interrupted));
    }

    #[test]
    fn much_that_comes_while_time_stands_still_ends_too() {
        let (mut patience, ours, theirs) = impatient();
        patience.set_silence(Duration::from_millis(5));
        let floods = std::thread::spawn(move || while (&theirs).write_all(&[0; 1024]).is_ok() {});
        let begun = Instant::now();
        let done = loop {
            if let Err(error) = patience.read(&ours, &mut [0; 16]) {
                break error;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "it goes on for ever");
        };
        assert_eq!(Lapse::of(&done), Some(Lapse::Still));
        drop(ours);
        floods.join().unwrap();
    }

    #[test]
    fn who_has_gone_is_known_at_once() {
        let (mut patience, ours, theirs) = impatient();
        drop(theirs);
        assert_eq!(patience.read(&ours, &mut [0; 16]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(patience.write_theirs(&ours, &[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
