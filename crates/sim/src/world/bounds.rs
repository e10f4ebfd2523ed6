//! Bounds of a run. Queues without limit and tables with a row for each event know no bound of
//! their own: a run that outgrows these ends with a message rather than without memory.

use super::World;

/// Packets in queues and on lines at a time: a GiB or two.
const MAX_PACKETS: u64 = 10_000_000;
/// Rows of one table: a GiB or so.
const MAX_ROWS: u64 = 20_000_000;

/// A run has grown beyond what memory is for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("after {time_s} s of simulated time there are {count} {what}: must be at most {most}; {remedy}")]
pub struct Outgrown {
    time_s: String,
    count: u64,
    what: &'static str,
    most: u64,
    remedy: &'static str,
}

impl World {
    /// Bound that the run has grown beyond, if it has. A driver asks now and then, and ends the
    /// run.
    pub fn outgrown(&self) -> Option<Outgrown> {
        World::outgrown_together(std::slice::from_ref(self))
    }

    /// As [`Self::outgrown`], of all parts of a world.
    pub(crate) fn outgrown_together(parts: &[World]) -> Option<Outgrown> {
        World::outgrown_beyond(parts, MAX_PACKETS, MAX_ROWS)
    }

    fn outgrown_beyond(parts: &[World], packets: u64, rows: u64) -> Option<Outgrown> {
        let sum = |of: fn(&World) -> usize| parts.iter().map(of).sum::<usize>();
        let sizes = [
            (
                sum(|w| w.network.pool.len()),
                packets,
                "packets in queues and on lines",
                "limit the queues, or send less",
            ),
            (
                sum(|w| w.cx.books.log.drops.count()),
                rows,
                "rows of the table drops",
                "name fewer links in record.drops, or none",
            ),
            (
                sum(|w| w.cx.books.log.transfers.len()),
                rows,
                "rows of the table transfers",
                "raise gap_k, or take fewer users of web",
            ),
            (
                sum(|w| w.cx.books.log.ppdus.count()),
                rows,
                "rows of the table ppdus",
                "leave record.ppdus out, or shorten duration",
            ),
            (
                sum(|w| w.cx.books.log.retransmissions()),
                rows,
                "rows of the table retransmissions",
                "name fewer flows in record.retransmissions, or none",
            ),
        ];
        let (count, most, what, remedy) = sizes.into_iter().find(|&(count, most, ..)| count as u64 > most)?;
        Some(Outgrown { time_s: parts[0].now().as_secs_f64().to_string(), count: count as u64, what, most, remedy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::NoCapture;
    use crate::scenario::Scenario;

    fn world(traffic: &str, queue: &str) -> World {
        let text = format!(
            r#"
            duration = "1s"
            nodes = [{{ name = "a", kind = "host" }}, {{ name = "b", kind = "host" }}]
            links = [{{ name = "l", from = "a", to = "b", rate = "1Mbit/s", delay = "0s", queue = {queue} }}]
            flows = [{{ name = "f", from = "a", to = "b", traffic = {traffic} }}]
            "#
        );
        let spec = Scenario::parse(&text, "x.toml", &[]).unwrap().to_spec().unwrap();
        let mut world = World::build(&spec).unwrap();
        world.run(&mut NoCapture);
        world
    }

    #[test]
    fn what_outgrows_memory_is_named_with_its_remedy() {
        let fast = r#"{ kind = "cbr", rate = "10Mbit/s" }"#;
        let full = world(fast, r#"{ name = "fifo" }"#);
        assert_eq!(full.outgrown(), None);
        let told = World::outgrown_beyond(&[full], 500, 500).unwrap().to_string();
        assert!(told.starts_with("after 1 s of simulated time there are 7"), "{told}");
        assert!(told.ends_with("packets in queues and on lines: must be at most 500; limit the queues, or send less"));
        let dropping = world(fast, r#"{ name = "fifo", limit_packets = 5 }"#);
        let told = World::outgrown_beyond(&[dropping], 500, 500).unwrap().to_string();
        assert!(told.contains("rows of the table drops: must be at most 500"), "{told}");
        // Transfers that wait for nothing but each other.
        let web = r#"{ kind = "web", body_mu = 1.0, body_sigma = 0.0, tail_fraction = 0.0, gap_k = "1ns", gap_alpha = 100.0 }"#;
        let users = world(web, r#"{ name = "fifo" }"#);
        let told = World::outgrown_beyond(&[users], 500, 100).unwrap().to_string();
        assert!(told.contains("rows of the table transfers: must be at most 100"), "{told}");
    }
}
