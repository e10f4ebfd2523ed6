//! The medium under a Mac that is a table of given frames: no queues, no sessions, no associations.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::rng::Stream;
use crate::units::Probability;
use crate::wifi::phy::{ErrorModel, ErrorRateConfig, Mode, PhyConfig, Signal, SignalConfig, Standard, Width, timing};
use crate::wifi::trace::FrameKind;

const A: RadioId = RadioId(0);
const B: RadioId = RadioId(1);
const C: RadioId = RadioId(2);
const D: RadioId = RadioId(3);

/// A PPDU that was handed over, with its state.
#[derive(Debug, Clone)]
struct Given {
    to: To,
    mode: Mode,
    rts: bool,
    /// Name and size of each MPDU that is still to be acknowledged.
    mpdus: Vec<(u32, u32)>,
    is_ampdu: bool,
    tries: u8,
}

/// Time, receiver and sender, and the names of the MPDUs with their fates.
type Heard = (u64, RadioId, RadioId, Vec<(u32, Fate)>);

/// Frames that wait, by radio and category, and the outcomes of others.
#[derive(Debug, Default)]
struct Table {
    waiting: BTreeMap<(RadioId, Ac), VecDeque<Given>>,
    most_tries: u8,
    deaf_to_groups: Vec<RadioId>,
    heard: Vec<Heard>,
    /// Names of the MPDUs that are left, tries, and whether an answer came: when nothing more is
    /// tried.
    ended: Vec<(Vec<u32>, u8, bool)>,
    controls: Vec<(FrameKind, RadioId, RadioId)>,
    lengths: Vec<Span>,
    arrived: Vec<u32>,
}

impl Mac for Table {
    fn next(&mut self, _: Time, _: &mut Signals, request: &mut TxRequest) -> bool {
        let Some(given) = self.waiting.get(&(request.from, request.ac)).and_then(VecDeque::front) else { return false };
        request.rts = given.rts;
        let user = &mut request.users.head;
        user.to = given.to;
        user.mode = given.mode;
        user.acked = true;
        user.payload = if given.is_ampdu { Payload::Ampdu } else { Payload::Mpdu };
        user.mpdus.extend(given.mpdus.iter().map(|&(_, bytes)| bytes));
        user.psdu_bytes = user.mpdus.iter().map(|&bytes| timing::subframe_bytes(bytes)).sum();
        user.header_bytes = 26;
        true
    }
    fn heard(&mut self, now: Time, request: &TxRequest, arrival: Arrival<'_>) {
        let given = &self.waiting[&(request.from, request.ac)][0];
        let fates: Vec<_> = given.mpdus.iter().map(|&(name, _)| name).zip(arrival.fates.iter().copied()).collect();
        assert_eq!(fates.len(), request.users[arrival.user].mpdus.len());
        self.arrived.extend(fates.iter().filter(|(_, fate)| *fate == Fate::Whole).map(|&(name, _)| name));
        self.heard.push((now.as_ns(), arrival.at, request.from, fates));
    }
    fn done(&mut self, _: Time, _: &mut Signals, request: &TxRequest, outcome: &Outcome<'_>) {
        let queue = self.waiting.get_mut(&(request.from, request.ac)).expect("it was on the air");
        let given = &mut queue[0];
        given.tries += 1;
        self.lengths.push(outcome.data);
        if outcome.only_user().answered {
            let arrived = &self.arrived;
            given.mpdus.retain(|(name, _)| !arrived.contains(name));
        }
        if given.mpdus.is_empty() || given.tries == self.most_tries || request.is_group() {
            let given = queue.pop_front().expect("seen above");
            let left = given.mpdus.into_iter().map(|(name, _)| name).collect();
            self.ended.push((left, given.tries, outcome.only_user().answered));
        }
    }
    fn has_frame(&self, radio: RadioId, ac: Ac) -> bool {
        self.waiting.get(&(radio, ac)).is_some_and(|queue| !queue.is_empty())
    }
    fn listens(&self, at: RadioId, _: &TxRequest) -> bool {
        !self.deaf_to_groups.contains(&at)
    }
    fn control(&mut self, _: Time, _: &TxRequest, frame: &Control) {
        self.controls.push((frame.kind, frame.from, frame.to));
    }
}

