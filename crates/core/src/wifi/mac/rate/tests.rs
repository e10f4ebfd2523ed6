//! Requirements on every registered rate control, by name; and the rig that drives one over a
//! scripted channel.

use std::sync::LazyLock;

use proptest::prelude::*;
use rand::RngExt;
use serde_json::json;

use super::*;
use crate::rng::{Rng, Stream};
use crate::units::Span;
use crate::wifi::phy::Signal;
use crate::wifi::phy::timing::{mpdu_bytes, subframe_bytes};

pub(super) fn phy(standard: Standard) -> PhyConfig {
    PhyConfig::of(standard)
}

/// Computed once: it takes a while.
static ERRORS: LazyLock<ErrorModel> = LazyLock::new(ErrorModel::default);

pub(super) fn context(phy: &PhyConfig, seed: u64) -> RateContext {
    RateContext {
        modes: phy.modes(),
        timing: phy.timing().into(),
        stream: Stream::of_test(seed),
        errors: ERRORS.clone(),
    }
}

pub(super) fn config(value: serde_json::Value) -> RateConfig {
    serde_json::from_value(value).unwrap()
}

/// A saturated sender of 1500-byte packets: A-MPDUs of up to 32 MPDUs and 4 ms with HT and VHT,
/// single frames else.
pub(super) struct Sender {
    control: AnyRateControl,
    timing: Timing,
    rng: Rng,
    max_mpdus: u16,
    max_airtime_ns: u64,
    now: Time,
    /// Since [`Sender::forget`].
    pub frames: u32,
    pub samples: u32,
    /// MPDUs, each counted once per series; once per try; those that arrived.
    pub mpdus: u64,
    pub sent: u64,
    pub arrived: u64,
    pub busy_ns: u64,
}

impl Sender {
    pub fn new(config: &RateConfig, phy: &PhyConfig, seed: u64) -> Sender {
        config.check(phy).unwrap();
        Sender {
            control: config.build(&context(phy, seed)),
            timing: phy.timing(),
            rng: Stream::of_test(!seed).open(),
            max_mpdus: 32,
            max_airtime_ns: 4_000_000,
            now: Time::ZERO,
            frames: 0,
            samples: 0,
            mpdus: 0,
            sent: 0,
            arrived: 0,
            busy_ns: 0,
        }
    }

    pub fn without_aggregation(mut self) -> Sender {
        self.max_mpdus = 1;
        self
    }

    pub fn forget(&mut self) {
        (self.frames, self.samples, self.mpdus, self.sent, self.arrived, self.busy_ns) = (0, 0, 0, 0, 0, 0);
    }

    /// MPDUs and bytes of the next PPDU, and whether it is an A-MPDU.
    fn aggregate(&self, series: &RateSeries) -> (u16, u32, bool) {
        let first = series.first().mode;
        let mpdu = mpdu_bytes(1500, true);
        if !first.is_ht_or_later() || series.is_sample() || self.max_mpdus == 1 {
            return (1, mpdu, false);
        }
        let room = self.timing.psdu_bytes_within(first, Span::from_ns(self.max_airtime_ns)).min(65_535);
        let mpdus = (room / subframe_bytes(mpdu)).clamp(1, u32::from(self.max_mpdus));
        (mpdus as u16, mpdus * subframe_bytes(mpdu), true)
    }

    /// DIFS, the mean first backoff, the PPDU and its acknowledgement.
    fn try_ns(&self, mode: Mode, psdu: u32, is_ampdu: bool) -> u64 {
        let response = if is_ampdu { self.timing.block_ack(mode).as_ns() } else { self.timing.ack(mode).as_ns() };
        let access = self.timing.difs().as_ns() + u64::from(self.timing.cw_min) * self.timing.slot.as_ns() / 2;
        access + self.timing.ppdu(mode, psdu).as_ns() + self.timing.sifs.as_ns() + response
    }

    /// MPDUs and duration of a first try of that series.
    fn first_try(&self, series: RateSeries) -> (u16, u64) {
        let (mpdus, psdu, is_ampdu) = self.aggregate(&series);
        (mpdus, self.try_ns(series.first().mode, psdu, is_ampdu))
    }

