//! Events of a path, by topic and seed: the connection's options, the line, and the fate of
//! each transmission.

use crate::rng::{Rng, hash};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topic {
    /// SACK and timestamps: losses, reordering, duplicates, lost and delayed ACKs.
    Sack,
    /// The same without SACK.
    NoSack,
    /// SACK without timestamps.
    NoTimestamps,
    /// RFC 3168: marks beside losses.
    Ecn,
    /// The receiver forgets what it has reported by SACK.
    Reneging,
    /// The receiver's window changes; the application writes in parts.
    Window,
    /// The kernel receives.
    Receiver,
}

pub const TOPICS: [(&str, Topic); 7] = [
    ("sack", Topic::Sack),
    ("nosack", Topic::NoSack),
    ("notimestamps", Topic::NoTimestamps),
    ("ecn", Topic::Ecn),
    ("reneging", Topic::Reneging),
    ("window", Topic::Window),
    ("receiver", Topic::Receiver),
];

impl Topic {
    pub fn name(self) -> &'static str {
        TOPICS.iter().find(|(_, t)| *t == self).expect("every topic is listed").0
    }
}

/// Fate of a transmission.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Fate {
    pub lost: bool,
    pub marked: bool,
    /// Beyond the line's delay.
    pub late_us: u64,
    /// It arrives once more, so much later.
    pub again_us: Option<u64>,
}

/// Rates in thousandths.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rates {
    pub loss: u64,
    pub loss_again: u64,
    pub late: u64,
    pub late_most_us: u64,
    pub twice: u64,
    pub mark: u64,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub topic: Topic,
    pub seed: u64,
    pub cc: &'static str,
    pub sack: bool,
    pub dsack: bool,
    pub timestamps: bool,
    pub ecn: bool,
    /// The device takes segments one by one (`gso_max_segs 1`).
    pub by_one: bool,
    pub initial_window: u64,
    pub to_receiver_us: u64,
    pub to_sender_us: u64,
    /// Duration of a segment on the line.
    pub slot_us: u64,
    /// Times after the handshake and segments that the application writes.
    pub writes: Vec<(u64, u64)>,
    pub ack_every: u64,
    pub ack_delay_us: u64,
    /// Segments at the start that are acknowledged at once.
    pub quick_acks: u64,
    pub data: Rates,
    pub acks: Rates,
    /// Runs of segments that are lost: first, number, transmissions.
    pub runs: Vec<(u64, u64, u64)>,
    /// Data that leaves in this time arrives later: from, to, by; the same for ACKs.
    pub data_spikes: Vec<(u64, u64, u64)>,
    pub ack_spikes: Vec<(u64, u64, u64)>,
    /// All is lost in this time.
    pub outages: Vec<(u64, u64)>,
    /// At these arrivals the receiver forgets all above the first hole.
    pub forgets_at: Vec<u64>,
    /// From these arrivals on the window is so many segments.
    pub windows: Vec<(u64, u64)>,
    pub most_acks: u64,
}

const MS: u64 = 1000;

impl Plan {
    pub fn new(topic: Topic, seed: u64, cc: Option<&'static str>) -> Plan {
        let mut rng = Rng::new(seed, &[topic as u64]);
        let r = &mut rng;
        let own_cc = r.pick(&["reno", "cubic", "reno", "cubic", "bbr"]);
        let rtt_us = r.range(20 * MS, 160 * MS);
        let to_receiver_us = rtt_us / 2 + r.range(0, 999);
        let mut plan = Plan {
            topic,
            seed,
            cc: cc.unwrap_or(own_cc),
            sack: topic != Topic::NoSack,
            dsack: topic != Topic::NoSack && r.chance(80),
            timestamps: topic != Topic::NoTimestamps && r.chance(85),
            ecn: topic == Topic::Ecn,
            by_one: r.chance(50),
            initial_window: r.pick(&[10, 10, 10, 10, 3, 5, 20]),
            to_receiver_us,
            to_sender_us: rtt_us - rtt_us / 2 + r.range(0, 999),
            slot_us: r.range(1600, 4000),
            writes: vec![(0, r.pick(&[12, 20, 30, 45, 60, 90, 400, 400, 400]))],
            ack_every: r.pick(&[1, 2, 2, 2, 4]),
            ack_delay_us: r.pick(&[40 * MS, 40 * MS, 100 * MS]) + r.range(0, 999),
            quick_acks: r.pick(&[0, 8, 16]),
            data: Rates::default(),
            acks: Rates::default(),
            runs: Vec::new(),
            data_spikes: Vec::new(),
            ack_spikes: Vec::new(),
            outages: Vec::new(),
            forgets_at: Vec::new(),
            windows: Vec::new(),
            most_acks: r.pick(&[40, 60, 60, 80]),
        };
        if topic == Topic::Sack || topic == Topic::NoSack {
            plan.timestamps = r.chance(90);
        }
        plan.faults(r, rtt_us);
        match topic {
            Topic::Ecn => {
                plan.data.mark = r.pick(&[10, 30, 100, 300]);
            }
            Topic::Reneging => {
                if plan.runs.is_empty() && plan.data.loss == 0 {
                    plan.runs.push((r.range(2, 20), r.range(1, 3), 1));
                }
                let first = r.range(6, 30);
                plan.forgets_at.push(first);
                if r.chance(30) {
                    plan.forgets_at.push(first + r.range(1, 30));
                }
            }
            Topic::Window => {
                let mut at = 0;
                for _ in 0..r.range(1, 5) {
                    plan.windows.push((at, r.pick(&[0, 1, 2, 3, 5, 8, 12, 20, 40, 400])));
                    at += r.range(3, 20);
                }
                if r.chance(60) {
                    plan.writes.clear();
                    let mut at = 0;
                    for _ in 0..r.range(2, 8) {
                        plan.writes.push((at, r.range(1, 25)));
                        at += r.pick(&[rtt_us / 3, rtt_us, 2 * rtt_us, 400 * MS]) + r.range(0, 20 * MS);
                    }
                }
            }
            _ => {}
        }
        plan
    }