/// Four radios that hear each other. A, B and C can decode each other; D can decode no other.
fn scene(signal: &SignalConfig) -> (Medium, Table) {
    let phy = PhyConfig::of(Standard::N);
    let timing = Arc::new(phy.timing());
    let radio = RadioSetup {
        edca: crate::wifi::phy::edca_defaults(&timing, false),
        timing,
        has_qos: true,
        eifs: true,
        retry_limit: 7,
        wavelan: None,
        hears_one_by_one: false,
    };
    let path = |ends, n| {
        let signal = Signal::new(signal, &phy, &ErrorModel::default(), Stream::of_test(n));
        PathSetup { ends, signal }
    };
    let medium = Medium::new(MediumSetup {
        radios: vec![radio; 4],
        paths: vec![path((A, B), 1), path((C, A), 2), path((B, C), 3)],
        groups: Vec::new(),
        hidden: Vec::new(),
        sensing: Span::ZERO,
        capture_effect: 0.0,
        seed: 3,
        index: 0,
        reports_control: true,
    });
    (medium, Table { most_tries: 7, ..Table::default() })
}

fn send(medium: &mut Medium, table: &mut Table, from: RadioId, given: Given) {
    table.waiting.entry((from, Ac::Vo)).or_default().push_back(given);
    medium.on_frame(Time::ZERO, from, Ac::Vo);
}

fn run(medium: &mut Medium, table: &mut Table) {
    while medium.deadline() < NEVER {
        let now = medium.deadline();
        while medium.advance(now, table) || medium.begin_next(now, table) {}
    }
}

/// A management frame of 100 bytes at 6 Mbit/s.
fn frame(name: u32, to: To) -> Given {
    Given { to, mode: Mode::OFDM[0], rts: false, mpdus: vec![(name, 100)], is_ampdu: false, tries: 0 }
}

fn ampdu(count: u32, to: RadioId) -> Given {
    let mode = Mode::ht(7, Width::Mhz20, false).expect("an HT mode");
    Given {
        to: To::Radio(to),
        mode,
        rts: false,
        mpdus: (0..count).map(|n| (n, 200)).collect(),
        is_ampdu: true,
        tries: 0,
    }
}

fn errors(rate: f64) -> SignalConfig {
    let rate = Probability::new(rate).expect("a probability");
    SignalConfig::ErrorRate(ErrorRateConfig { rate: Some(rate), bytes: 200, ..ErrorRateConfig::default() })
}

#[test]
fn a_management_frame_goes_from_any_radio_to_any_other() {
    for (from, to) in [(A, B), (B, A), (B, C), (C, B), (A, C)] {
        let (mut medium, mut table) = scene(&SignalConfig::default());
        send(&mut medium, &mut table, from, frame(1, To::Radio(to)));
        run(&mut medium, &mut table);
        let t = PhyConfig::of(Standard::N).timing();
        let end = t.aifs(2) + t.ppdu(Mode::OFDM[0], timing::subframe_bytes(100));
        assert_eq!(table.heard, [(end.as_ns(), to, from, vec![(1, Fate::Whole)])]);
        assert_eq!(table.controls, [(FrameKind::Ack, to, from)]);
        assert_eq!(table.ended, [(vec![], 1, true)]);
        let after = Time::ZERO + end + t.sifs + t.ack(Mode::OFDM[0]);
        assert_eq!(medium.occupancy(after).busy_ns, after.as_ns() - t.aifs(2).as_ns());
    }
}

