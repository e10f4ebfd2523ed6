//! A network device by the vhost-user protocol, as Linux's `virtio_uml` speaks it: notices in both
//! directions are messages, since virtual time must not pass while they are under way.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

use super::patience::Patience;
use super::ring::{Fault, Memory, Queue, Region};

/// Number of the guest's queue from which it receives.
pub const RECEIVE: usize = 0;
/// Number of the queue to which it sends.
pub const SEND: usize = 1;
/// Before each packet: `struct virtio_net_hdr_v1`.
pub const HEADER: usize = 12;

const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const GET_PROTOCOL_FEATURES: u32 = 15;
const SET_PROTOCOL_FEATURES: u32 = 16;
const SET_VRING_ENABLE: u32 = 18;
const SET_REQUEST_FD: u32 = 21;
const GET_CONFIG: u32 = 24;
const VRING_KICK: u32 = 35;
/// From the device to the guest.
const VRING_CALL: u32 = 4;

const VERSION: u32 = 1;
const IS_REPLY: u32 = 4;
const WANTS_REPLY: u32 = 8;

/// VIRTIO_F_VERSION_1, VIRTIO_NET_F_MAC, VIRTIO_NET_F_MTU, and the protocol's own features. Nothing
/// that lets the device work for the guest: packets are as they would be on the wire.
const FEATURES: u64 = 1 << 32 | 1 << 5 | 1 << 3 | 1 << 30;
/// Replies, requests by the device, configuration, notices as messages.
const PROTOCOL_FEATURES: u64 = 1 << 3 | 1 << 5 | 1 << 9 | 1 << 14;

/// The longest message, and the most descriptors with one.
const LONGEST: usize = 4096;
const MOST_DESCRIPTORS: usize = 8;
/// SCM_MAX_FD of Linux: what comes with a message is taken as a whole, since it would stay open
/// else.
const ROOM: usize = 253;

/// A message of a guest.
#[derive(Debug)]
pub struct Request {
    kind: u32,
    flags: u32,
    body: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl Request {
    /// Reads one, with the descriptors that came with it.
    ///
    /// # Errors
    /// The guest has ended, or sent what is no message.
    pub fn read(from: &UnixStream, patience: &mut Patience) -> io::Result<Request> {
        let mut head = [0; 12];
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; ROOM]);
        let mut files = Vec::new();
        let mut parts = [IoSliceMut::new(&mut head)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        for message in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(given) = message {
                files.extend(given.into_iter().map(crate::common::sys::inherited));
            }
        }
        let got = received.bytes;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let files = files.into_iter().collect::<io::Result<Vec<OwnedFd>>>()?;
        if files.len() > MOST_DESCRIPTORS {
            return Err(io::Error::other("a message of a guest's device has too many descriptors"));
        }
        patience.read(from, &mut head[got..])?;
        let [k0, k1, k2, k3, f0, f1, f2, f3, s0, s1, s2, s3] = head;
        let size = usize::try_from(u32::from_ne_bytes([s0, s1, s2, s3])).unwrap_or(usize::MAX);
        if size > LONGEST {
            return Err(io::Error::other("a message of a guest's device is too long"));
        }
        let mut body = vec![0; size];
        patience.read(from, &mut body)?;
        let (kind, flags) = (u32::from_ne_bytes([k0, k1, k2, k3]), u32::from_ne_bytes([f0, f1, f2, f3]));
        Ok(Request { kind, flags, body, files })
    }
}

fn message(kind: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 + body.len());
    for word in [kind, flags, u32::try_from(body.len()).unwrap_or(0)] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(body);
    bytes
}

/// Further work for a request besides an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Todo {
    /// Nothing.
    Nothing,
    /// The guest has changed this queue.
    ReadQueue(usize),
}

/// Features that every device offers: VIRTIO_F_VERSION_1, and the protocol's own features.
const COMMON: u64 = 1 << 32 | 1 << 30;

/// A guest's device: a network card, or a simulated radio.
#[derive(Debug)]
pub struct Device {
    /// The guest's memory.
    pub memory: Memory,
    /// [`RECEIVE`] and [`SEND`].
    pub queues: [Queue; 2],
    /// `struct virtio_net_config`; of a radio nothing.
    config: [u8; 12],
    features: u64,
    requests: Option<UnixStream>,
}

impl Device {
    /// A device with this address, for packets of `mtu` bytes at most.
    pub fn new(mac: [u8; 6], mtu: u16) -> Device {
        let mut config = [0; 12];
        config[..6].copy_from_slice(&mac);
        config[10..].copy_from_slice(&mtu.to_le_bytes());
        Device { memory: Memory::default(), queues: Default::default(), config, features: FEATURES, requests: None }
    }

    /// A device of `mac80211_hwsim`, whose queues have the indices of a network card's the other
    /// way round.
    pub fn radio() -> Device {
        Device {
            memory: Memory::default(),
            queues: Default::default(),
            config: [0; 12],
            features: COMMON,
            requests: None,
        }
    }

