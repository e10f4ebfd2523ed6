//! NADA, the congestion control of interactive media (RFC 8698): the receiver's signal of
//! congestion and the sender's rate.
//!
//! The receiver turns delays and losses into one signal in milliseconds, and reports it every
//! [`FEEDBACK_EVERY`]. The sender follows it to a rate between two bounds. Nothing here sends: the
//! driver carries packets and reports.
//!
//! Deviations. Without ECN: calls do not use it yet, so the term of marks is zero. A base delay is
//! the smallest of the whole call. The mean interval between losses is that of the last eight (RFC
//! 8698 leaves the average open; RFC 5348 section 5.4 takes eight). A sender that hears no report
//! keeps its rate.

use std::collections::VecDeque;

use crate::units::{DataRate, Span, Time};

/// DELTA: time between two reports.
pub const FEEDBACK_EVERY: Span = Span::from_ms(100);
/// Bytes of a report at the IP layer: IP and UDP headers, and 24 bytes of an RTCP packet (RFC 8698
/// section 6.4 asks for 12).
pub const REPORT_BYTES: u16 = 52;

// RFC 8698, figures 3 and 4.
const PRIO: f64 = 1.0;
const XREF_MS: f64 = 10.0;
const KAPPA: f64 = 0.5;
const ETA: f64 = 2.0;
const TAU_MS: f64 = 500.0;
const LOGWIN: Span = Span::from_ms(500);
const QEPS_MS: f64 = 10.0;
const DFILT_MS: f64 = 120.0;
const GAMMA_MAX: f64 = 0.5;
const QBOUND_MS: f64 = 50.0;
const MULTILOSS: f64 = 7.0;
const QTH_MS: f64 = 50.0;
const LAMBDA: f64 = 0.5;
const PLRREF: f64 = 0.01;
const DLOSS_MS: f64 = 10.0;
const ALPHA: f64 = 0.1;
/// Delays among which the least counts (section 5.1.1).
const FILTER: usize = 15;
/// Loss intervals in their mean.
const INTERVALS: usize = 8;

fn ms(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

/// How the sender changes its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No loss and no queue for the whole window: the rate grows by a part of what arrives.
    RampUp,
    /// The rate follows the signal.
    Gradual,
}

/// Feedback report of a receiver (RFC 8698 section 6.4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// The receiver's advice.
    pub mode: Mode,
    /// x_curr: the signal of congestion, milliseconds.
    pub signal_ms: f64,
    /// r_recv: rate at which media arrived within the window.
    pub received: DataRate,
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Time,
    bytes: u64,
    /// Packets missing before it.
    missing: u64,
    queue_ms: f64,
}

/// The receiving end.
#[derive(Debug, Clone, Default)]
pub struct Receiver {
    base_ms: Option<f64>,
    delays: VecDeque<f64>,
    window: VecDeque<Arrival>,
    next: u64,
    loss_ratio: f64,
    /// Packets since the last loss, and before it from loss to loss.
    since_loss: Option<u64>,
    intervals: VecDeque<u64>,
}

impl Receiver {
    /// Packet `number` of `bytes` has arrived, `delay` after it was sent; clocks need not agree.
    pub fn on_packet(&mut self, now: Time, number: u64, bytes: u64, delay: Span) {
        let delay = ms(delay);
        let base = self.base_ms.map_or(delay, |base| base.min(delay));
        self.base_ms = Some(base);
        if self.delays.len() == FILTER {
            self.delays.pop_front();
        }
        self.delays.push_back(delay);
        // A late packet fills no gap: the loss has been told.
        let missing = number.saturating_sub(self.next);
        self.next = self.next.max(number + 1);
        if missing > 0 {
            if let Some(packets) = self.since_loss {
                if self.intervals.len() == INTERVALS {
                    self.intervals.pop_front();
                }
                self.intervals.push_back(packets);
            }
            self.since_loss = Some(0);
        }
        self.since_loss = self.since_loss.map(|packets| packets + 1);
        self.window.push_back(Arrival { at: now, bytes, missing, queue_ms: delay - base });
    }

