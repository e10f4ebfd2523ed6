//! A packet as the simulator carries it: 64 bytes of header fields, no payload. [`Pool`] is the
//! slab they live in.

use crate::convert::count;
use crate::flags;
use crate::units::Seq32;
use crate::wifi::Ac;

/// Index of a flow within its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FlowId(pub u32);

/// Index of a packet within a [`Pool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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
    /// A UDP datagram; of external packets also a fragment, and all that is neither TCP nor an
    /// echo.
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
        /// The acknowledgement number is valid.
        ACK = 0x10,
        /// The urgent pointer is valid.
        URG = 0x20,
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

/// Congestion marks that a packet reports by Accurate ECN (RFC 9768).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccurateEcn {
    /// The field ACE (flags AE, CWR and ECE): the low bits of how many packets came marked.
    pub ace: u8,
    /// From its option: how many bytes of data came marked, modulo 2^24. `None`: there is no
    /// option.
    pub ce_bytes: Option<u32>,
}

/// In the place of the last SACK block's end: the flag AE, and the option of Accurate ECN with its
/// counter below.
const AE: u32 = 1 << 31;
const HAS_CE_BYTES: u32 = 1 << 30;
const CE_BYTES: u32 = (1 << 24) - 1;

/// The most SACK blocks one segment can carry (RFC 2018 section 3); with timestamps it is
/// [`MAX_SACK_WITH_TS`].
pub const MAX_SACK: usize = 4;
/// The most SACK blocks beside timestamps.
pub const MAX_SACK_WITH_TS: usize = 3;

/// The header fields of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// The flow that the packet belongs to.
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
    /// A simulated packet has in bits 0 to 2 the number of entries of `sack` in use, and in bits 3
    /// to 6 the incarnation. An external packet has bits 1 and 2 set, a number that exceeds the
    /// length of `sack`. Its bits 3 to 5 hold the number of entries of `sack` in use, bits 0 and 6
    /// the access category. In both, bit 7 is set if the direction is from destination to source.
    meta: u8,
    /// TCP sequence number; for UDP and echo the datagram's number.
    pub seq: Seq32,
    /// TCP acknowledgement number; counts with [`TcpFlags::ACK`].
    pub ack: Seq32,
    /// Receive window in bytes, already scaled.
    pub window: u32,
    /// Timestamp option (RFC 7323); zero when absent. For a packet that may be external, see
    /// [`Packet::timestamps`].
    pub ts_val: u32,
    /// Its echo; zero when absent.
    pub ts_ecr: u32,
    sack: [SackBlock; MAX_SACK],
}

const SACK_COUNT: u8 = 0x07;
const INCARNATION_SHIFT: u32 = 3;
const INCARNATION_BITS: u32 = 4;
const INCARNATION: u8 = 0x0f;
const EXTERNAL: u8 = 0x06;
const EXTERNAL_SACK_SHIFT: u32 = 3;
const EXTERNAL_AC_LOW: u8 = 0x01;
const EXTERNAL_AC_HIGH: u8 = 0x40;
const REVERSE: u8 = 0x80;

