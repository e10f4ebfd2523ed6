use super::*;
use crate::tcp::cc::AnyCc;
use crate::tcp::cc::rounds::{Loss, Network, Run};

/// 100 ms, 1000 segments per second, room for four bandwidth-delay products.
fn clean() -> Network {
    Network { buffer: 400, ..Network::default() }
}

fn bbr(run: &Run) -> &Bbr3 {
    let AnyCc::Bbr3(bbr) = &run.cc else { panic!("not BBR") };
    bbr
}

/// Runs on in steps of a millisecond until `reached`. Returns when that was.
fn run_to(run: &mut Run, limit: Span, reached: impl Fn(&Run) -> bool) -> Time {
    while !reached(run) {
        assert!(run.now < Time::ZERO + limit, "not reached before {limit}, {:?}", bbr(run).phase());
        run.until(run.now.since(Time::ZERO) + Span::from_ms(1));
    }
    run.now
}

fn run_to_phase(run: &mut Run, phase: Phase) -> Time {
    let limit = run.now.since(Time::ZERO) + Span::from_secs(12);
    run_to(run, limit, |r| bbr(r).phase() == phase)
}

/// The draft, appendix: startup ends on a plateau, with the bandwidth within two percent, and drain
/// when the queue is gone.
#[test]
fn startup_finds_the_bandwidth_and_drain_empties_the_queue() {
    let mut run = Run::new("bbr3", clean());
    run_to_phase(&mut run, Phase::Drain);
    let bandwidth = f64::from(bbr(&run).bandwidth()) / BW_UNIT as f64 * 1e6;
    assert!((bandwidth / 1_000.0 - 1.0).abs() < 0.02, "{bandwidth}");
    assert!(run.queue() > 50, "two bandwidth-delay products: {}", run.queue());
    run_to(&mut run, Span::from_secs(5), |r| bbr(r).phase() != Phase::Drain);
    assert!(run.queue() <= 10, "{}", run.queue());
    let (_, rate) = run.means_until(Span::from_secs(12));
    // A percent of margin, and every five seconds half of the rate for 200 ms and a round or two.
    assert!(rate > 950.0, "{rate}");
    assert_eq!(run.reductions, 0);
}

#[test]
fn the_phases_follow_each_other_with_the_gains_of_the_draft() {
    let mut run = Run::new("bbr3", clean());
    let mut seen = Vec::new();
    let mut since = Time::ZERO;
    while run.now < Time::ZERO + Span::from_secs(14) {
        let phase = bbr(&run).phase();
        run_to(&mut run, Span::from_secs(20), |r| bbr(r).phase() != phase);
        seen.push((phase, bbr(&run).now_percent(phase), run.now.since(since)));
        since = run.now;
    }
    let phases: Vec<Phase> = seen.iter().map(|s| s.0).collect();
    use Phase::{Cruise, Down, Drain, ProbeRtt, Refill, Startup, Up};
    // The flight is down when `Drain` ends, so that `Down` ends at once.
    assert_eq!(phases[..5], [Startup, Drain, Cruise, Refill, Up], "{phases:?}");
    for pair in phases[2..].windows(2) {
        let may: &[Phase] = match pair[0] {
            Down => &[Cruise, Refill, ProbeRtt],
            Cruise => &[Refill, ProbeRtt],
            Refill => &[Up, ProbeRtt],
            Up => &[Down, Cruise, ProbeRtt],
            ProbeRtt => &[Cruise],
            _ => &[],
        };
        assert!(may.contains(&pair[1]), "{phases:?}");
    }
    for (phase, percent, _) in &seen {
        let expected = match phase {
            Startup => 277,
            Drain => 50,
            Down => 90,
            Up => 125,
            Cruise | Refill | ProbeRtt => 100,
        };
        assert!(percent.abs_diff(expected) <= 1, "{phase:?}: {percent}");
    }
    // A round trip of filling; two to three seconds from one descent to the next probe.
    let refills = seen.iter().filter(|s| s.0 == Refill).map(|s| s.2);
    assert!(refills.clone().count() >= 2 && refills.clone().all(|t| t < Span::from_ms(220)), "{seen:?}");
    assert!((2.0..3.1).contains(&seen[2].2.as_secs_f64()), "{seen:?}");
}

impl Bbr3 {
    /// The pacing gain of a phase, percent.
    fn now_percent(&self, phase: Phase) -> u32 {
        let mut other = Bbr3Config::default().build(&crate::tcp::cc::rounds::context());
        other.phase = phase;
        (other.pacing_gain() * 100).div_ceil(UNIT)
    }
}

