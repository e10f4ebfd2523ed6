//! Tables in lots, for runs without an end: what has been taken is no longer kept.

use std::mem::take;

use airtcp_core::table::Table;
use airtcp_core::units::Time;

use super::World;
use crate::record::{Log, TransferRows};

impl World {
    /// The rows since the last time, of series and of tables with a row for each event. What remains is in
    /// [`World::finish`], as are the tables with a row for each flow, link or datagram. A handover comes once the next one has
    /// begun. Whether a retransmission was needless is told as far as it is known.
    pub fn take_tables(&mut self) -> Vec<Table> {
        for transfer in &self.log.transfers {
            if let Some(end) = transfer.end.filter(|_| transfer.start >= Time::ZERO + self.spec.warmup) {
                self.log.taken_transfers.entry(transfer.flow).or_default().add(end.since(transfer.start));
            }
        }
        let Log { transfers, .. } = &mut self.log;
        let mut transfer_rows = TransferRows::default();
        transfers.drain(..).for_each(|transfer| transfer_rows.push(transfer.into()));
        let log = &mut self.log;
        let retransmissions = log.take_retransmissions();
        vec![
            take(&mut log.flow_series).into_table(),
            take(&mut log.link_series).into_table(),
            take(&mut log.drops).into_rows().into_table(),
            retransmissions.into_table(),
            transfer_rows.into_table(),
            take(&mut log.air_series).into_table(),
            take(&mut log.ppdus).into_table(),
            take(&mut log.daemon_series).into_table(),
            self.roamers.past_handovers().into_table(),
            take(&mut log.walkers).into_table(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use airtcp_core::table::Data;
    use airtcp_core::units::Span;

    use super::*;
    use crate::capture::NoCapture;
    use crate::scenario::Scenario;

    /// Rows by table and column, as text.
    fn add(all: &mut BTreeMap<(&'static str, &'static str), Vec<String>>, tables: &[Table]) {
        for table in tables {
            for column in &table.columns {
                let own = all.entry((table.name, column.name)).or_default();
                match &column.data {
                    Data::U64(v) => own.extend(v.iter().map(u64::to_string)),
                    Data::U32(v) => own.extend(v.iter().map(u32::to_string)),
                    Data::F64(v) => own.extend(v.iter().map(f64::to_string)),
                    Data::Str(v) => own.extend(v.iter().map(ToString::to_string)),
                    Data::Bool(v) => own.extend(v.iter().map(bool::to_string)),
                }
            }
        }
    }

    #[test]
    fn lots_add_up_to_the_whole() {
        let text = r#"
            duration = "4s"
            warmup = "1s"
            nodes = [
                { name = "s", kind = "host" }, { name = "ap", kind = "router" }, { name = "ap2", kind = "router" },
                { name = "r", kind = "router" }, { name = "b", kind = "host" },
            ]
            wlans = [
                { name = "one", ap = "ap", stations = ["s"], ap_position_m = [0.0, 0.0] },
                { name = "two", ap = "ap2", stations = ["s"], ap_position_m = [50.0, 0.0] },
            ]
            links = [
                { from = "ap", to = "r", rate = "5Mbit/s", delay = "1ms", queue = { name = "fifo", limit_packets = 9 } },
                { from = "ap2", to = "r", rate = "5Mbit/s", delay = "1ms", queue = { name = "fifo", limit_packets = 9 } },
                { from = "r", to = "b", rate = "1Gbit/s", delay = "1ms" },
            ]
            roaming = [{ node = "s", rule = { kind = "times", switches = [{ at = "1s", to = "two" }, { at = "2s", to = "one" }, { at = "3s", to = "two" }] } }]
            flows = [{ name = "web", from = "s", to = "b", count = 3, traffic = "web" }, { name = "f", from = "s", to = "b" }]
            record = { interval = "50ms", retransmissions = true, ppdus = true }
        "#;
        let scenario = Scenario::parse(text, "x.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
        let spec = scenario.to_spec().unwrap_or_else(|faults| panic!("{faults}"));
        let mut whole = World::build(&spec).unwrap();
        whole.run(&mut NoCapture);
        let whole = whole.finish();
        let mut lots = World::build(&spec).unwrap();
        let mut rows = BTreeMap::new();
        let mut kept = 0;
        for tenth in 1..=40 {
            lots.run_until(Time::ZERO + Span::from_ms(100 * tenth), &mut NoCapture);
            add(&mut rows, &lots.take_tables());
            kept = kept.max(lots.log.ppdus.count() + lots.log.drops.count() + lots.log.transfers.len());
        }
        assert_eq!(kept, 0);
        let last = lots.finish();
        assert_eq!(last.summary, whole.summary);
        add(&mut rows, &last.tables);
        let mut expected = BTreeMap::new();
        add(&mut expected, &whole.tables);
        for name in ["flow_series", "link_series", "drops", "retransmissions", "transfers", "ppdus", "handovers"] {
            assert!(!whole.table(name).unwrap().is_empty(), "{name} tests nothing");
        }
        // A copy in flight while its row is taken stays unmarked.
        let needless = ("retransmissions", "needless");
        assert_eq!(rows.remove(&needless).unwrap().len(), expected.remove(&needless).unwrap().len());
        assert_eq!(rows, expected);
    }
}