    /// One frame or A-MPDU through its series. `success` is the probability that an MPDU arrives in
    /// a mode at a time.
    pub fn send(&mut self, snr_db: Option<f32>, success: &mut dyn FnMut(Time, Mode) -> f64) {
        let series = self.control.choose(self.now, false, snr_db);
        let (mpdus, psdu, is_ampdu) = self.aggregate(&series);
        let (mut tries, mut acked) = ([0; 4], 0);
        for n in 0..series.total_tries() {
            let stage = series.stage_of_try(n).unwrap();
            let mode = series.stages()[stage].mode;
            let p = success(self.now, mode);
            acked = (0..mpdus).filter(|_| self.rng.random::<f64>() < p).count() as u16;
            tries[stage] += 1;
            let busy = self.try_ns(mode, psdu, is_ampdu);
            self.now += Span::from_ns(busy);
            self.busy_ns += busy;
            self.sent += u64::from(mpdus);
            if acked > 0 || n == 20 {
                break;
            }
        }
        self.frames += 1;
        self.samples += u32::from(series.is_sample());
        self.mpdus += u64::from(mpdus);
        self.arrived += u64::from(acked);
        self.control.on_status(self.now, &TxStatus { series: &series, tries, mpdus, acked, is_ampdu });
    }

    pub fn run_until(&mut self, end: Time, success: &mut dyn FnMut(Time, Mode) -> f64) {
        while self.now < end {
            self.send(None, success);
        }
    }

    pub fn best(&self) -> Mode {
        self.control.best()
    }
    pub fn goodput_mbps(&self) -> f64 {
        self.arrived as f64 * 12_000.0 * 1e3 / self.busy_ns as f64
    }
    pub fn error_rate(&self) -> f64 {
        1.0 - self.arrived as f64 / self.sent as f64
    }
}

pub(super) fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// Every policy with its defaults and in its variants, with a PHY that it fits.
fn every_config() -> Vec<(RateConfig, PhyConfig)> {
    let wide = |standard| PhyConfig { streams: 2, width_mhz: 40, short_guard_interval: true, ..phy(standard) };
    let phys =
        [phy(Standard::B), phy(Standard::A), phy(Standard::G), phy(Standard::N), wide(Standard::N), wide(Standard::Ac)];
    let mut configs: Vec<RateConfig> =
        RateConfig::NAMES.iter().map(|name| RateConfig::by_name(name).unwrap()).collect();
    configs.push(config(json!({ "name": "minstrel", "multi_rate_retry": false })));
    configs.push(config(json!({ "name": "minstrel", "look_around": 1.0 })));
    configs.push(config(json!({ "name": "minstrel_ht", "sampling": "table" })));
    configs.push(config(json!({ "name": "minstrel_ht", "sample_interval": "0ns", "max_segment": "0ns" })));
    configs.push(config(json!({ "name": "minstrel_ht", "sampling": "table", "sample_wait": 0, "sample_columns": 1, "max_segment": "0ns" })));
    let pairs = phys.iter().flat_map(|p| configs.iter().map(|c| (c.clone(), p.clone())));
    pairs.filter(|(c, p)| c.check(p).is_ok()).collect()
}

#[derive(Debug, Clone)]
enum Op {
    /// Sends; of the statuses still owed all but `keep` come in, and what they say is arbitrary.
    Send {
        is_retransmission: bool,
        snr_db: Option<f32>,
    },
    Status {
        tries: [u8; 4],
        mpdus: u16,
        acked: u16,
        is_ampdu: bool,
    },
    /// A status for a series of some other sender.
    Foreign {
        tries: [u8; 4],
        mode: usize,
    },
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let snr = prop_oneof![Just(None), (-50.0..100.0f32).prop_map(Some), any::<f32>().prop_map(Some)];
    let send = (any::<bool>(), snr).prop_map(|(is_retransmission, snr_db)| Op::Send { is_retransmission, snr_db });
    let small = (prop::array::uniform4(0..8u8), 1..64u16, 0..64u16);
    let any_size = (any::<[u8; 4]>(), any::<u16>(), any::<u16>());
    let status = (prop_oneof![small, any_size], any::<bool>())
        .prop_map(|((tries, mpdus, acked), is_ampdu)| Op::Status { tries, mpdus, acked, is_ampdu });
    let foreign = (any::<[u8; 4]>(), 0..100usize).prop_map(|(tries, mode)| Op::Foreign { tries, mode });
    let pass = prop_oneof![0..5_000u64, 5_000..300_000u64].prop_map(Op::Pass);
    prop::collection::vec(prop_oneof![6 => send, 6 => status, 1 => foreign, 4 => pass], 0..300)
}

/// All series chosen and all modes thought best.
type Choices = Vec<(RateSeries, Mode)>;

