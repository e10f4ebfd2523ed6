//! Packets as they leave an interface, with the kernel's time of each.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use airtcp_core::units::Time;

use super::{checked, length, realtime, set_option, time_of};

/// A packet that has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When it went to the driver, on the wall's clock.
    pub at: Time,
    /// Bytes from the header of IP on; more than was read, if the buffer is shorter.
    pub length: usize,
}

/// Hears all packets of an interface, without the header of the link. Takes CAP_NET_RAW.
pub fn open(interface: u32) -> io::Result<OwnedFd> {
    // Sockets of one protocol are not told of packets that leave.
    let all = u16::try_from(libc::ETH_P_ALL).unwrap_or(3).to_be();
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers. Protocol 0 hears nothing until it is bound to the interface.
    let fd = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the descriptor is new and owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 8 << 20)?;
    // SAFETY: all-zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::sa_family_t::try_from(libc::AF_PACKET).unwrap_or(0);
    address.sll_protocol = all;
    address.sll_ifindex = libc::c_int::try_from(interface).unwrap_or(0);
    // SAFETY: the address has the length given.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length::<libc::sockaddr_ll>()) })?;
    Ok(fd)
}

/// The next packet that has left. `None`: none waits.
pub fn next(fd: RawFd, buffer: &mut [u8]) -> io::Result<Option<Sent>> {
    loop {
        // SAFETY: all-zero is valid for both.
        let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
        let mut control = [0u64; 8];
        let mut place = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = length::<libc::sockaddr_ll>();
        message.msg_iov = &raw mut place;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of::<[u64; 8]>() as _;
        // SAFETY: all pointers of the message lead to places of the lengths given, which outlive
        // the call.
        let n = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
        let Ok(length) = usize::try_from(n) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock => Ok(None),
                io::ErrorKind::Interrupted => continue,
                _ => Err(error),
            };
        };
        if from.sll_pkttype != libc::PACKET_OUTGOING {
            continue;
        }
        let mut sent = Sent { at: realtime(), length };
        // SAFETY: the kernel has filled the message; the macros walk within its control data, and
        // the value has the type that its kind says.
        unsafe {
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            if !head.is_null() && (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(head).cast());
                sent.at = time_of(&time);
            }
        }
        return Ok(Some(sent));
    }
}
