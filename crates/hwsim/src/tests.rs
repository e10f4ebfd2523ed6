//! The medium with clients that are no kernels: they hand frames over as hwsim does, and look at
//! what comes back.

use std::sync::Arc;

use airtcp_core::units::{Probability, Span, Time};
use airtcp_core::wifi::phy::{ErrorRateConfig, PhyConfig, SignalConfig, Standard};
use airtcp_core::wifi::{ChannelConfig, PairConfig, RadioConfig, RadioId, TraceConfig};
use proptest::prelude::*;

use crate::air::Air;
use crate::frame::address;
use crate::frame::tests::qos;
use crate::message::tests::{as_kernel, handed_over, left_over, taken_for};
use crate::message::{ACKED, AMPDU, FAILED_FCS, NO_ACK, PROBE};

const AP: RadioId = RadioId(0);

/// An access point and stations, whose MPDUs of 200 bytes are lost with this probability.
fn air(stations: u16, rate: f64, change: impl Fn(&mut RadioConfig)) -> Air {
    Air::new(&changed(stations, rate, change))
}

/// Configuration of such a medium.
pub(crate) fn setup(stations: u16, rate: f64) -> ChannelConfig {
    changed(stations, rate, |_| {})
}

fn changed(stations: u16, rate: f64, change: impl Fn(&mut RadioConfig)) -> ChannelConfig {
    let rate = Probability::new(rate).unwrap();
    let signal = SignalConfig::ErrorRate(ErrorRateConfig { rate: Some(rate), bytes: 204, ..Default::default() });
    let mut radio = RadioConfig::of(PhyConfig::of(Standard::N));
    change(&mut radio);
    let radio = Arc::new(radio);
    ChannelConfig {
        radios: vec![radio; usize::from(stations) + 1],
        pairs: (1..=stations).map(|station| PairConfig::fixed(station, AP, signal.clone())).collect(),
        groups: vec![AP],
        hidden: Vec::new(),
        sensing: Span::ZERO,
        capture_effect: Probability::ZERO,
        seed: 5,
        index: 0,
        trace: TraceConfig::default(),
    }
}

/// Message for a kernel as the kernel reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Came {
    /// Sequence number, is a retry, is damaged, number of the A-MPDU.
    Frame { at: u16, sn: u16, retry: bool, damaged: bool, ampdu: Option<u32> },
    /// Cookie, acknowledged, tries of the first stage.
    Status { at: u16, cookie: u64, acked: bool, tries: u8 },
}

fn came(air: &mut Air) -> Vec<Came> {
    let mut all = Vec::new();
    while let Some((RadioId(at), message)) = air.mac.take_out() {
        let (command, attributes) = as_kernel(&message);
        let of = |number| attributes.iter().find(|(own, _)| *own == number).map(|(_, value)| value.clone());
        let word = |number| of(number).map(|value| u32::from_ne_bytes(value.try_into().unwrap()));
        all.push(if command == 2 {
            let frame = of(3).unwrap();
            let sn = u16::from_le_bytes([frame[22], frame[23]]) >> 4;
            let damaged = word(4).unwrap() & FAILED_FCS != 0;
            assert_eq!(damaged, *frame.last().unwrap() != 7);
            Came::Frame { at, sn, retry: frame[1] & 8 != 0, damaged, ampdu: word(31) }
        } else {
            let cookie = u64::from_ne_bytes(of(8).unwrap().try_into().unwrap());
            Came::Status { at, cookie, acked: word(4).unwrap() & ACKED != 0, tries: of(7).unwrap()[1] }
        });
    }
    all
}

/// Station 1 hands over frames of one session, all at once.
fn upload(air: &mut Air, frames: std::ops::Range<u16>, flags: u32) {
    for sn in frames {
        air.take_in(Time::ZERO, RadioId(1), &handed_over(u64::from(sn), flags, 7, &qos(0, sn & 4095))).unwrap();
    }
}

