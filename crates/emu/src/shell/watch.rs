//! How well time was kept, and whether that is good enough: lateness of every delivery in a
//! histogram of fixed size, packets that TUN lost, long turns, and a verdict with its reason.

use airtcp_core::units::{Span, Time};
use serde::Serialize;

use crate::common::lateness::{Histogram, Lateness, Validity};
use crate::common::network::NotSent;

/// Traffic of one host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Packets that it sent into the network.
    pub sent_packets: u64,
    /// Bytes of them, at the IP layer.
    pub sent_bytes: u64,
    /// Packets that it was given.
    pub received_packets: u64,
    /// Bytes of them.
    pub received_bytes: u64,
}

/// How well time was kept.
#[derive(Debug)]
pub struct Watch {
    late: Histogram,
    waited: Histogram,
    turn_began: Time,
    longest_turn: Span,
    hosts: Vec<Traffic>,
    unroutable: u64,
    unreadable: u64,
    not_taken: u64,
}

/// Bounds of a valid run: those of docs/emulator.md.
const LATE_P99: Span = Span::from_ms(1);
const LATE_MAX: Span = Span::from_ms(100);
const TURN_MAX: Span = Span::from_ms(20);
const STRAINED_P999: Span = Span::from_ms(5);
/// Lateness may be this part of the least round trip.
const PART_OF_RTT: u64 = 20;

/// The verdict on a run, with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The verdict.
    pub validity: Validity,
    /// Findings and their reasons; empty for a valid run.
    pub reasons: Vec<String>,
}

impl Verdict {
    /// The same, of a network in which hosts were not what they should be: `why` says of each what.
    /// It cannot be believed then.
    #[must_use]
    pub fn with_failures(mut self, why: Vec<String>) -> Verdict {
        if !why.is_empty() {
            self.validity = Validity::Invalid;
            self.reasons.splice(..0, why);
        }
        self
    }
}

/// Use of the machine by the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Processor time of the driver.
    pub busy_s: f64,
    /// It could have run and waited for a processor.
    pub waited_s: f64,
    /// Wall time.
    pub wall_s: f64,
    /// Processors.
    pub processors: usize,
}

impl Watch {
    /// For this many hosts.
    pub fn new(hosts: usize) -> Watch {
        Watch {
            late: Histogram::default(),
            waited: Histogram::default(),
            turn_began: Time::ZERO,
            longest_turn: Span::ZERO,
            hosts: vec![Traffic::default(); hosts],
            unroutable: 0,
            unreadable: 0,
            not_taken: 0,
        }
    }

    pub(crate) fn begin_turn(&mut self, now: Time) {
        self.turn_began = now;
    }

    pub(crate) fn end_turn(&mut self, now: Time) {
        self.longest_turn = self.longest_turn.max(now.since(self.turn_began));
    }

    /// A packet was read, and has waited in its host's device for so long at most.
    pub(crate) fn read(&mut self, waited: Span) {
        self.waited.add(waited);
    }

