//! Results of a run in real time besides its tables: `emu.json`, and some lines for people.

use std::fs;

use serde_json::{Map, Value, json};

use crate::common::clock::Urgency;
use crate::common::lateness::{Lateness, Validity};
use crate::common::net::{Addresses, Sysctl};
use crate::common::store::CommandReport;
use crate::shell::gate::GateReport;
use crate::shell::watch::{Machine, Traffic, Verdict};

/// A real host at the end.
#[derive(Debug)]
pub(crate) struct HostReport {
    pub(crate) name: String,
    pub(crate) addresses: Addresses,
    pub(crate) has_v6: bool,
    pub(crate) sysctls: Vec<Sysctl>,
    pub(crate) traffic: Traffic,
    /// Packets that its device lost because they were not read in time.
    pub(crate) lost: u64,
    /// Counts of its gate, if it has one.
    pub(crate) gate: Option<GateReport>,
}

/// A run in real time.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) verdict: Verdict,
    pub(crate) lateness: Lateness,
    /// In hosts' devices, before packets were read: from above.
    pub(crate) waiting: Lateness,
    pub(crate) machine: Machine,
    pub(crate) urgency: Urgency,
    pub(crate) longest_turn_ms: f64,
    pub(crate) most_inside: usize,
    /// For nobody; not IP; not taken by a device.
    pub(crate) refused: [u64; 3],
    pub(crate) hosts: Vec<HostReport>,
    pub(crate) commands: Vec<CommandReport>,
    pub(crate) left_out: Vec<String>,
    /// Missing from the capture.
    pub(crate) capture_left_out: u64,
}

/// Why a run's senders are not quite what its scenario says.
pub(crate) const NO_SMALL_QUEUES: &str = "sending hosts have no TCP small queues: TUN takes every packet at once";

fn mbps(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8e-6 / seconds.max(1e-9)
}

impl Report {
    /// `emu.json`.
    pub(crate) fn to_json(&self) -> Value {
        let hosts = self.hosts.iter().map(|host| {
            let sysctls = host.sysctls.iter().map(|s| (s.key.clone(), Value::from(s.value.clone())));
            let about = json!({
                "ipv4": host.addresses.v4.to_string(),
                "ipv6": host.has_v6.then(|| host.addresses.v6.to_string()),
                "sysctls": sysctls.collect::<Map<String, Value>>(),
                "traffic": host.traffic,
                "lost_in_device": host.lost,
                "gate": host.gate,
            });
            (host.name.clone(), about)
        });
        json!({
            "validity": self.verdict.validity,
            "reasons": self.verdict.reasons,
            "lateness": self.lateness,
            "waiting_to_be_read": self.waiting,
            "longest_turn_ms": self.longest_turn_ms,
            "driver": self.machine,
            "urgency": self.urgency,
            "most_packets_inside": self.most_inside,
            "refused": { "unroutable": self.refused[0], "unreadable": self.refused[1], "not_taken": self.refused[2] },
            "tcp_small_queues": false,
            "note": NO_SMALL_QUEUES,
            "hosts": hosts.collect::<Map<String, Value>>(),
            "commands": self.commands,
            "flows_left_out": self.left_out,
            "capture_packets_left_out": self.capture_left_out,
        })
    }

    /// For people, line by line. `is_quiet`: only what should worry them.
    pub(crate) fn to_lines(&self, is_quiet: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let wall = self.machine.wall_s;
        if !is_quiet {
            for host in &self.hosts {
                let Traffic { sent_packets, sent_bytes, received_packets, received_bytes } = host.traffic;
                lines.push(format!(
                    "{}: sent {sent_packets} packets, {:.2} Mbit/s; received {received_packets}, {:.2} Mbit/s (means over {wall:.1} s, headers included)",
                    host.name,
                    mbps(sent_bytes, wall),
                    mbps(received_bytes, wall),
                ));
            }
            let l = &self.lateness;
            let (p50, p99, max) = (l.p50_us, l.p99_us, l.max_us);
            let busy = 100.0 * self.machine.busy_s / wall.max(1e-9);
            lines.push(format!(
                "time: packets came late by {p50:.0} us (median), {p99:.0} us (99 %), {max:.0} us (longest); {busy:.0} % of a processor"
            ));
            if self.hosts.iter().any(|host| host.traffic.sent_packets > 0 && host.gate.is_none()) {
                lines.push(format!("note: {NO_SMALL_QUEUES}"));
            }
            for host in &self.hosts {
                let Some(gate) = host.gate else { continue };
                lines.push(format!(
                    "note: {} has a gate in place of TCP small queues, where {} packets waited, {} at once: right for others, not for its own round trips and windows",
                    host.name, gate.waited, gate.most_waiting
                ));
            }
        }
        let [unroutable, unreadable, not_taken] = self.refused;
        // Multicast of idle hosts is no news.
        if unreadable + not_taken > 0 {
            lines.push(format!("note: {unreadable} packets were not IP, and {not_taken} were refused by their host; {unroutable} were for nobody"));
        }
        for host in &self.hosts {
            if let Some(dropped) = host.gate.map(|gate| gate.dropped).filter(|&dropped| dropped > 0) {
                lines.push(format!("note: {}: its gate had no room for {dropped} packets", host.name));
            }
        }
        if self.capture_left_out > 0 {
            lines.push(format!(
                "note: the disk was too slow: {} packets are missing from the capture",
                self.capture_left_out
            ));
        }
        let word = match self.verdict.validity {
            Validity::Valid if is_quiet => return lines,
            Validity::Valid => "valid: time was kept",
            Validity::Strained => "strained: time was kept but for rare packets",
            Validity::Invalid => "INVALID: do not believe these figures",
        };
        lines.push(word.to_owned());
        lines.extend(self.verdict.reasons.iter().map(|reason| format!("  {reason}")));
        lines
    }
}

/// Processor time of this thread and time that it waited for a processor, seconds, since it began.
pub(crate) fn processor_time() -> (f64, f64) {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut seconds = text.split_whitespace().map(|n| n.parse::<f64>().unwrap_or(0.0) / 1e9);
    (seconds.next().unwrap_or(0.0), seconds.next().unwrap_or(0.0))
}
