//! A packet as the simulator carries it: 64 bytes of header fields, no payload. [`Pool`] is the slab they live in.

use crate::convert::count;
use crate::flags;
use crate::units::Seq32;

/// Index of a flow within its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FlowId(pub u32);

/// Index of a packet within a [`Pool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u32);

/// The two ECN bits of the IP header (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Cannot carry a mark.
    #[default]
    NotEct = 0,
    /// Can carry a mark (ECT(1)).
    Ect1 = 1,
    /// Can carry a mark (ECT(0)), as TCP sets it.
    Ect0 = 2,
    /// Marked: congestion was met.
    Ce = 3,
}

/// The protocol above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Kind {
    /// A TCP segment.
    #[default]
    Tcp,
    /// A UDP datagram.
    Udp,
    /// An ICMP echo request.
    EchoRequest,
    /// An ICMP echo reply.
    EchoReply,
}

flags! {
    /// Flags of a TCP header, with the bits that they have there (RFC 9293 section 3.1).
    pub struct TcpFlags {
        /// The sender has nothing more to send.
        FIN = 0x01,
        /// Sequence numbers are to be synchronised: the first segment of either side.
        SYN = 0x02,
        /// The connection is reset.
        RST = 0x04,
        /// The data is to be handed up now.
        PSH = 0x08,
        /// The acknowledgement number counts.
        ACK = 0x10,
        /// A congestion mark came (RFC 3168). In a SYN: this side can do ECN.
        ECE = 0x40,
        /// The window was reduced because of ECE. In a SYN: this side can do ECN.
        CWR = 0x80,
    }
}

/// A range of sequence space `start..end` that the receiver holds (RFC 2018).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlock {
    /// Its first number.
    pub start: Seq32,
    /// The number after its last.
    pub end: Seq32,
}

/// The most SACK blocks one segment can carry (RFC 2018 section 3); with timestamps it is [`MAX_SACK_WITH_TS`].
pub const MAX_SACK: usize = 4;
/// The most SACK blocks beside timestamps.
pub const MAX_SACK_WITH_TS: usize = 3;

/// The header fields of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// Whose it is.
    pub flow: FlowId,
    /// Bytes at the IP layer: headers and payload. This is what links, queues and buffers count.
    pub size: u16,
    /// Payload bytes.
    pub len: u16,
    /// The protocol above IP.
    pub kind: Kind,
    /// The ECN bits of the IP header.
    pub ecn: Ecn,
    /// None unless `kind` is [`Kind::Tcp`].
    pub flags: TcpFlags,
    /// Bits 0 to 2: how many of `sack` are in use. Bits 3 to 6: incarnation. Bit 7: from destination to source.
    meta: u8,
    /// TCP sequence number; for UDP and echo the datagram's number.
    pub seq: Seq32,
    /// TCP acknowledgement number; counts with [`TcpFlags::ACK`].
    pub ack: Seq32,
    /// Receive window in bytes, already scaled.
    pub window: u32,
    /// Timestamp option (RFC 7323); zero when absent.
    pub ts_val: u32,
    /// Its echo; zero when absent.
    pub ts_ecr: u32,
    sack: [SackBlock; MAX_SACK],
}

const SACK_COUNT: u8 = 0x07;
const INCARNATION_SHIFT: u32 = 3;
const INCARNATION: u8 = 0x0f;
const REVERSE: u8 = 0x80;

impl Packet {
    /// An empty packet of `flow`. `incarnation` tells one connection of a flow from the next, as a fresh port would: a
    /// late packet of an older one is not taken for the new one's. It counts modulo 16.
    pub fn new(flow: FlowId, kind: Kind, incarnation: u8) -> Packet {
        Packet { flow, kind, meta: (incarnation & INCARNATION) << INCARNATION_SHIFT, ..Packet::default() }
    }
    /// Modulo 16.
    pub fn incarnation(&self) -> u8 {
        (self.meta >> INCARNATION_SHIFT) & INCARNATION
    }
    /// Whether all of `flags` are set.
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.flags.has_all(flags)
    }
    /// True for packets from the flow's destination back to its source (ACKs, echo replies).
    pub fn is_reverse(&self) -> bool {
        self.meta & REVERSE != 0
    }
    /// Makes it a packet from the destination back to the source.
    pub fn set_reverse(&mut self) {
        self.meta |= REVERSE;
    }
    /// The SACK blocks, the newest first.
    pub fn sack(&self) -> &[SackBlock] {
        &self.sack[..usize::from(self.meta & SACK_COUNT)]
    }
    /// A number of the driver's own, zero unless it sets one. It lies where the last SACK block would, so only data packets
    /// have it: this project's connections carry data one way, and what carries data reports none.
    pub fn tag(&self) -> u32 {
        if self.is_reverse() { 0 } else { self.sack[MAX_SACK - 1].start.0 }
    }
    /// See [`Self::tag`]. Ignored on a packet from destination to source.
    pub fn set_tag(&mut self, tag: u32) {
        if !self.is_reverse() {
            self.sack[MAX_SACK - 1].start = Seq32(tag);
        }
    }
    /// Appends a block; ignored when all [`MAX_SACK`] places are taken.
    pub fn push_sack(&mut self, block: SackBlock) {
        let n = usize::from(self.meta & SACK_COUNT);
        if n < MAX_SACK {
            self.sack[n] = block;
            self.meta += 1;
        }
    }
}

/// Slab of packets in flight. Slots are reused last-in first-out, which keeps them in cache.
#[derive(Debug, Default)]
pub struct Pool {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

impl Pool {
    /// Puts a packet in.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(i) = self.free.pop() {
            self.slots[i as usize] = packet;
            PacketId(i)
        } else {
            self.slots.push(packet);
            PacketId(count(self.slots.len() - 1))
        }
    }
    /// Takes a packet out; its id must not be used again.
    #[inline]
    pub fn remove(&mut self, id: PacketId) -> Packet {
        self.free.push(id.0);
        self.slots[id.0 as usize]
    }
    /// Packets now in the pool.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
    /// The packets now in the pool, by slot. It looks at every slot, and is for those who check.
    pub fn iter(&self) -> impl Iterator<Item = (PacketId, &Packet)> {
        let mut is_free = vec![false; self.slots.len()];
        for &i in &self.free {
            is_free[i as usize] = true;
        }
        (0..).map(PacketId).zip(&self.slots).zip(is_free).filter_map(|(slot, is_free)| (!is_free).then_some(slot))
    }
    /// No packet is in the pool.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::ops::Index<PacketId> for Pool {
    type Output = Packet;
    fn index(&self, id: PacketId) -> &Packet {
        &self.slots[id.0 as usize]
    }
}
impl std::ops::IndexMut<PacketId> for Pool {
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_tells_what_is_in_it() {
        let mut pool = Pool::default();
        let ids = [100, 200, 300].map(|size| pool.insert(Packet { size, ..Packet::default() }));
        pool.remove(ids[1]);
        assert_eq!(pool.iter().map(|(id, p)| (id, p.size)).collect::<Vec<_>>(), [(ids[0], 100), (ids[2], 300)]);
        assert_eq!(pool.iter().count(), pool.len());
    }

    #[test]
    fn a_packet_is_one_cache_line() {
        assert_eq!(size_of::<Packet>(), 64);
    }
}