#[test]
fn frames_of_a_session_go_in_ampdus_and_all_arrive() {
    let mut air = air(1, 0.0, |_| {});
    upload(&mut air, 0..100, AMPDU);
    assert_eq!(air.mac.held(RadioId(1)), 100);
    air.run_until(Time::from_ns(1_000_000_000));
    let all = came(&mut air);
    let sns: Vec<u16> =
        all.iter().filter_map(|c| if let Came::Frame { sn, .. } = c { Some(*sn) } else { None }).collect();
    assert_eq!(sns, (0..100).collect::<Vec<_>>());
    assert!(all.iter().all(|c| !matches!(c, Came::Frame { retry: true, .. } | Came::Frame { damaged: true, .. })));
    // All come at one instant, and ath9k's limit is 32.
    let mut sizes = std::collections::BTreeMap::new();
    for c in &all {
        if let Came::Frame { ampdu, .. } = c {
            *sizes.entry(*ampdu).or_insert(0) += 1;
        }
    }
    assert_eq!(sizes.into_values().collect::<Vec<_>>(), [32, 32, 32, 4]);
    let status = all.iter().filter(|c| matches!(c, Came::Status { at: 1, acked: true, tries: 1, .. })).count();
    assert_eq!((status, air.mac.held(RadioId(1))), (100, 0));
    let traffic = air.mac.traffic()[&(RadioId(1), AP)];
    assert_eq!((traffic.mpdus, traffic.mpdus_failed, traffic.unanswered), (100, 0, 0));
    assert_eq!(traffic.rate_sum_bps, u128::from(traffic.ampdus) * 65_000_000);
    assert_eq!(air.occupancy(Time::from_ns(1_000_000_000)).busy_ns, traffic.airtime_ns);
}

#[test]
fn frames_without_a_session_go_alone_and_in_order() {
    let mut air = air(1, 0.4, |_| {});
    upload(&mut air, 0..30, 0);
    air.run_until(Time::from_ns(1_000_000_000));
    let all = came(&mut air);
    let mut firsts: Vec<u16> = Vec::new();
    for c in &all {
        if let Came::Frame { sn, ampdu, .. } = c {
            assert_eq!(*ampdu, None);
            if firsts.last() != Some(sn) {
                firsts.push(*sn);
            }
        }
    }
    assert!(firsts.is_sorted());
    let most = all.iter().filter_map(|c| if let Came::Status { tries, .. } = c { Some(*tries) } else { None }).max();
    assert!(most > Some(1) && most <= Some(7), "{most:?}");
    assert_eq!(air.mac.traffic()[&(RadioId(1), AP)].frames, air.mac.traffic()[&(RadioId(1), AP)].ppdus);
}

#[test]
fn damaged_frames_reach_only_those_who_ask() {
    for asks in [false, true] {
        let mut air = air(1, 0.3, |_| {});
        air.mac.want_damaged(AP, asks);
        upload(&mut air, 0..2000, AMPDU);
        air.run_until(Time::from_ns(9_000_000_000));
        let all = came(&mut air);
        let damaged = all.iter().filter(|c| matches!(c, Came::Frame { damaged: true, .. })).count();
        let failed = air.mac.traffic()[&(RadioId(1), AP)].mpdus_failed;
        // Errors leave most headers intact.
        assert!(if asks { damaged > 600 && damaged as u64 <= failed } else { damaged == 0 }, "{damaged} of {failed}");
        let acked = all.iter().filter(|c| matches!(c, Came::Status { acked: true, .. })).count();
        assert_eq!((acked, air.mac.held(RadioId(1))), (2000, 0));
    }
}

#[test]
fn the_limit_of_retries_ends_in_a_status_without_acknowledgement() {
    let mut air = air(1, 1.0, |radio| radio.retries.software = 3);
    upload(&mut air, 0..10, AMPDU);
    upload(&mut air, 10..11, 0);
    air.run_until(Time::from_ns(1_000_000_000));
    let all = came(&mut air);
    assert_eq!(all.len(), 11);
    assert!(all.iter().all(|c| matches!(c, Came::Status { acked: false, .. })));
    assert_eq!(air.mac.traffic()[&(RadioId(1), AP)].given_up, 11);
}

