//! Tables in batches, for runs without an end: rows that have been taken are no longer kept.

use airtcp_core::table::Table;

use super::World;

impl World {
    /// The rows since the last time, of series and of tables with a row for each event. The
    /// remaining rows are in [`World::finish`], as are the tables with a row for each flow, link or
    /// datagram. A handover comes once the next one has begun. A retransmission counts as needless
    /// if that is known by then.
    pub fn take_tables(&mut self) -> Vec<Table> {
        let handovers = self.hosts.roamers.past_handovers();
        self.cx.books.take_tables(&self.spec, handovers)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use airtcp_core::table::Data;
    use airtcp_core::units::Span;

    use airtcp_core::units::Time;

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
    fn batches_add_up_to_the_whole() {
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
        let mut batches = World::build(&spec).unwrap();
        let mut rows = BTreeMap::new();
        let mut kept = 0;
        for tenth in 1..=40 {
            batches.run_until(Time::ZERO + Span::from_ms(100 * tenth), &mut NoCapture);
            add(&mut rows, &batches.take_tables());
            kept = kept.max(
                batches.cx.books.log.ppdus.count()
                    + batches.cx.books.log.drops.count()
                    + batches.cx.books.log.transfers.len(),
            );
        }
        assert_eq!(kept, 0);
        let last = batches.finish();
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
