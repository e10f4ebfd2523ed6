//! The messages by which a guest and its controller agree on time: 16 bytes in the machine's byte
//! order (`um_timetravel.h` of Linux). Each is answered by an acknowledgement with the same number.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::patience::Patience;

/// Operation that a message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Answers a message.
    Ack,
    /// A guest begins.
    Start,
    /// A guest wants to run at a time.
    Request,
    /// A guest has nothing to do before the time that it has requested.
    Wait,
    /// A guest asks for the time.
    Get,
    /// A guest tells its time, which it has moved by itself.
    Update,
    /// A guest runs, from this time on.
    Run,
    /// A guest may move its time by itself, up to this one.
    FreeUntil,
    /// A guest asks what day it is.
    GetDay,
}

const OPS: [Op; 9] =
    [Op::Ack, Op::Start, Op::Request, Op::Wait, Op::Get, Op::Update, Op::Run, Op::FreeUntil, Op::GetDay];

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The operation.
    pub op: Op,
    /// Its number, or that of the message that it answers.
    pub seq: u32,
    /// A time of guests as their kernels write it, ns; in the answer to [`Op::Start`], the guest's
    /// number.
    pub time: u64,
}

/// Its bytes.
pub const BYTES: usize = 16;

impl Message {
    /// As bytes.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let op = OPS.iter().position(|&op| op == self.op).and_then(|op| u32::try_from(op).ok()).unwrap_or(0);
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&op.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.seq.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.time.to_ne_bytes());
        bytes
    }

    /// From bytes; an operation that nobody knows is an error.
    pub fn from_bytes(bytes: [u8; BYTES]) -> io::Result<Message> {
        let [o0, o1, o2, o3, s0, s1, s2, s3, time @ ..] = bytes;
        let op = u32::from_ne_bytes([o0, o1, o2, o3]);
        let known = usize::try_from(op).ok().and_then(|op| OPS.get(op));
        let op = *known.ok_or_else(|| io::Error::other(format!("a guest sent the message {op} about time")))?;
        Ok(Message { op, seq: u32::from_ne_bytes([s0, s1, s2, s3]), time: u64::from_ne_bytes(time) })
    }

    /// Reads one.
    pub fn read(from: &UnixStream, patience: &mut Patience) -> io::Result<Message> {
        let mut bytes = [0; BYTES];
        patience.read(from, &mut bytes)?;
        Message::from_bytes(bytes)
    }

    /// Writes it.
    pub fn write(self, to: &UnixStream, patience: &mut Patience) -> io::Result<()> {
        patience.write(to, &self.to_bytes())
    }

    /// Writes it together with descriptors.
    pub fn write_with(self, to: &UnixStream, descriptors: &[RawFd]) -> io::Result<()> {
        let bytes = self.to_bytes();
        let rights = [ControlMessage::ScmRights(descriptors)];
        let sent = sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(&bytes)], &rights, MsgFlags::empty(), None)?;
        if sent == BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}