#[test]
fn each_try_is_an_ampdu_of_its_own() {
    let mut air = air(1, 0.8, |radio| radio.aggregation.max_frames = 3);
    air.mac.want_damaged(AP, true);
    upload(&mut air, 0..200, AMPDU);
    air.run_until(Time::from_ns(9_000_000_000));
    let mut seen = std::collections::BTreeSet::new();
    let mut tries = std::collections::BTreeSet::new();
    for c in came(&mut air) {
        if let Came::Frame { sn, ampdu: Some(ampdu), .. } = c {
            assert!(seen.insert((ampdu, sn)), "{sn} came twice in A-MPDU {ampdu}");
            tries.insert(ampdu);
        }
    }
    // Half of all A-MPDUs arrive without a whole MPDU, and are repeated.
    let traffic = air.mac.traffic()[&(RadioId(1), AP)];
    assert!(traffic.unanswered > 100 && tries.len() > 200, "{traffic:?}");
}

/// With eight frames handed over, and another for each that ends: A-MPDUs of four go, as many as
/// possible.
fn keeps_ampdus_full(air: &mut Air, mut hand_over: impl FnMut(&mut Air, Time, std::ops::Range<u16>)) {
    let mut next = 8;
    while next < 2000 {
        let now = air.deadline();
        air.run_until(now);
        let ended = came(air).iter().filter(|c| matches!(c, Came::Status { .. })).count() as u16;
        if ended > 0 {
            let later = now + Span::from_ns(1001);
            air.run_until(later);
            hand_over(air, later, next..next + ended);
            next += ended;
        }
        assert_eq!(air.mac.held(RadioId(1)), 8);
    }
    let traffic = air.mac.traffic()[&(RadioId(1), AP)];
    let mean = traffic.mpdus as f64 / traffic.ampdus as f64;
    assert!(mean > 3.9, "{mean}: A-MPDUs of four are possible each time");
}

#[test]
fn retries_and_new_frames_go_together() {
    // As a kernel that pulls: for each frame that ends it hands over another, a microsecond and its
    // timer's nanosecond later, so that two A-MPDUs of four wait.
    let mut air = air(1, 0.3, |radio| radio.aggregation.max_frames = 4);
    let hand_over = |air: &mut Air, now, sn: u16| {
        air.take_in(now, RadioId(1), &handed_over(u64::from(sn), AMPDU, 1, &qos(0, sn & 4095))).unwrap();
    };
    (0..8).for_each(|sn| hand_over(&mut air, Time::ZERO, sn));
    keeps_ampdus_full(&mut air, |air, now, sns| sns.for_each(|sn| hand_over(air, now, sn)));
}

#[test]
fn what_a_driver_took_for_two_ampdus_goes_in_two() {
    let mut air = air(2, 0.0, |_| {});
    // One after the other for the second station, then some for the first one, at one instant.
    let taken = [(1, 2u16, 0..1u16), (2, 2, 1..2), (3, 2, 2..7), (4, 1, 0..4)];
    for (number, to, sns) in taken {
        for sn in sns {
            let mut frame = qos(0, sn);
            frame[4..10].copy_from_slice(&address(to));
            let cookie = u64::from(to * 100 + sn);
            air.take_in(Time::ZERO, AP, &taken_for(number, cookie, AMPDU, 7, &frame)).unwrap();
        }
    }
    air.run_until(Time::from_ns(1_000_000_000));
    let whole: Vec<_> = told(&mut air).into_iter().filter(|told| told.3 > 0).map(|told| (told.0, told.3)).collect();
    assert_eq!(whole, [(200, 1), (201, 1), (202, 5), (100, 4)]);
}

#[test]
fn what_a_tested_rate_cut_off_joins_what_is_taken_next() {
    let mut air = air(1, 0.0, |radio| radio.aggregation.formed_ahead = Some(1));
    for sn in 0..8u16 {
        let (flags, mcs) = if sn == 2 { (AMPDU | PROBE, 3) } else { (AMPDU, 7) };
        let number = 1 + u32::from(sn / 5);
        air.take_in(Time::ZERO, RadioId(1), &taken_for(number, u64::from(sn), flags, mcs, &qos(0, sn))).unwrap();
    }
    air.run_until(Time::from_ns(1_000_000_000));
    let whole: Vec<_> = told(&mut air).into_iter().filter(|told| told.3 > 0).map(|told| (told.0, told.3)).collect();
    assert_eq!(whole, [(0, 2), (2, 1), (3, 5)]);
}

