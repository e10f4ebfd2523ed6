//! Tables of the kernel's own TCP connections on real hosts: one row per connection, and how each
//! fared over time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use airtcp_core::table;
use airtcp_core::table::Table;
use airtcp_core::units::Time;

use crate::common::diag::Connection;

table! {
    /// One row per TCP connection of a real host, as its kernel saw it: TCP_INFO when it ended, or
    /// at the end of the run.
    pub(crate) Connections of ConnectionRow as "connections" {
        host: Str(Cow<'static, str>) = "the real host whose end this is",
        connection: Str(Cow<'static, str>) = "own address and port, then those of the other end",
        cc: Str(Cow<'static, str>) = "congestion control of the socket",
        first_seen_s: F64(f64) = "s, when it was seen first, to within the interval of the table connection_series",
        ended_s: F64(f64) = "s, when it ended, NaN: it was open at the end",
        bytes_sent: U64(u64) = "bytes of payload sent, retransmissions included",
        bytes_acked: U64(u64) = "bytes of payload acknowledged",
        bytes_received: U64(u64) = "bytes of payload received",
        segments_out: U64(u64) = "segments sent",
        segments_in: U64(u64) = "segments received",
        segments_retransmitted: U64(u64) = "segments sent again",
        marked: U64(u64) = "segments of its own that the other end reported as marked by ECN",
        rtt_min_ms: F64(f64) = "ms, least round trip that the kernel keeps",
        srtt_last_ms: F64(f64) = "ms, smoothed round trip at the end",
    }
}

table! {
    /// One row per TCP connection of a real host that carries data, and instant: TCP_INFO.
    pub(crate) ConnectionSeries of ConnectionSample as "connection_series" {
        time_s: F64(f64) = "s",
        host: Str(Cow<'static, str>) = "the real host whose end this is",
        connection: Str(Cow<'static, str>) = "own address and port, then those of the other end",
        cwnd_segments: U32(u32) = "segments, congestion window",
        ssthresh_segments: U32(u32) = "segments, slow-start threshold; 2147483647: none",
        srtt_ms: F64(f64) = "ms, smoothed round trip",
        bytes_acked: U64(u64) = "bytes of payload acknowledged so far",
        bytes_received: U64(u64) = "bytes of payload received so far",
        segments_retransmitted: U64(u64) = "segments sent again so far",
    }
}

#[derive(Debug)]
struct OpenConnection {
    first_s: f64,
    last: Connection,
}

/// All connections that were seen.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLog {
    open: BTreeMap<(usize, u64), OpenConnection>,
    rows: Connections,
    series: ConnectionSeries,
    /// Figures of open connections, from the latest look.
    newest: Option<(u64, f64)>,
}

fn name(c: &Connection) -> String {
    let end = |(ip, port): (IpAddr, u16)| match ip {
        IpAddr::V4(ip) => format!("{ip}:{port}"),
        IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    };
    format!("{} {}", end(c.from), end(c.to))
}

fn ms(us: u32) -> f64 {
    // The kernel's word for "not measured".
    if us == 0 || us == u32::MAX { f64::NAN } else { f64::from(us) / 1e3 }
}

impl ConnectionLog {
    /// Open connections of a host.
    pub(crate) fn sample(&mut self, now: Time, host: usize, host_name: &str, found: Vec<Connection>, keep: bool) {
        let time_s = now.as_secs_f64();
        for c in found {
            if c.rtt_us > 0 && c.bytes_sent > self.newest.map_or(0, |(bytes, _)| bytes) {
                self.newest = Some((c.bytes_sent, f64::from(c.rtt_us) / 1e3));
            }
            if !keep {
                continue;
            }
            self.series.push(ConnectionSample {
                time_s,
                host: host_name.to_owned().into(),
                connection: name(&c).into(),
                cwnd_segments: c.cwnd,
                ssthresh_segments: c.ssthresh,
                srtt_ms: ms(c.rtt_us),
                bytes_acked: c.bytes_acked,
                bytes_received: c.bytes_received,
                segments_retransmitted: c.retransmissions.into(),
            });
            let known = self
                .open
                .entry((host, c.cookie))
                .or_insert_with(|| OpenConnection { first_s: time_s, last: c.clone() });
            known.last = c;
        }
    }

    /// A connection of a host is over.
    pub(crate) fn ended(&mut self, now: Time, host: usize, host_name: &str, c: Connection) {
        let mut c = c;
        let known = self.open.remove(&(host, c.cookie));
        let first_s = known.as_ref().map_or(now.as_secs_f64(), |known| known.first_s);
        if c.control.is_empty() {
            // The kernel's last word leaves it out.
            c.control = known.map_or(String::new(), |known| known.last.control);
        }
        self.row(host_name, first_s, now.as_secs_f64(), &c);
    }

    fn row(&mut self, host: &str, first_seen_s: f64, ended_s: f64, c: &Connection) {
        self.rows.push(ConnectionRow {
            host: host.to_owned().into(),
            connection: name(c).into(),
            cc: c.control.clone().into(),
            first_seen_s,
            ended_s,
            bytes_sent: c.bytes_sent,
            bytes_acked: c.bytes_acked,
            bytes_received: c.bytes_received,
            segments_out: c.segments_out.into(),
            segments_in: c.segments_in.into(),
            segments_retransmitted: c.retransmissions.into(),
            marked: c.marked.into(),
            rtt_min_ms: ms(c.min_rtt_us),
            srtt_last_ms: ms(c.rtt_us),
        });
    }

    /// Smoothed round trip of the open connection that has sent most, ms, since the last call.
    pub(crate) fn take_rtt_ms(&mut self) -> Option<f64> {
        self.newest.take().map(|(_, rtt_ms)| rtt_ms)
    }

    /// Rows since the last call.
    pub(crate) fn take_tables(&mut self) -> Vec<Table> {
        vec![std::mem::take(&mut self.rows).into_table(), std::mem::take(&mut self.series).into_table()]
    }

    /// The last rows: connections that are open still.
    pub(crate) fn finish(&mut self, hosts: &[String]) -> Vec<Table> {
        for ((host, _), known) in std::mem::take(&mut self.open) {
            if let Some(host) = hosts.get(host) {
                self.row(host, known.first_s, f64::NAN, &known.last);
            }
        }
        self.take_tables()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airtcp_core::table::Data;

    fn connection(cookie: u64, control: &str, bytes_acked: u64) -> Connection {
        Connection {
            from: ("10.0.0.1".parse().unwrap(), 1000),
            to: ("fd00::2".parse().unwrap(), 80),
            cookie,
            control: control.to_owned(),
            rtt_us: 5000,
            min_rtt_us: u32::MAX,
            cwnd: 10,
            ssthresh: 20,
            mss: 1448,
            retransmissions: 3,
            marked: 0,
            bytes_acked,
            bytes_received: 0,
            bytes_sent: bytes_acked,
            segments_out: 5,
            segments_in: 4,
        }
    }

    #[test]
    fn each_connection_has_one_row_with_the_last_that_was_known() {
        let mut log = ConnectionLog::default();
        let at = |s: u64| Time::from_ns(s * 1_000_000_000);
        log.sample(at(1), 0, "a", vec![connection(7, "cubic", 100), connection(8, "reno", 50)], true);
        log.sample(at(2), 0, "a", vec![connection(7, "cubic", 200), connection(8, "reno", 60)], true);
        log.ended(at(3), 0, "a", connection(7, "", 300));
        let first = log.take_tables();
        assert_eq!((first[0].len(), first[1].len()), (1, 4));
        assert_eq!(first[0].column("cc"), Some(&Data::Str(vec!["cubic".into()])));
        assert_eq!(first[0].column("first_seen_s"), Some(&Data::F64(vec![1.0])));
        assert_eq!(first[0].column("bytes_acked"), Some(&Data::U64(vec![300])));
        assert_eq!(first[0].column("connection"), Some(&Data::Str(vec!["10.0.0.1:1000 [fd00::2]:80".into()])));
        let last = log.finish(&["a".to_owned()]);
        assert_eq!(last[0].column("bytes_acked"), Some(&Data::U64(vec![60])));
        assert_eq!((last[0].len(), last[1].len(), log.take_rtt_ms()), (1, 0, Some(5.0)));
    }
}
