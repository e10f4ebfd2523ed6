use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::packet::Packet;
use crate::wifi::retry_out::FixedConfig;

const NONE: [u64; 0] = [];

fn sn(n: u64) -> Seq12 {
    Seq12::new((n % 4096) as u16)
}

fn at(ms: u64) -> Time {
    Time::from_ns(ms * 1_000_000)
}

fn retry_out(index: u32) -> Option<RetryOutConfig> {
    Some(RetryOutConfig::Fixed(FixedConfig { index }))
}

fn facts(is_tcp: bool) -> PacketFacts {
    PacketFacts { is_tcp, bytes: 1500 }
}

/// A buffer that carries the numbers themselves.
struct Rig {
    buffer: ReorderBuffer<u64, TcpEarlyDrop>,
    up: Vec<u64>,
    refused: Vec<u64>,
}

impl Rig {
    fn new(config: ReorderConfig, start: u64) -> Rig {
        Rig { buffer: ReorderBuffer::new(&config, sn(start), config.early_drop()), up: Vec::new(), refused: Vec::new() }
    }
    /// MPDUs that went up because `numbers` arrived at `ms`.
    fn arrive(&mut self, ms: u64, numbers: &[u64]) -> Vec<u64> {
        for &n in numbers {
            self.buffer.on_mpdu(at(ms), sn(n), n, &mut self.up, &mut self.refused);
        }
        std::mem::take(&mut self.up)
    }
    fn corrupt(&mut self, ms: u64, n: u64, is_tcp: bool) -> Vec<u64> {
        self.buffer.on_corrupt(at(ms), sn(n), facts(is_tcp), &mut self.up);
        std::mem::take(&mut self.up)
    }
    fn bar(&mut self, ms: u64, n: u64) -> Vec<u64> {
        self.buffer.on_bar(at(ms), sn(n), &mut self.up);
        std::mem::take(&mut self.up)
    }
    fn expire(&mut self, ms: u64) -> Vec<u64> {
        self.buffer.on_deadline(at(ms), &mut self.up);
        std::mem::take(&mut self.up)
    }
}

/// A rule that knows no TCP: packets up to 100 bytes are given up at their second corrupt copy.
#[derive(Debug, Default)]
struct ShortOnes {
    rates: Vec<DataRate>,
}

impl EarlyDrop for ShortOnes {
    fn on_ppdu(&mut self, _now: Time, rate: DataRate) {
        self.rates.push(rate);
    }
    fn on_received(&mut self, _now: Time, _packet: &Packet) {}
    fn on_sent(&mut self, _now: Time, _packet: &Packet) {}
    fn gives_up(&mut self, _now: Time, retries: u32, facts: PacketFacts) -> bool {
        retries == 1 && facts.bytes <= 100
    }
}

#[test]
fn a_rule_of_any_kind_gives_mpdus_up() {
    let mut buffer = ReorderBuffer::new(&ReorderConfig::default(), sn(0), Some(ShortOnes::default()));
    let (mut up, mut refused) = (Vec::new(), Vec::new());
    buffer.on_ppdu(at(0), DataRate::from_mbps(6));
    for (n, bytes) in [(0, 1500), (1, 100), (2, 101)] {
        for copy in 0..3 {
            let gave_up = buffer.on_corrupt(at(0), sn(n), PacketFacts { is_tcp: n == 2, bytes }, &mut up);
            assert_eq!(gave_up, (n, copy) == (1, 1), "copy {copy} of {n}");
        }
    }
    (0..3).for_each(|n| buffer.on_mpdu(at(1), sn(n), n, &mut up, &mut refused));
    assert_eq!((up, refused), (vec![0, 2], vec![1]));
    assert_eq!(buffer.early_drop_mut().unwrap().rates, [DataRate::from_mbps(6)]);
}

