//! Plain TUN devices: one read and one write per packet. io_uring gains nothing here, since a write runs the receiver's stack in
//! place. TUN drops a sender's reference to a packet as soon as it is queued, so hosts behind it have no TCP small queues
//! (drivers/net/tun.c, `tun_net_xmit`).

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::sys::attach_tun;

/// Where the kernel gives TUN devices.
pub(crate) const DEVICE: &str = "/dev/net/tun";

/// A TUN device of one host.
#[derive(Debug)]
pub(crate) struct Tun(File);

impl Tun {
    /// A new device in the network namespace of the calling thread. It ends with the last descriptor.
    pub(crate) fn open(name: &str) -> io::Result<Tun> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE)?;
        attach_tun(&file, name)?;
        Ok(Tun(file))
    }

    /// The next packet that the host sends; `None`: there is none now.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.0).read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands the host a packet.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write(packet).map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
