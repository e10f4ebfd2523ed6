//! Results that a kind of traffic adds to tables and summaries.

use airtcp_core::packet::FlowId;
use airtcp_core::table::{Rows, Table};
use airtcp_core::units::{Span, Time};

use crate::books::record::FlowRow;
use crate::books::totals::Counters;

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