/// A path of four segments per round trip probes as soon as Reno would have grown by as much, not
/// after two seconds.
#[test]
fn short_pipes_probe_on_the_time_scale_of_reno() {
    let mut run = Run::new("bbr3", Network { rtt: Span::from_ms(39), rate: 250, ..clean() });
    let down = run_to_phase(&mut run, Phase::Down);
    let refill = run_to_phase(&mut run, Phase::Refill);
    // About ten rounds of at least 40 ms.
    assert!((0.2..1.2).contains(&refill.since(down).as_secs_f64()), "{}", refill.since(down));
}

/// Half a bandwidth-delay product of room: probing finds the bound, which then holds, with headroom
/// while it cruises.
#[test]
fn losses_while_it_probes_bound_the_flight_and_cruising_leaves_headroom() {
    let mut run = Run::new("bbr3", Network { buffer: 15, ..Network::default() });
    run_to(&mut run, Span::from_secs(30), |r| bbr(r).inflight_hi != UNSET);
    let hi = bbr(&run).inflight_hi;
    assert!((90..=125).contains(&hi), "100 in the pipe and 15 in the queue: {hi}");
    run_to_phase(&mut run, Phase::Cruise);
    run.until(run.now.since(Time::ZERO) + Span::from_ms(300));
    let most = bbr(&run).with_headroom();
    assert!(most <= bbr(&run).inflight_hi * 86 / 100 && run.w.cwnd <= most, "{most} {}", run.w.cwnd);
    let before = (run.transmissions, run.delivered);
    let (_, rate) = run.means_until(Span::from_secs(60));
    assert!(rate > 850.0, "{rate}");
    let lost = 1.0 - (run.delivered - before.1) as f64 / (run.transmissions - before.0) as f64;
    assert!(lost < 0.02, "{lost}");
}

/// The draft, section 5.3.3.5: one percent of losses costs it little; beyond two percent it yields.
#[test]
fn one_percent_of_random_losses_keeps_the_rate_and_five_do_not() {
    let rate = |every| {
        let mut run = Run::new("bbr3", Network { loss: Loss::Every(every), ..clean() });
        run.until(Span::from_secs(10));
        run.means_until(Span::from_secs(60)).1
    };
    let (one, five) = (rate(100), rate(20));
    assert!(one > 850.0, "{one}");
    assert!(five < 0.8 * one, "{five} of {one}");
}

#[test]
fn every_five_seconds_half_of_the_flight_probes_the_round_trip() {
    let detour = Some((Time::ZERO + Span::from_ms(500), Span::from_ms(20)));
    let mut run = Run::new("bbr3", Network { detour, ..clean() });
    let first = run_to_phase(&mut run, Phase::ProbeRtt);
    assert!((5.0..5.8).contains(&first.as_secs_f64()), "{first}");
    run_to(&mut run, Span::from_secs(12), |r| !bbr(r).probe_rtt_done.is_never());
    assert!((40..=70).contains(&run.w.cwnd), "half of 100 to 120: {}", run.w.cwnd);
    let end = run_to(&mut run, Span::from_secs(12), |r| bbr(r).phase() != Phase::ProbeRtt);
    assert!((0.2..0.6).contains(&end.since(first).as_secs_f64()));
    assert_eq!(bbr(&run).phase(), Phase::Cruise);
    // The old minimum is forgotten after ten seconds.
    run.until(Span::from_secs(16));
    assert_eq!(bbr(&run).min_rtt_us, 120_000);
    let (_, rate) = run.means_until(Span::from_secs(30));
    assert!(rate > 950.0, "{rate}");
}

#[test]
fn without_data_it_neither_ends_startup_nor_loses_its_estimate() {
    let mut run = Run::new("bbr3", Network { application: 8, ..clean() });
    run.until(Span::from_secs(3));
    assert_eq!(bbr(&run).phase(), Phase::Startup);
}

#[test]
fn parameters_are_checked() {
    let parse = |text: &str| serde_json::from_str::<Bbr3Config>(text).map_err(|e| e.to_string());
    assert_eq!(parse("{}"), Ok(Bbr3Config::default()));
    assert!(parse(r#"{"beta": 1.5}"#).unwrap_err().contains("from 0 to 1"));
    assert!(parse(r#"{"headroom": -1}"#).unwrap_err().contains("headroom"));
}