    /// The report of now; `None` if nothing has arrived within the window.
    pub fn report(&mut self, now: Time) -> Option<Report> {
        while self.window.front().is_some_and(|arrival| now.since(arrival.at) > LOGWIN) {
            self.window.pop_front();
        }
        let first = self.window.front()?;
        let base = self.base_ms?;
        let arrived = self.window.len() as f64;
        let missing = self.window.iter().map(|arrival| arrival.missing).sum::<u64>() as f64;
        self.loss_ratio += ALPHA * (missing / (arrived + missing) - self.loss_ratio);
        let queue = self.delays.iter().copied().fold(f64::INFINITY, f64::min) - base;
        let warped = if self.has_recent_loss() && queue > QTH_MS {
            QTH_MS * libm::exp(-LAMBDA * (queue - QTH_MS) / QTH_MS)
        } else {
            queue
        };
        let loss = self.loss_ratio / PLRREF;
        let is_idle = missing == 0.0 && self.window.iter().all(|arrival| arrival.queue_ms < QEPS_MS);
        let bytes = self.window.iter().map(|arrival| arrival.bytes).sum();
        let length = now.since(first.at).max(FEEDBACK_EVERY);
        Some(Report {
            mode: if is_idle { Mode::RampUp } else { Mode::Gradual },
            signal_ms: warped + DLOSS_MS * loss * loss,
            received: DataRate::from_bytes_per(bytes, length),
        })
    }

    /// Losses come often enough that the call competes with a control that fills queues (section
    /// 5.1.1).
    fn has_recent_loss(&self) -> bool {
        let Some(since) = self.since_loss else { return false };
        let Some(mean) = self.mean_interval() else { return true };
        (since as f64) < MULTILOSS * mean
    }

    fn mean_interval(&self) -> Option<f64> {
        (!self.intervals.is_empty()).then(|| self.intervals.iter().sum::<u64>() as f64 / self.intervals.len() as f64)
    }
}

/// The sending end: a reference rate between two bounds.
#[derive(Debug, Clone)]
pub struct Sender {
    least_bps: f64,
    most_bps: f64,
    rate_bps: f64,
    signal_ms: f64,
    last: Option<Time>,
}

impl Sender {
    /// Begins at the least rate, as RFC 8698 section 4.3 does.
    pub fn new(least: DataRate, most: DataRate) -> Sender {
        let least_bps = least.as_bps() as f64;
        Sender { least_bps, most_bps: most.as_bps() as f64, rate_bps: least_bps, signal_ms: 0.0, last: None }
    }

    /// r_ref: the rate at which media may be sent, bits of packets per second.
    pub fn rate_bps(&self) -> f64 {
        self.rate_bps
    }

