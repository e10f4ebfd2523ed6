//! Worked examples, stories of one daemon, and properties over random samples and announcements.

use proptest::prelude::*;

use super::*;
use crate::rng::{Purpose, stream};
use crate::units::{DataRate, Span, Time};

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}
fn daemon(config: CoopConfig) -> Daemon {
    config.check().unwrap();
    Daemon::new(config, TerminalId::new(1).unwrap(), stream(1, 0, Purpose::Coop), Time::ZERO)
}
fn sample(rtt_ms: u64, delivered_bytes: u64) -> FlowSample {
    let rtt = Some(Span::from_ms(rtt_ms));
    FlowSample { id: FlowId(7), rtt, least_rtt: None, delivered_bytes, sending: true }
}
fn announcement(sender: u64, sequence: u32, flows: u16) -> Announcement {
    let sender = TerminalId::new(sender).unwrap();
    Announcement { sender, sequence, flows, leaving: false, correcting: false, throughput_kbps: None }
}

/// A terminal with one connection in virtual time: samples every 100 ms, and `others` that announce
/// themselves each second.
struct Terminal {
    daemon: Daemon,
    now: u64,
    delivered: u64,
    others: u64,
    /// So many of them report correction.
    correcting: u64,
}

impl Terminal {
    fn new(config: CoopConfig, others: u64) -> Terminal {
        Terminal { daemon: daemon(config), now: 0, delivered: 0, others, correcting: 0 }
    }
    /// The cap after each of the samples of the next `ms`, of which the RTT is `rtt_ms`.
    fn run(&mut self, ms: u64, rtt_ms: u64) -> Vec<Option<u32>> {
        let (end, mut seen) = (self.now + ms, Vec::new());
        while self.now < end {
            if self.now % 1000 == 0 {
                for other in 0..self.others {
                    let correcting = other < self.correcting;
                    let a = Announcement { correcting, ..announcement(100 + other, (self.now / 1000) as u32, 1) };
                    self.daemon.on_announcement(at(self.now), &a.encode()).unwrap();
                }
            }
            self.delivered += 1500;
            let mut caps = Vec::new();
            self.daemon.on_sample(at(self.now), &[sample(rtt_ms, self.delivered)], &mut caps);
            seen.push(caps[0]);
            self.now += 100;
        }
        seen
    }
}

#[test]
fn equation_1_for_19_mbit_and_256_ms() {
    let config = CoopConfig::default();
    // 19e6 n^-0.15 0.256 / (12000 n), by hand calculator: 405.33, 182.66, 114.58, 82.31, 63.68,
    // 51.63, 43.25, 37.09, 32.39, 28.70
    let expected = [405, 182, 114, 82, 63, 51, 43, 37, 32, 28];
    for (n, expected) in (1..).zip(expected) {
        assert_eq!(config.ideal_cwnd(DataRate::from_mbps(19), Span::from_ms(256), n, n), expected, "{n}");
    }
    // Together they are what n reach together: 13.45 Mbit/s at 10.
    assert_eq!((config.bandwidth(DataRate::from_mbps(19), 10) / 1e4) as u32, 1345);
}

#[test]
fn the_cap_comes_at_a_ratio_of_six_and_is_the_share_of_ten() {
    for (rtt_in_cap, at_entry) in [(CapRtt::Min, 28), (CapRtt::Current, 172)] {
        let mut t = Terminal::new(CoopConfig { rtt_in_cap, ..CoopConfig::default() }, 9);
        assert!(t.run(2000, 256).iter().all(Option::is_none));
        assert_eq!(t.daemon.terminals(), 10);
        assert!(t.run(2000, 1535).iter().all(Option::is_none)); // 5.996
        assert_eq!(t.run(100, 1536), [Some(at_entry)]);
        assert_eq!(t.run(100, 800), [Some(if rtt_in_cap == CapRtt::Min { 28 } else { 89 })]);
    }
}

