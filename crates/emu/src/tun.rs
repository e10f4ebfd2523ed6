//! TUN devices: one write per packet, and one read for all segments that TCP hands over together ([`Segments`]). io_uring gains nothing
//! here, since a write runs the receiver's stack in place. TUN drops a sender's reference to a packet as soon as it is queued, so hosts behind it have no TCP small queues
//! (drivers/net/tun.c, `tun_net_xmit`).

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::segments::{HEAD, Segments};
use crate::sys::attach_tun;

/// Where the kernel gives TUN devices.
pub(crate) const DEVICE: &str = "/dev/net/tun";

/// A TUN device of one host.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
    segments: Segments,
}

impl Tun {
    /// A new device in the network namespace of the calling thread. It ends with the last descriptor.
    pub(crate) fn open(name: &str) -> io::Result<Tun> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE)?;
        attach_tun(&file, name)?;
        Ok(Tun { file, segments: Segments::new() })
    }

    /// The next packet that the host sends; `None`: there is none now.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(len) = self.segments.next(buffer) {
            return Ok(Some(len));
        }
        match (&self.file).read(self.segments.room()) {
            Ok(bytes) => {
                self.segments.filled(bytes);
                Ok(self.segments.next(buffer))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the next packet has come with the last.
    pub(crate) fn has_more(&self) -> bool {
        self.segments.has_more()
    }

    /// Hands the host a packet, whose checksums are complete.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write_vectored(&[IoSlice::new(&[0; HEAD]), IoSlice::new(packet)]).map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