/// The study's figure 3, index 2. `-n`: arrived corrupt. (MPDUs, what each sends up, receptions
/// afterwards)
#[test]
fn the_studys_figure_3() {
    #[allow(clippy::type_complexity)] // a table
    let ampdus: [(&[i64], &[&[u64]], &[(u64, u32)], usize); 7] = [
        (&[1, -2, 3, -4, 5], &[&[1], &[], &[], &[], &[]], &[(2, 1), (4, 1)], 2),
        (&[-6, 7, 8], &[&[], &[], &[]], &[(6, 1)], 4),
        (&[-2, -4, -9, -10], &[&[], &[], &[], &[]], &[(2, 2), (4, 2), (9, 1), (10, 1)], 4),
        (&[2, -4, 9, -10], &[&[2, 3], &[5], &[], &[]], &[(4, 3), (10, 2)], 3),
        (&[6], &[&[6, 7, 8, 9]], &[(4, 3), (10, 2)], 0),
        (&[-4, 10], &[&[], &[10]], &[(4, 4)], 0),
        (&[4], &[&[]], &[(4, 4)], 0),
    ];
    let mut rig = Rig::new(ReorderConfig { retry_out: retry_out(2), ..ReorderConfig::default() }, 1);
    for (i, (mpdus, up, receptions, held)) in ampdus.into_iter().enumerate() {
        rig.buffer.on_ppdu(at(i as u64), DataRate::from_mbps(6));
        for (&mpdu, &expected) in mpdus.iter().zip(up) {
            let n = mpdu.unsigned_abs();
            let got = if mpdu < 0 { rig.corrupt(i as u64, n, true) } else { rig.arrive(i as u64, &[n]) };
            assert_eq!(got, expected, "A-MPDU {}, MPDU {mpdu}", i + 1);
        }
        for &(n, count) in receptions {
            assert_eq!(rig.buffer.corrupt_receptions(sn(n)), count, "A-MPDU {}, MPDU {n}", i + 1);
        }
        assert_eq!(rig.buffer.held(), held, "A-MPDU {}", i + 1);
    }
    assert_eq!(rig.refused, [4]);
    let expected = ReorderStats { delivered: 9, given_up: 1, late: 1, ..ReorderStats::default() };
    assert_eq!(rig.buffer.stats(), expected);
    assert_eq!(rig.buffer.deadline(), Time::NEVER);
}

#[test]
fn a_number_given_up_ahead_of_the_head_is_passed_when_the_head_gets_there() {
    let mut rig = Rig::new(ReorderConfig { retry_out: retry_out(1), ..ReorderConfig::default() }, 0);
    assert_eq!(rig.arrive(0, &[1, 3]), NONE);
    assert_eq!((rig.corrupt(0, 2, true), rig.corrupt(1, 2, true)), (vec![], vec![]));
    assert_eq!(rig.buffer.stats().given_up, 1);
    // A correct copy of it comes too late even now.
    assert_eq!((rig.arrive(2, &[2]), &rig.refused[..], rig.buffer.stats().late), (vec![], &[2][..], 1));
    assert_eq!(rig.arrive(3, &[0]), [0, 1, 3]);
    assert_eq!(rig.buffer.head(), sn(4));
    // At the head with nothing behind it, the window just moves on.
    assert_eq!((rig.corrupt(4, 4, true), rig.corrupt(5, 4, true)), (vec![], vec![]));
    assert_eq!(rig.buffer.head(), sn(5));
}

#[test]
fn what_does_not_carry_tcp_is_never_given_up() {
    let mut rig = Rig::new(ReorderConfig { retry_out: retry_out(1), ..ReorderConfig::default() }, 0);
    assert_eq!(rig.arrive(0, &[1]), NONE);
    for _ in 0..1000 {
        assert_eq!(rig.corrupt(1, 0, false), NONE);
    }
    assert_eq!(rig.arrive(2, &[0]), [0, 1]);
    assert_eq!(rig.buffer.stats().given_up, 0);
}