fn check_invariants(config: &RateConfig, phy: &PhyConfig, ops: &[Op], seed: u64) -> Result<Choices, TestCaseError> {
    let ctx = context(phy, seed);
    let mut control = config.build(&ctx);
    let mut choices = Vec::new();
    let mut series = control.choose(Time::ZERO, true, None);
    let mut now = Time::ZERO;
    for op in ops {
        match *op {
            Op::Send { is_retransmission, snr_db } => {
                series = control.choose(now, is_retransmission, snr_db);
                prop_assert!(!(is_retransmission && series.is_sample()), "a retransmission as a sample");
            }
            Op::Status { tries, mpdus, acked, is_ampdu } => {
                control.on_status(now, &TxStatus { series: &series, tries, mpdus, acked, is_ampdu });
            }
            Op::Foreign { tries, mode } => {
                let all: Vec<Mode> = Mode::all().collect();
                let other = RateSeries::of(Stage { mode: all[mode % all.len()], tries: 3, rts: false });
                control.on_status(now, &TxStatus { series: &other, tries, mpdus: 5, acked: 3, is_ampdu: true });
            }
            Op::Pass(us) => now += Span::from_us(us),
        }
        prop_assert!((1..=RateSeries::MAX_STAGES).contains(&series.stages().len()));
        for pair in series.stages().windows(2) {
            let both = pair.iter().map(|s| (s.mode, s.rts)).collect::<Vec<_>>();
            prop_assert!(both[0] != both[1], "the same mode twice in a row");
        }
        for stage in series.stages() {
            prop_assert!(stage.tries >= 1);
            prop_assert!(ctx.modes.contains(&stage.mode), "{:?} is not a mode of the PHY", stage.mode);
        }
        prop_assert!(ctx.modes.contains(&control.best()));
        choices.push((series, control.best()));
    }
    Ok(choices)
}

proptest! {
    #[test]
    fn every_rate_control_keeps_to_its_modes_and_repeats_itself(ops in ops(), seed: u64) {
        for (config, phy) in every_config() {
            let choices = check_invariants(&config, &phy, &ops, seed)?;
            let again = check_invariants(&config, &phy, &ops, seed)?;
            prop_assert_eq!(choices, again, "{} is not deterministic", config.name());
        }
    }

    #[test]
    fn a_series_spends_its_tries_in_order(tries in prop::collection::vec(0..6u8, 1..7)) {
        let modes = phy(Standard::G).modes();
        let stage = |i: usize| Stage { mode: modes[i], tries: tries[i], rts: false };
        let series = (1..tries.len()).fold(RateSeries::of(stage(0)), |series, i| series.then(stage(i)));
        prop_assert_eq!(series.stages().len(), tries.len().min(4));
        let spent: Vec<usize> = (0..series.total_tries()).map(|n| series.stage_of_try(n).unwrap()).collect();
        let expected: Vec<usize> =
            series.stages().iter().enumerate().flat_map(|(i, s)| std::iter::repeat_n(i, s.tries.into())).collect();
        prop_assert_eq!(spent, expected);
        prop_assert_eq!(series.stage_of_try(series.total_tries()), None);
    }
}

#[test]
fn there_is_always_something_to_test() {
    for name in RateConfig::NAMES {
        assert!(every_config().iter().any(|(c, _)| c.name() == *name), "{name}");
    }
    assert!(size_of::<RateSeries>() <= 32, "{}", size_of::<RateSeries>());
}

#[test]
fn statuses_that_are_out_of_all_bounds_do_no_harm() {
    for (config, phy) in every_config() {
        let mut control = config.build(&context(&phy, 1));
        for n in 0..3_000u64 {
            let series = control.choose(ms(n), false, Some(f32::NAN));
            let status =
                TxStatus { series: &series, tries: [255; 4], mpdus: u16::MAX, acked: u16::MAX, is_ampdu: true };
            control.on_status(ms(if n % 2 == 0 { n } else { 0 }), &status);
        }
        let series = control.choose(Time::NEVER, false, Some(f32::INFINITY));
        let status = TxStatus { series: &series, tries: [0; 4], mpdus: 0, acked: 9, is_ampdu: false };
        control.on_status(Time::NEVER, &status);
    }
}

#[test]
fn configurations_are_names_or_tables() {
    for name in RateConfig::NAMES {
        assert_eq!(config(json!(name)), RateConfig::by_name(name).unwrap());
        assert_eq!(config(json!({ "name": name })), RateConfig::by_name(name).unwrap());
        let written = serde_json::to_value(RateConfig::by_name(name).unwrap()).unwrap();
        assert_eq!(config(written), RateConfig::by_name(name).unwrap());
    }
}

#[test]
fn the_schema_knows_every_name_and_parameter() {
    let schema = schemars::schema_for!(RateConfig).to_value().to_string();
    for name in RateConfig::NAMES {
        assert!(schema.contains(&format!("\"const\":\"{name}\"")), "{name}: {schema}");
        let written = serde_json::to_value(RateConfig::by_name(name).unwrap()).unwrap();
        for key in written.as_object().unwrap().keys() {
            assert!(schema.contains(&format!("\"{key}\":")), "{name}: {key}");
        }
    }
}

