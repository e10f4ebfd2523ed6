//! Drops while the run goes on, each in a few bytes: a run of many flows has hundreds of thousands.
//!
//! Most are like the one before in all but time, flow and sequence number. So those three are
//! written for each drop, and the rest only where it changes. A number takes a byte for each seven
//! bits, the lowest first; the eighth bit says that more follow.

use airtcp_core::convert::{low8, low32, signed64, unsigned64};
use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::queue::DropReason;
use airtcp_core::units::Time;

use super::{DropRow, DropRows};
use crate::spec::LinkId;

/// A packet that is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub time: Time,
    pub flow: FlowId,
    pub seq: u32,
    pub kind: DropKind,
}

/// Fields that many drops have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DropKind {
    pub link: LinkId,
    pub reverse: bool,
    pub size: u16,
    pub reason: DropReason,
}

/// Drops in the order in which they were written.
#[derive(Debug, Default)]
pub(crate) struct DropLog {
    /// Each kind, and how many drops of it follow each other.
    kinds: Vec<(DropKind, u32)>,
    /// Nanoseconds since the drop before, flow and sequence number of each drop.
    bytes: Vec<u8>,
    last: Time,
    count: usize,
}

impl Dropped {
    pub(crate) fn new(time: Time, link: LinkId, packet: &Packet, reason: DropReason) -> Dropped {
        let kind = DropKind { link, reverse: packet.is_reverse(), size: packet.size, reason };
        Dropped { time, flow: packet.flow, seq: packet.seq.0, kind }
    }
}

impl From<Dropped> for DropRow {
    fn from(dropped: Dropped) -> DropRow {
        DropRow {
            time_s: dropped.time.as_secs_f64(),
            link: dropped.kind.link.0,
            flow: dropped.flow.0,
            reverse: dropped.kind.reverse,
            seq: dropped.seq,
            size_bytes: u32::from(dropped.kind.size),
            reason: dropped.kind.reason,
        }
    }
}

impl DropLog {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn push(&mut self, dropped: Dropped) {
        match self.kinds.last_mut().filter(|(kind, n)| *kind == dropped.kind && *n < u32::MAX) {
            Some((_, n)) => *n += 1,
            None => self.kinds.push((dropped.kind, 1)),
        }
        // A difference has a sign: the log itself asks for no order.
        let since = signed64(dropped.time.as_ns().wrapping_sub(self.last.as_ns()));
        self.write(unsigned64(since << 1 ^ since >> 63));
        self.write(u64::from(dropped.flow.0));
        self.write(u64::from(dropped.seq));
        self.last = dropped.time;
        self.count += 1;
    }

    fn write(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(low8(number) | 0x80);
            number >>= 7;
        }
        self.bytes.push(low8(number));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Dropped> {
        let mut bytes = self.bytes.iter();
        let mut time = Time::ZERO;
        let kinds = self.kinds.iter().flat_map(|&(kind, n)| (0..n).map(move |_| kind));
        kinds.map(move |kind| {
            let mut read = || {
                let (mut number, mut shift) = (0, 0);
                for &byte in bytes.by_ref() {
                    number |= u64::from(byte & 0x7f) << shift;
                    shift += 7;
                    if byte < 0x80 {
                        break;
                    }
                }
                number
            };
            let since = read();
            let since = since >> 1 ^ (since & 1).wrapping_neg();
            time = Time::from_ns(time.as_ns().wrapping_add(since));
            Dropped { time, flow: FlowId(low32(read())), seq: low32(read()), kind }
        })
    }

    /// Drops of several logs, each named by whose it is and its place there.
    pub(super) fn gather(from: &[&DropLog], order: &[(usize, usize)]) -> DropLog {
        let from: Vec<Vec<Dropped>> = from.iter().map(|log| log.iter().collect()).collect();
        let mut log = DropLog::default();
        order.iter().for_each(|&(whose, place)| log.push(from[whose][place]));
        log
    }

    pub(crate) fn into_rows(self) -> DropRows {
        let mut rows = DropRows::with_capacity(self.count);
        self.iter().for_each(|dropped| rows.push(dropped.into()));
        rows
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dropped() -> impl Strategy<Value = Dropped> {
        let time = prop_oneof![0u64..1000, 0..u64::MAX];
        let reason = prop_oneof![Just(DropReason::Overflow), Just(DropReason::Early)];
        (time, any::<u32>(), any::<u32>(), 0u32..2, any::<bool>(), 40u16..42, reason).prop_map(
            |(ns, flow, seq, link, reverse, size, reason)| {
                let kind = DropKind { link: LinkId(link), reverse, size, reason };
                Dropped { time: Time::from_ns(ns), flow: FlowId(flow), seq, kind }
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(all in prop::collection::vec(dropped(), 0..200)) {
            let mut log = DropLog::default();
            all.iter().for_each(|&dropped| log.push(dropped));
            prop_assert_eq!(log.count(), all.len());
            prop_assert_eq!(log.iter().collect::<Vec<_>>(), &all[..]);
            let order: Vec<_> = (0..all.len()).rev().map(|place| (0, place)).collect();
            let back = DropLog::gather(&[&log], &order);
            prop_assert!(back.iter().eq(all.iter().rev().copied()));
        }
    }

    #[test]
    fn drops_alike_take_few_bytes() {
        let mut log = DropLog::default();
        let kind = DropKind { link: LinkId(40_000), reverse: false, size: 1500, reason: DropReason::Overflow };
        for n in 0..1000 {
            log.push(Dropped { time: Time::from_ns(n * 5000), flow: FlowId(10_000), seq: 100_000, kind });
        }
        assert_eq!((log.kinds.len(), log.bytes.len()), (1, 7 * 1000 - 1));
    }
}
