//! Messages to the kernel's tables of links, addresses and sockets: what `ip` and `ss` say, without
//! needing them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvfrom, sendto, socket,
};

const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Longest answer that is read at once: the kernel fills dumps up to 32 KiB.
const ANSWER: usize = 64 << 10;

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// `flags` beside NLM_F_REQUEST.
    pub(crate) fn new(kind: u16, flags: i32, body: &[u8]) -> Message {
        let flags = u16::try_from(libc::NLM_F_REQUEST | flags).unwrap_or(u16::MAX);
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&1u32.to_ne_bytes());
        bytes.extend_from_slice(body);
        Message(bytes)
    }

    /// One more attribute, padded to four bytes.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        let len = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&len.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let len = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// A conversation with the kernel about the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    pub(crate) fn open(protocol: SockProtocol) -> io::Result<Netlink> {
        let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Netlink(fd))
    }

    /// Hears what the kernel tells those who listen to these groups, without being asked.
    pub(crate) fn listen(protocol: SockProtocol, groups: u32) -> io::Result<Netlink> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Netlink(fd))
    }

    /// Hands the body of every message that has come to `each`.
    pub(crate) fn read_notices(&self, each: &mut dyn FnMut(&[u8])) {
        let mut message = vec![0; ANSWER];
        // An error is either that nothing is there, or that more came than the kernel keeps: then
        // the rest follows.
        while let Ok((len, from)) = recvfrom::<NetlinkAddr>(self.0.as_raw_fd(), &mut message) {
            let mut rest = message.get(..len).filter(|_| is_kernel(from)).unwrap_or(&[]);
            while let Some((_, _, body, next)) = split(rest) {
                rest = next;
                each(body);
            }
        }
    }

    /// Sends a request that changes something, and waits for the kernel's word that it did.
    pub(crate) fn change(&self, message: Message) -> io::Result<()> {
        self.ask(message, &mut |_| {})
    }

    /// Sends a request, and hands the body of every answer to `each`.
    pub(crate) fn ask(&self, message: Message, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        sendto(self.0.as_raw_fd(), &message.finish(), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut answer = vec![0; ANSWER];
        loop {
            let (len, from) = recvfrom::<NetlinkAddr>(self.0.as_raw_fd(), &mut answer)?;
            let mut rest = answer.get(..len).filter(|_| is_kernel(from)).unwrap_or(&[]);
            while let Some((kind, is_part, body, next)) = split(rest) {
                rest = next;
                match kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => {
                        let code = body.first_chunk().map_or(0, |b| i32::from_ne_bytes(*b));
                        return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
                    }
                    _ => {
                        each(body);
                        // A single answer ends without a word, unless an acknowledgement was asked
                        // for.
                        if !is_part && rest.is_empty() {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }
}

/// True if the kernel sent it: another process with rights in this network could send messages,
/// too.
fn is_kernel(from: Option<NetlinkAddr>) -> bool {
    from.is_none_or(|from| from.pid() == 0)
}

/// The first message of a buffer: its kind, whether more of the same answer follow, its body, and
/// what comes after it.
fn split(bytes: &[u8]) -> Option<(u16, bool, &[u8], &[u8])> {
    let len = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let flags = u16::from_ne_bytes(*bytes.get(6..)?.first_chunk()?);
    let body = bytes.get(HEADER..len)?;
    let next = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    Some((kind, i32::from(flags) & libc::NLM_F_MULTI != 0, body, next))
}

/// The attributes that follow a body's fixed part: kind and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind & 0x3fff, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = Message::new(16, 0, &[1, 2, 3, 4]).attribute(3, b"lo\0").attribute(4, &9u32.to_ne_bytes()).finish();
        let (kind, is_part, body, rest) = split(&bytes).unwrap();
        assert_eq!((kind, is_part, rest.len()), (16, false, 0));
        assert_eq!(body[..4], [1, 2, 3, 4]);
        let nine = 9u32.to_ne_bytes();
        assert_eq!(attributes(&body[4..]).collect::<Vec<_>>(), [(3, &b"lo\0"[..]), (4, &nine[..])]);
    }

    #[test]
    fn damaged_answers_end_the_reading() {
        assert!(split(&[0; 8]).is_none());
        assert!(split(&[200, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_none());
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(attributes(&[0, 0, 1, 0, 9]).count(), 0);
    }
}