#[test]
fn wrong_values_are_refused_with_what_would_be_right() {
    for (value, message) in [
        (json!("minstrel_htt"), "expected one of `fixed`, `minstrel`, `minstrel_ht`, `ideal`"),
        (json!({ "name": "fixed", "msc": 3 }), "unknown field `msc`"),
        (json!({ "name": "fixed", "mcs": 3, "rate": "6Mbit/s" }), "give one of them"),
        (json!({ "name": "fixed", "streams": 2 }), "`streams` = 2 without `mcs`"),
        (json!({ "name": "fixed", "tries": 0 }), "`tries` = 0: must be from 1 to 255"),
        (json!({ "name": "fixed", "rate": "fast" }), "`fast` is not a data rate"),
        (json!({ "name": "minstrel", "update_interval": "0s" }), "`update_interval` = 0ns: must be above zero"),
        (json!({ "name": "minstrel", "cw_min": 2000 }), "`cw_min` = 2000: must be at most `cw_max` (1023)"),
        (json!({ "name": "minstrel", "look_around": 1.5 }), "a number from 0 to 1"),
        (json!({ "name": "minstrel_ht", "cw_max": 40000 }), "`cw_max` = 40000: must be at most 32767"),
        (json!({ "name": "minstrel_ht", "ewma_old_weight": 1 }), "`ewma_old_weight` = 1: must be below 1"),
        (json!({ "name": "minstrel_ht", "max_retry": 0 }), "`max_retry` = 0: must be from 1 to 255"),
        (json!({ "name": "minstrel_ht", "sample_columns": 0 }), "`sample_columns` = 0: must be from 1 to 255"),
        (json!({ "name": "minstrel_ht", "reference_packet": "1MB" }), "`reference_packet` = 1000000B"),
        (json!({ "name": "minstrel_ht", "min_probability": 0.95 }), "must be at most `max_probability` (0.9)"),
        (json!({ "name": "minstrel_ht", "sampling": "often" }), "`table` or `targeted`"),
        (json!({ "name": "ideal", "max_mpdus": 0 }), "`max_mpdus` = 0: must be from 1 to 65535"),
    ] {
        let error = serde_json::from_value::<RateConfig>(value.clone()).unwrap_err().to_string();
        assert!(error.contains(message), "{value}: {error}");
    }
}

#[test]
fn what_does_not_fit_the_phy_is_refused_with_what_does() {
    let two_streams = |standard| PhyConfig { streams: 2, ..phy(standard) };
    for (value, phy, message) in [
        (
            json!("minstrel"),
            phy(Standard::N),
            "`minstrel` is for 802.11b, a and g: 802.11n takes minstrel_ht or fixed or ideal or arf or aarf or onoe or fallback",
        ),
        (json!("minstrel"), phy(Standard::Ac), "802.11ac takes minstrel_ht"),
        (json!("minstrel_ht"), phy(Standard::G), "`minstrel_ht` is for 802.11n and ac: 802.11g takes minstrel or"),
        (
            json!({ "name": "fixed", "mcs": 8 }),
            phy(Standard::N),
            "`mcs` = 8: not a mode of this 802.11n PHY, which has `mcs` 0, 1, 2, 3, 4, 5, 6, 7",
        ),
        (
            json!({ "name": "fixed", "mcs": 3, "streams": 3 }),
            two_streams(Standard::N),
            "`mcs` = 3 with `streams` = 3: not",
        ),
        (json!({ "name": "fixed", "mcs": 9, "streams": 1 }), two_streams(Standard::N), "`mcs` 0, 1, 2"),
        (json!({ "name": "fixed", "mcs": 9 }), phy(Standard::Ac), "7 (streams = 1), 8 (streams = 1)"),
        (
            json!({ "name": "fixed", "mcs": 3 }),
            phy(Standard::B),
            "which has `rate` 1Mbit/s, 2Mbit/s, 5500kbit/s, 11Mbit/s",
        ),
        (
            json!({ "name": "fixed", "rate": "12Mbit/s" }),
            phy(Standard::B),
            "`rate` = 12Mbit/s: not a mode of this 802.11b PHY, which has `rate` 1Mbit/s",
        ),
        (json!({ "name": "fixed", "rate": "54Mbit/s" }), phy(Standard::N), "`rate` 6500kbit/s, 13Mbit/s"),
    ] {
        let error = config(value.clone()).check(&phy).unwrap_err();
        assert!(error.contains(message), "{value}: {error}");
    }
    for standard in [Standard::B, Standard::A, Standard::G, Standard::N, Standard::Ac] {
        assert_eq!(RateConfig::default_for(&phy(standard)).check(&phy(standard)), Ok(()));
        assert_eq!(config(json!("fixed")).check(&phy(standard)), Ok(()));
        assert_eq!(config(json!("ideal")).check(&phy(standard)), Ok(()));
    }
}

