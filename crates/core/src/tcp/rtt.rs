//! Round-trip time and retransmission timeout (RFC 6298).

use super::{RttvarRule, TcpConfig};
use crate::convert::{low32, signed64, unsigned64};
use crate::units::Span;

/// Smoothed round-trip time and its variation.
///
/// Two averages are kept: the exact one, for pacing and congestion control, and the one behind the
/// timeout, which counts in ticks of the stack's clock (`rtt_tick`), because coarse clocks are what
/// made old timeouts long. It is an integer filter of eighths of a tick (Jacobson and Karels 1988,
/// appendix A; BSD and ns-2): whoever reads it drops the eighths, the update included, so that
/// after a fall it stays up to 7/8 tick above a steady round trip.
#[derive(Debug, Clone)]
pub(super) struct RttEstimator {
    srtt_exact_ns: u64,
    /// Scaled by 8; in whole ticks.
    srtt8_ns: u64,
    /// Scaled by 4; in whole ticks.
    rttvar4_ns: u64,
    /// With [`RttvarRule::Linux`], scaled by 4: the smoothed deviation, and its largest in this
    /// round trip.
    mdev4_ns: u64,
    mdev4_max_ns: u64,
    /// With timers of ticks, in BSD's own scales: 32nds and 16ths of a tick.
    srtt32_ticks: u32,
    rttvar16_ticks: u32,
    backoff: u32,
    /// The next sample starts both averages anew.
    restarts: bool,
    /// Clock granularity and bounds applied, backoff not.
    rto: Span,
}

impl RttEstimator {
    pub(super) fn new(config: &TcpConfig) -> RttEstimator {
        // [RFC6298-2.1-1]
        let rto = bounded(config.rto.initial, config);
        RttEstimator {
            srtt_exact_ns: 0,
            srtt8_ns: 0,
            rttvar4_ns: 0,
            mdev4_ns: 0,
            mdev4_max_ns: 0,
            srtt32_ticks: 0,
            rttvar16_ticks: 0,
            backoff: 0,
            restarts: false,
            rto,
        }
    }

    /// RFC 6298 section 2, with alpha = 1/8 and beta = 1/4 in scaled integers. `counted`: what the
    /// stack's clock showed of the round trip, in whole ticks. `new_round`: the first sample of
    /// a round trip.
    pub(super) fn on_sample(&mut self, rtt: Span, counted: Span, new_round: bool, config: &TcpConfig) {
        self.on_exact(rtt);
        let tick = config.rto.rtt_tick.as_ns();
        let sample = counted.as_ns().max(tick).max(1);
        let whole_ticks = |ns: u64| ns.checked_div(tick).map_or(ns, |ticks| ticks * tick);
        // [RFC6298-2.2-1]
        if self.srtt8_ns == 0 || self.restarts {
            self.srtt8_ns = sample * 8;
            self.rttvar4_ns = sample * 2;
            self.mdev4_ns = sample * 2;
            self.mdev4_max_ns = self.rttvar4_ns.max(config.rto.var_min.as_ns());
            self.restarts = false;
        } else {
            // [RFC6298-2.3-2]
            let error = signed64(sample) - signed64(whole_ticks(self.srtt8_ns / 8));
            self.srtt8_ns = self.srtt8_ns.wrapping_add_signed(error);
            match config.rto.rttvar_rule {
                // [RFC6298-2.3-1] [RFC6298-2.3-3]
                RttvarRule::Rfc6298 => {
                    let fade = whole_ticks(self.rttvar4_ns / 4);
                    self.rttvar4_ns = self.rttvar4_ns + error.unsigned_abs() - fade;
                }
                RttvarRule::Linux => self.vary(error, new_round, config),
            }
        }
        // [RFC6298-2.3-4] [RFC6298-4-1]
        let variation = self.rttvar4_ns.max(config.rto.var_min.as_ns());
        let srtt = whole_ticks(self.srtt8_ns / 8);
        self.rto = bounded(Span::from_ns(srtt.saturating_add(variation)), config);
    }