#[test]
fn stop_mode_waits_for_a_round_trip_and_ends_when_the_queue_has_drained() {
    let mut t = Terminal::new(CoopConfig { rtt_in_cap: CapRtt::Min, ..CoopConfig::default() }, 9);
    t.run(2000, 256);
    // In force from the first of these; 1.6 s later it has been for a round trip.
    let caps = t.run(3000, 1600);
    assert_eq!(caps.iter().position(|&c| c == Some(1)), Some(16));
    assert!(caps[..16].iter().all(|&c| c == Some(28)));
    assert!(caps[16..].iter().all(|&c| c == Some(1)));
    assert_eq!(t.run(100, 768), [Some(1)]); // 3.0
    assert_eq!(t.run(100, 767), [Some(28)]);
}

#[test]
fn the_window_of_stop_mode_is_a_parameter() {
    for stop_cap in [1, 2, 3] {
        let mut t = Terminal::new(CoopConfig { stop_cap, ..CoopConfig::default() }, 9);
        t.run(2000, 256);
        assert_eq!(t.run(3000, 1600).last(), Some(&Some(stop_cap)));
    }
    assert_eq!(CoopConfig::default().stop_cap, 1, "the source's");
}

#[test]
fn another_path_of_one_connection_leaves_the_others_and_the_terminals() {
    let mut d = daemon(CoopConfig::default());
    let mut caps = Vec::new();
    let pair = |rtt_ms, bytes| [7, 8].map(|id| FlowSample { id: FlowId(id), ..sample(rtt_ms, bytes) });
    for second in 0..3u32 {
        d.on_announcement(at(u64::from(second) * 1000), &announcement(9, second, 1).encode()).unwrap();
        d.on_sample(at(u64::from(second) * 1000), &pair(20, 1500 * u64::from(second)), &mut caps);
    }
    d.on_sample(at(2100), &pair(200, 6000), &mut caps);
    assert!(caps.iter().all(Option::is_some), "{caps:?}");
    d.on_flow_path_change(FlowId(8));
    d.on_flow_path_change(FlowId(99));
    d.on_sample(at(2200), &pair(200, 7500), &mut caps);
    assert!(caps[0].is_some() && caps[1].is_none(), "{caps:?}");
    assert_eq!(d.terminals(), 2);
}

#[test]
fn the_cap_is_lifted_after_a_long_calm_and_follows_n() {
    let mut t = Terminal::new(CoopConfig { rtt_in_cap: CapRtt::Min, ..CoopConfig::default() }, 9);
    t.run(2000, 256);
    t.run(200, 1600);
    assert!(t.run(20_000, 300).iter().all(|&c| c == Some(28)));
    t.others = 1;
    let caps = t.run(9900, 300);
    assert_eq!((caps[0], caps[98]), (Some(28), Some(182)));
    assert_eq!(t.run(1000, 300)[3], None); // 30 s after the first low ratio
}

#[test]
fn what_others_report_caps_who_is_congested_too() {
    let config = CoopConfig { rtt_in_cap: CapRtt::Min, shared_peers: 2, ..CoopConfig::default() };
    let mut t = Terminal::new(config, 9);
    t.run(2000, 256);
    t.correcting = 1;
    assert!(t.run(3000, 1000).iter().all(Option::is_none)); // one may be wrong
    t.correcting = 2;
    assert!(t.run(3000, 383).iter().all(Option::is_none)); // 1.496
    assert_eq!(t.run(100, 384), [Some(28)]);
    assert!(matches!(t.daemon.phase(FlowId(7)), Some(Phase::Shared { .. })));
    // Neither stop mode nor a report of its own, though the ratio is 5 and more; both come with 6.
    assert!(t.run(5000, 1400).iter().all(|&c| c == Some(28)));
    let reports =
        |t: &mut Terminal| Announcement::decode(&t.daemon.on_deadline(at(t.now)).unwrap()).unwrap().correcting;
    assert!(!reports(&mut t));
    t.run(1900, 1536);
    assert!(reports(&mut t) && t.run(100, 1536) == [Some(1)]);
}