#[test]
fn fixed_takes_the_mode_it_was_told() {
    let wide = |standard| PhyConfig { streams: 2, width_mhz: 40, short_guard_interval: true, ..phy(standard) };
    for (value, phy, name) in [
        (json!("fixed"), phy(Standard::B), "11 Mbit/s"),
        (json!("fixed"), phy(Standard::G), "54 Mbit/s"),
        (json!("fixed"), phy(Standard::N), "MCS 7 20 MHz"),
        (json!("fixed"), wide(Standard::N), "MCS 15 40 MHz SGI"),
        (json!({ "name": "fixed", "mcs": 7 }), wide(Standard::N), "MCS 7 40 MHz SGI"),
        (json!({ "name": "fixed", "mcs": 3, "streams": 2 }), wide(Standard::N), "MCS 11 40 MHz SGI"),
        (json!({ "name": "fixed", "mcs": 11, "streams": 2 }), wide(Standard::N), "MCS 11 40 MHz SGI"),
        (json!({ "name": "fixed", "mcs": 9 }), wide(Standard::Ac), "MCS 9 2SS 40 MHz SGI"),
        (json!({ "name": "fixed", "mcs": 9, "streams": 1 }), wide(Standard::Ac), "MCS 9 1SS 40 MHz SGI"),
        (json!({ "name": "fixed", "rate": "5.5Mbit/s" }), phy(Standard::B), "5.5 Mbit/s"),
        (json!({ "name": "fixed", "rate": "36Mbit/s" }), phy(Standard::A), "36 Mbit/s"),
        (json!({ "name": "fixed", "rate": "39Mbit/s" }), PhyConfig { streams: 2, ..phy(Standard::N) }, "MCS 4 20 MHz"),
    ] {
        let config = config(value);
        config.check(&phy).unwrap();
        let mut control = config.build(&context(&phy, 1));
        assert_eq!(control.best().name().to_string(), name);
        let series = control.choose(Time::ZERO, false, None);
        assert_eq!(series.stages(), [Stage { mode: control.best(), tries: 255, rts: false }]);
        // Nothing that happens moves it.
        let lost = TxStatus { series: &series, tries: [255, 0, 0, 0], mpdus: 1, acked: 0, is_ampdu: false };
        (0..1000).for_each(|n| control.on_status(ms(n), &lost));
        assert_eq!(control.choose(ms(1000), true, Some(-20.0)), series);
    }
}

/// Goodput in bit/s of nothing but first tries in `mode`, of which the share `p` arrives: what a
/// policy is after.
pub(super) fn expected_bps(phy: &PhyConfig, mode: Mode, p: f64) -> f64 {
    let fixed = RateConfig::Fixed(FixedConfig::default());
    let sender = Sender::new(&fixed, phy, 1);
    let (mpdus, busy_ns) = sender.first_try(RateSeries::of(Stage { mode, tries: 1, rts: false }));
    p * f64::from(mpdus) * 12_000.0 * 1e9 / busy_ns as f64
}

/// A Minstrel in each variant, with a PHY that it fits.
fn every_minstrel() -> Vec<(RateConfig, PhyConfig)> {
    let is_usual = |c: &RateConfig| match c {
        RateConfig::Minstrel(c) => c.look_around.is_none(),
        RateConfig::MinstrelHt(c) => !c.max_segment.is_zero(),
        _ => false,
    };
    every_config().into_iter().filter(|(c, _)| is_usual(c)).collect()
}

/// The best a policy could do with the success probability `p(mode)`.
fn optimum_bps(phy: &PhyConfig, p: impl Fn(Mode) -> f64) -> f64 {
    phy.modes().iter().map(|&m| expected_bps(phy, m, p(m))).fold(0.0, f64::max)
}

fn is_targeted(config: &RateConfig) -> bool {
    matches!(config, RateConfig::MinstrelHt(c) if c.sampling == minstrel_ht::Sampling::Targeted)
}

/// As many as make a mean that no single table of samples decides.
const SEEDS: u64 = 10;

fn mean_over_seeds(mut share: impl FnMut(u64) -> f64) -> f64 {
    (1..=SEEDS).map(&mut share).sum::<f64>() / SEEDS as f64
}

#[test]
fn the_minstrels_find_the_last_mode_that_works() {
    for (config, phy) in every_minstrel() {
        for last in phy.modes() {
            // Up to this mode nearly everything arrives, beyond it nothing.
            let p = |mode: Mode| if mode.rate() <= last.rate() { 0.98 } else { 0.0 };
            let best = optimum_bps(&phy, p);
            let share = mean_over_seeds(|seed| {
                let mut sender = Sender::new(&config, &phy, seed);
                sender.run_until(ms(5_000), &mut |_, mode| p(mode));
                expected_bps(&phy, sender.best(), p(sender.best())) / best
            });
            assert!(share >= 0.97, "{share:.3} of the optimum with {last:?}, {config:?}");
        }
    }
}

