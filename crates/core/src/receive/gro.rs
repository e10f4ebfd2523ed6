//! Merging segments of one flow on their way up (`tcp_gro_receive` and `dev_gro_receive`,
//! net/ipv4/tcp_offload.c and net/core/gro.c of Linux 6.12).
//!
//! A segment joins the one held of its flow if it is the next in order, no longer than the first,
//! and alike in ECN bits, flags, acknowledgement number and options, timestamps among them. Any
//! other segment sends the held one up, and so do FIN, PSH and a short segment once they have
//! joined. Segments without payload are never held. A merged packet stays below 64 KiB.
//!
//! The kernel's bound on flows (eight lists of eight, by hash) is left out. More than about 64
//! flows in one poll would exceed it.

use crate::packet::{Kind, Packet, TcpFlags};
use crate::units::Seq32;

/// A packet shorter than this in all fits into its length field (GRO_LEGACY_MAX_SIZE).
const MAX_BYTES: u32 = 65_536;

/// One packet as it goes up: a segment, or several that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Header of the first segment, with payload and size of all together.
    pub packet: Packet,
    /// Segments in it.
    pub segments: u16,
    /// Payload of each but the last, which may have less.
    pub segment_len: u16,
    /// The [`Packet::tag`] of each segment; empty if none has one.
    pub tags: Vec<u32>,
}

impl Merged {
    /// A packet alone.
    pub fn alone(packet: Packet) -> Merged {
        let tags = if packet.tag() == 0 { Vec::new() } else { vec![packet.tag()] };
        Merged { packet, segments: 1, segment_len: packet.len, tags }
    }

    /// Bytes at the IP layer of its segments, each with headers of its own.
    pub fn bytes(&self) -> u64 {
        let headers = u64::from(self.packet.size - self.packet.len);
        u64::from(self.packet.size) + (u64::from(self.segments) - 1) * headers
    }

    /// The segments one by one, as they arrived.
    pub fn each(&self) -> impl Iterator<Item = Packet> + '_ {
        (0..self.segments).map(|i| {
            let mut p = self.packet;
            if self.segments > 1 {
                let start = i * self.segment_len;
                p.len = self.segment_len.min(self.packet.len - start);
                p.size = self.packet.size - self.packet.len + p.len;
                p.seq = Seq32(self.packet.seq.0.wrapping_add(u32::from(start)));
                if i + 1 < self.segments {
                    p.flags = p.flags.without(TcpFlags::FIN | TcpFlags::PSH);
                }
                if i > 0 {
                    p.flags = p.flags.without(TcpFlags::CWR);
                }
            }
            p.set_tag(self.tags.get(usize::from(i)).copied().unwrap_or(0));
            p
        })
    }

    /// True if this packet belongs to the same connection and direction.
    pub fn is_of(&self, p: &Packet) -> bool {
        let own = &self.packet;
        own.flow == p.flow && own.is_reverse() == p.is_reverse() && own.connection() == p.connection()
    }

    fn takes(&self, p: &Packet) -> bool {
        let own = &self.packet;
        let may_differ = TcpFlags::CWR | TcpFlags::FIN | TcpFlags::PSH;
        !p.has(TcpFlags::CWR)
            && own.flags.without(may_differ) == p.flags.without(may_differ)
            && (own.ack, own.ts_val, own.ts_ecr, own.ecn) == (p.ack, p.ts_val, p.ts_ecr, p.ecn)
            && own.sack() == p.sack()
            && (1..=self.segment_len).contains(&p.len)
            && own.seq.0.wrapping_add(u32::from(own.len)) == p.seq.0
            && u32::from(own.size) + u32::from(p.len) < MAX_BYTES
    }

    fn join(&mut self, p: &Packet) {
        if p.tag() != 0 || !self.tags.is_empty() {
            self.tags.resize(usize::from(self.segments), 0);
            self.tags.push(p.tag());
        }
        self.packet.len += p.len;
        self.packet.size += p.len;
        self.packet.flags |= p.flags;
        self.segments += 1;
    }
}

/// True if no segment may join after this one.
fn is_last(p: &Packet) -> bool {
    p.flags.has_any(TcpFlags::PSH | TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST)
}