    /// [`RttvarRule::Linux`].
    fn vary(&mut self, error_ns: i64, new_round: bool, config: &TcpConfig) {
        let above = error_ns.abs() - signed64(self.mdev4_ns / 4);
        // A round trip that falls below the mean by much is no reason to expect a late one.
        let change = if error_ns < 0 && above > 0 { above / 8 } else { above };
        self.mdev4_ns = self.mdev4_ns.wrapping_add_signed(change);
        self.mdev4_max_ns = self.mdev4_max_ns.max(self.mdev4_ns);
        self.rttvar4_ns = self.rttvar4_ns.max(self.mdev4_max_ns);
        if new_round {
            self.rttvar4_ns -= (self.rttvar4_ns - self.mdev4_max_ns) / 4;
            self.mdev4_max_ns = config.rto.var_min.as_ns();
        }
    }

    /// The exact average alone.
    fn on_exact(&mut self, rtt: Span) {
        let exact = rtt.as_ns().max(1);
        self.srtt_exact_ns = if self.srtt_exact_ns == 0 {
            exact
        } else {
            self.srtt_exact_ns.wrapping_add_signed((signed64(exact) - signed64(self.srtt_exact_ns)) / 8)
        };
    }

    /// A round trip that a counter of `timer_tick` showed as `counter`, which starts at 1:
    /// `tcp_xmit_timer` of the BSDs with finer scales (FreeBSD since 1996, after Brakmo and
    /// Peterson, "Performance Problems in BSD4.4 TCP", 1995). The first one counts as it is,
    /// later ones less 1, so that on a short path the average sinks towards zero and
    /// `rto_ticks_above_rtt` is what is left.
    pub(super) fn on_ticks(&mut self, rtt: Span, counter: u64, config: &TcpConfig) {
        self.on_exact(rtt);
        let counter = signed64(counter.clamp(1, 1 << 16));
        let (mut srtt, mut rttvar) = (i64::from(self.srtt32_ticks), i64::from(self.rttvar16_ticks));
        if srtt == 0 || self.restarts {
            (srtt, rttvar) = (counter << 5, counter << 3);
            self.restarts = false;
        } else {
            let error = ((counter - 1) << 2) - (srtt >> 3);
            srtt = (srtt + error).max(1);
            rttvar = (rttvar + error.abs() - (rttvar >> 2)).max(1);
        }
        (self.srtt32_ticks, self.rttvar16_ticks) = (low32(unsigned64(srtt)), low32(unsigned64(rttvar)));
        let margin = i64::from(config.timers.rto_ticks_above_rtt);
        let least = if margin > 0 { counter + margin } else { 0 };
        let ticks = (((srtt >> 3) + rttvar) >> 2).max(least);
        self.rto = bounded(config.timers.tick.saturating_mul(unsigned64(ticks)), config);
    }

    /// The SYN was repeated and nothing says how long the round trip is: until a sample, no less
    /// than [`AFTER_LOST_SYN`].
    // [RFC6298-5.7-1]
    pub(super) fn fall_back(&mut self, config: &TcpConfig) {
        self.rto = self.rto.max(bounded(AFTER_LOST_SYN, config));
    }

    /// The timeout now in force: clock granularity, bounds and backoff applied.
    pub(super) fn rto(&self, config: &TcpConfig) -> Span {
        self.rto.saturating_mul(1 << self.backoff.min(32)).min(config.rto.max)
    }

    /// A timeout fired (RFC 6298 rule 5.5).
    // [RFC6298-5.5-1]
    pub(super) fn back_off(&mut self, config: &TcpConfig) {
        self.backoff += 1;
        // [RFC6298-5-2]
        if config.rto.rtt_restart_backoffs > 0 && self.backoff >= config.rto.rtt_restart_backoffs {
            self.restarts = true;
        }
    }

    /// Timeouts since the last sample that counts.
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The smoothed deviation of the round trip, without the bound from below.
    pub(super) fn variation(&self, config: &TcpConfig) -> Span {
        Span::from_ns(match config.rto.rttvar_rule {
            RttvarRule::Rfc6298 => self.rttvar4_ns / 4,
            RttvarRule::Linux => self.mdev4_ns / 4,
        })
    }

    /// The segment of the timeout has not left.
    pub(super) fn take_back_off_back(&mut self) {
        self.backoff = self.backoff.saturating_sub(1);
    }

    pub(super) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// The smoothed round-trip time behind the timeout, eighths of a tick included; zero before the
    /// first sample.
    pub(super) fn srtt_in_ticks(&self) -> Span {
        Span::from_ns(self.srtt8_ns / 8)
    }