#[test]
fn a_shared_cap_ends_a_stated_time_after_the_reports_or_the_congestion() {
    for congested in [true, false] {
        let mut t = Terminal::new(CoopConfig { rtt_in_cap: CapRtt::Min, ..CoopConfig::default() }, 9);
        t.run(2000, 256);
        t.correcting = 5;
        assert_eq!(t.run(3000, 1000).last(), Some(&Some(28)));
        (t.correcting, t.others) = if congested { (0, 9) } else { (5, 9) };
        let caps = t.run(40_000, if congested { 1000 } else { 380 });
        // The last report is taken back with the first announcement, the last long RTT with the
        // first sample.
        assert!(caps.iter().position(Option::is_none).is_some_and(|i| (298..=300).contains(&i)), "{caps:?}");
    }
}

#[test]
fn a_lifted_cap_is_back_when_the_queue_is() {
    for (phases, back) in [(Phases::Shared, Some(22)), (Phases::Own, None)] {
        let mut t = Terminal::new(
            CoopConfig {
                rtt_in_cap: CapRtt::Min,
                bw_max: BwMax::Given(DataRate::from_bps(15_200_000)),
                phases,
                ..CoopConfig::default()
            },
            9,
        );
        t.run(2000, 256);
        t.run(200, 1600);
        assert_eq!(t.run(30_200, 257).last(), Some(&None));
        assert_eq!(t.run(25_000, 383).last(), Some(&None)); // 1.496
        assert_eq!(t.run(100, 384), [back]);
        // After 30 s it is the ratio of the source again.
        let mut t = Terminal::new(CoopConfig { phases, ..CoopConfig::default() }, 9);
        t.run(2000, 256);
        t.run(200, 1600);
        t.run(61_000, 257);
        assert!(t.run(5000, 1500).iter().all(Option::is_none));
    }
}

#[test]
fn by_the_letter_of_the_source_no_report_counts() {
    let mut t = Terminal::new(CoopConfig { phases: Phases::Own, ..CoopConfig::default() }, 9);
    t.correcting = 9;
    t.run(2000, 256);
    assert!(t.run(10_000, 1500).iter().all(Option::is_none));
}

#[test]
fn several_connections_share_what_the_terminal_gets() {
    for (count, expected) in [(Count::Terminals, 91), (Count::Flows, 121)] {
        let mut d = daemon(CoopConfig { rtt_in_cap: CapRtt::Min, count, ..CoopConfig::default() });
        for s in 0..2 {
            d.on_announcement(at(1000 * u64::from(s)), &announcement(2, s, 1).encode()).unwrap();
        }
        let both = |rtt, delivered| [0, 1].map(|id| FlowSample { id: FlowId(id), ..sample(rtt, delivered) });
        let mut caps = Vec::new();
        d.on_sample(at(1000), &both(256, 0), &mut caps);
        d.on_sample(at(1100), &both(1600, 1500), &mut caps);
        assert_eq!(caps, [Some(expected); 2], "{count:?}");
        // One that ceases to send leaves its share to the other.
        let mut flows = both(1600, 3000);
        flows[1].sending = false;
        d.on_sample(at(1200), &flows, &mut caps);
        assert_eq!(caps, [Some(182), None]);
    }
}

#[test]
fn a_longer_path_is_not_taken_for_a_queue_for_ever() {
    let config = CoopConfig::default();
    let bound = 3 * (3000 + 300 + 200) + 30_000 + 1000;
    let mut t = Terminal::new(config, 0);
    t.run(5000, 20);
    let caps = t.run(bound, 300);
    assert!(caps.contains(&Some(1)) && caps.last() == Some(&None));
    t.daemon.on_path_change();
    assert!(t.run(5000, 3000).iter().all(Option::is_none));
}