/// True if a packet that arrives while none is held is held for others to join.
pub(super) fn may_be_joined(p: &Packet) -> bool {
    p.kind == Kind::Tcp && p.len > 0 && !is_last(p)
}

/// Packets that are held for others to join, oldest first.
#[derive(Debug, Default)]
pub(super) struct Gro {
    held: Vec<(Merged, u64)>,
}

impl Gro {
    /// Packets that are held for others to join, oldest first.
    pub(super) fn held(&self) -> impl Iterator<Item = &Merged> {
        self.held.iter().map(|(merged, _)| merged)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds a packet that others may join.
    pub(super) fn hold(&mut self, p: Packet, tick: u64) {
        if self.held.capacity() == 0 {
            // A host with one flow never holds more than this one.
            self.held.reserve_exact(1);
        }
        self.held.push((Merged::alone(p), tick));
    }

    /// A packet comes from the device, in the given tick of the kernel's clock. Packets that need
    /// not wait go to `up`.
    pub(super) fn receive(&mut self, p: Packet, tick: u64, up: &mut Vec<Merged>) {
        if p.kind != Kind::Tcp {
            return up.push(Merged::alone(p));
        }
        let ends = is_last(&p);
        let own = self.held.iter().position(|(held, _)| held.is_of(&p));
        if let Some(i) = own {
            let held = &mut self.held[i].0;
            if held.takes(&p) {
                held.join(&p);
                if ends || p.len < held.segment_len {
                    up.push(self.held.remove(i).0);
                }
                return;
            }
            up.push(self.held.remove(i).0);
        }
        if ends || p.len == 0 {
            up.push(Merged::alone(p));
        } else {
            self.hold(p, tick);
        }
    }

    /// Sends all held packets up, oldest first.
    pub(super) fn flush(&mut self, up: &mut Vec<Merged>) {
        up.extend(self.held.drain(..).map(|(held, _)| held));
    }

    /// Sends held packets up that came before this tick of the kernel's clock.
    pub(super) fn flush_old(&mut self, tick: u64, up: &mut Vec<Merged>) {
        let old = self.held.iter().take_while(|&&(_, came)| came != tick).count();
        up.extend(self.held.drain(..old).map(|(held, _)| held));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::{Ecn, FlowId, SackBlock};

    fn segment(n: u32) -> Packet {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.seq, p.len, p.size) = (TcpFlags::ACK, Seq32(1 + n * 1448), 1448, 1500);
        (p.ts_val, p.ts_ecr, p.ack) = (7, 5, Seq32(1));
        p
    }

    /// Packets that go up when these are polled: first sequence number, payload and segments of
    /// each.
    fn poll(packets: impl IntoIterator<Item = Packet>) -> Vec<(u32, u16, u16)> {
        let (mut gro, mut up) = (Gro::default(), Vec::new());
        packets.into_iter().for_each(|p| gro.receive(p, 0, &mut up));
        gro.flush(&mut up);
        up.iter().map(|m| (m.packet.seq.0, m.packet.len, m.segments)).collect()
    }

    #[test]
    fn segments_in_order_go_up_as_one_packet_of_at_most_64_kib() {
        assert_eq!(poll((0..3).map(segment)), [(1, 4344, 3)]);
        // 45 of 1448 bytes and one header are 65212; one more would be 66660.
        let full = 45 * 1448;
        assert_eq!(
            poll((0..100).map(segment)),
            [(1, full as u16, 45), (1 + full, full as u16, 45), (1 + 2 * full, 10 * 1448, 10)]
        );
    }

    #[test]
    fn what_is_not_alike_or_not_next_starts_anew() {
        type Change = fn(&mut Packet);
        let differs: [(&str, Change); 8] = [
            ("a gap", |p| p.seq.0 += 1448),
            ("data again", |p| p.seq.0 -= 1448),
            ("a CE mark", |p| p.ecn = Ecn::Ce),
            ("a timestamp", |p| p.ts_val += 1),
            ("an echo", |p| p.ts_ecr += 1),
            ("an acknowledgement", |p| p.ack.0 += 1),
            ("a reduced window", |p| p.flags |= TcpFlags::CWR),
            ("a longer segment", |p| p.len += 1),
        ];
        for (what, change) in differs {
            let (mut packets, mut third) = ((0..3).map(segment).collect::<Vec<_>>(), segment(2));
            change(&mut third);
            packets[2] = third;
            assert_eq!(poll(packets), [(1, 2896, 2), (third.seq.0, third.len, 1)], "{what}");
        }
        let mut with_sack = segment(1);
        with_sack.push_sack(SackBlock { start: Seq32(9), end: Seq32(10) });
        assert_eq!(poll([segment(0), with_sack]).len(), 2);
        let mut other = segment(1);
        other.flow = FlowId(1);
        assert_eq!(poll([segment(0), other, segment(1)]), [(1, 2896, 2), (1449, 1448, 1)], "flows side by side");
    }

    #[test]
    fn a_push_an_end_and_a_short_segment_join_and_let_go() {
        for flags in [TcpFlags::PSH, TcpFlags::FIN] {
            let mut second = segment(1);
            second.flags |= flags;
            let (mut gro, mut up) = (Gro::default(), Vec::new());
            [segment(0), second].into_iter().for_each(|p| gro.receive(p, 0, &mut up));
            assert!(gro.is_empty());
            assert_eq!((up[0].segments, up[0].packet.flags), (2, TcpFlags::ACK | flags));
        }
        let mut short = segment(1);
        (short.len, short.size) = (100, 152);
        let mut next = segment(1);
        next.seq.0 += 100;
        assert_eq!(poll([segment(0), short, next]), [(1, 1548, 2), (1549, 1448, 1)]);
    }

    #[test]
    fn acknowledgements_are_never_held_and_let_go_of_data_before_them() {
        let mut ack = segment(1);
        (ack.len, ack.size) = (0, 52);
        let (mut gro, mut up) = (Gro::default(), Vec::new());
        [segment(0), ack, ack].into_iter().for_each(|p| gro.receive(p, 0, &mut up));
        assert_eq!(up.iter().map(|m| (m.segments, m.packet.len)).collect::<Vec<_>>(), [(1, 1448), (1, 0), (1, 0)]);
        assert!(gro.is_empty());
    }

    proptest! {
        /// For any arrivals and flushes the same segments go up, those of a flow in their order. No
        /// segment is merged across a gap, a mark or another timestamp.
        #[test]
        fn the_segments_that_go_up_are_those_that_came(
            steps in prop::collection::vec((0u32..3, 0u32..6, 0u8..12, 1u16..1449), 1..300)
        ) {
            let (mut gro, mut up, mut came) = (Gro::default(), Vec::new(), Vec::new());
            let mut next = [0u32; 3];
            for (tick, (flow, skip, event, len)) in (0u64..).zip(steps) {
                let mut p = segment(0);
                p.flow = FlowId(flow);
                // Numbers wrap around on the way.
                let own = &mut next[flow as usize];
                *own += if skip == 0 { 1448 } else { 0 };
                p.seq = Seq32((u32::MAX - 20_000).wrapping_add(*own));
                (p.len, p.size) = match event {
                    0 => (0, 52),
                    1 | 2 => (len, len + 52),
                    _ => (1448, 1500),
                };
                *own += u32::from(p.len);
                match event {
                    4 => p.ecn = Ecn::Ce,
                    5 => p.ts_val += 1,
                    6 => p.flags |= TcpFlags::PSH,
                    7 => p.set_tag(1 + tick as u32),
                    8 => gro.flush(&mut up),
                    9 => gro.flush_old(tick / 16, &mut up),
                    _ => {}
                }
                came.push(p);
                gro.receive(p, tick / 16, &mut up);
            }
            gro.flush(&mut up);
            prop_assert!(gro.is_empty());
            let of = |packets: &[Packet], flow| packets.iter().filter(|p| p.flow == FlowId(flow)).copied().collect::<Vec<_>>();
            let gone: Vec<Packet> = up.iter().flat_map(|m| m.each().collect::<Vec<_>>()).collect();
            for flow in 0..3 {
                prop_assert_eq!(of(&gone, flow), of(&came, flow));
            }
            for merged in &up {
                prop_assert!(u32::from(merged.packet.size) < MAX_BYTES);
                prop_assert_eq!(merged.each().map(|p| u32::from(p.len)).sum::<u32>(), u32::from(merged.packet.len));
            }
        }
    }
}