#[test]
fn the_minstrels_weigh_losses_against_rate() {
    for (config, phy) in every_minstrel() {
        let mut shares = Vec::new();
        for middle in phy.modes() {
            // Success falls from 1 to 0 around `middle`, per stream: more streams are harder.
            let per_stream = |m: Mode| m.rate().as_bps() as f64 / f64::from(m.streams()).powf(0.3);
            let p = |mode: Mode| 1.0 / (1.0 + (per_stream(mode) / per_stream(middle)).powi(6));
            let best = optimum_bps(&phy, p);
            shares.push(mean_over_seeds(|seed| {
                let mut sender = Sender::new(&config, &phy, seed);
                let mut sum = 0.0;
                for t in 0..500 {
                    sender.run_until(ms(10 * t), &mut |_, mode| p(mode));
                    if t >= 300 {
                        sum += expected_bps(&phy, sender.best(), p(sender.best())) / 200.0;
                    }
                }
                sum / best
            }));
        }
        // Estimates are noisy, and neighbours differ little.
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let worst = shares.iter().copied().fold(1.0, f64::min);
        // Linux 6.12 counts data at its length and the rest at the same for all, and takes what was
        // never tried to be good.
        let (least, of_worst) = if is_targeted(&config) { (0.88, 0.82) } else { (0.92, 0.87) };
        assert!(mean > least && worst > of_worst, "{mean:.3}, at worst {worst:.3} of the optimum: {config:?}");
    }
}

#[test]
fn the_minstrels_follow_a_change() {
    for (config, phy) in every_minstrel() {
        let written = serde_json::to_value(&config).unwrap();
        let interval: Span = written["update_interval"].as_str().unwrap().parse().unwrap();
        let used_at_once = if written["multi_rate_retry"] == false { 1 } else { 3 };
        let modes = phy.modes();
        let (low, high) = (modes[modes.len() / 4], modes[modes.len() - 1]);
        let p_up_to = |last: Mode| move |mode: Mode| if mode.rate() <= last.rate() { 0.98 } else { 0.0 };
        let faster = modes.iter().filter(|m| m.rate() > low.rate()).count();
        // Linux 6.12 tests at most one mode in 20 ms, and a random faster one a third of the time.
        let up = if is_targeted(&config) { 30 } else { 20 };
        // Up: one good sample is enough. Down: a mode that was good takes 9 intervals to fall below
        // 10 %
        // (0.75^9 < 0.1), and all that are faster have to be found out, one after the other or as
        // many at once as a series uses.
        for (from, to, intervals) in [(low, high, up), (high, low, 9 + 9 * faster.div_ceil(used_at_once))] {
            let best = optimum_bps(&phy, p_up_to(to));
            let mut at_the_change = 0.0;
            let share = mean_over_seeds(|seed| {
                let mut sender = Sender::new(&config, &phy, seed);
                sender.run_until(ms(5_000), &mut |_, mode| p_up_to(from)(mode));
                let expected = |mode: Mode| expected_bps(&phy, mode, p_up_to(to)(mode)) / best;
                at_the_change += expected(sender.best()) / SEEDS as f64;
                let end = ms(5_000) + interval.saturating_mul(intervals as u64);
                sender.run_until(end, &mut |_, mode| p_up_to(to)(mode));
                expected(sender.best())
            });
            println!("{share:.3} {from:?} to {to:?} {config:?}");
            assert!(at_the_change < 0.9, "nothing to follow");
            assert!(share >= 0.9, "{from:?} to {to:?}: {share:.3} of the optimum, {config:?}");
        }
    }
}