#[test]
fn corrupt_numbers_outside_the_window_are_not_believed() {
    let mut rig = Rig::new(ReorderConfig { retry_out: retry_out(1), ..ReorderConfig::default() }, 100);
    for n in [164, 35, 2000, 99] {
        for _ in 0..5 {
            assert!(!rig.buffer.on_corrupt(at(0), sn(n), facts(true), &mut rig.up), "{n}");
        }
    }
    assert!(!rig.buffer.on_corrupt(at(0), sn(163), facts(true), &mut rig.up));
    assert!(rig.buffer.on_corrupt(at(0), sn(163), facts(true), &mut rig.up), "the window's last");
    // 164 enters the window as if never heard of.
    assert_eq!(rig.arrive(0, &[100]), [100]);
    assert_eq!(rig.buffer.corrupt_receptions(sn(164)), 0);
}

#[test]
fn counts_start_anew_when_numbers_come_round_again() {
    let mut rig = Rig::new(ReorderConfig { retry_out: retry_out(2), ..ReorderConfig::default() }, 0);
    for round in 0..3 {
        let base = round * 4096;
        assert_eq!((rig.corrupt(round, base, true), rig.corrupt(round, base, true)), (vec![], vec![]));
        assert_eq!(rig.buffer.corrupt_receptions(sn(base)), 2);
        for n in base..base + 4096 {
            assert_eq!(rig.arrive(round, &[n]), [n]);
        }
    }
    assert_eq!(rig.buffer.stats(), ReorderStats { delivered: 3 * 4096, ..ReorderStats::default() });
}

// [IEEE80211-10.25.6.6.2-2]
#[test]
fn held_mpdus_are_released_after_the_timeout() {
    let mut rig = Rig::new(ReorderConfig::default(), 0);
    assert_eq!(rig.arrive(10, &[2, 3]), NONE);
    assert_eq!(rig.arrive(40, &[6, 7]), NONE);
    assert_eq!(rig.buffer.deadline(), at(110));
    assert_eq!(rig.expire(109), NONE);
    assert_eq!(rig.expire(110), [2, 3], "6 is held for 70 ms only");
    assert_eq!(rig.buffer.deadline(), at(140));
    // MPDUs that had counted as lost are refused; the others go up.
    assert_eq!((rig.arrive(120, &[0, 1]), &rig.refused[..]), (vec![], &[0, 1][..]));
    assert_eq!(rig.arrive(130, &[4]), [4]);
    assert_eq!(rig.expire(140), [6, 7]);
    assert_eq!(rig.buffer.deadline(), Time::NEVER);
    let expected = ReorderStats { delivered: 5, stale: 2, lost: 3, timeouts: 2, ..ReorderStats::default() };
    assert_eq!(rig.buffer.stats(), expected);

    let mut rig = Rig::new(ReorderConfig { timeout: Span::MAX, ..ReorderConfig::default() }, 0);
    assert_eq!(rig.arrive(10, &[2, 3]), NONE);
    assert_eq!((rig.buffer.deadline(), rig.expire(1_000_000)), (Time::NEVER, vec![]));
}

// [IEEE80211-10.25.6.6.2-3]
#[test]
fn an_mpdu_beyond_the_window_moves_it() {
    let mut rig = Rig::new(ReorderConfig::default(), 4090);
    assert_eq!(rig.arrive(0, &[4090, 4092, 4093, 4096]), [4090]);
    // 4091 + 64 is the first beyond: the window then starts at 4092.
    assert_eq!(rig.arrive(1, &[4091 + 64]), [4092, 4093]);
    assert_eq!((rig.buffer.head(), rig.buffer.held()), (sn(4094), 2));
    assert_eq!((rig.arrive(2, &[4091]), &rig.refused[..]), (vec![], &[4091][..]));
    assert_eq!(rig.arrive(2, &[4095, 4094]), [4094, 4095, 4096]);
    let expected = ReorderStats { delivered: 6, stale: 1, lost: 1, window_moves: 1, ..ReorderStats::default() };
    assert_eq!(rig.buffer.stats(), expected);
}

