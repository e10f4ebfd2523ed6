//! Invariants of every registered control: bounds under random operations, and the standard story
//! as a snapshot.

use proptest::prelude::*;

use super::rounds::{Network, Run, context, new_path, sample, window};
use super::{AckSample, CaState, CcConfig, Path, RateSample};
use crate::units::{Span, Time};

/// Operation of a sender on a control. Values are drawn wide on purpose.
#[derive(Debug, Clone)]
enum Operation {
    Ack {
        after_ns: u64,
        rtt_us: u64,
        acked: u32,
        sacked: u32,
        lost: u32,
        limited: bool,
        app_limited: bool,
        sampled: bool,
    },
    Loss,
    Ecn,
    Timeout,
    Recovered,
    Undo,
    Disorder,
    Idle {
        ns: u64,
    },
    Pace,
}

/// Spread evenly over the orders of magnitude.
fn logarithmic(from: u64, to: u64) -> impl Strategy<Value = u64> {
    ((from as f64).ln()..(to as f64).ln()).prop_map(|x| x.exp() as u64)
}

fn operation() -> impl Strategy<Value = Operation> {
    let ack =
        (
            logarithmic(1, 1_000_000_000_000),
            logarithmic(1, 1_000_000_000),
            prop_oneof![Just(0), Just(1), 2u32..100, 100u32..=10_000],
            prop_oneof![Just(0), 0u32..100],
            prop_oneof![Just(0), Just(0), 1u32..100],
            any::<[bool; 3]>(),
        )
            .prop_map(|(after_ns, rtt_us, acked, sacked, lost, [limited, app_limited, sampled])| {
                Operation::Ack { after_ns, rtt_us, acked, sacked, lost, limited, app_limited, sampled }
            });
    prop_oneof![
        20 => ack,
        1 => Just(Operation::Loss),
        1 => Just(Operation::Ecn),
        1 => Just(Operation::Timeout),
        2 => Just(Operation::Recovered),
        1 => Just(Operation::Undo),
        1 => Just(Operation::Disorder),
        1 => logarithmic(1, 1_000_000_000_000).prop_map(|ns| Operation::Idle { ns }),
        1 => Just(Operation::Pace),
    ]
}