#[test]
fn samples_keep_to_their_share() {
    // Nothing works but the slowest mode, so that there is always something left to test.
    let slowest_only = |phy: &PhyConfig| {
        let slowest = phy.modes()[0];
        move |_: Time, mode: Mode| if mode == slowest { 1.0 } else { 0.0 }
    };
    // Frames: one in ten, or in twenty without a series of rates, or as told.
    for (value, every) in [
        (json!("minstrel"), 10.0),
        (json!({ "name": "minstrel", "multi_rate_retry": false }), 20.0),
        (json!({ "name": "minstrel", "look_around": 0.25 }), 4.0),
    ] {
        let phy = phy(Standard::G);
        let mut sender = Sender::new(&config(value), &phy, 1);
        let mut works = slowest_only(&phy);
        (0..10_000).for_each(|_| sender.send(None, &mut works));
        let expected = 10_000.0 / every;
        assert!((f64::from(sender.samples) - expected).abs() <= 2.0, "{} of {expected}", sender.samples);
    }
    // MPDUs: at most one in `sample_wait` and twice the mean A-MPDU length; or frames, at most one
    // in
    // `sample_interval`.
    for (mpdus, aggregated) in [(1, false), (32, true)] {
        for sampling in ["table", "targeted"] {
            let phy = phy(Standard::N);
            let value = json!({ "name": "minstrel_ht", "sampling": sampling, "samples_per_interval": 1000 });
            let mut sender = Sender::new(&config(value), &phy, 1);
            // Aggregates of 32 MPDUs, and no mode but MCS 3 works, so that faster ones are always
            // worth a test.
            let mut works = |_: Time, mode: Mode| if mode.mcs() == Some(3) { 1.0 } else { 0.0 };
            if !aggregated {
                sender = sender.without_aggregation();
            } else {
                sender.max_airtime_ns = u64::MAX;
            }
            sender.run_until(ms(3_000), &mut works);
            sender.forget();
            sender.run_until(ms(60_000), &mut works);
            if sampling == "targeted" {
                // Three of the six aims find the next faster mode, if it was not tested since the
                // last evaluation.
                let samples = 1_000..=57_000 / 20;
                assert!(samples.contains(&sender.samples), "{} not in {samples:?}", sender.samples);
                continue;
            }
            let mpdus_per_sample = sender.mpdus as f64 / f64::from(sender.samples);
            let wait = f64::from(16 + 2 * mpdus);
            // A sample waits for the end of an aggregate, and now and then for a mode that deserves
            // it.
            let in_time = wait..=wait + 2.0 * f64::from(mpdus);
            assert!(in_time.contains(&mpdus_per_sample), "{mpdus_per_sample} not in {in_time:?}, {sampling}");
        }
    }
}

#[test]
fn samples_are_single_tries_and_never_retransmissions() {
    for sampling in ["table", "targeted"] {
        let phy = PhyConfig { streams: 2, ..phy(Standard::N) };
        let mut control = config(json!({ "name": "minstrel_ht", "sampling": sampling })).build(&context(&phy, 5));
        let mut samples = 0;
        for n in 0..5_000u64 {
            let is_retransmission = n % 3 == 0;
            let usual = control.choose(ms(n), true, None);
            assert!(!usual.is_sample());
            let series = control.choose(ms(n), is_retransmission, None);
            if series.is_sample() {
                assert!(!is_retransmission);
                assert_eq!(series.first(), Stage { tries: 1, rts: false, ..series.first() });
                assert_eq!(&series.stages()[1..], &usual.stages()[1..], "a sample stands for the first stage");
                samples += 1;
            } else {
                assert_eq!(series, usual);
            }
            let last = series.stages().iter().position(|s| s.mode.mcs() <= Some(4));
            let mut tries = [0; 4];
            (0..=last.unwrap_or(series.stages().len() - 1)).for_each(|i| tries[i] = 1);
            let acked = u16::from(last.is_some());
            let status = TxStatus { series: &series, tries, mpdus: 1, acked, is_ampdu: false };
            control.on_status(ms(n), &status);
        }
        assert!(samples > 50, "{samples}");
        assert_eq!(control.best().name().to_string(), "MCS 4 20 MHz");
    }
}

/// Mean goodput in Mbit/s, share of MPDUs sent in vain, and mean MAC rate in Mbit/s by airtime over
/// a minute with shadowing.
fn over_a_fading_channel(config: &RateConfig, phy: &PhyConfig, snr_db: f64) -> (f64, f64, f64) {
    let signal = json!({ "kind": "snr", "snr_db": snr_db, "shadowing": { "sigma_db": 4.0, "correlation": "1s" } });
    let signal = serde_json::from_value(signal).unwrap();
    let mut signal = Signal::new(&signal, phy, &ERRORS, Stream::of_test(11));
    let mut sender = Sender::new(config, phy, 12);
    let (mut rate_sum, mut tries) = (0.0, 0.0);
    while sender.now < ms(60_000) {
        let quality = signal.link(sender.now);
        let mpdu = mpdu_bytes(1500, true);
        let mut success = |_: Time, mode: Mode| {
            rate_sum += mode.rate().as_bps() as f64 / 1e6;
            tries += 1.0;
            signal.mpdu_success(quality, mode, mpdu)
        };
        sender.send(quality.snr_db(), &mut success);
    }
    (sender.goodput_mbps(), sender.error_rate(), rate_sum / tries)
}

