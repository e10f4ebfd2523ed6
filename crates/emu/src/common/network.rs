//! A network between real hosts, whoever drives it: packets in and out, and their bytes for a
//! capture.

use airtcp_core::packet::PacketId;
use airtcp_core::units::Time;

/// A network that takes packets from outside and gives them back.
pub trait Network {
    /// When something happens next; it may be early, never late.
    fn deadline(&mut self) -> Time;
    /// Everything that happens up to this time.
    fn run_until(&mut self, time: Time);
    /// A host sends a packet, now.
    fn inject(&mut self, from: usize, bytes: &[u8]) -> Result<PacketId, NotSent>;
    /// Hands the next delivered packet to `give`, a broadcast once for each host that hears it. Its
    /// number is free only when this returns. False: there is none.
    fn take_egress(&mut self, give: &mut dyn FnMut(Delivered)) -> bool;
    /// Name by which [`Self::take_released`] tells that the packet injected last leaves its host;
    /// `None`: it has left at once.
    fn holding(&self) -> Option<u32> {
        None
    }
    /// A name of [`Self::holding`], and how many of its packets their host no longer holds, the
    /// oldest.
    fn take_released(&mut self) -> Option<(u32, u32)> {
        None
    }
    /// Data of TCP, as a gate in place of small queues sees it; `None`: any other packet.
    fn tcp_data(&mut self, _bytes: &[u8]) -> Option<TcpData> {
        None
    }
    /// Packets from outside that are inside.
    fn inside(&self) -> u32;
    /// A host's radio hands over a message, now: only where hosts have radios instead of packets.
    fn take_message(&mut self, _from: usize, _message: &[u8]) -> Result<(), String> {
        Err("this network has no radios".to_owned())
    }
    /// The next message for a host's radio.
    fn next_message(&mut self) -> Option<(usize, Vec<u8>)> {
        None
    }
    /// Writes into a packet's bytes what the network did to it: a mark.
    fn write_mark(delivered: &Delivered, bytes: &mut [u8]);
}

/// A packet that has reached its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Its number.
    pub id: PacketId,
    /// The host, by its index.
    pub to: usize,
    /// When it arrived.
    pub time: Time,
    /// Congestion was marked on the way.
    pub is_marked: bool,
}

/// Why a packet does not travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSent {
    /// It is for nobody on the network: multicast, a broadcast that nobody hears, or an address
    /// that no host has.
    Unroutable,
    /// It is not IP, or its header is cut.
    Unreadable,
}

/// A packet with data of TCP, which a gate in place of small queues looks at. All others pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpData {
    /// The connection's number.
    pub connection: u32,
}

/// Sees every packet that crosses between a host and the network.
pub trait Tap {
    /// `sent`: the host sent it; otherwise it receives it.
    fn packet(&mut self, time: Time, host: usize, sent: bool, bytes: &[u8]);
}