// [IEEE80211-10.25.6.6.3-1]
#[test]
fn a_bar_moves_the_head() {
    let mut rig = Rig::new(ReorderConfig::default(), 0);
    assert_eq!(rig.arrive(0, &[1, 3, 4, 6]), NONE);
    assert_eq!(rig.bar(1, 3), [1, 3, 4]);
    assert_eq!((rig.bar(1, 2), rig.bar(1, 5), rig.buffer.head()), (vec![], vec![], sn(5)), "behind or at the head");
    assert_eq!(rig.bar(1, 300), [6]);
    assert_eq!((rig.buffer.head(), rig.buffer.deadline()), (sn(300), Time::NEVER));

    let mut rig = Rig::new(ReorderConfig { obey_bar: false, ..ReorderConfig::default() }, 0);
    assert_eq!(rig.arrive(0, &[1]), NONE);
    assert_eq!((rig.bar(1, 2), rig.buffer.head()), (vec![], sn(0)));
}

#[test]
fn clear_hands_back_what_is_held() {
    let mut rig = Rig::new(ReorderConfig::default(), 4094);
    assert_eq!(rig.arrive(0, &[4099, 4095, 4097]), NONE);
    let mut out = Vec::new();
    rig.buffer.clear(&mut out);
    assert_eq!((out, rig.buffer.held(), rig.buffer.deadline()), (vec![4095, 4097, 4099], 0, Time::NEVER));
}