/// The study's Figure 5 has mean error rates between 0.05 and 0.2 wherever the station is. On this
/// channel Minstrel-HT loses 0.23, 0.15, 0.12, 0.10, 0.03 of its MPDUs at 10, 15, 20, 25, 30 dB. No
/// bound is set on that: the study's channel is not known. The test requires that `ideal` is the
/// bound, and that Minstrel-HT gets more than half of it.
#[test]
fn minstrel_ht_comes_near_the_ideal_over_a_fading_channel() {
    let phy = PhyConfig { streams: 2, width_mhz: 40, short_guard_interval: true, ..phy(Standard::N) };
    for snr_db in [10.0, 15.0, 20.0, 25.0, 30.0] {
        let (ideal, ideal_errors, _) = over_a_fading_channel(&RateConfig::by_name("ideal").unwrap(), &phy, snr_db);
        for value in [
            json!("minstrel_ht"),
            json!({ "name": "minstrel_ht", "sampling": "table" }),
            json!({ "name": "minstrel_ht", "sampling": "table", "update_interval": "100ms" }),
        ] {
            let (goodput, errors, rate) = over_a_fading_channel(&config(value.clone()), &phy, snr_db);
            println!(
                "{snr_db} dB, {value}: {goodput:.0} of {ideal:.0} Mbit/s, errors {errors:.3}, rate {rate:.0} Mbit/s"
            );
            assert!(
                goodput < ideal && goodput > 0.5 * ideal,
                "{snr_db} dB: {goodput:.1} of {ideal:.1} Mbit/s, {value}"
            );
            assert!(errors > ideal_errors, "{snr_db} dB: nobody errs less than the one who knows, {value}");
        }
    }
}

#[test]
fn the_ideal_takes_the_mode_with_the_highest_goodput() {
    for phy in [phy(Standard::B), phy(Standard::G), PhyConfig { streams: 2, width_mhz: 40, ..phy(Standard::N) }] {
        let mut control = RateConfig::by_name("ideal").unwrap().build(&context(&phy, 1));
        assert!(control.wants_snr());
        let fastest = phy.modes().into_iter().max_by_key(|m| m.rate()).unwrap();
        assert_eq!(control.choose(Time::ZERO, false, None).first().mode, fastest, "nothing known");
        for (snr_db, expected) in [(f32::INFINITY, fastest), (1e9, fastest), (50.0, fastest), (-1e9, phy.modes()[0])] {
            assert_eq!(control.choose(Time::ZERO, false, Some(snr_db)).first().mode, expected, "{snr_db} dB");
            assert_eq!(control.best(), expected);
        }
        let mut last = 0.0;
        for step in -20..=160 {
            let snr_db = step as f32 / 4.0;
            let success = |mode: Mode| ERRORS.mpdu_success(mode, snr_db, mpdu_bytes(1500, true));
            let chosen = control.choose(Time::ZERO, false, Some(snr_db)).first().mode;
            let goodput = expected_bps(&phy, chosen, success(chosen));
            assert!(goodput >= 0.999 * optimum_bps(&phy, success), "{chosen:?} at {snr_db} dB");
            assert!(goodput >= last, "goodput falls with a better signal");
            last = goodput;
        }
    }
}

#[test]
fn a_series_is_the_best_three_and_the_most_reliable() {
    let phy = phy(Standard::N);
    let mut control = RateConfig::by_name("minstrel_ht").unwrap().build(&context(&phy, 1));
    let modes = phy.modes();
    // Acknowledged of 20 single MPDUs. Throughput about 0.2 * 65, 0.8 * 52, 0.9 * 39 (capped), 0.9
    // * 26, 0.05 * 58.5.
    for (mcs, acked) in [(7, 4), (6, 1), (5, 16), (4, 18), (3, 20)] {
        let series = RateSeries::of(Stage { mode: modes[mcs], tries: 1, rts: false });
        for n in 0..20 {
            let status = TxStatus {
                series: &series,
                tries: [1, 0, 0, 0],
                mpdus: 1,
                acked: u16::from(n < acked),
                is_ampdu: false,
            };
            control.on_status(ms(0), &status);
        }
    }
    // Nothing is concluded before the interval ends.
    assert_eq!(control.best(), modes[0]);
    let nothing = RateSeries::of(Stage { mode: modes[0], tries: 1, rts: false });
    control.on_status(ms(49), &TxStatus { series: &nothing, tries: [0; 4], mpdus: 0, acked: 0, is_ampdu: false });
    assert_eq!(control.best(), modes[0]);
    control.on_status(ms(50), &TxStatus { series: &nothing, tries: [0; 4], mpdus: 0, acked: 0, is_ampdu: false });
    assert_eq!(control.best(), modes[0]);
    control.on_status(ms(51), &TxStatus { series: &nothing, tries: [0; 4], mpdus: 0, acked: 0, is_ampdu: false });
    assert_eq!(control.best(), modes[5]);
    // The best three, then the fastest that is reliable: above three quarters.
    let chain = control.choose(ms(51), true, None);
    let stages: Vec<(Mode, bool)> = chain.stages().iter().map(|s| (s.mode, s.rts)).collect();
    assert_eq!(stages, [(modes[5], false), (modes[4], true), (modes[3], true), (modes[5], true)]);
}
