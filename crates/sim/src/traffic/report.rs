//! What a kind of traffic contributes to tables and summaries.

use airtcp_core::packet::FlowId;
use airtcp_core::table::{Rows, Table};
use airtcp_core::tcp::SenderStats;
use airtcp_core::units::{Span, Time};

use crate::record::FlowRow;

/// Counters of a flow since the start of the run. A kind leaves at zero what it does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Data segments, retransmissions included, datagrams, or requests.
    pub sent: u64,
    /// Datagrams or replies, bytes at the IP layer, and their one-way delays.
    pub received: u64,
    pub received_bytes: u64,
    pub delay_sum_ns: u128,
    pub tcp: SenderStats,
    pub spurious_retransmissions: u64,
    /// Payload in order at the receiver of TCP, bytes, and the ACKs it sent.
    pub delivered_bytes: u64,
    pub acks_sent: u64,
}

impl Counters {
    /// Adds what another copy of the flow has of its destination.
    pub(crate) fn receive(&mut self, destination: &Counters) {
        self.received += destination.received;
        self.received_bytes += destination.received_bytes;
        self.delay_sum_ns += destination.delay_sum_ns;
        self.spurious_retransmissions += destination.spurious_retransmissions;
        self.delivered_bytes += destination.delivered_bytes;
        self.acks_sent += destination.acks_sent;
    }
}

/// A number that only one kind of traffic has: a column of the table `flows`; in summaries the mean over the flows of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    /// Ends in the unit where there is one.
    pub name: &'static str,
    pub unit_and_meaning: &'static str,
}

/// From warmup to the end of the run.
pub(crate) struct Period<'a> {
    pub flow: FlowId,
    /// At its begin and at its end.
    pub first: &'a Counters,
    pub last: &'a Counters,
    pub length: Span,
    /// When it began.
    pub warm_at: Time,
    /// When it ended.
    pub now: Time,
}

/// Where a flow's results go.
pub(crate) struct Report<'a> {
    pub row: FlowRow,
    /// Those that exist, by name.
    pub figures: Vec<(&'static str, f64)>,
    pub tables: &'a mut Tables,
}

/// Tables that only some kinds of traffic fill, one of each type of row.
#[derive(Default)]
pub(crate) struct Tables(Vec<Box<dyn Rows>>);

impl Tables {
    /// The table of that type; an empty one if there was none.
    pub(crate) fn of<R: Rows + Default>(&mut self) -> &mut R {
        let at = match self.0.iter().position(|rows| rows.as_any().is::<R>()) {
            Some(at) => at,
            None => {
                self.0.push(Box::<R>::default());
                self.0.len() - 1
            }
        };
        self.0[at].as_any_mut().downcast_mut().expect("found by its type")
    }
    /// In the order in which they were first asked for.
    pub(crate) fn into_tables(self) -> impl Iterator<Item = Table> {
        self.0.into_iter().map(|rows| rows.into_table())
    }
}