    pub(crate) fn sent(&mut self, host: usize, bytes: usize) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.sent_packets += 1;
            host.sent_bytes += u64::try_from(bytes).unwrap_or(0);
        }
    }

    pub(crate) fn not_sent(&mut self, why: NotSent) {
        match why {
            NotSent::Unroutable => self.unroutable += 1,
            NotSent::Unreadable => self.unreadable += 1,
        }
    }

    pub(crate) fn delivered(&mut self, host: usize, bytes: usize, late: Span) {
        self.late.add(late);
        if let Some(host) = self.hosts.get_mut(host) {
            host.received_packets += 1;
            host.received_bytes += u64::try_from(bytes).unwrap_or(0);
        }
    }

    pub(crate) fn not_taken(&mut self) {
        self.not_taken += 1;
    }

    /// Traffic of each host.
    pub fn hosts(&self) -> &[Traffic] {
        &self.hosts
    }

    /// Packets for nobody, packets that are not IP, and packets that a host's device refused.
    pub fn refused(&self) -> [u64; 3] {
        [self.unroutable, self.unreadable, self.not_taken]
    }

    /// The longest turn.
    pub fn longest_turn(&self) -> Span {
        self.longest_turn
    }

    /// Lateness of what was delivered.
    pub fn lateness(&self) -> Lateness {
        Lateness::of(&self.late)
    }

    /// How long packets have waited in their hosts' devices before they were read, at most: since
    /// the device was last found empty.
    pub fn waiting(&self) -> Lateness {
        Lateness::of(&self.waited)
    }

    /// The verdict. `lost`: packets that TUN's rings had no room for; `least_rtt`: of the hosts'
    /// paths.
    pub fn verdict(&self, lost: u64, least_rtt: Span, machine: &Machine) -> Verdict {
        let bound = LATE_P99.max(Span::from_ns(least_rtt.as_ns() / PART_OF_RTT));
        let (p99, p999) = (self.late.per_mille(990), self.late.per_mille(999));
        let waited = self.waited.per_mille(990);
        let ms = |span: Span| span.as_secs_f64() * 1e3;
        let mut reasons = Vec::new();
        if p99 > bound {
            reasons.push(format!(
                "1 % of the packets came more than {:.2} ms late; {:.2} are allowed",
                ms(p99),
                ms(bound)
            ));
        }
        if self.late.max() > LATE_MAX {
            let (max, allowed) = (ms(self.late.max()), ms(LATE_MAX));
            reasons.push(format!("a packet came {max:.0} ms late; {allowed:.0} are allowed"));
        }
        if self.longest_turn > TURN_MAX {
            let (turn, allowed) = (ms(self.longest_turn), ms(TURN_MAX));
            reasons
                .push(format!("airtcp looked at a host's packets only after {turn:.0} ms; {allowed:.0} are allowed"));
        }
        if lost > 0 {
            reasons.push(format!("{lost} packets were lost before airtcp could read them (tx_dropped of the devices)"));
        }
        let validity = if !reasons.is_empty() {
            reasons.push(self.why(machine));
            Validity::Invalid
        } else if p999 > STRAINED_P999 {
            let allowed = ms(STRAINED_P999);
            reasons
                .push(format!("0.1 % of the packets came more than {:.1} ms late; {allowed:.0} are allowed", ms(p999)));
            reasons.push(self.why(machine));
            Validity::Strained
        } else if waited > bound {
            reasons.push(format!(
                "1 % of the packets may have waited up to {:.1} ms in their host's device before airtcp read them; {:.2} are allowed",
                ms(waited),
                ms(bound)
            ));
            reasons.push(self.why(machine));
            Validity::Strained
        } else {
            Validity::Valid
        };
        Verdict { validity, reasons }
    }

    fn why(&self, machine: &Machine) -> String {
        let wall = machine.wall_s.max(1e-9);
        let bytes: u64 = self.hosts.iter().map(|host| host.sent_bytes).sum();
        let mbps = bytes as f64 * 8e-6 / wall;
        // Waits for a processor that are shorter all together than the longest delay did not cause
        // it.
        let latest_s = self.late.max().max(self.longest_turn).as_secs_f64();
        if machine.busy_s > 0.6 * wall && machine.waited_s * 4.0 <= machine.busy_s {
            let share = 100.0 * machine.busy_s / wall;
            format!(
                "cause: packets arrive faster than one processor can carry them: {mbps:.0} Mbit/s, {share:.0} % of it busy"
            )
        } else if machine.waited_s > 0.001 && machine.waited_s >= latest_s {
            let (waited, processors) = (machine.waited_s, machine.processors);
            format!(
                "cause: airtcp waited {waited:.2} of {wall:.1} s for one of {processors} processors: other programs keep them busy"
            )
        } else {
            "cause: airtcp was stopped for a while, or the machine was (a suspended or paused virtual machine)"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(late: &[(u64, Span)]) -> Watch {
        let mut watch = Watch::new(1);
        for &(n, span) in late {
            (0..n).for_each(|_| watch.delivered(0, 1500, span));
        }
        watch
    }

    #[test]
    fn the_verdict_follows_its_rule() {
        let (quiet, rtt) = (Machine { wall_s: 10.0, busy_s: 1.0, ..Machine::default() }, Span::from_ms(20));
        let verdict = |w: &Watch, lost, rtt| w.verdict(lost, rtt, &quiet).validity;
        let good = watch(&[(1000, Span::from_us(10))]);
        assert_eq!(verdict(&good, 0, rtt), Validity::Valid);
        assert_eq!(verdict(&good, 1, rtt), Validity::Invalid);
        assert_eq!(verdict(&watch(&[]), 0, rtt), Validity::Valid);
        // 2 % at 2 ms: too late for a path of 20 ms, not for one of 100 ms.
        let late = watch(&[(980, Span::from_us(10)), (20, Span::from_ms(2))]);
        assert_eq!(verdict(&late, 0, rtt), Validity::Invalid);
        assert_eq!(verdict(&late, 0, Span::from_ms(100)), Validity::Valid);
        let rare = watch(&[(9980, Span::from_us(10)), (20, Span::from_ms(6))]);
        assert_eq!(verdict(&rare, 0, rtt), Validity::Strained);
        let once = watch(&[(100_000, Span::from_us(10)), (1, Span::from_ms(101))]);
        assert_eq!(verdict(&once, 0, rtt), Validity::Invalid);
        // How long a packet has waited is known from above only, so no run is called invalid for
        // it.
        let mut unread = watch(&[(1000, Span::from_us(10))]);
        (0..100).for_each(|k| unread.read(Span::from_us(if k < 90 { 10 } else { 1500 })));
        assert_eq!(verdict(&unread, 0, rtt), Validity::Strained);
        assert_eq!(verdict(&unread, 0, Span::from_ms(100)), Validity::Valid);
        let mut long = watch(&[(1000, Span::from_us(10))]);
        long.begin_turn(Time::from_ns(5));
        long.end_turn(Time::from_ns(20_000_006));
        assert_eq!(verdict(&long, 0, rtt), Validity::Invalid);
    }

    #[test]
    fn a_host_without_its_device_spoils_the_run() {
        let quiet = Machine { wall_s: 10.0, busy_s: 1.0, ..Machine::default() };
        let good = || watch(&[(1000, Span::from_us(10))]).verdict(0, Span::from_ms(20), &quiet);
        assert_eq!(good().with_failures(Vec::new()), good());
        let spoilt = good().with_failures(vec!["laptop: gone".to_owned()]);
        assert_eq!((spoilt.validity, &spoilt.reasons[..]), (Validity::Invalid, &["laptop: gone".to_owned()][..]));
    }

    #[test]
    fn the_cause_is_named() {
        let late = watch(&[(100, Span::from_ms(3))]);
        let why = |busy_s, waited_s| {
            let machine = Machine { busy_s, waited_s, wall_s: 10.0, processors: 2 };
            late.verdict(0, Span::ZERO, &machine).reasons.pop().unwrap()
        };
        assert!(why(3.0, 2.0).contains("other programs keep them busy"));
        assert!(why(9.0, 0.4).contains("faster than one processor can carry"));
        assert!(why(0.5, 0.0).contains("stopped for a while"));
        // A twelfth of its time is enough where the latest packet is explained by it, and no more.
        assert!(why(2.4, 0.2).contains("other programs keep them busy"));
        assert!(why(2.4, 0.002).contains("stopped for a while"));
    }
}