fn check(config: &CcConfig, cwnd: u32, clamp: u32, operations: &[Operation]) -> Result<(), TestCaseError> {
    let mut cc = config.build(&context());
    let mut w = window(cwnd.min(clamp));
    let mut path = new_path();
    path.in_flight = w.cwnd;
    path.cwnd_clamp = clamp;
    let (mut delivered, mut una) = (0u64, 0u64);
    for operation in operations {
        let reduction = match operation {
            Operation::Loss => Some(CaState::Recovery),
            Operation::Ecn => Some(CaState::Cwr),
            Operation::Timeout => Some(CaState::Loss),
            _ => None,
        };
        if let Some(to) = reduction {
            let ssthresh = cc.ssthresh(&w, &path);
            prop_assert!(ssthresh >= 2, "ssthresh {ssthresh}");
            (path.prior_cwnd, w.ssthresh) = (w.cwnd, ssthresh);
            cc.on_state(&mut w, &path, to);
            path.state = to;
            if !cc.owns_window() {
                let kept = cc.loss_window(&path);
                prop_assert!(kept >= 1);
                w.cwnd = if to == CaState::Loss { w.cwnd.min(kept) } else { w.cwnd.min(ssthresh) };
            }
        }
        match *operation {
            Operation::Ack { after_ns, rtt_us, acked, sacked, lost, limited, app_limited, sampled } => {
                let rtt = Span::from_us(rtt_us);
                path.now += Span::from_ns(after_ns);
                let newly = acked + sacked;
                let prior_delivered = delivered;
                delivered += u64::from(newly);
                una += u64::from(acked) * u64::from(path.mss);
                path.srtt = if path.srtt.is_zero() { rtt } else { path.srtt.mul_ratio(7, 8) + rtt.mul_ratio(1, 8) };
                path.min_rtt = path.min_rtt.min(rtt);
                let prior_in_flight = path.in_flight;
                path.in_flight = w.cwnd.saturating_sub(lost);
                let ack = AckSample {
                    acked,
                    delivered: newly,
                    credit: acked,
                    lost,
                    rtt: sampled.then_some(rtt),
                    prior_in_flight,
                    total_delivered: delivered,
                    rate: sampled.then_some(RateSample {
                        delivered: newly,
                        interval: rtt,
                        prior_delivered,
                        app_limited,
                    }),
                    ece: false,
                    marked: 0,
                    cwnd_limited: limited,
                    snd_una: una,
                    snd_nxt: una + u64::from(path.in_flight) * u64::from(path.mss),
                };
                let before = w.cwnd;
                if cc.needs_every_ack() {
                    cc.pass_every_ack(&mut w, &path, &ack);
                }
                if cc.owns_window() || !matches!(path.state, CaState::Recovery | CaState::Cwr) {
                    cc.on_ack(&mut w, &path, &ack);
                }
                prop_assert!(limited || cc.owns_window() || w.cwnd <= before, "grew from {before} to {}", w.cwnd);
                prop_assert!(w.cwnd <= before.saturating_add(acked) || cc.owns_window(), "{before} to {}", w.cwnd);
            }
            Operation::Recovered => {
                let was = path.state;
                cc.on_state(&mut w, &path, CaState::Open);
                path.state = CaState::Open;
                if was == CaState::Recovery && !cc.owns_window() {
                    w.cwnd = w.cwnd.min(w.ssthresh);
                }
            }
            Operation::Undo => {
                let undone = cc.undo(&w, &path);
                prop_assert!(undone >= w.cwnd);
                w.cwnd = undone.min(clamp);
            }
            Operation::Disorder => {
                cc.on_state(&mut w, &path, CaState::Disorder);
                path.state = CaState::Disorder;
            }
            Operation::Idle { ns } => {
                path.now += Span::from_ns(ns);
                path.in_flight = 0;
                cc.on_restart(&mut w, &path, Span::from_ns(ns));
                cc.on_transmission_start(&mut w, &path, Span::from_ns(ns), ns % 2 == 0);
            }
            Operation::Pace => {
                if let Some(rate) = cc.pacing_rate(&w, &path) {
                    prop_assert!(rate.as_bps() > 0);
                }
            }
            Operation::Loss | Operation::Ecn | Operation::Timeout => {}
        }
        prop_assert!((1..=clamp).contains(&w.cwnd), "cwnd {} after {operation:?}", w.cwnd);
        prop_assert!(w.ssthresh >= 2, "ssthresh {} after {operation:?}", w.ssthresh);
    }
    Ok(())
}

/// Every control with its defaults, and the variants whose parameters take other paths.
fn configurations() -> Vec<CcConfig> {
    let variants = [
        r#"{"name": "reno", "slow_start_exit": "hystart_plus_plus"}"#,
        r#"{"name": "cubic", "slow_start_exit": "hystart_plus_plus", "c": 1000, "beta": 1, "first_increase": 0}"#,
        r#"{"name": "cubic", "slow_start_exit": "none", "c": 0.001, "beta": 0, "reno_friendly": false}"#,
        r#"{"name": "cubic", "growth": "linux"}"#,
        r#"{"name": "cubic", "growth": "linux", "c": 1000, "beta": 1, "first_increase": 0}"#,
        r#"{"name": "cubic", "growth": "linux", "c": 0.001, "beta": 0}"#,
        r#"{"name": "vegas", "alpha": 0, "beta": 0, "gamma": 0}"#,
        r#"{"name": "bbr", "policer_detection": false, "ack_aggregation": false, "probe_rtt_duration": "0s"}"#,
        r#"{"name": "tcp_av", "base": "cubic", "target": "100Gbit/s", "rtt_min": "window", "floor_rtt": "smoothed"}"#,
        r#"{"name": "tcp_av", "target": "1kbit/s", "rtt_min": "path", "above": "base", "tune_limit": 1, "severe_rounds": 1}"#,
    ];
    let defaults = CcConfig::NAMES.iter().map(|name| CcConfig::by_name(name).unwrap());
    defaults.chain(variants.map(|v| serde_json::from_str(v).unwrap())).collect()
}

