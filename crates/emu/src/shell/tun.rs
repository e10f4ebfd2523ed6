//! TUN devices: one write per packet, and one read for all segments that TCP hands over together
//! ([`Segments`]). io_uring gains nothing here, since a write runs the receiver's stack in place.
//! TUN drops a sender's reference to a packet as soon as it is queued, so hosts behind it have no
//! TCP small queues (drivers/net/tun.c, `tun_net_xmit`).

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::common::sys::{attach_tun, namespace_of_tun};
use crate::shell::segments::{HEAD, Segments};

/// Where the kernel gives TUN devices.
pub(crate) const DEVICE: &str = "/dev/net/tun";

/// A TUN device of one host.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
    segments: Segments,
    is_gone: bool,
    /// Packets that the kernel could not hand over.
    failed: u64,
}

impl Tun {
    /// A new device in the network namespace of the calling thread. It ends with the last
    /// descriptor.
    pub(crate) fn open(name: &str) -> io::Result<Tun> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE)?;
        attach_tun(&file, name)?;
        Ok(Tun { file, segments: Segments::new(), is_gone: false, failed: 0 })
    }

    /// The next packet that the host sends; `None`: there is none now.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        if let Some(len) = self.segments.next(buffer) {
            return Some(len);
        }
        match (&self.file).read(self.segments.room()) {
            Ok(bytes) => {
                self.segments.filled(bytes);
                self.segments.next(buffer)
            }
            Err(error) => {
                let is_none_there = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                if !is_none_there && !self.has_lost(&error) {
                    self.failed += 1;
                }
                None
            }
        }
    }

    /// True if an error says that the host has deleted its device.
    fn has_lost(&mut self, error: &io::Error) -> bool {
        self.is_gone |= error.raw_os_error() == Some(libc::EBADFD);
        self.is_gone
    }

    /// The host has deleted its device, as root of its namespace may.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Packets that the kernel could not hand over: they are lost.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// The network namespace in which the device is, wherever the host has moved it.
    pub(crate) fn namespace(&self) -> io::Result<OwnedFd> {
        namespace_of_tun(&self.file)
    }

    /// True if the next packet has come with the last.
    pub(crate) fn has_more(&self) -> bool {
        self.segments.has_more()
    }

    /// Hands the host a packet, whose checksums are complete; false: its device did not take it.
    pub(crate) fn write(&mut self, packet: &[u8]) -> bool {
        match (&self.file).write_vectored(&[IoSlice::new(&[0; HEAD]), IoSlice::new(packet)]) {
            Ok(written) => written == HEAD + packet.len(),
            Err(error) => {
                self.has_lost(&error);
                false
            }
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Why no TUN device can be had, with the line that would help; `None`: one can.
pub(crate) fn no_tun() -> Option<String> {
    match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Some(format!("{DEVICE} may not be opened. As root: chmod 0666 {DEVICE}"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Some(format!(
            "{DEVICE} is missing. In a container: start it with --device {DEVICE}; else, as root: modprobe tun"
        )),
        Err(error) => Some(format!("{DEVICE}: {error}. As root: modprobe tun")),
    }
}