#[test]
fn a_terminal_announces_itself_while_it_sends_and_twice_after() {
    let mut d = daemon(CoopConfig::default());
    let (mut heard, mut caps) = (Vec::new(), Vec::new());
    for ms in 0..20_000 {
        if d.sample_at() <= at(ms) {
            let sending = (5000..10_000).contains(&ms);
            d.on_sample(at(ms), &[FlowSample { sending, ..sample(256, ms * 125) }], &mut caps);
        }
        if let Some(bytes) = d.on_deadline(at(ms)) {
            heard.push((ms, Announcement::decode(&bytes).unwrap()));
        }
        assert!(d.deadline() > at(ms));
    }
    assert!((5000..=5100).contains(&heard[0].0), "{heard:?}");
    assert!(heard.windows(2).all(|w| (900..=1101).contains(&(w[1].0 - w[0].0))));
    assert!(heard.windows(2).all(|w| w[1].1.sequence == w[0].1.sequence.wrapping_add(1)));
    let flows: Vec<u16> = heard.iter().map(|(_, a)| a.flows).collect();
    assert_eq!(flows.iter().filter(|&&f| f == 0).count(), 2);
    assert_eq!(flows[flows.len() - 2..], [0, 0]);
    assert!(heard[1..4].iter().all(|(_, a)| a.throughput_kbps.is_some_and(|k| k.abs_diff(1000) < 120)), "{heard:?}");
    assert!(Announcement::decode(&d.leave(at(20_000))).unwrap().leaving);
}

#[test]
fn the_bandwidth_is_learnt_from_all_and_bounded() {
    let config = CoopConfig { bw_max: BwMax::Learn, learn_max: DataRate::from_mbps(54), ..CoopConfig::default() };
    let mut d = daemon(config);
    let mut caps = Vec::new();
    for ms in 0..10_000 {
        if ms % 1000 == 0 {
            let a = Announcement { throughput_kbps: Some(8000), ..announcement(2, ms as u32, 1) };
            d.on_announcement(at(ms), &a.encode()).unwrap();
        }
        if d.sample_at() <= at(ms) {
            d.on_sample(at(ms), &[sample(256, ms * 1000)], &mut caps); // 8 Mbit/s
        }
        d.on_deadline(at(ms));
    }
    // 16 Mbit/s of two are 17.75 of one; the own part is measured over samples of 100 ms.
    let learnt = d.bw_max(at(10_000)).unwrap().as_bps() as f64 / 1e6;
    assert!((17.0..19.0).contains(&learnt), "{learnt}");
    let greedy = Announcement { throughput_kbps: Some(u32::MAX), ..announcement(2, 20_000, 1) };
    d.on_announcement(at(10_000), &greedy.encode()).unwrap();
    d.on_deadline(at(11_500));
    assert_eq!(d.bw_max(at(11_500)), Some(DataRate::from_mbps(54)));
}