    fn faults(&mut self, r: &mut Rng, rtt_us: u64) {
        let last = self.writes.iter().map(|w| w.1).sum::<u64>();
        let late = r.pick(&[2 * self.slot_us, 5 * self.slot_us, rtt_us / 4, rtt_us / 2, rtt_us, rtt_us * 3 / 2]);
        let runs = |r: &mut Rng, most: u64, longest: u64| -> Vec<(u64, u64, u64)> {
            let number = r.range(1, most);
            (0..number)
                .map(|_| {
                    let again = r.pick(&[1, 1, 1, 1, 2, 3]);
                    (r.range(0, last.min(80) - 1), r.range(1, longest), again)
                })
                .collect()
        };
        match r.range(0, 9) {
            0 => self.data.loss = r.pick(&[10, 20, 50, 100]),
            1 => self.runs = runs(r, 4, 3),
            2 => self.runs = runs(r, 2, 12),
            3 => (self.data.late, self.data.late_most_us) = (r.pick(&[20, 50, 100, 200]), late),
            4 => {
                let n = r.range(1, 6).min(last);
                self.writes = vec![(0, r.pick(&[5, 8, 12, 20, 30]).max(n))];
                self.runs = vec![(self.writes[0].1 - n, n, r.pick(&[1, 1, 2, 3]))];
            }
            5 => {
                self.data.loss = r.pick(&[0, 10, 30]);
                (self.data.late, self.data.late_most_us) = (r.pick(&[10, 30, 100]), late);
                self.data.twice = r.pick(&[0, 20, 50]);
                self.acks.loss = r.pick(&[0, 50, 200]);
                (self.acks.late, self.acks.late_most_us) = (r.pick(&[0, 0, 30, 100]), 4 * self.slot_us);
            }
            6 | 7 => {
                let begin = r.range(rtt_us, 4 * rtt_us);
                let end = begin + r.range(rtt_us / 4, rtt_us);
                let by = r.pick(&[rtt_us / 2, rtt_us, 260 * MS, 400 * MS, 900 * MS]) + r.range(0, 9 * MS);
                let spikes = if r.chance(50) { &mut self.data_spikes } else { &mut self.ack_spikes };
                spikes.push((begin, end, by));
                if r.chance(40) {
                    self.runs = runs(r, 2, 2);
                }
                if r.chance(30) {
                    (self.data.late, self.data.late_most_us) = (30, late);
                }
            }
            8 => {
                let begin = r.range(rtt_us / 2, 4 * rtt_us);
                self.outages.push((begin, begin + r.pick(&[rtt_us / 2, rtt_us, 300 * MS, 800 * MS])));
            }
            _ => {
                self.runs = runs(r, 3, 4);
                self.data.loss_again = r.pick(&[100, 300, 500]);
                self.acks.loss = r.pick(&[0, 0, 100]);
            }
        }
        self.acks.twice = r.pick(&[0, 0, 0, 10]);
    }

    /// Fate of the `nth` transmission of a segment (from 0) that leaves at `at` after the
    /// handshake.
    pub fn fate(&self, segment: u64, nth: u64, at_us: u64) -> Fate {
        let mut fate = self.drawn(&self.data, &[1, segment, nth], nth);
        let in_run =
            |&(first, number, times): &(u64, u64, u64)| (first..first + number).contains(&segment) && nth < times;
        fate.lost |= self.runs.iter().any(in_run) || self.is_out(at_us);
        fate.late_us += spike(&self.data_spikes, at_us);
        fate
    }

    /// Fate of the `nth` ACK.
    pub fn ack_fate(&self, nth: u64, at_us: u64) -> Fate {
        let mut fate = self.drawn(&self.acks, &[2, nth], 0);
        fate.lost |= self.is_out(at_us);
        fate.late_us += spike(&self.ack_spikes, at_us);
        fate
    }

    fn is_out(&self, at_us: u64) -> bool {
        self.outages.iter().any(|&(from, to)| (from..to).contains(&at_us))
    }

    fn drawn(&self, rates: &Rates, keys: &[u64], nth: u64) -> Fate {
        let mut rng = Rng::new(hash(self.seed, &[self.topic as u64]), keys);
        let loss = if nth > 0 && rates.loss_again > 0 { rates.loss_again } else { rates.loss };
        let lost = rng.range(0, 999) < loss;
        let late = rng.range(0, 999) < rates.late;
        let late_us = rng.range(0, rates.late_most_us.max(1));
        let twice = rng.range(0, 999) < rates.twice;
        let again_us = rng.range(0, 3 * self.slot_us);
        let marked = rng.range(0, 999) < rates.mark;
        Fate { lost, marked, late_us: if late { late_us } else { 0 }, again_us: twice.then_some(again_us) }
    }

    /// Duration of the segment on the line: never the same, so that nothing happens in one instant.
    pub fn slot(&self, packet: u64) -> u64 {
        self.slot_us * (900 + hash(self.seed, &[3, packet]) % 200) / 1000
    }

    pub fn window(&self, arrivals: u64) -> Option<u64> {
        self.windows.iter().rev().find(|w| w.0 <= arrivals).map(|w| w.1)
    }
}

fn spike(spikes: &[(u64, u64, u64)], at_us: u64) -> u64 {
    spikes.iter().filter(|(from, to, _)| (*from..*to).contains(&at_us)).map(|s| s.2).sum()
}