#[test]
fn what_did_not_fit_waits_for_the_next_of_its_queue() {
    let mut air = air(2, 0.0, |_| {});
    let mut take = |number, to: u16, sns: std::ops::Range<u16>| {
        for sn in sns.clone() {
            let mut frame = qos(0, sn);
            frame[4..10].copy_from_slice(&address(to));
            let cookie = u64::from(to * 100 + sn);
            // The last one did not fit.
            let message = if sn + 1 == sns.end { left_over } else { taken_for };
            air.take_in(Time::ZERO, AP, &message(number, cookie, AMPDU, 7, &frame)).unwrap();
        }
    };
    take(1, 1, 0..5);
    take(2, 2, 0..3);
    take(3, 1, 5..9);
    air.run_until(Time::from_ns(1_000_000_000));
    let whole: Vec<_> = told(&mut air).into_iter().filter(|told| told.3 > 0).map(|told| (told.0, told.3)).collect();
    assert_eq!(whole[..2], [(100, 4), (200, 2)]);
    // With it goes what was taken then. The other one waited for its queue's turn, which came last.
    assert_eq!(whole[2..], [(104, 5), (202, 1)]);
}

#[test]
fn what_goes_again_joins_whatever_is_taken_next() {
    let mut air = air(1, 0.3, |radio| radio.aggregation.max_frames = 4);
    let mut number = 0;
    let mut take = |air: &mut Air, now, sns: std::ops::Range<u16>| {
        number += 1;
        for sn in sns {
            let message = taken_for(number, u64::from(sn), AMPDU, 1, &qos(0, sn & 4095));
            air.take_in(now, RadioId(1), &message).unwrap();
        }
    };
    take(&mut air, Time::ZERO, 0..4);
    take(&mut air, Time::ZERO, 4..8);
    keeps_ampdus_full(&mut air, take);
}

/// ath9k puts what is sent again behind the frame that it kept (`ath_tx_complete_aggr`). One that
/// tests a rate goes alone, so it comes first.
#[test]
fn a_frame_that_was_kept_to_test_a_rate_goes_before_what_goes_again() {
    for is_fixed in [false, true] {
        let mut air = air(1, 0.5, |radio| radio.aggregation.formed_ahead = Some(1));
        air.mac.want_damaged(AP, true);
        if is_fixed {
            air.mac.fix_rate(RadioId(1));
        }
        let taken = (0..4).map(|sn| taken_for(1, u64::from(sn), AMPDU, 7, &qos(0, sn)));
        for message in taken.chain([left_over(1, 9, AMPDU | PROBE, 2, &qos(0, 9))]) {
            air.take_in(Time::ZERO, RadioId(1), &message).unwrap();
        }
        air.run_until(Time::from_ns(20_000_000));
        let all = came(&mut air);
        let test = all.iter().position(|c| matches!(c, Came::Frame { sn: 9, .. })).unwrap();
        let again = all.iter().position(|c| matches!(c, Came::Frame { sn: 0..9, retry: true, .. })).unwrap();
        assert_eq!(test < again, !is_fixed, "{is_fixed}: {all:?}");
    }
}

/// A-MPDUs in statuses: the cookie, the first rate and its tries, MPDUs and those acknowledged.
fn told(air: &mut Air) -> Vec<(u64, u8, u8, u8, u8)> {
    let mut all = Vec::new();
    while let Some((_, message)) = air.mac.take_out() {
        let (command, attributes) = as_kernel(&message);
        let of = |number| attributes.iter().find(|(own, _)| *own == number).map(|(_, value)| value.clone());
        if let (3, Some(rates), Some(mpdus), Some(acked)) = (command, of(7), of(32), of(33)) {
            let cookie = u64::from_ne_bytes(of(8).unwrap().try_into().unwrap());
            all.push((cookie, rates[0], rates[1], mpdus[0], acked[0]));
        }
    }
    all
}