#[test]
fn a_configuration_is_checked() {
    let read = |text: &str| toml::from_str::<CoopConfig>(text).map_err(|e| e.to_string());
    assert_eq!(read(""), Ok(CoopConfig::default()));
    assert_eq!(read("bw_max = \"learn\"").unwrap().bw_max, BwMax::Learn);
    let config = CoopConfig { bw_max: BwMax::Learn, ..CoopConfig::default() };
    assert_eq!(toml::from_str(&toml::to_string(&config).unwrap()), Ok(config));
    for (text, message) in [
        (
            "bw_max = \"fast\"",
            "`fast` is not a data rate: a number with bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s, such as \"100Mbit/s\", or \"learn\"",
        ),
        ("bw_max = 3", "expected \"learn\" or a data rate such as \"19Mbit/s\""),
        ("exponent = 0.15", "`exponent` = 0.15: must be from -1 to 0"),
        ("stop_exit = 5.5", "`stop_exit` = 5.5: must be a number above 1 and at most `stop_at` (5)"),
        ("correct_at = nan", "`correct_at` = NaN: must be a number above 1 and at most 1000000"),
        ("min_cap = 0", "`min_cap` = 0: must be at least 1"),
        ("stop_cap = 0", "`stop_cap` = 0: must be at least 1"),
        ("sample_every = \"0s\"", "`sample_every` = 0ns: must be above zero"),
        ("expire_after = \"1s\"", "`expire_after` = 1s: must be longer than `announce_every` (1s)"),
        ("phases = \"both\"", "unknown variant `both`, expected `own` or `shared`"),
        ("shared_at = 1", "`shared_at` = 1: must be a number above 1 and at most 1000000"),
        ("shared_peers = 0", "`shared_peers` = 0: must be at least 1"),
        ("shared_for = \"0s\"", "`shared_for` = 0ns: must be above zero"),
        ("cap = 3", "unknown field `cap`"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[derive(Debug, Clone)]
enum Op {
    Wait(u64),
    /// RTT in ms (0: not measured), bytes delivered, and whether it sends, of up to three
    /// connections.
    Sample(Vec<(u64, u16, bool)>),
    /// From one of few names or any, so that duplicates, overtaking and restarts are common.
    Announce(u64, u32, u16, [bool; 2], Option<u32>),
    Bytes(Vec<u8>),
    Deadline,
    PathChange,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let sender = prop_oneof![1u64..6, 1..=u64::MAX];
    let sequence = prop_oneof![0u32..200, any::<u32>()];
    let rtt = prop_oneof![Just(0u64), 1u64..50, 200u64..400, 1000u64..5000];
    let op = prop_oneof![
        2 => (0u64..3000).prop_map(Op::Wait),
        8 => prop::collection::vec((rtt, any::<u16>(), prop::bool::weighted(0.8)), 0..3).prop_map(Op::Sample),
        4 => (sender, sequence, any::<u16>(), any::<[bool; 2]>(), any::<Option<u32>>())
            .prop_map(|(s, q, f, of, t)| Op::Announce(s, q, f, of, t)),
        1 => prop::collection::vec(any::<u8>(), 0..30).prop_map(Op::Bytes),
        3 => Just(Op::Deadline),
        1 => Just(Op::PathChange),
    ];
    prop::collection::vec(op, 0..400)
}

fn configs() -> impl Strategy<Value = CoopConfig> {
    (any::<[bool; 4]>(), 1u32..4, 1u16..20, 0u8..4, 1.0f64..5.0, 100u64..10_000, 1u16..3).prop_map(
        |([learn, min, flows, shared], min_cap, max_peers, relearn_after, stop_exit, stop_max, shared_peers)| {
            let default = CoopConfig::default();
            CoopConfig {
                bw_max: if learn { BwMax::Learn } else { default.bw_max },
                rtt_in_cap: if min { CapRtt::Min } else { CapRtt::Current },
                count: if flows { Count::Flows } else { Count::Terminals },
                phases: if shared { Phases::Shared } else { Phases::Own },
                shared_peers,
                min_cap,
                max_peers,
                relearn_after,
                stop_exit: stop_exit.max(1.01),
                stop_max: Span::from_ms(stop_max),
                min_rtt_window: Span::from_secs(60),
                ..default
            }
        },
    )
}

/// When, and what was capped or announced.
type Story = Vec<(u64, Vec<Option<u32>>)>;

/// Plays `ops`; what was announced and capped, in order.
fn play(config: &CoopConfig, ops: &[Op]) -> Result<Story, TestCaseError> {
    let mut d = daemon(config.clone());
    let (mut ms, mut story, mut caps) = (0, Vec::new(), Vec::new());
    let mut delivered = [0u64; 3];
    let mut own = [10u32; 3];
    let mut stopped_since = [None; 3];
    for op in ops {
        match op {
            Op::Wait(span) => ms += span,
            Op::Sample(flows) => {
                let samples: Vec<FlowSample> = (0..)
                    .zip(flows)
                    .map(|(i, &(rtt, bytes, sending))| {
                        delivered[i] += u64::from(bytes);
                        let rtt = Some(Span::from_ms(rtt)).filter(|r| !r.is_zero());
                        FlowSample {
                            id: FlowId(i as u64),
                            rtt,
                            least_rtt: None,
                            delivered_bytes: delivered[i],
                            sending,
                        }
                    })
                    .collect();
                ms += 100;
                d.on_sample(at(ms), &samples, &mut caps);
                prop_assert_eq!(caps.len(), samples.len());
                for (i, &cap) in caps.iter().enumerate() {
                    // A sender whose window is the lesser of its own and the cap, its own going its
                    // way.
                    own[i] = own[i].wrapping_mul(1_664_525).wrapping_add(1_013_904_223) >> 8;
                    let window = cap.map_or(own[i], |cap| cap.min(own[i]));
                    prop_assert!(window <= own[i]);
                    let phase = d.phase(FlowId(i as u64)).unwrap();
                    match phase {
                        Phase::Free => prop_assert_eq!(cap, None),
                        Phase::Correction { .. } | Phase::Shared { .. } => {
                            prop_assert!(cap.is_none_or(|c| c >= config.min_cap));
                        }
                        Phase::Stop { since } => {
                            prop_assert_eq!(cap, Some(config.stop_cap));
                            // No longer than the bound, and two stops are not one: the cap of the
                            // correction was between.
                            prop_assert!(at(ms).since(since) < config.stop_max);
                            prop_assert!(samples[i].rtt.is_some() || since < at(ms));
                            if let Some(before) = stopped_since[i].filter(|&before| before != since) {
                                prop_assert!(since > before);
                            }
                        }
                    }
                    stopped_since[i] = match phase {
                        Phase::Stop { since } => Some(since),
                        _ => None,
                    };
                    prop_assert!(samples[i].sending || cap.is_none());
                }
                story.push((ms, caps.clone()));
            }
            &Op::Announce(sender, sequence, flows, [leaving, correcting], throughput_kbps) => {
                let before: Vec<Option<Phase>> = (0..3).map(|i| d.phase(FlowId(i))).collect();
                let sender = TerminalId::new(sender).unwrap();
                let correcting = correcting && flows > 0 && !leaving;
                let a = Announcement { sender, sequence, flows, leaving, correcting, throughput_kbps };
                prop_assert!(d.on_announcement(at(ms), &a.encode()).is_ok());
                prop_assert_eq!(before, (0..3).map(|i| d.phase(FlowId(i))).collect::<Vec<_>>());
            }
            Op::Bytes(bytes) => {
                let _ = d.on_announcement(at(ms), bytes);
            }
            Op::Deadline => {
                if let Some(bytes) = d.on_deadline(at(ms)) {
                    prop_assert!(Announcement::decode(&bytes).is_ok());
                    story.push((ms, bytes.iter().map(|&b| Some(u32::from(b))).collect()));
                }
                prop_assert!(d.deadline() > at(ms) || d.sample_at() <= at(ms));
            }
            Op::PathChange => d.on_path_change(),
        }
        prop_assert!(d.peers().len() <= usize::from(config.max_peers));
        prop_assert!(d.terminals() <= u32::from(config.max_peers) + 1);
        prop_assert!(d.peers().sending_flows() <= u32::from(config.max_peers) * u32::from(config.max_flows));
        prop_assert!(d.bw_max(at(ms)).is_none_or(|b| b <= config.learn_max));
    }
    Ok(story)
}

proptest! {
    #[test]
    fn whatever_comes_in_only_lowers_within_bounds_and_alike_each_time(config in configs(), ops in ops()) {
        let story = play(&config, &ops)?;
        prop_assert_eq!(play(&config, &ops)?, story);
    }

    /// Checks the exact effect of forged reports. A second daemon gets the same samples and
    /// announcements, but no reports in them.
    #[test]
    fn a_forged_report_caps_only_who_is_congested_at_its_share_for_a_stated_time(
        rtts in prop::collection::vec(1u64..100, 50..300), honest in 0u64..8, forged in 0u64..8,
        shared_at in 1.01f64..6.0, shared_for in 1u64..20, shared_peers in 1u16..4, min: bool
    ) {
        let shared_for = Span::from_secs(shared_for);
        let rtt_in_cap = if min { CapRtt::Min } else { CapRtt::Current };
        let config = CoopConfig { shared_at, shared_for, shared_peers, rtt_in_cap, ..CoopConfig::default() };
        let bw_max = DataRate::from_mbps(19);
        let mut d = daemon(config.clone());
        let mut own = daemon(config.clone());
        let (mut caps, mut own_caps, mut least, mut congested) = (Vec::new(), Vec::new(), u64::MAX, None);
        let samples = rtts.len() as u64;
        let quiet = samples * 2 / 3; // the forger goes away, the others stay
        for (i, rtt) in (0..).zip(rtts) {
            let now = at(i * 500);
            if i % 2 == 0 {
                let forged = if i < quiet { 100..100 + forged } else { 0..0 };
                for id in (10..10 + honest).chain(forged) {
                    let a = Announcement { correcting: id >= 100, ..announcement(id, i as u32, 1) };
                    d.on_announcement(now, &a.encode()).unwrap();
                    own.on_announcement(now, &Announcement { correcting: false, ..a }.encode()).unwrap();
                }
            }
            least = least.min(rtt);
            if rtt as f64 / least as f64 >= shared_at {
                congested = Some(now);
            }
            d.on_sample(now, &[sample(rtt, i * 1500)], &mut caps);
            own.on_sample(now, &[sample(rtt, i * 1500)], &mut own_caps);
            let (phase, without) = (d.phase(FlowId(7)).unwrap(), own.phase(FlowId(7)).unwrap());
            let Phase::Shared { renewed } = phase else {
                // No report touches a phase that its own RTT brought, or that has no cap.
                prop_assert_eq!(phase, without);
                prop_assert_eq!(&caps, &own_caps);
                continue;
            };
            prop_assert_eq!(without, Phase::Free);
            // Only who was congested itself, and no longer than stated after that or after the last
            // report.
            prop_assert!(congested.is_some_and(|c| renewed <= c));
            prop_assert!(now.since(renewed) < shared_for);
            prop_assert!(forged >= u64::from(shared_peers));
            prop_assert!(renewed < at(quiet * 500) + config.expire_after);
            // At the share of no more terminals than there are names.
            let most = 1 + (honest + forged) as u32;
            let counted = Span::from_ms(if min { least } else { rtt });
            let share = config.ideal_cwnd(bw_max, counted, most, most).max(config.min_cap);
            prop_assert!(caps[0].is_some_and(|c| c >= share), "{:?} {}", caps, share);
        }
    }

    /// For all earlier events, and during a flood of forged announcements: once the RTT is steady
    /// every cap is lifted. If the RTT is the least, this happens within `correction_hold` or
    /// `shared_for`, which are the same here. If the RTT stays longer than the least, it takes
    /// `relearn_after` stops with the round trips between them, or `min_rtt_window`, and then
    /// `correction_hold`. No stop outlasts its bound on the way.
    #[test]
    fn nothing_pins_a_connection(config in configs(), ops in ops(), rtt_ms in prop_oneof![Just(1u64), 1u64..2000], flood: bool) {
        prop_assume!(config.relearn_after > 0);
        let mut d = daemon(config.clone());
        let (mut ms, mut delivered, mut caps) = (0, 0, Vec::new());
        for op in &ops {
            match op {
                Op::Wait(span) => ms += span,
                Op::Sample(flows) => if let Some(&(rtt, bytes, sending)) = flows.first() {
                    ms += 100;
                    delivered += u64::from(bytes);
                    d.on_sample(at(ms), &[FlowSample { sending, ..sample(rtt.max(1), delivered) }], &mut caps);
                },
                _ => {}
            }
        }
        let stops = u64::from(config.relearn_after) + 1;
        let ms_of = |span: Span| span.as_ns() / 1_000_000;
        let longer = stops * (ms_of(config.stop_max) + rtt_ms + 300) + ms_of(config.min_rtt_window);
        let bound = ms_of(config.correction_hold) + 500 + if rtt_ms == 1 { 0 } else { longer };
        let mut stopped = 0;
        for i in 0..bound / 100 {
            if flood {
                for id in 0..20 {
                    let a = Announcement { correcting: true, ..announcement(1000 + id, i as u32 * 10, u16::MAX) };
                    let _ = d.on_announcement(at(ms), &a.encode());
                }
            }
            ms += 100;
            delivered += 1500;
            d.on_sample(at(ms), &[sample(rtt_ms, delivered)], &mut caps);
            stopped = if caps == [Some(1)] { stopped + 100 } else { 0 };
            prop_assert!(config.min_cap == 1 || stopped <= ms_of(config.stop_max) + 100, "{} ms", stopped);
        }
        prop_assert_eq!(&caps, &[None]);
    }
}
