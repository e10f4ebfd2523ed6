//! Counters and states of flows: for samples, and the end of a run.

use airtcp_core::convert::count;
use airtcp_core::packet::FlowId;
use airtcp_core::table::Table;
use airtcp_core::units::{Span, Time};

use super::Hosts;
use crate::books::Books;
use crate::books::record::{DaemonRow, FlowRow, FlowSample, millis};
use crate::books::summary::Reported;
use crate::books::totals::Totals;
use crate::spec::RunSpec;
use crate::traffic::{self, AnyEnds, Period, Report};

/// State of a TCP connection that an audit looks at: what is outstanding at the sender, from and
/// to, and the next byte that the receiver waits for. `None`: another kind of flow.
type Connection = Option<((u64, u64), u64)>;

impl Hosts {
    /// Samples flows and daemons for the books.
    pub(crate) fn sample(&self, now: Time, spec: &RunSpec, books: &mut Books) {
        books.sample_flows(|flow| {
            let AnyEnds::Tcp(tcp) = &self.flows[flow.0 as usize].ends else { return None };
            let (window, stats) = (tcp.sender.window(), tcp.stats(now));
            Some(FlowSample {
                time_s: now.as_secs_f64(),
                flow: flow.0,
                cwnd_segments: window.cwnd,
                window_segments: window.cwnd.min(tcp.sender.send_window_segments()),
                ssthresh_segments: if window.ssthresh == u32::MAX { f64::NAN } else { f64::from(window.ssthresh) },
                in_flight_segments: tcp.sender.path().in_flight,
                srtt_ms: tcp.sender.srtt().map_or(f64::NAN, millis),
                bytes_acked: stats.bytes_acked,
                segments_sent: stats.segments_sent,
                segments_retransmitted: stats.segments_retransmitted,
                timeouts: stats.timeouts,
            })
        });
        books.sample_daemons(now, spec, |flow| match &self.flows[flow.0 as usize].ends {
            AnyEnds::Daemon(host) => Some(host.state()),
            _ => None,
        });
    }

    /// State of each flow, for an audit.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        let connection = |flow: &traffic::Flow| match &flow.ends {
            AnyEnds::Tcp(tcp) => Some((tcp.sender.outstanding(), tcp.receiver.next())),
            _ => None,
        };
        self.flows.iter().map(connection).collect()
    }

    /// Rows of flows over the last `period`, and tables that only some kinds of traffic fill.
    /// Daemons go into the books.
    pub(crate) fn into_rows(
        self,
        spec: &RunSpec,
        now: Time,
        first: &Totals,
        period: Span,
        books: &mut Books,
    ) -> (Vec<Reported>, Vec<Table>) {
        let warm_at = Time::ZERO + spec.warmup;
        let mut own_tables = traffic::tables();
        let mut rows = Vec::with_capacity(self.flows.len());
        for (i, own) in self.flows.into_iter().enumerate() {
            let of_flow = &spec.flows[i];
            if let AnyEnds::Daemon(host) = &own.ends {
                books.log.daemons.push(DaemonRow::new(of_flow, &host.stats));
                continue;
            }
            let flow = FlowId(count(i));
            let (first, last) = (first.flow(flow), own.totals(now));
            let row = FlowRow::new(i, of_flow, &first, &last);
            let mut report = Report { row, figures: Vec::new(), tables: &mut own_tables };
            let (first, last) = (&first.counters, &last.counters);
            own.ends.report(&Period { flow, first, last, length: period, warm_at, now }, &mut report);
            rows.push((report.row, report.figures));
        }
        (rows, own_tables.into_tables().collect())
    }
}