    /// A report has come; `rtt` is that of the path by the sender's own measurement.
    pub fn on_report(&mut self, now: Time, report: &Report, rtt: Span) {
        // Reports that come in one burst say nothing of the time between them.
        let delta = self.last.map_or(ms(FEEDBACK_EVERY), |last| ms(now.since(last)).min(TAU_MS));
        self.last = Some(now);
        match report.mode {
            Mode::RampUp => {
                let gamma = GAMMA_MAX.min(QBOUND_MS / (ms(rtt) + ms(FEEDBACK_EVERY) + DFILT_MS));
                self.rate_bps = self.rate_bps.max((1.0 + gamma) * report.received.as_bps() as f64);
            }
            Mode::Gradual => {
                let offset = report.signal_ms - PRIO * XREF_MS * self.most_bps / self.rate_bps;
                let change = report.signal_ms - self.signal_ms;
                self.rate_bps -= KAPPA * (delta / TAU_MS) * (offset / TAU_MS) * self.rate_bps;
                self.rate_bps -= KAPPA * ETA * (change / TAU_MS) * self.rate_bps;
            }
        }
        self.signal_ms = report.signal_ms;
        self.rate_bps = self.rate_bps.clamp(self.least_bps, self.most_bps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: DataRate = DataRate::from_bps(1_500_000);
    const LEAST: DataRate = DataRate::from_bps(150_000);

    fn gradual(signal_ms: f64) -> Report {
        Report { mode: Mode::Gradual, signal_ms, received: LEAST }
    }

    #[test]
    fn the_ramp_grows_by_what_the_path_may_queue() {
        let mut sender = Sender::new(LEAST, MOST);
        let report = Report { mode: Mode::RampUp, signal_ms: 0.0, received: DataRate::from_bps(400_000) };
        // 50 / (30 + 100 + 120) = 0.2.
        sender.on_report(Time::ZERO, &report, Span::from_ms(30));
        assert!((sender.rate_bps() - 480_000.0).abs() < 1e-6);
        // It never falls in this mode, and ends at the bound.
        sender.on_report(Time::ZERO, &Report { received: LEAST, ..report }, Span::from_ms(30));
        assert!((sender.rate_bps() - 480_000.0).abs() < 1e-6);
        sender.on_report(Time::ZERO, &Report { received: MOST, ..report }, Span::from_ms(30));
        assert!((sender.rate_bps() - 1_500_000.0).abs() < 1e-6);
    }

    #[test]
    fn the_gradual_update_is_that_of_section_4_3() {
        let mut sender = Sender { rate_bps: 750_000.0, signal_ms: 20.0, ..Sender::new(LEAST, MOST) };
        sender.on_report(Time::ZERO, &gradual(30.0), Span::from_ms(30));
        // offset 30 - 10 * 2 = 10, change 10: 750 000 (1 - 0.5 * 0.2 * 0.02) - 0.5 * 2 * 0.02 of
        // what is left.
        let after = 750_000.0 * (1.0 - 0.002);
        assert!((sender.rate_bps() - (after - 0.02 * after)).abs() < 1e-6, "{}", sender.rate_bps());
    }

    #[test]
    fn it_settles_where_the_signal_is_that_of_its_share() {
        let mut sender = Sender::new(LEAST, MOST);
        let mut now = Time::ZERO;
        for _ in 0..3000 {
            sender.on_report(now, &gradual(25.0), Span::from_ms(30));
            now += FEEDBACK_EVERY;
        }
        // XREF * RMAX / r = 25 ms.
        assert!((sender.rate_bps() - 600_000.0).abs() < 1000.0, "{}", sender.rate_bps());
    }

    #[test]
    fn the_signal_is_the_least_queue_and_the_square_of_losses() {
        let mut receiver = Receiver::default();
        let mut now = Time::ZERO;
        for number in 0..100 {
            now += Span::from_ms(5);
            let delay = if number == 0 { 20 } else { 35 + number % 2 * 30 };
            receiver.on_packet(now, number, 1000, Span::from_ms(delay));
        }
        let report = receiver.report(now).unwrap();
        assert_eq!(report.mode, Mode::Gradual);
        assert!((report.signal_ms - 15.0).abs() < 1e-9);
        assert_eq!(report.received.as_bps(), 1_616_161);
        // One of twenty missing in the window: a tenth of it enters the smoothed ratio.
        for number in 100..200 {
            now += Span::from_ms(5);
            if number % 20 != 0 {
                receiver.on_packet(now, number, 1000, Span::from_ms(35));
            }
        }
        let report = receiver.report(now).unwrap();
        assert!((report.signal_ms - (15.0 + 10.0 * 0.5 * 0.5)).abs() < 1.0, "{}", report.signal_ms);
        // Nothing for half a second: nothing to tell.
        assert_eq!(receiver.report(now + Span::from_secs(1)), None);
    }

    #[test]
    fn against_queues_that_others_fill_long_delays_count_less() {
        let signal = |loses: bool| {
            let mut receiver = Receiver::default();
            receiver.on_packet(Time::ZERO, 0, 1000, Span::from_ms(20));
            let mut now = Time::ZERO;
            for number in 1..400 {
                now += Span::from_ms(5);
                if !(loses && number % 100 == 0) {
                    receiver.on_packet(now, number, 1000, Span::from_ms(320));
                }
            }
            receiver.report(now).unwrap().signal_ms
        };
        assert!((signal(false) - 300.0).abs() < 1e-9);
        // 50 exp(-0.5 * 250 / 50) = 4.1, and little for one loss in a hundred.
        assert!(signal(true) < 10.0, "{}", signal(true));
    }

    #[test]
    fn an_idle_path_lets_the_sender_ramp_up() {
        let mut receiver = Receiver::default();
        let mut now = Time::ZERO;
        for number in 0..100 {
            now += Span::from_ms(10);
            receiver.on_packet(now, number, 500, Span::from_ms(20 + number % 3));
        }
        assert_eq!(receiver.report(now).unwrap().mode, Mode::RampUp);
    }
}