#[test]
fn who_has_no_signal_answers_nothing() {
    let (mut medium, mut table) = scene(&SignalConfig::default());
    send(&mut medium, &mut table, A, Given { rts: true, ..frame(1, To::Radio(D)) });
    send(&mut medium, &mut table, A, frame(2, To::Radio(D)));
    run(&mut medium, &mut table);
    assert_eq!(table.ended, [(vec![1], 7, false), (vec![2], 7, false)]);
    assert!(table.heard.is_empty());
    assert_eq!(table.controls, [(FrameKind::Rts, A, D); 7]);
}

#[test]
fn a_group_frame_reaches_all_that_listen_once() {
    let (mut medium, mut table) = scene(&SignalConfig::default());
    send(&mut medium, &mut table, C, frame(1, To::Group));
    send(&mut medium, &mut table, C, frame(2, To::Group));
    run(&mut medium, &mut table);
    let at: Vec<_> = table.heard.iter().map(|(_, at, from, fates)| (*at, *from, fates[0].0)).collect();
    assert_eq!(at, [(A, C, 1), (B, C, 1), (A, C, 2), (B, C, 2)]);
    // No radio answers, and nothing is sent again.
    assert_eq!(table.ended, [(vec![], 1, true), (vec![], 1, true)]);
    assert!(table.controls.is_empty());

    let (mut medium, mut table) = scene(&SignalConfig::default());
    table.deaf_to_groups = vec![A];
    send(&mut medium, &mut table, C, frame(1, To::Group));
    run(&mut medium, &mut table);
    assert_eq!(table.heard.iter().map(|(_, at, ..)| *at).collect::<Vec<_>>(), [B]);
}

#[test]
fn fates_of_long_ampdus_are_read_back_one_by_one() {
    for count in [64, 256, 1024] {
        let (mut medium, mut table) = scene(&errors(0.3));
        table.most_tries = 40;
        send(&mut medium, &mut table, B, ampdu(count, A));
        run(&mut medium, &mut table);
        let (mut sent, mut missing): (Vec<u32>, Vec<u32>) = ((0..count).collect(), (0..count).collect());
        for (_, at, from, fates) in &table.heard {
            assert_eq!((*at, *from), (A, B));
            // MPDUs that have not arrived are sent again; all MPDUs are, if the answer was lost.
            let names: Vec<u32> = fates.iter().map(|&(name, _)| name).collect();
            assert!(names == missing || names == sent);
            missing.retain(|name| !fates.contains(&(*name, Fate::Whole)));
            sent = names;
        }
        assert!(missing.is_empty());
        let lost = table.heard[0].3.iter().filter(|(_, fate)| *fate != Fate::Whole).count();
        // Within five standard deviations of 30 %.
        let spread = 5.0 * (0.21 * f64::from(count)).sqrt();
        assert!((lost as f64 - 0.3 * f64::from(count)).abs() < spread, "{lost} of {count}");
        assert_eq!(table.ended.len(), 1);
        assert!(table.ended[0].0.is_empty() && table.ended[0].1 > 2 && table.ended[0].2);
        assert!(table.controls.iter().all(|&control| control == (FrameKind::BlockAck, A, B)));
    }
}

#[test]
fn the_answer_to_a_long_ampdu_is_longer() {
    let t = PhyConfig::of(Standard::N).timing();
    let given = ampdu(1, A);
    let busy = |count| {
        let (mut medium, mut table) = scene(&SignalConfig::default());
        send(&mut medium, &mut table, B, ampdu(count, A));
        let mut end = Time::ZERO;
        while medium.deadline() < NEVER {
            end = medium.deadline();
            while medium.advance(end, &mut table) || medium.begin_next(end, &mut table) {}
        }
        Span::from_ns(medium.occupancy(end).busy_ns).saturating_sub(table.lengths[0] + t.sifs)
    };
    // Bitmaps of 8, 32 and 128 bytes in a frame of 24 besides.
    for (count, bytes) in [(2, 32), (64, 32), (65, 56), (256, 56), (257, 152), (1024, 152)] {
        assert_eq!(busy(count), t.ppdu(t.response_mode(given.mode), bytes), "{count}");
    }
}