impl Packet {
    /// An empty packet of `flow`. `incarnation` tells one connection of a flow from the next, as a
    /// fresh port would: a late packet of an older one is not taken for the new one's. It
    /// counts modulo 16.
    pub fn new(flow: FlowId, kind: Kind, incarnation: u8) -> Packet {
        Packet { flow, kind, meta: (incarnation & INCARNATION) << INCARNATION_SHIFT, ..Packet::default() }
    }
    /// An empty packet that comes from outside the simulator. `connection`: see
    /// [`Self::connection`].
    pub fn external(kind: Kind, connection: u32, ac: Ac) -> Packet {
        let ac = ac as u8;
        let meta = EXTERNAL | (ac & 1) | (ac >> 1) << 6;
        let mut packet = Packet { kind, meta, ..Packet::default() };
        packet.sack[MAX_SACK - 1].start = Seq32(connection);
        packet
    }
    /// It came from outside the simulator.
    #[inline]
    pub fn is_external(&self) -> bool {
        self.meta & EXTERNAL == EXTERNAL
    }
    /// Modulo 16.
    #[inline]
    pub fn incarnation(&self) -> u8 {
        if self.is_external() { 0 } else { (self.meta >> INCARNATION_SHIFT) & INCARNATION }
    }
    /// Identity of its connection, the same in both directions. For a simulated packet it is flow
    /// and incarnation, for an external one a hash of addresses, protocol and ports.
    #[inline]
    pub fn connection(&self) -> u32 {
        if self.is_external() {
            // Four SACK blocks leave no room for timestamps in 40 bytes of options, nor for the
            // connection in its place.
            if self.sack_count() == MAX_SACK { self.ts_ecr } else { self.sack[MAX_SACK - 1].start.0 }
        } else {
            self.flow.0 << INCARNATION_BITS | u32::from(self.incarnation())
        }
    }
    /// As [`Self::connection`], but the connections of a simulated flow that follow each other are
    /// one.
    #[inline]
    pub fn conversation(&self) -> u32 {
        self.connection() >> INCARNATION_BITS
    }
    /// The access category that an external packet asks for; a simulated one has that of its flow.
    #[inline]
    pub fn ac(&self) -> Option<Ac> {
        self.is_external().then(|| {
            let low = self.meta & EXTERNAL_AC_LOW != 0;
            match (self.meta & EXTERNAL_AC_HIGH != 0, low) {
                (false, false) => Ac::ALL[0],
                (false, true) => Ac::ALL[1],
                (true, false) => Ac::ALL[2],
                (true, true) => Ac::ALL[3],
            }
        })
    }
    /// Timestamp option and its echo; zero when absent.
    #[inline]
    pub fn timestamps(&self) -> (u32, u32) {
        let in_use_otherwise = self.is_external() && self.sack_count() == MAX_SACK;
        if in_use_otherwise { (0, 0) } else { (self.ts_val, self.ts_ecr) }
    }
    /// True if all of `flags` are set.
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
    #[inline]
    fn sack_count(&self) -> usize {
        let shift = if self.is_external() { EXTERNAL_SACK_SHIFT } else { 0 };
        usize::from((self.meta >> shift) & SACK_COUNT)
    }
    /// The SACK blocks, the newest first.
    pub fn sack(&self) -> &[SackBlock] {
        &self.sack[..self.sack_count()]
    }
    /// A number of the driver's own, zero unless it sets one. It lies where the last SACK block
    /// would, so a packet that has one there has no number, nor has an external one.
    pub fn tag(&self) -> u32 {
        if self.has_tag() { self.sack[MAX_SACK - 1].start.0 } else { 0 }
    }
    /// See [`Self::tag`]. Ignored on a packet that can have none.
    pub fn set_tag(&mut self, tag: u32) {
        if self.has_tag() {
            self.sack[MAX_SACK - 1].start = Seq32(tag);
        }
    }
    /// Marks that the packet reports by Accurate ECN. A packet without that field reports them by
    /// CWR and ECE alone.
    pub fn accurate_ecn(&self) -> AccurateEcn {
        let told = if self.has_tag() { self.sack[MAX_SACK - 1].end.0 } else { 0 };
        let bit = |is_set: bool, value| if is_set { value } else { 0 };
        AccurateEcn {
            ace: bit(told & AE != 0, 4) | bit(self.has(TcpFlags::CWR), 2) | bit(self.has(TcpFlags::ECE), 1),
            ce_bytes: (told & HAS_CE_BYTES != 0).then_some(told & CE_BYTES),
        }
    }
    /// See [`Self::accurate_ecn`]. A packet that can have no [`Self::tag`] has no such field
    /// either.
    pub fn set_accurate_ecn(&mut self, told: AccurateEcn) {
        let flags = TcpFlags::when(told.ace & 2 != 0, TcpFlags::CWR) | TcpFlags::when(told.ace & 1 != 0, TcpFlags::ECE);
        self.flags = self.flags.without(TcpFlags::CWR | TcpFlags::ECE) | flags;
        if self.has_tag() {
            let ae = if told.ace & 4 == 0 { 0 } else { AE };
            self.sack[MAX_SACK - 1].end = Seq32(ae | told.ce_bytes.map_or(0, |n| HAS_CE_BYTES | n & CE_BYTES));
        }
    }
    fn has_tag(&self) -> bool {
        !self.is_external() && self.sack_count() < MAX_SACK
    }
    /// Appends a block; ignored when all [`MAX_SACK`] places are taken, and on an external packet
    /// with timestamps when [`MAX_SACK_WITH_TS`] are.
    pub fn push_sack(&mut self, block: SackBlock) {
        let n = self.sack_count();
        if n == MAX_SACK {
            return;
        }
        if !self.is_external() {
            self.meta += 1;
        } else {
            if n == MAX_SACK_WITH_TS {
                if (self.ts_val, self.ts_ecr) != (0, 0) {
                    return;
                }
                self.ts_ecr = self.connection();
            }
            self.meta += 1 << EXTERNAL_SACK_SHIFT;
        }
        self.sack[n] = block;
    }
}

/// Slab of packets in flight. Slots are reused last-in first-out, which keeps them in cache.
#[derive(Debug, Default)]
pub struct Pool {
    slots: Vec<Slot>,
    free: Vec<u32>,
    held: Vec<Held>,
}

/// Fields of a packet that a radio keeps while a queue discipline has the packet. In a large world
/// the packet itself has left the cache when its turn comes. Four of these entries fit into a cache
/// line, for all channels together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// The holder's own number for where it goes.
    pub session: u32,
    /// As in [`Packet`].
    pub flow: FlowId,
    /// As in [`Packet`].
    pub size: u16,
    /// As in [`Packet`].
    pub len: u16,
    /// It is a TCP segment.
    pub is_tcp: bool,
    /// Its release is to be reported to its flow.
    pub reports: bool,
}

/// A packet in a cache line of its own, and not in parts of two.
#[derive(Debug)]
#[repr(align(64))]
struct Slot(Packet);

