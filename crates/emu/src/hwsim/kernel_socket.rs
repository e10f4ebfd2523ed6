//! The socket to the module, and what is asked of the kernel before: whether the module is there,
//! which radios it has, and whether it has the patches of `kernel/mac80211-hwsim`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use airtcp_hwsim::Module;
use airtcp_hwsim::frame::Address;
use airtcp_hwsim::netlink::{FAMILY, numbered};
use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvfrom, send, setsockopt, socket,
};

use crate::common::netlink::{Message, Netlink, attributes};
use crate::common::sys::join_group;

/// The family that knows families, and what it is asked (linux/genetlink.h).
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const GET_POLICY: u8 = 10;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;
const POLICY: u16 = 8;
/// In a policy: of which type an attribute is; and three types (linux/netlink.h).
const TYPE: u16 = 1;
const U8: u32 = 2;
const U16: u32 = 3;
const U32: u32 = 4;
/// Attributes that the patches add, and their types.
const PATCHES: [(u16, u32); 4] = [(30, U16), (31, U32), (32, U8), (33, U8)];
/// HWSIM_CMD_NEW_RADIO, and the attribute that says whose rules for radio it keeps.
const NEW_RADIO: u8 = 4;
const CUSTOM_REGULATION: u16 = 12;
/// HWSIM_CMD_GET_RADIO, and what it answers.
const GET_RADIO: u8 = 6;
const RADIO_ID: u16 = 10;
const RADIO_NAME: u16 = 17;

/// Header of generic netlink.
const GENERIC: usize = 4;
/// Bytes that the socket holds while the medium is busy: some thousand frames.
const HELD_BYTES: usize = 16 << 20;
/// No datagram is longer.
const LONGEST: usize = 64 << 10;

/// Facts that the kernel tells of the module and its radios.
#[derive(Debug)]
pub(super) struct ModuleState {
    pub(super) module: Module,
    /// Radios of this network namespace: their addresses as the module numbers them, and their
    /// names.
    pub(super) radios: Vec<(Address, String)>,
    /// Multicast group to which the module tells that a radio has gone.
    pub(super) group: Option<u32>,
}

fn word(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn request(kind: u16, flags: i32, command: u8) -> Message {
    Message::new(kind, flags, &[command, 1, 0, 0])
}

/// The numbers of the module's family and of its group "config"; `None`: there is no such module.
fn family(netlink: &Netlink) -> io::Result<Option<(u16, Option<u32>)>> {
    let name = format!("{FAMILY}\0");
    let (mut family, mut group) = (None, None);
    let asked = netlink.ask(request(CONTROLLER, 0, GET_FAMILY).attribute(FAMILY_NAME, name.as_bytes()), &mut |body| {
        for (kind, value) in attributes(body.get(GENERIC..).unwrap_or(&[])) {
            match kind {
                FAMILY_ID => family = value.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes)),
                GROUPS => group = group_of(value),
                _ => {}
            }
        }
    });
    match asked {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        Err(_) => Ok(None),
        Ok(()) => Ok(family.map(|family| (family, group))),
    }
}

/// Makes a radio that keeps the module's own rules of this number in place of a country's.
pub(crate) fn new_radio(rules: u32) -> io::Result<()> {
    let netlink = Netlink::open(SockProtocol::NetlinkGeneric)?;
    let (family, _) = family(&netlink)?.ok_or_else(|| io::Error::other("this kernel has no simulated radios"))?;
    let radio = request(family, libc::NLM_F_ACK, NEW_RADIO);
    netlink.change(radio.attribute(CUSTOM_REGULATION, &rules.to_ne_bytes()))
}

/// Asks the kernel.
pub(super) fn module_state() -> Result<ModuleState, String> {
    let failed = |error: io::Error| format!("generic netlink: {error}");
    let netlink = Netlink::open(SockProtocol::NetlinkGeneric).map_err(failed)?;
    let Some((family, group)) = family(&netlink).map_err(failed)? else {
        return Err("this kernel has no simulated radios: the module mac80211_hwsim is not loaded\n  \
            `modprobe mac80211_hwsim radios=N` loads it, as root; `airtcp lab` needs no module"
            .to_owned());
    };
    let name = format!("{FAMILY}\0");
    let mut has_patches = false;
    let policy = request(CONTROLLER, libc::NLM_F_DUMP, GET_POLICY).attribute(FAMILY_NAME, name.as_bytes());
    let mut found = [false; PATCHES.len()];
    // Kernels before 5.10 cannot say it, and none of them has the patches.
    let _ = netlink.ask(policy, &mut |body| {
        for (attribute, kind) in policy_of(body.get(GENERIC..).unwrap_or(&[])) {
            for (found, wanted) in found.iter_mut().zip(PATCHES) {
                *found |= (attribute, kind) == wanted;
            }
        }
        has_patches = found.iter().all(|found| *found);
    });
    let mut radios = Vec::new();
    let dump = request(family, libc::NLM_F_DUMP, GET_RADIO);
    let dumped = netlink.ask(dump, &mut |body| {
        let (mut number, mut name) = (None, String::new());
        for (kind, value) in attributes(body.get(GENERIC..).unwrap_or(&[])) {
            match kind {
                RADIO_ID => number = word(value),
                RADIO_NAME => name = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
                _ => {}
            }
        }
        let number = number.and_then(|number| u16::try_from(number).ok());
        radios.extend(number.map(|number| (numbered(number), name)));
    });
    dumped.map_err(failed)?;
    Ok(ModuleState { module: Module { family, has_patches }, radios, group })
}