#[test]
fn one_status_tells_of_a_whole_ampdu() {
    let mut air = air(1, 0.3, |_| {});
    upload(&mut air, 0..1000, AMPDU);
    air.run_until(Time::from_ns(9_000_000_000));
    let all = told(&mut air);
    assert_eq!(all.len(), 1000);
    let traffic = air.mac.traffic()[&(RadioId(1), AP)];
    // Each MPDU is acknowledged once. A-MPDUs without an answer are tries of the next one that has
    // one.
    let sum = |of: fn(&(u64, u8, u8, u8, u8)) -> u64| all.iter().map(of).sum::<u64>();
    assert_eq!(sum(|told| u64::from(told.4)), 1000);
    assert_eq!(sum(|told| u64::from(told.3) * u64::from(told.2)), traffic.mpdus);
    assert!(all.iter().filter(|told| told.3 > 0).count() as u64 <= traffic.ampdus);
}

#[test]
fn a_frame_that_tests_a_rate_goes_alone_and_no_other_counts_for_it() {
    let mut air = air(1, 0.0, |_| {});
    for sn in 0..30u16 {
        let (flags, mcs) = if sn == 10 { (AMPDU | PROBE, 3) } else { (AMPDU, 7) };
        air.take_in(Time::ZERO, RadioId(1), &handed_over(u64::from(sn), flags, mcs, &qos(0, sn))).unwrap();
    }
    air.run_until(Time::from_ns(1_000_000_000));
    let whole: Vec<_> = told(&mut air).into_iter().filter(|told| told.3 > 0).collect();
    assert_eq!(whole, [(0, 7, 1, 10, 10), (10, 3, 1, 1, 1), (11, 7, 1, 19, 19)]);
}

#[test]
fn a_fixed_rate_is_not_tested() {
    let mut air = air(1, 0.0, |_| {});
    air.mac.fix_rate(RadioId(1));
    for sn in 0..30u16 {
        let flags = if sn == 10 { AMPDU | PROBE } else { AMPDU };
        air.take_in(Time::ZERO, RadioId(1), &handed_over(u64::from(sn), flags, 7, &qos(0, sn))).unwrap();
    }
    air.run_until(Time::from_ns(1_000_000_000));
    let whole: Vec<_> = told(&mut air).into_iter().filter(|told| told.3 > 0).collect();
    assert_eq!(whole, [(0, 7, 1, 30, 30)]);
}

#[test]
fn what_is_sent_again_goes_at_the_rates_of_today() {
    let mut air = air(1, 0.5, |radio| radio.aggregation.formed_ahead = Some(1));
    let hand_over = |air: &mut Air, now, sn: u16, mcs| {
        air.take_in(now, RadioId(1), &handed_over(u64::from(sn), AMPDU, mcs, &qos(0, sn))).unwrap();
    };
    (0..20).for_each(|sn| hand_over(&mut air, Time::ZERO, sn, 7));
    let ended = loop {
        let now = air.deadline();
        air.run_until(now);
        let ended = told(&mut air);
        if !ended.is_empty() {
            break ended;
        }
    };
    assert!(ended.len() < 20 && ended.iter().all(|told| told.1 == 7));
    let later = air.deadline();
    hand_over(&mut air, later, 20, 2);
    air.run_until(later + Span::from_secs(1));
    let rest = told(&mut air);
    assert_eq!(ended.len() + rest.len(), 21);
    // The next A-MPDU has all that failed and the new frame, at its rate.
    let next = rest.iter().find(|told| told.3 > 0).unwrap();
    assert_eq!((next.1, usize::from(next.3)), (2, 21 - ended.len()), "{rest:?}");
}

#[test]
fn group_frames_reach_all_and_unknown_receivers_nobody() {
    let mut air = air(3, 0.0, |_| {});
    let mut beacon = qos(0, 9);
    beacon[0] = 0x80;
    beacon[4..10].fill(0xff);
    air.take_in(Time::ZERO, AP, &handed_over(1, NO_ACK, 0, &beacon)).unwrap();
    let mut astray = qos(0, 10);
    astray[4..10].copy_from_slice(&address(77));
    air.take_in(Time::ZERO, AP, &handed_over(2, 0, 0, &astray)).unwrap();
    air.run_until(Time::from_ns(1_000_000_000));
    let all = came(&mut air);
    let at: Vec<u16> =
        all.iter().filter_map(|c| if let Came::Frame { at, .. } = c { Some(*at) } else { None }).collect();
    assert_eq!(at, [1, 2, 3]);
    assert!(all.contains(&Came::Status { at: 0, cookie: 1, acked: false, tries: 1 }));
    assert!(all.contains(&Came::Status { at: 0, cookie: 2, acked: false, tries: 7 }));
    assert_eq!(air.mac.held(AP), 0);
}