impl Pool {
    /// Puts a packet in.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(i) = self.free.pop() {
            self.slots[i as usize] = Slot(packet);
            PacketId(i)
        } else {
            self.slots.push(Slot(packet));
            PacketId(count(self.slots.len() - 1))
        }
    }
    /// Takes a packet out; its id must not be used again.
    #[inline]
    pub fn remove(&mut self, id: PacketId) -> Packet {
        self.free.push(id.0);
        self.slots[id.0 as usize].0
    }
    /// A radio takes a packet: it goes to `session`, and its release is reported or not.
    #[inline]
    pub fn hold(&mut self, id: PacketId, session: u32, reports: bool) {
        let Packet { flow, size, len, kind, .. } = self.slots[id.0 as usize].0;
        if self.held.len() <= id.0 as usize {
            self.held.resize(id.0 as usize + 1, Held::default());
        }
        self.held[id.0 as usize] = Held { session, flow, size, len, is_tcp: kind == Kind::Tcp, reports };
    }
    /// The entry of a packet that a radio has taken.
    #[inline]
    pub fn held(&self, id: PacketId) -> &Held {
        &self.held[id.0 as usize]
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
        let slots = self.slots.iter().map(|Slot(packet)| packet);
        (0..).map(PacketId).zip(slots).zip(is_free).filter_map(|(slot, is_free)| (!is_free).then_some(slot))
    }
    /// No packet is in the pool.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::ops::Index<PacketId> for Pool {
    type Output = Packet;
    fn index(&self, id: PacketId) -> &Packet {
        &self.slots[id.0 as usize].0
    }
}
impl std::ops::IndexMut<PacketId> for Pool {
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.0 as usize].0
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
    fn an_external_packet_has_all_that_a_simulated_one_has() {
        for ac in Ac::ALL {
            for blocks in 0..=MAX_SACK {
                let mut p = Packet::external(Kind::Tcp, 0xdead_beef, ac);
                let block = |n: usize| SackBlock { start: Seq32(count(n)), end: Seq32(count(n + 7)) };
                (0..blocks).for_each(|n| p.push_sack(block(n)));
                for reverse in [false, true] {
                    if reverse {
                        p.set_reverse();
                    }
                    assert_eq!((p.is_external(), p.connection(), p.ac()), (true, 0xdead_beef, Some(ac)), "{blocks}");
                    assert_eq!(p.sack().len(), blocks);
                    assert!(p.sack().iter().enumerate().all(|(n, b)| *b == block(n)));
                    assert_eq!((p.timestamps(), p.is_reverse(), p.incarnation()), ((0, 0), reverse, 0));
                    p.set_tag(5);
                    assert_eq!(p.tag(), 0);
                }
            }
        }
        let mut p = Packet::external(Kind::Tcp, 7, Ac::Be);
        (p.ts_val, p.ts_ecr) = (1, 2);
        (0..9).for_each(|_| p.push_sack(SackBlock::default()));
        assert_eq!((p.sack().len(), p.timestamps(), p.connection()), (MAX_SACK_WITH_TS, (1, 2), 7));
    }

    #[test]
    fn a_simulated_packet_is_never_taken_for_an_external_one() {
        for incarnation in 0..16 {
            for blocks in 0..=MAX_SACK {
                let mut p = Packet::new(FlowId(9), Kind::Tcp, incarnation);
                (0..blocks).for_each(|_| p.push_sack(SackBlock::default()));
                assert_eq!((p.is_external(), p.ac(), p.sack().len()), (false, None, blocks));
                assert_eq!((p.incarnation(), p.connection()), (incarnation, 9 * 16 + u32::from(incarnation)));
                assert_eq!(p.conversation(), 9);
                p.set_tag(3);
                assert_eq!(p.tag(), if blocks < MAX_SACK { 3 } else { 0 });
            }
        }
    }

    #[test]
    fn accurate_ecn_is_told_beside_up_to_three_sack_blocks() {
        for ace in 0..8 {
            for ce_bytes in [None, Some(0), Some(1448), Some((1 << 24) - 1)] {
                let mut p = Packet::new(FlowId(9), Kind::Tcp, 3);
                p.set_tag(77);
                (0..MAX_SACK - 1).for_each(|_| p.push_sack(SackBlock { start: Seq32(1), end: Seq32(2) }));
                p.set_accurate_ecn(AccurateEcn { ace, ce_bytes });
                assert_eq!(p.accurate_ecn(), AccurateEcn { ace, ce_bytes });
                assert_eq!((p.tag(), p.sack().len(), p.has(TcpFlags::CWR)), (77, MAX_SACK - 1, ace & 2 != 0));
            }
        }
        let mut classic = Packet::new(FlowId(0), Kind::Tcp, 0);
        classic.flags = TcpFlags::ACK | TcpFlags::ECE;
        assert_eq!(classic.accurate_ecn(), AccurateEcn { ace: 1, ce_bytes: None });
    }

    #[test]
    fn a_packet_is_one_cache_line() {
        assert_eq!(size_of::<Packet>(), 64);
    }
}