#[test]
fn files_are_checked() {
    let read = |text: &str| toml::from_str::<ReorderConfig>(text);
    assert_eq!(read(""), Ok(ReorderConfig::default()));
    let never = read("timeout = \"never\"\nretry_out = \"stepped\"").unwrap();
    assert_eq!((never.timeout, &never.retry_out), (Span::MAX, &Some(RetryOutConfig::default())));
    assert_eq!(read(&toml::to_string(&never).unwrap()), Ok(never));
    for (text, message) in [
        ("timeout = \"0ms\"", "`timeout` = 0ns: must be above zero, such as \"100ms\", or \"never\""),
        ("timeout = \"nevr\"", "such as \"90ms\", or \"never\""),
        ("window = 0", "`window` = 0: must be from 1 to 1024"),
        ("window = 2000", "`window` = 2000: must be from 1 to 1024"),
        ("windw = 64", "unknown field `windw`"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

/// The same rules over unbounded numbers and a map.
struct Model {
    config: ReorderConfig,
    index: Option<u32>,
    head: u64,
    held: BTreeMap<u64, (u64, Time)>,
    corrupt: BTreeMap<u64, u32>,
    fates: BTreeMap<u64, &'static str>,
    stats: ReorderStats,
}

impl Model {
    fn pass(&mut self, up: &mut Vec<u64>) {
        match self.fates.get(&self.head) {
            Some(&"given up") => {}
            _ => match self.held.remove(&self.head) {
                Some((payload, _)) => {
                    up.push(payload);
                    self.stats.delivered += 1;
                    self.fates.insert(self.head, "delivered");
                }
                None => {
                    self.stats.lost += 1;
                    self.fates.insert(self.head, "lost");
                }
            },
        }
        self.head += 1;
    }
    fn move_to(&mut self, to: u64, up: &mut Vec<u64>) {
        while self.head < to {
            self.pass(up);
        }
    }
    fn release(&mut self, up: &mut Vec<u64>) {
        while self.held.contains_key(&self.head) || self.fates.get(&self.head) == Some(&"given up") {
            self.pass(up);
        }
    }
    fn deadline(&self) -> Time {
        self.held.first_key_value().map_or(Time::NEVER, |(_, &(_, since))| since + self.config.timeout)
    }
    fn expire(&mut self, now: Time, up: &mut Vec<u64>) {
        while now >= self.deadline() {
            self.stats.timeouts += 1;
            self.move_to(*self.held.first_key_value().unwrap().0, up);
            self.release(up);
        }
    }
    fn mpdu(&mut self, now: Time, n: u64, p: u64, up: &mut Vec<u64>, refused: &mut Vec<u64>) {
        let window = u64::from(self.config.window);
        if n >= self.head + window {
            self.stats.window_moves += 1;
            self.move_to(n - window + 1, up);
        }
        let forgotten = n + u64::from(self.config.window.next_power_of_two()) < self.head;
        let fate = if self.held.contains_key(&n) { Some("delivered") } else { self.fates.get(&n).copied() };
        if n < self.head || fate.is_some() {
            *match fate.filter(|_| !forgotten) {
                Some("given up") => &mut self.stats.late,
                Some("delivered") => &mut self.stats.duplicates,
                _ => &mut self.stats.stale,
            } += 1;
            refused.push(p);
            return;
        }
        self.held.insert(n, (p, now));
        self.release(up);
        self.expire(now, up);
    }
    fn corrupt(&mut self, n: u64, is_tcp: bool, up: &mut Vec<u64>) {
        if self.index.is_none() || n < self.head || n >= self.head + u64::from(self.config.window) {
            return;
        }
        let count = self.corrupt.entry(n).or_default();
        *count += 1;
        let open = !self.held.contains_key(&n) && !self.fates.contains_key(&n);
        if is_tcp && open && *count > self.index.unwrap() {
            self.stats.given_up += 1;
            self.fates.insert(n, "given up");
            self.release(up);
        }
    }
    fn bar(&mut self, n: u64, up: &mut Vec<u64>) {
        if self.config.obey_bar && n > self.head {
            self.stats.bar_moves += 1;
            self.move_to(n, up);
            self.release(up);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Op {
    /// Numbers are relative to the head.
    Mpdu(i64),
    Corrupt(i64, bool),
    Bar(i64),
    Wait(u64),
    Expire,
}

fn op() -> impl Strategy<Value = Op> {
    let near = prop_oneof![8 => 0i64..8, 4 => -70i64..70, 1 => -2047i64..2048];
    prop_oneof![
        8 => near.clone().prop_map(Op::Mpdu),
        6 => (near.clone(), prop::bool::weighted(0.8)).prop_map(|(d, tcp)| Op::Corrupt(d, tcp)),
        1 => near.prop_map(Op::Bar),
        2 => (0u64..80).prop_map(Op::Wait),
        1 => Just(Op::Expire),
    ]
}

fn config() -> impl Strategy<Value = ReorderConfig> {
    let window = prop_oneof![Just(1u16), Just(5), Just(64), Just(1024)];
    let timeout = prop_oneof![4 => Just(Span::from_ms(100)), 1 => Just(Span::MAX)];
    let retry_out = prop_oneof![2 => Just(None), 1 => (1u32..4).prop_map(retry_out), 1 => Just(retry_out(255))];
    (timeout, window, any::<bool>(), retry_out).prop_map(|(timeout, window, obey_bar, retry_out)| ReorderConfig {
        timeout,
        window,
        obey_bar,
        retry_out,
        ..ReorderConfig::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Every output and counter equals the model's; nothing goes up twice or out of order; each
    /// MPDU that came in comes out once.
    // [IEEE80211-10.3.2.14-1] [IEEE80211-10.25.6.6.2-1] [IEEE80211-10.25.6.6.2-2] [IEEE80211-10.25.6.6.2-3]
    // [IEEE80211-10.25.6.6.2-4]
    #[test]
    fn agrees_with_a_map(config in config(), start in 5000u64..9192, ops in prop::collection::vec(op(), 1..400)) {
        let index = config.retry_out.as_ref().map(|c| c.build(&()).index(Time::ZERO).unwrap());
        let mut model = Model { config: config.clone(), index, head: start, held: BTreeMap::new(), corrupt: BTreeMap::new(), fates: BTreeMap::new(), stats: ReorderStats::default() };
        let mut rig = Rig::new(config, start);
        let mut numbers = Vec::new(); // of payloads
        let mut last_up = None;
        let mut out = 0;
        let mut now = Time::ZERO;
        for op in ops {
            let (mut up, mut refused) = (Vec::new(), Vec::new());
            let n = |d: i64| model.head.saturating_add_signed(d);
            match op {
                Op::Mpdu(d) => {
                    let (n, p) = (n(d), numbers.len() as u64);
                    numbers.push(n);
                    rig.buffer.on_mpdu(now, sn(n), p, &mut rig.up, &mut rig.refused);
                    model.mpdu(now, n, p, &mut up, &mut refused);
                }
                Op::Corrupt(d, tcp) => {
                    let n = n(d);
                    let before = rig.buffer.stats().given_up;
                    let gave_up = rig.buffer.on_corrupt(now, sn(n), facts(tcp), &mut rig.up);
                    prop_assert_eq!(gave_up, rig.buffer.stats().given_up > before);
                    model.corrupt(n, tcp, &mut up);
                }
                Op::Bar(d) => {
                    let n = n(d);
                    rig.buffer.on_bar(now, sn(n), &mut rig.up);
                    model.bar(n, &mut up);
                }
                Op::Wait(ms) => now += Span::from_ms(ms),
                Op::Expire => {
                    rig.buffer.on_deadline(now, &mut rig.up);
                    model.expire(now, &mut up);
                }
            }
            prop_assert_eq!(&rig.up, &up, "{:?}", op);
            prop_assert_eq!(&rig.refused, &refused, "{:?}", op);
            prop_assert_eq!(rig.buffer.head(), sn(model.head));
            prop_assert_eq!(rig.buffer.deadline(), model.deadline());
            prop_assert_eq!(rig.buffer.held(), model.held.len());
            prop_assert_eq!(rig.buffer.stats(), model.stats);
            for p in rig.up.drain(..) {
                let n = numbers[p as usize];
                prop_assert!(last_up.is_none_or(|last| n > last), "{} after {:?}", n, last_up);
                last_up = Some(n);
                out += 1;
            }
            out += rig.refused.drain(..).count();
            prop_assert_eq!(out + rig.buffer.held(), numbers.len());
        }
    }

    /// Where nothing is reported corrupt, the remedy changes nothing.
    #[test]
    fn without_errors_the_remedy_changes_nothing(policy in 0..RetryOutConfig::NAMES.len(), ops in prop::collection::vec(op(), 1..200)) {
        let with = ReorderConfig { retry_out: RetryOutConfig::by_name(RetryOutConfig::NAMES[policy]), ..ReorderConfig::default() };
        let mut rigs = [Rig::new(with, 0), Rig::new(ReorderConfig::default(), 0)];
        let mut now = Time::ZERO;
        for (p, op) in ops.into_iter().enumerate() {
            for rig in &mut rigs {
                let head = u64::from(rig.buffer.head().get());
                let n = |d: i64| sn(head + 4096u64.saturating_add_signed(d));
                rig.buffer.on_ppdu(now, DataRate::from_mbps(6));
                match op {
                    Op::Mpdu(d) => rig.buffer.on_mpdu(now, n(d), p as u64, &mut rig.up, &mut rig.refused),
                    Op::Bar(d) => rig.buffer.on_bar(now, n(d), &mut rig.up),
                    Op::Expire => rig.buffer.on_deadline(now, &mut rig.up),
                    Op::Corrupt(..) | Op::Wait(_) => {}
                }
            }
            if let Op::Wait(ms) = op {
                now += Span::from_ms(ms);
            }
        }
        let [with, without] = rigs;
        prop_assert_eq!((with.up, with.refused, with.buffer.stats()), (without.up, without.refused, without.buffer.stats()));
    }
}