#[test]
fn receivers_take_turns() {
    let mut air = air(2, 0.0, |radio| radio.aggregation.max_frames = 4);
    for sn in 0..40 {
        for station in [1, 2] {
            let mut frame = qos(0, sn);
            frame[4..10].copy_from_slice(&address(station));
            // All of the first station's frames come before those of the second.
            let cookie = u64::from(station) << 16 | u64::from(sn);
            if station == 1 || sn < 40 {
                air.take_in(Time::ZERO, AP, &handed_over(cookie, AMPDU, 7, &frame)).unwrap();
            }
        }
    }
    air.run_until(Time::from_ns(1_000_000_000));
    let mut order: Vec<(u16, u32)> = Vec::new();
    for c in came(&mut air) {
        if let Came::Frame { at, ampdu: Some(ampdu), .. } = c {
            if order.last() != Some(&(at, ampdu)) {
                order.push((at, ampdu));
            }
        }
    }
    assert!(order.len() >= 18 && order.windows(2).all(|pair| pair[0].0 != pair[1].0), "{order:?}");
}

#[test]
fn what_is_no_message_changes_nothing() {
    let mut air = air(1, 0.0, |_| {});
    assert!(air.take_in(Time::ZERO, RadioId(1), &[1, 2, 3]).is_err());
    assert_eq!((air.deadline(), air.mac.held(RadioId(1))), (Time::NEVER, 0));
}

#[test]
fn two_runs_are_equal() {
    let run = || {
        let mut air = air(1, 0.3, |_| {});
        air.mac.want_damaged(AP, true);
        upload(&mut air, 0..500, AMPDU);
        air.run_until(Time::from_ns(3_000_000_000));
        std::iter::from_fn(|| air.mac.take_out()).collect::<Vec<_>>()
    };
    assert!(run() == run());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Whatever kernels hand over, each frame ends with one status, nothing is sent beyond the
    /// window, and what is acknowledged has arrived.
    #[test]
    fn every_frame_ends_once(
        frames in proptest::collection::vec((0u16..3, 0u16..3, 0u8..8, any::<bool>(), 0u64..40), 1..120),
        rate in prop_oneof![Just(0.0), 0.05..0.7],
        start in 0u16..4096,
        ahead in 0u8..4,
    ) {
        let mut air = air(2, rate, |radio| radio.aggregation.formed_ahead = Some(ahead));
        let mut next = [[[start; 8]; 3]; 3];
        let mut now = Time::ZERO;
        let mut all = Vec::new();
        for (n, &(from, to, tid, aggregates, later)) in frames.iter().enumerate() {
            now = Time::from_ns(now.as_ns() + later * 100_000);
            air.run_until(now);
            let sn = &mut next[usize::from(from)][usize::from(to)][usize::from(tid)];
            let mut frame = qos(tid, *sn % 4096);
            *sn += 1;
            frame[4..10].copy_from_slice(&address(to));
            let flags = if aggregates { AMPDU } else { 0 };
            air.take_in(now, RadioId(from), &handed_over(n as u64, flags, 4, &frame)).unwrap();
            all.extend(came(&mut air));
        }
        air.run_until(Time::from_ns(now.as_ns() + 60_000_000_000));
        all.extend(came(&mut air));
        let mut ended = vec![0; frames.len()];
        let acked = all.iter().filter(|c| matches!(c, Came::Status { acked: true, .. })).count();
        for c in &all {
            if let Came::Status { cookie, .. } = c {
                ended[*cookie as usize] += 1;
            }
        }
        prop_assert!(ended.iter().all(|&times| times == 1));
        let whole = all.iter().filter(|c| matches!(c, Came::Frame { damaged: false, .. })).count();
        prop_assert!(whole >= acked);
        prop_assert_eq!((0..3).map(|radio| air.mac.held(RadioId(radio))).sum::<usize>(), 0);
    }
}
