//! The order of rows that several parts of a world have written: that in which one world would
//! have.
//!
//! A world serves what is due in the order of [`Moment`]s. Within an instant it may serve a
//! component and then one before it, whose deadline the first has just set. So what counts is the
//! latest moment that a part has come to: of two parts with something due, the one whose next
//! moment is earlier goes first, and what follows from a moment in the same instant comes with it.

use std::collections::BTreeMap;

use airtcp_core::units::Time;

use super::{AirSeries, DropLog, FlowSeries, LinkSeries, Log, RetransmissionRows};
use crate::spec::RunSpec;

/// When an event is served: at its time, packets that arrive before deadlines, and then by what
/// orders events of their kind. No two events of one world are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Moment {
    pub time: Time,
    pub is_deadline: bool,
    pub rank: u64,
}

/// When rows were written.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// The latest moment so far.
    pub now: Moment,
    pub drops: Vec<Moment>,
    pub retransmissions: Vec<Moment>,
    pub transfers: Vec<Moment>,
}

impl Order {
    #[inline]
    pub(crate) fn reach(&mut self, moment: Moment) {
        self.now = self.now.max(moment);
    }
}

/// For each row of the whole: which part has it, and where.
type Rows = Vec<(usize, usize)>;

impl Log {
    /// One log of those of all parts.
    pub(crate) fn join(parts: Vec<Log>, spec: &RunSpec) -> Log {
        let moments = |of: fn(&Order) -> &Vec<Moment>| {
            merged(parts.iter().map(|log| log.order.as_deref().map_or(&[][..], |order| of(order))))
        };
        let drops = DropLog::gather(&each(&parts, |log| &log.drops), &moments(|o| &o.drops));
        let retransmissions =
            RetransmissionRows::gather(&each(&parts, |log| &log.retransmissions), &moments(|o| &o.retransmissions));
        let transfers = moments(|o| &o.transfers).into_iter().map(|(part, row)| parts[part].transfers[row]).collect();
        // Samples of one time are in the order of what is sampled: flows by number, links as they
        // are listed.
        let listed =
            |list: &[crate::spec::LinkId]| -> BTreeMap<u32, u64> { list.iter().map(|l| l.0).zip(0..).collect() };
        let (links, air) = (listed(&spec.record.link_series), listed(&spec.record.air_series));
        // Times are not negative, so their bits are ordered as they are.
        let keys = |time_s: &[f64], rank: &dyn Fn(usize) -> u64| -> Vec<(u64, u64)> {
            time_s.iter().enumerate().map(|(row, time)| (time.to_bits(), rank(row))).collect()
        };
        let at = |list: &BTreeMap<u32, u64>, link: u32| list.get(&link).copied().unwrap_or(u64::MAX);
        let flow_keys = each(&parts, |log| {
            let series = &log.flow_series;
            keys(&series.time_s, &|row| u64::from(series.flow[row]))
        });
        let link_keys = each(&parts, |log| {
            let series = &log.link_series;
            keys(&series.time_s, &|row| at(&links, series.link[row]))
        });
        let air_keys = each(&parts, |log| {
            let (time_s, link) = log.air_series.samples();
            keys(time_s, &|row| at(&air, link[row]))
        });
        Log {
            transfers,
            drops,
            retransmissions,
            flow_series: FlowSeries::gather(&each(&parts, |log| &log.flow_series), &merged(as_slices(&flow_keys))),
            link_series: LinkSeries::gather(&each(&parts, |log| &log.link_series), &merged(as_slices(&link_keys))),
            air_series: AirSeries::gather(&each(&parts, |log| &log.air_series), &merged(as_slices(&air_keys))),
            ..Log::default()
        }
    }
}

fn each<'a, T>(parts: &'a [Log], of: impl Fn(&'a Log) -> T) -> Vec<T> {
    parts.iter().map(of).collect()
}

fn as_slices<K>(all: &[Vec<K>]) -> impl Iterator<Item = &[K]> {
    all.iter().map(Vec::as_slice)
}

/// By key; of one part, as they stand.
fn merged<'a, K: Ord + Copy + 'a>(parts: impl Iterator<Item = &'a [K]>) -> Rows {
    let mut all: Vec<(K, usize, usize)> = Vec::new();
    for (part, keys) in parts.enumerate() {
        all.extend(keys.iter().enumerate().map(|(row, &key)| (key, part, row)));
    }
    all.sort_unstable();
    all.into_iter().map(|(_, part, row)| (part, row)).collect()
}