/// A PPDU from A for some radios at once, each with its number of MPDUs, and what they hear.
#[derive(Debug, Default)]
struct ForSeveral {
    users: Vec<(RadioId, u32)>,
    is_sent: bool,
    /// Time, receiver, place of the first MPDU, and fates.
    heard: Vec<(Time, RadioId, usize, Vec<Fate>)>,
    /// Lengths of the whole and of what arrived for each user.
    ended: Vec<(Span, Vec<(bool, u16)>)>,
}

impl Mac for ForSeveral {
    fn next(&mut self, _: Time, _: &mut Signals, request: &mut TxRequest) -> bool {
        (1..self.users.len()).for_each(|_| request.users.push(TxUser::default()));
        for (user, &(to, count)) in request.users.iter_mut().zip(&self.users) {
            let given = ampdu(count, to);
            (user.to, user.mode, user.payload, user.header_bytes) = (given.to, given.mode, Payload::Ampdu, 26);
            user.mpdus.extend(given.mpdus.iter().map(|&(_, bytes)| bytes));
            user.psdu_bytes = user.mpdus.iter().map(|&bytes| timing::subframe_bytes(bytes)).sum();
        }
        !std::mem::replace(&mut self.is_sent, true)
    }
    fn heard(&mut self, now: Time, request: &TxRequest, arrival: Arrival<'_>) {
        assert_eq!(request.users[arrival.user].to, To::Radio(arrival.at));
        self.heard.push((now, arrival.at, arrival.first, arrival.fates.to_vec()));
    }
    fn done(&mut self, _: Time, _: &mut Signals, _: &TxRequest, outcome: &Outcome<'_>) {
        self.ended.push((outcome.data, outcome.users().map(|user| (user.answered, user.received)).collect()));
    }
    fn has_frame(&self, _: RadioId, _: Ac) -> bool {
        false
    }
}

#[test]
fn a_second_user_lengthens_a_ppdu_and_changes_nothing_for_the_first() {
    let play = |users: &[(RadioId, u32)]| {
        let (mut medium, _) = scene(&errors(0.3));
        medium.radios.iter_mut().for_each(|radio| radio.hears_one_by_one = true);
        let mut mac = ForSeveral { users: users.to_vec(), ..ForSeveral::default() };
        medium.on_frame(Time::ZERO, A, Ac::Vo);
        while medium.deadline() < NEVER {
            let now = medium.deadline();
            while medium.advance(now, &mut mac) || medium.begin_next(now, &mut mac) {}
        }
        mac
    };
    let of =
        |mac: &ForSeveral, radio| -> Vec<_> { mac.heard.iter().filter(|heard| heard.1 == radio).cloned().collect() };
    let (alone, long, both) = (play(&[(B, 8)]), play(&[(C, 20)]), play(&[(B, 8), (C, 20)]));
    assert_eq!(alone.ended.len(), 1);
    assert!(alone.ended[0].0 < long.ended[0].0);
    // It lasts as long as its longest user, and each has what it would have alone.
    let users = vec![alone.ended[0].1[0], long.ended[0].1[0]];
    assert!(users.iter().all(|&(arrived, whole)| arrived && whole > 0));
    assert_eq!(both.ended, [(long.ended[0].0, users)]);
    assert_eq!(of(&both, C), of(&long, C));
    // MPDUs go up when they did, but the last one waits for the end of the PPDU.
    let (before, after) = (of(&alone, B), of(&both, B));
    assert_eq!(before.len(), 8);
    assert_eq!(after[..7], before[..7]);
    assert_eq!(after[7].3, before[7].3);
    assert_eq!((after[7].0, before[7].0 < after[7].0), (of(&long, C)[19].0, true));
}