/// The number of the group "config" among a family's groups.
fn group_of(groups: &[u8]) -> Option<u32> {
    attributes(groups).find_map(|(_, group)| {
        let of = |wanted| attributes(group).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        (of(GROUP_NAME)? == b"config\0").then(|| word(of(GROUP_ID)?))?
    })
}

/// Attributes and their types, in a part of a policy.
fn policy_of(body: &[u8]) -> Vec<(u16, u32)> {
    let policies = attributes(body).filter(|(kind, _)| *kind == POLICY).map(|(_, value)| value);
    let of_policy = policies.flat_map(|policies| attributes(policies).map(|(_, policy)| policy));
    let each = of_policy.flat_map(attributes);
    each.filter_map(|(attribute, about)| {
        let kind = attributes(about).find(|(kind, _)| *kind == TYPE)?.1;
        Some((attribute, word(kind)?))
    })
    .collect()
}

/// Why the kernel does not let this process be the medium.
pub(super) fn registration_error(code: i32) -> String {
    match code {
        libc::EPERM => {
            "registering with mac80211_hwsim needs root (CAP_NET_ADMIN) in the network namespace in which its \
            radios were made"
                .to_owned()
        }
        libc::EBUSY => "mac80211_hwsim has a medium already: end wmediumd or the other airtcp hwsim first".to_owned(),
        libc::EOPNOTSUPP => {
            "mac80211_hwsim has radios with several channels at once: a medium serves radios with one\n  \
            load the module without `channels`"
                .to_owned()
        }
        _ => format!("registering with mac80211_hwsim: {}", io::Error::from_raw_os_error(code)),
    }
}

/// The socket.
#[derive(Debug)]
pub(super) struct KernelSocket {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

/// Result of one read of the socket.
pub(super) enum Received<'a> {
    Datagram(&'a [u8]),
    /// Some did not fit.
    Overrun,
    /// One that another process has sent, and not the kernel.
    FromProcess,
    Empty,
}

impl KernelSocket {
    pub(super) fn open(known: &ModuleState) -> io::Result<KernelSocket> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkGeneric)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        // Without rights the kernel's limit holds.
        if setsockopt(&fd, RcvBufForce, &HELD_BYTES).is_err() {
            let _ = setsockopt(&fd, RcvBuf, &HELD_BYTES);
        }
        // Without it the medium goes on, and radios that are gone get no answers.
        if let Some(group) = known.group {
            let _ = join_group(&fd, group);
        }
        Ok(KernelSocket::of(fd))
    }

    /// Any socket of datagrams that does not wait.
    pub(super) fn of(fd: OwnedFd) -> KernelSocket {
        KernelSocket { fd, buffer: vec![0; LONGEST] }
    }

    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        Ok(send(self.fd.as_raw_fd(), bytes, MsgFlags::empty()).map(|_| ())?)
    }

    pub(super) fn read(&mut self) -> Received<'_> {
        match recvfrom::<NetlinkAddr>(self.fd.as_raw_fd(), &mut self.buffer) {
            Ok((0, _)) => Received::Empty,
            Ok((_, Some(from))) if from.pid() != 0 => Received::FromProcess,
            Ok((len, _)) => Received::Datagram(self.buffer.get(..len).unwrap_or(&[])),
            Err(Errno::ENOBUFS) => Received::Overrun,
            Err(_) => Received::Empty,
        }
    }
}

impl AsFd for KernelSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{getsockname, sendto};
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Another process with rights in this network can send messages as well as the kernel.
    #[test]
    fn what_the_kernel_has_not_sent_is_not_read() {
        let open = || {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkGeneric).unwrap();
            bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0)).unwrap();
            fd
        };
        let (own, stranger) = (open(), open());
        let to: NetlinkAddr = getsockname(own.as_raw_fd()).unwrap();
        let sent = sendto(stranger.as_raw_fd(), &[7; 40], &NetlinkAddr::new(to.pid(), 0), MsgFlags::empty());
        // Without rights nobody can.
        if sent != Err(Errno::EPERM) {
            assert_eq!(sent, Ok(40));
            assert!(matches!(KernelSocket::of(own).read(), Received::FromProcess));
        }
    }

    #[test]
    fn types_of_attributes_are_read_from_a_policy() {
        let about = |kind: u32| attribute(TYPE, &kind.to_ne_bytes());
        let policy = [attribute(30, &about(U16)), attribute(31, &about(U32))].concat();
        let body = [attribute(1, &[7, 0]), attribute(POLICY, &attribute(0, &policy))].concat();
        assert_eq!(policy_of(&body), [(30, U16), (31, U32)]);
        assert_eq!(policy_of(&attribute(POLICY, &attribute(0, &attribute(30, &[])))), []);
    }

    #[test]
    fn the_group_is_found_by_name() {
        let group = |name: &[u8], id: u32| {
            attribute(1, &[attribute(GROUP_NAME, name), attribute(GROUP_ID, &id.to_ne_bytes())].concat())
        };
        assert_eq!(group_of(&[group(b"other\0", 3), group(b"config\0", 5)].concat()), Some(5));
        assert_eq!(group_of(&group(b"other\0", 3)), None);
        assert_eq!(group_of(&attribute(1, &attribute(GROUP_NAME, b"config\0"))), None);
    }

    #[test]
    fn refusals_say_what_to_do() {
        assert!(registration_error(libc::EPERM).contains("needs root"));
        assert!(registration_error(libc::EBUSY).contains("end wmediumd"));
        assert!(registration_error(libc::EOPNOTSUPP).contains("without `channels`"));
        assert!(registration_error(libc::EINVAL).contains("Invalid argument"));
    }

    proptest! {
        #[test]
        fn any_policy_is_read(body in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = policy_of(&body);
        }
    }
}