    /// Does what a request asks for, and returns the answer to be sent when what is to do is done.
    ///
    /// # Errors
    /// The request contradicts the protocol.
    pub fn handle(&mut self, mut request: Request) -> Result<(Option<Vec<u8>>, Todo), Fault> {
        let body = &request.body;
        let mut todo = Todo::Nothing;
        let answer = match request.kind {
            GET_FEATURES => Some(self.features.to_ne_bytes().to_vec()),
            GET_PROTOCOL_FEATURES => Some(PROTOCOL_FEATURES.to_ne_bytes().to_vec()),
            GET_CONFIG => Some(self.configuration(body)?),
            SET_MEM_TABLE => {
                self.memory = memory_of(body, &mut request.files)?;
                None
            }
            SET_REQUEST_FD => {
                let fd = request.files.pop().ok_or_else(|| Fault::Message("its descriptor is missing".to_owned()))?;
                self.requests = Some(UnixStream::from(fd));
                None
            }
            SET_VRING_NUM => {
                let (queue, size) = (self.queue(body)?, u32_at(body, 4)?);
                queue.set_size(size)?;
                None
            }
            SET_VRING_BASE => {
                let (queue, base) = (self.queue(body)?, u32_at(body, 4)?);
                queue.set_base(base);
                None
            }
            SET_VRING_ADDR => {
                let (descriptors, used, available) = (u64_at(body, 8)?, u64_at(body, 16)?, u64_at(body, 24)?);
                let index = self.index(body)?;
                self.queues[index].set_addresses(&self.memory, descriptors, used, available)?;
                None
            }
            SET_VRING_ENABLE => {
                let (queue, is_on) = (self.queue(body)?, u32_at(body, 4)? != 0);
                queue.enable(is_on)?;
                None
            }
            VRING_KICK => {
                todo = Todo::ReadQueue(self.index(body)?);
                None
            }
            // Notices are messages: descriptors for them are not used.
            SET_FEATURES | SET_OWNER | SET_PROTOCOL_FEATURES | SET_VRING_KICK | SET_VRING_CALL => None,
            other => return Err(Fault::Message(format!("its device asks for {other}, which is unknown"))),
        };
        let reply = match answer {
            Some(answer) => Some(message(request.kind, VERSION | IS_REPLY, &answer)),
            None if request.flags & WANTS_REPLY != 0 => {
                Some(message(request.kind, VERSION | IS_REPLY, &0u64.to_ne_bytes()))
            }
            None => None,
        };
        Ok((reply, todo))
    }

    fn index(&self, body: &[u8]) -> Result<usize, Fault> {
        let index = usize::try_from(u32_at(body, 0)?).unwrap_or(usize::MAX);
        if index < self.queues.len() {
            Ok(index)
        } else {
            Err(Fault::Message(format!("its device has no queue {index}")))
        }
    }

    fn queue(&mut self, body: &[u8]) -> Result<&mut Queue, Fault> {
        let index = self.index(body)?;
        Ok(&mut self.queues[index])
    }

    /// The part of the configuration that is asked for, behind the head of the question.
    fn configuration(&self, body: &[u8]) -> Result<Vec<u8>, Fault> {
        let from = usize::try_from(u32_at(body, 0)?).unwrap_or(usize::MAX);
        let size = usize::try_from(u32_at(body, 4)?).unwrap_or(usize::MAX);
        if size.checked_add(12) != Some(body.len()) {
            return Err(Fault::Message("the size of a configuration does not fit its message".to_owned()));
        }
        let mut answer = body.to_vec();
        for (index, byte) in answer[12..].iter_mut().enumerate() {
            *byte = from.checked_add(index).and_then(|at| self.config.get(at)).copied().unwrap_or(0);
        }
        Ok(answer)
    }

    /// Where notices to the guest go; none before it has said so.
    pub fn requests(&self) -> Option<&UnixStream> {
        self.requests.as_ref()
    }

    /// Tells the guest that buffers of a queue came back. Its answer is for [`Self::hear_answer`].
    ///
    /// # Errors
    /// The guest has ended.
    pub fn call(&self, queue: usize, patience: &mut Patience) -> io::Result<()> {
        let Some(requests) = self.requests() else { return Err(io::ErrorKind::NotConnected.into()) };
        let index = u64::try_from(queue).unwrap_or(0);
        patience.write_theirs(requests, &message(VRING_CALL, VERSION | WANTS_REPLY, &index.to_le_bytes()))
    }

    /// Reads the answer to [`Self::call`].
    ///
    /// # Errors
    /// The guest has ended, or did not know the queue.
    pub fn read_answer(&self, patience: &mut Patience) -> io::Result<()> {
        let Some(requests) = self.requests() else { return Err(io::ErrorKind::NotConnected.into()) };
        let mut answer = [0; 20];
        patience.read_theirs(requests, &mut answer)?;
        if answer[12..] == [0; 8] { Ok(()) } else { Err(io::Error::other("a guest refused a notice of its device")) }
    }
}

fn u32_at(body: &[u8], at: usize) -> Result<u32, Fault> {
    let bytes = body.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or_else(|| Fault::Message("it is too short".to_owned()))
}

fn u64_at(body: &[u8], at: usize) -> Result<u64, Fault> {
    let bytes = body.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map(|bytes| u64::from_ne_bytes(*bytes)).ok_or_else(|| Fault::Message("it is too short".to_owned()))
}

fn memory_of(body: &[u8], files: &mut Vec<OwnedFd>) -> Result<Memory, Fault> {
    let count = usize::try_from(u32_at(body, 0)?).unwrap_or(usize::MAX);
    if count != files.len() {
        return Err(Fault::Message(format!("{count} regions of memory with {} descriptors", files.len())));
    }
    let mut regions = Vec::with_capacity(count);
    for (index, file) in files.drain(..).enumerate() {
        let at = 8 + 32 * index;
        let (start, len, offset) = (u64_at(body, at + 16)?, u64_at(body, at + 8)?, u64_at(body, at + 24)?);
        regions.push(Region { start, len, offset, file: File::from(file) });
    }
    Memory::new(regions)
}

#[cfg(test)]
mod tests;