proptest! {
    #[test]
    fn every_control_keeps_its_window_in_bounds(
        cwnd in logarithmic(1, 1 << 20),
        clamp in prop_oneof![Just(u32::MAX), 1u32..1 << 20],
        operations in prop::collection::vec(operation(), 1..200),
    ) {
        for config in configurations() {
            check(&config, cwnd as u32, clamp, &operations)
                .map_err(|e| TestCaseError::fail(format!("{config:?}: {e}")))?;
        }
    }
}

/// Slow start into the full buffer, avoidance, then an outage of 1.5 s: a timeout.
#[test]
fn the_standard_story_of_every_control() {
    for name in CcConfig::NAMES {
        let from = Time::ZERO + Span::from_secs(6);
        let mut run =
            Run::new(name, Network { outage: Some((from, from + Span::from_ms(1500))), ..Network::default() });
        run.until(Span::from_secs(12));
        assert!(run.timeouts > 0);
        insta::assert_snapshot!(*name, run.table());
    }
}

/// An exit learns from every ACK, also from those of a recovery, which `on_ack` does not see.
#[test]
fn every_control_that_offers_hystart_lets_it_hear_every_ack() {
    let mut offer = Vec::new();
    for name in CcConfig::NAMES {
        let mut table = serde_json::to_value(CcConfig::by_name(name).unwrap()).unwrap();
        let has_exit = table.get("slow_start_exit").is_some();
        if has_exit {
            table["slow_start_exit"] = "hystart".into();
        } else if table.get("base").is_some() {
            table["base"] = serde_json::json!({ "name": "reno", "slow_start_exit": "hystart" });
        }
        let mut cc = serde_json::from_value::<CcConfig>(table).unwrap().build(&context());
        let hears = cc.needs_every_ack() && cc.slow_start(Time::ZERO).is_some();
        assert!(hears || !has_exit, "{name} offers an exit that hears nothing");
        if !hears {
            continue;
        }
        offer.push(*name);
        let mut w = window(100);
        let mut path = Path { state: CaState::Recovery, ..new_path() };
        for i in 0..20u64 {
            path.now += Span::from_ms(3);
            let rtt = Span::from_ms(if i == 0 { 50 } else { 100 });
            let ack = AckSample {
                rtt: Some(rtt),
                snd_una: 1 + 1_000 * i,
                snd_nxt: if i == 0 { 10 } else { 100_000 },
                ..sample(&w)
            };
            cc.pass_every_ack(&mut w, &path, &ack);
        }
        assert_eq!(w.ssthresh, 100, "{name}: the delay has doubled");
    }
    assert!(["reno", "cubic", "tcp_av", "dctcp"].iter().all(|name| offer.contains(name)), "{offer:?}");
}

#[test]
fn names_parameters_and_schema_follow_from_the_registry() {
    let schema = serde_json::to_string(&schemars::schema_for!(CcConfig)).unwrap();
    for name in CcConfig::NAMES {
        let config: CcConfig = serde_json::from_str(&format!("\"{name}\"")).unwrap();
        assert_eq!(config.name(), *name);
        let table = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<CcConfig>(&table).unwrap(), config);
        assert!(schema.contains(name));
        let unknown = format!(r#"{{"name": "{name}", "no_such_key": 1}}"#);
        assert!(serde_json::from_str::<CcConfig>(&unknown).unwrap_err().to_string().contains("no_such_key"));
    }
}