    /// Exact smoothed round-trip time; zero before the first sample.
    pub(super) fn srtt(&self) -> Span {
        Span::from_ns(self.srtt_exact_ns)
    }
}

/// RFC 6298 rule 5.7; `TCP_TIMEOUT_FALLBACK` of Linux (`tcp_init_metrics`, net/ipv4/tcp_metrics.c
/// of 6.12).
const AFTER_LOST_SYN: Span = Span::from_secs(3);
// [RFC6298-2.4-1] [RFC6298-2.5-1]
fn bounded(rto: Span, config: &TcpConfig) -> Span {
    rto.round_up_to(config.rto.granularity).max(config.rto.min).min(config.rto.max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::profile::profile;

    fn config(name: &str) -> TcpConfig {
        profile(name).unwrap().resolve().unwrap()
    }

    /// RFC 6298 section 2 by hand: 100 ms gives SRTT 100, RTTVAR 50; then 140 ms gives RTTVAR 47.5,
    /// SRTT 105.
    // [RFC6298-2.1-1] [RFC6298-2.2-1] [RFC6298-2.3-1] [RFC6298-2.3-2] [RFC6298-2.3-3] [RFC6298-2.3-4] [RFC6298-2.5-1]
    // [RFC6298-5.5-1]
    #[test]
    fn the_timeout_follows_the_rfc() {
        let mut c = config("linux-6");
        c.rto.granularity = Span::from_ms(1);
        c.rto.min = Span::ZERO;
        c.rto.var_min = Span::ZERO;
        c.rto.rttvar_rule = RttvarRule::Rfc6298;
        let mut rtt = RttEstimator::new(&c);
        assert_eq!(rtt.rto(&c), Span::from_secs(1));
        rtt.on_sample(Span::from_ms(100), Span::from_ms(100), false, &c);
        assert_eq!(rtt.rto(&c), Span::from_ms(100 + 4 * 50));
        rtt.on_sample(Span::from_ms(140), Span::from_ms(140), false, &c);
        assert_eq!(rtt.srtt(), Span::from_ms(105));
        assert_eq!(rtt.rto(&c), Span::from_ms(105 + 190));
        rtt.back_off(&c);
        rtt.back_off(&c);
        assert_eq!(rtt.rto(&c), Span::from_ms(4 * 295));
        for _ in 0..100 {
            rtt.back_off(&c);
        }
        assert_eq!(rtt.rto(&c), c.rto.max);
    }

    /// RFC 6298 section 4: on a steady path the variation fades to nothing, and a tick of 7 ms
    /// stays of it.
    // [RFC6298-4-1]
    #[test]
    fn a_tick_is_the_least_variation() {
        let mut c = config("linux-6");
        c.rto.granularity = Span::from_ms(1);
        (c.rto.min, c.rto.var_min) = (Span::ZERO, Span::from_ms(7));
        c.rto.rttvar_rule = RttvarRule::Rfc6298;
        let mut rtt = RttEstimator::new(&c);
        for _ in 0..100 {
            rtt.on_sample(Span::from_ms(80), Span::from_ms(80), true, &c);
        }
        assert_eq!(rtt.rto(&c), Span::from_ms(87));
    }

    /// Linux: srtt + max(4 rttvar, 200 ms).
    #[test]
    fn a_steady_path_keeps_the_floor_of_the_variation() {
        let c = config("linux-6");
        let mut rtt = RttEstimator::new(&c);
        for _ in 0..100 {
            rtt.on_sample(Span::from_ms(80), Span::from_ms(80), true, &c);
        }
        assert_eq!(rtt.rto(&c), Span::from_ms(280));
    }

    /// By hand: a first count of 1 gives an average of 32/32 and a variation of 8/16, so (4 + 8) /
    /// 4 = 3 ticks. Then the count less 1 is 0: error -4, average 28, variation 8 + 4 - 2 = 10:
    /// (3 + 10) / 4 = 3. A count of 2 next: error 4 - 3 = 1, average 29, variation 10 + 1 - 2 =
    /// 9: 3 ticks, but at least 2 + 2. It settles at 1 + 2.
    #[test]
    fn bsd_counts_ticks_as_in_its_sources() {
        let c = config("freebsd-2.2.1");
        let mut rtt = RttEstimator::new(&c);
        assert_eq!(rtt.rto(&c), Span::from_secs(3));
        let mut after = |counter| {
            rtt.on_ticks(Span::from_ms(60), counter, &c);
            (rtt.srtt32_ticks, rtt.rttvar16_ticks, rtt.rto(&c).as_ns() / 500_000_000)
        };
        assert_eq!(after(1), (32, 8, 3));
        assert_eq!(after(1), (28, 10, 3));
        assert_eq!(after(2), (29, 9, 4));
        for _ in 0..100 {
            after(1);
        }
        assert_eq!(after(1).2, 3);
        assert_eq!(after(4).2, 6);
    }

    /// 300 ms: 4 RTTVAR = 600 ms. While samples of the same round trip come it stays; each new one
    /// takes a quarter of the way to the largest deviation of that round trip, at least 200 ms:
    /// 600 (the first round trip's largest), then 500, 425 ... A round trip of 900 ms raises it at
    /// once: error 600, deviation by then about 0.
    #[test]
    fn the_variation_fades_once_per_round_trip() {
        let c = config("linux-6");
        let mut rtt = RttEstimator::new(&c);
        let mut after = |ms: u64, new_round| {
            rtt.on_sample(Span::from_ms(ms), Span::from_ms(ms), new_round, &c);
            rtt.rto(&c)
        };
        assert_eq!(after(300, true), Span::from_ms(900));
        for _ in 0..50 {
            assert_eq!(after(300, false), Span::from_ms(900));
        }
        assert_eq!(after(300, true), Span::from_ms(900), "its largest was 600");
        assert_eq!(after(300, true), Span::from_ms(800));
        assert_eq!(after(300, true), Span::from_ms(728), "725, in jiffies");
        for _ in 0..50 {
            after(300, true);
        }
        assert_eq!(after(300, true), Span::from_ms(504), "from above, in jiffies");
        let late = after(900, false);
        assert!(late > Span::from_ms(370 + 590), "{late}");
    }

    /// From 3 ticks down to 2: 24 eighths, then 24 + (2 - 3) = 23, whose whole ticks are 2: no
    /// error is left to correct.
    #[test]
    fn the_integer_filter_stays_above_after_a_fall() {
        let mut c = config("ns2-reno");
        c.rto.rtt_tick = Span::from_ms(100);
        let mut rtt = RttEstimator::new(&c);
        rtt.on_sample(Span::from_ms(300), Span::from_ms(300), false, &c);
        for _ in 0..100 {
            rtt.on_sample(Span::from_ms(200), Span::from_ms(200), false, &c);
        }
        assert_eq!(rtt.srtt_in_ticks(), Span::from_us(287_500));
    }

    /// By hand: 100 ms gives 100 + 4 * 50; 140 ms later 105 + 190. After four backoffs 140 ms count
    /// as the first: 140 + 4 * 70.
    // [RFC6298-5-2]
    #[test]
    fn after_many_backoffs_the_estimates_start_anew() {
        for (backoffs, rto_ms) in [(3, 295), (4, 420), (5, 420)] {
            let mut c = config("linux-6");
            c.rto.granularity = Span::from_ms(1);
            (c.rto.min, c.rto.var_min) = (Span::ZERO, Span::ZERO);
            c.rto.rttvar_rule = RttvarRule::Rfc6298;
            c.rto.rtt_restart_backoffs = 4;
            let mut rtt = RttEstimator::new(&c);
            rtt.on_sample(Span::from_ms(100), Span::from_ms(100), false, &c);
            (0..backoffs).for_each(|_| rtt.back_off(&c));
            assert_eq!(rtt.rto(&c), Span::from_ms(300 << backoffs), "in force until a sample");
            rtt.reset_backoff();
            rtt.on_sample(Span::from_ms(140), Span::from_ms(140), false, &c);
            assert_eq!(rtt.rto(&c), Span::from_ms(rto_ms), "{backoffs} backoffs");
        }
    }

    #[test]
    fn a_coarse_clock_bears_on_the_timeout_and_nothing_else() {
        let c = config("ns2-reno");
        let mut rtt = RttEstimator::new(&c);
        for _ in 0..100 {
            rtt.on_sample(Span::from_us(213_400), Span::from_ms(210), false, &c);
        }
        assert_eq!(rtt.srtt(), Span::from_us(213_400));
        assert_eq!(rtt.rto(&c), Span::from_ms(240), "21 ticks, and a variation that stays at three quarters of one");
    }
}
