//! Small scenes, to the slot: SIFS 16 us, slot 9 us (802.11a and n at 5 GHz).

use rand::RngExt;

use super::*;
use crate::convert::count16;
use crate::rng::{Purpose, stream};
use crate::wifi::phy::{PhyConfig, Standard, edca_defaults};

const BE: usize = 1;
const VI: usize = 2;
const VO: usize = 3;

/// `cw`: of best effort.
fn scene(radios: usize, has_qos: bool, eifs: bool, cw: u32, hidden: &[(u16, u16)]) -> Contention {
    let timing = PhyConfig::of(Standard::N).timing();
    let mut edca = edca_defaults(&timing, false);
    edca[BE] = EdcaParams { aifsn: if has_qos { 3 } else { 2 }, cw_min: cw, cw_max: 1023, txop: Span::ZERO };
    let hidden: Vec<_> = hidden.iter().map(|&(a, b)| (RadioId(a), RadioId(b))).collect();
    let contender = |i| Contender {
        timing: Arc::new(timing.clone()),
        edca,
        has_qos,
        eifs,
        retry_limit: 7,
        wavelan: None,
        rng: stream(1, i, Purpose::Backoff),
    };
    Contention::new((0..radios as u64).map(contender), &hidden, Span::ZERO)
}

fn timing() -> Timing {
    PhyConfig::of(Standard::N).timing()
}

/// Gives radio `r` a frame and a backoff.
fn waits(c: &mut Contention, r: usize, backoff: u32) {
    c.categories.access[r][BE].backoff = backoff;
    c.categories.access[r][BE].has_frame = true;
    c.categories.pending[r] |= 1 << BE;
}

/// The medium has become idle for radio `r`.
fn thaw(c: &mut Contention, r: usize) {
    match &mut c.sensing {
        Sensing::PerRadio(all) => all.thaw(&mut c.categories, r),
        Sensing::OneCell(cell) => cell.thaw(&mut c.categories, r),
    }
}

/// Radio `r` transmits from `at` to `at + length`, and nothing is expected back.
fn transmits(c: &mut Contention, r: u16, at: u64, length: u64, receiver: u16, is_decoded: bool) {
    c.on_begin(RadioId(r), Time::from_ns(at));
    c.on_end(RadioId(r), Time::from_ns(at + length), Time::ZERO, RadioId(receiver), is_decoded, NEVER);
}

// [IEEE80211-10.3.2.3-3] [IEEE80211-10.3.4.2-1]
#[test]
fn a_frame_that_finds_the_medium_idle_leaves_at_once_or_after_aifs() {
    let mut c = scene(2, true, true, 15, &[]);
    c.on_frame(RadioId(0), Ac::Be, Time::from_ns(1_000_000));
    assert_eq!(c.next(), (Time::from_ns(1_000_000), RadioId(0)));
    c.take(RadioId(0), Time::from_ns(1_000_000));
    transmits(&mut c, 0, 1_000_000, 100_000, 1, true);
    c.finish(RadioId(0), Ac::Be, Time::from_ns(1_100_000), false, false);
    c.on_frame(RadioId(1), Ac::Be, Time::from_ns(1_110_000));
    assert_eq!(
        c.categories.ready[1].as_ns(),
        1_100_000 + timing().aifs(3).as_ns(),
        "no backoff: the medium was idle when it came"
    );
}

// [IEEE80211-10.3.2.1-1] [IEEE80211-10.3.3-1] [IEEE80211-10.3.4.3-1]
#[test]
fn a_frame_that_finds_the_medium_busy_draws_a_backoff() {
    let mut slots = [0; 16];
    for i in 0..400u64 {
        let mut c = scene(2, true, true, 15, &[]);
        c.categories.rng[1] = stream(i, 0, Purpose::Backoff);
        c.on_begin(RadioId(0), Time::ZERO);
        c.on_frame(RadioId(1), Ac::Be, Time::from_ns(50_000));
        assert_eq!(c.categories.ready[1], NEVER);
        c.on_end(RadioId(0), Time::from_ns(100_000), Time::ZERO, NOBODY, true, NEVER);
        let wait = c.categories.ready[1].as_ns() - 100_000 - timing().aifs(3).as_ns();
        assert_eq!(wait % 9_000, 0);
        slots[(wait / 9_000) as usize] += 1;
    }
    assert!(slots.iter().all(|&n| n > 5), "{slots:?}");
}

// [IEEE80211-10.3.2.1-1]
#[test]
fn a_frame_that_finds_only_the_nav_set_draws_a_backoff() {
    let mut slots = [0; 16];
    for i in 0..400u64 {
        let mut c = scene(3, true, true, 15, &[]);
        c.categories.rng[2] = stream(i, 0, Purpose::Backoff);
        c.on_begin(RadioId(0), Time::ZERO);
        c.on_end(RadioId(0), Time::from_ns(50_000), Time::from_ns(300_000), RadioId(1), true, NEVER);
        c.on_frame(RadioId(2), Ac::Be, Time::from_ns(200_000));
        let wait = c.categories.ready[2].as_ns() - 300_000 - timing().aifs(3).as_ns();
        assert_eq!(wait % 9_000, 0);
        slots[(wait / 9_000) as usize] += 1;
    }
    assert!(slots.iter().all(|&n| n > 5), "{slots:?}");
}

const NOBODY: RadioId = RadioId(u16::MAX);

/// Slots left of a backoff of 5 when another radio begins `after_aifs_ns` after AIFS.
fn left(has_qos: bool, after_aifs_ns: u64) -> u64 {
    let mut c = scene(3, has_qos, true, 15, &[]);
    let aifs = timing().aifs(if has_qos { 3 } else { 2 }).as_ns();
    waits(&mut c, 0, 5);
    thaw(&mut c, 0);
    c.categories.update(0);
    assert_eq!(c.categories.ready[0].as_ns(), aifs + 5 * 9_000);
    let at = aifs + after_aifs_ns;
    transmits(&mut c, 1, at, 100_000, 2, true);
    (c.categories.ready[0].as_ns() - at - 100_000 - aifs) / 9_000
}

// [IEEE80211-10.23.2.4-1]
#[test]
fn dcf_counts_slots_at_their_end_and_edca_at_their_beginning() {
    for (after_aifs_ns, dcf, edca) in
        [(0, 5, 4), (8_999, 5, 4), (9_000, 4, 3), (17_999, 4, 3), (36_000, 1, 0), (44_999, 1, 0)]
    {
        assert_eq!(left(false, after_aifs_ns), dcf, "DCF, {after_aifs_ns} ns after DIFS");
        assert_eq!(left(true, after_aifs_ns), edca, "EDCA, {after_aifs_ns} ns after AIFS");
    }
}

// [IEEE80211-10.3.4.3-2]
#[test]
fn before_aifs_has_passed_no_slot_counts() {
    let mut c = scene(3, true, true, 15, &[]);
    waits(&mut c, 0, 5);
    thaw(&mut c, 0);
    transmits(&mut c, 1, timing().aifs(3).as_ns() - 1, 100_000, 2, true);
    assert_eq!(c.categories.access[0][BE].backoff, 5);
}

// [IEEE80211-10.3.4.3-3]
#[test]
fn after_its_exchange_a_radio_counts_a_backoff_whether_or_not_a_frame_waits() {
    let mut c = scene(2, true, true, 15, &[]);
    c.on_frame(RadioId(0), Ac::Be, Time::from_ns(1_000_000));
    c.take(RadioId(0), Time::from_ns(1_000_000));
    transmits(&mut c, 0, 1_000_000, 100_000, 1, true);
    c.finish(RadioId(0), Ac::Be, Time::from_ns(1_100_000), false, false);
    let backoff = u64::from(c.categories.access[0][BE].backoff);
    assert!(backoff > 1, "this seed draws more than one slot");
    assert_eq!(c.next().0, NEVER);
    let over = 1_100_000 + timing().aifs(3).as_ns() + backoff * 9_000;
    let mut early = scene(2, true, true, 15, &[]);
    let Sensing::PerRadio(views) = &c.sensing else { panic!("few radios") };
    early.sensing = Sensing::PerRadio(views.clone());
    early.categories.access = c.categories.access.clone();
    early.categories.windows = c.categories.windows.clone();
    early.categories.pending = c.categories.pending.clone();
    early.on_frame(RadioId(0), Ac::Be, Time::from_ns(over - 4_000));
    assert_eq!(early.categories.ready[0].as_ns(), over, "the rest of the post-backoff holds");
    c.on_frame(RadioId(0), Ac::Be, Time::from_ns(over + 4_000));
    assert_eq!(c.categories.ready[0].as_ns(), over + 4_000, "it is over");
}

// [IEEE80211-10.3.3-2] [IEEE80211-10.3.3-3]
#[test]
fn the_window_doubles_with_each_failure_and_starts_anew_after_seven_or_an_answer() {
    let mut c = scene(1, true, true, 15, &[]);
    let mut windows = Vec::new();
    for _ in 0..9 {
        c.finish(RadioId(0), Ac::Be, Time::ZERO, true, true);
        windows.push(c.categories.windows[0][BE].cw);
    }
    assert_eq!(windows, [31, 63, 127, 255, 511, 1023, 15, 31, 63]);
    c.finish(RadioId(0), Ac::Be, Time::ZERO, false, true);
    assert_eq!(c.categories.windows[0][BE].cw, 15);
}

// [IEEE80211-10.23.2.12-1]
#[test]
fn of_categories_ready_at_once_the_highest_goes_and_the_others_collide_with_it() {
    let mut c = scene(1, true, true, 15, &[]);
    for ac in [Ac::Be, Ac::Vi, Ac::Vo] {
        c.on_frame(RadioId(0), ac, Time::from_ns(1_000_000));
    }
    assert_eq!(c.take(RadioId(0), Time::from_ns(1_000_000)), Ac::Vo);
    let a = &c.categories.windows[0];
    assert_eq!([a[BE].cw, a[VI].cw, a[VO].cw], [31, 15, 3]);
    assert!(c.next().0 == NEVER, "its own exchange silences them");
    c.on_begin(RadioId(0), Time::from_ns(1_000_000));
    c.on_end(RadioId(0), Time::from_ns(1_100_000), Time::ZERO, NOBODY, true, NEVER);
    c.finish(RadioId(0), Ac::Vo, Time::from_ns(1_100_000), false, false);
    let ready = |ac: usize| {
        1_100_000
            + c.categories.params[usize::from(c.categories.access[0][ac].kind)].aifs.as_ns()
            + u64::from(c.categories.access[0][ac].backoff) * 9_000
    };
    assert_eq!(c.categories.ready[0].as_ns(), ready(BE).min(ready(VI)));
}

// [IEEE80211-10.3.2.3-4] [IEEE80211-10.3.2.3-5]
#[test]
fn eifs_follows_what_could_not_be_decoded_and_ends_with_what_can() {
    let (t, aifs) = (timing(), timing().aifs(3).as_ns());
    let extra = t.eifs().as_ns() - t.difs().as_ns();
    let waiting = |c: &mut Contention, now| {
        c.on_frame(RadioId(2), Ac::Be, Time::from_ns(now));
        c.categories.access[2][BE].backoff = 0;
        c.categories.access[2][BE].ready_at = NEVER;
        thaw(c, 2);
        c.categories.access[2][BE].ready_at.as_ns() - now
    };
    // Two at once.
    let mut c = scene(4, true, true, 0, &[]);
    c.on_begin(RadioId(0), Time::ZERO);
    c.on_begin(RadioId(1), Time::ZERO);
    c.on_end(RadioId(0), Time::from_ns(100_000), Time::ZERO, RadioId(3), false, NEVER);
    c.on_end(RadioId(1), Time::from_ns(150_000), Time::ZERO, RadioId(3), false, NEVER);
    assert_eq!(waiting(&mut c, 150_000), extra + aifs);
    // One that is decoded ends it.
    let mut c = scene(4, true, true, 0, &[]);
    c.on_begin(RadioId(0), Time::ZERO);
    c.on_begin(RadioId(1), Time::ZERO);
    c.on_end(RadioId(0), Time::from_ns(100_000), Time::ZERO, RadioId(3), false, NEVER);
    c.on_end(RadioId(1), Time::from_ns(150_000), Time::ZERO, RadioId(3), false, NEVER);
    transmits(&mut c, 3, 160_000, 50_000, 0, true);
    assert_eq!(waiting(&mut c, 210_000), aifs);
    // A radio notices errors in frames for itself, but not in frames for others.
    for (receiver, wait) in [(3, aifs), (2, extra + aifs)] {
        let mut c = scene(4, true, true, 0, &[]);
        transmits(&mut c, 0, 0, 100_000, receiver, false);
        assert_eq!(waiting(&mut c, 100_000), wait);
    }
    // Without EIFS.
    let mut c = scene(4, true, false, 0, &[]);
    c.on_begin(RadioId(0), Time::ZERO);
    c.on_begin(RadioId(1), Time::ZERO);
    c.on_end(RadioId(0), Time::from_ns(100_000), Time::ZERO, RadioId(3), false, NEVER);
    c.on_end(RadioId(1), Time::from_ns(100_000), Time::ZERO, RadioId(3), false, NEVER);
    assert_eq!(waiting(&mut c, 100_000), aifs);
}

// [IEEE80211-10.3.2.4-1]
#[test]
fn eifs_and_nav_run_side_by_side() {
    let (t, aifs) = (timing(), timing().aifs(3).as_ns());
    let extra = t.eifs().as_ns() - t.difs().as_ns();
    for (nav_ns, wait) in [(500_000, 500_000 - 50_000 + aifs), (60_000, extra + aifs)] {
        let mut c = scene(4, true, true, 0, &[]);
        c.on_begin(RadioId(0), Time::ZERO);
        c.on_end(RadioId(0), Time::from_ns(10_000), Time::from_ns(nav_ns), RadioId(3), true, NEVER);
        c.on_begin(RadioId(0), Time::from_ns(20_000));
        c.on_begin(RadioId(1), Time::from_ns(20_000));
        c.on_end(RadioId(0), Time::from_ns(50_000), Time::ZERO, RadioId(3), false, NEVER);
        c.on_end(RadioId(1), Time::from_ns(50_000), Time::ZERO, RadioId(3), false, NEVER);
        c.on_frame(RadioId(2), Ac::Be, Time::from_ns(50_000));
        c.categories.access[2][BE].backoff = 0;
        c.categories.access[2][BE].ready_at = NEVER;
        thaw(&mut c, 2);
        assert_eq!(c.categories.access[2][BE].ready_at.as_ns() - 50_000, wait, "NAV until {nav_ns} ns");
    }
}

// [IEEE80211-10.3.2.1-1] [IEEE80211-10.3.2.4-1] [IEEE80211-10.3.2.4-2] [IEEE80211-10.3.2.9-2]
#[test]
fn the_nav_silences_those_who_hear_it_but_not_the_receiver() {
    let mut c = scene(4, true, true, 0, &[(0, 3)]);
    for r in [1, 2, 3] {
        c.on_frame(RadioId(r), Ac::Be, Time::ZERO);
        c.categories.access[usize::from(r)][BE].ready_at = NEVER;
    }
    c.on_begin(RadioId(0), Time::ZERO);
    c.on_end(RadioId(0), Time::from_ns(50_000), Time::from_ns(300_000), RadioId(1), true, NEVER);
    let aifs = timing().aifs(3).as_ns();
    assert_eq!([c.categories.ready[1], c.categories.ready[2]].map(Time::as_ns), [50_000 + aifs, 300_000 + aifs]);
    assert!(
        c.has_nav(RadioId(2), Time::from_ns(299_999))
            && !c.has_nav(RadioId(2), Time::from_ns(300_000))
            && !c.has_nav(RadioId(1), Time::from_ns(100_000))
            && !c.has_nav(RadioId(3), Time::from_ns(100_000))
    );
}

// [IEEE80211-10.3.2.11-1]
#[test]
fn a_responder_does_not_send_its_own_frame_in_between() {
    let mut c = scene(3, true, true, 15, &[]);
    waits(&mut c, 1, 2);
    c.on_begin(RadioId(0), Time::ZERO);
    c.on_end(RadioId(0), Time::from_ns(100_000), Time::ZERO, RadioId(1), true, NEVER);
    c.engage(RadioId(1), true, Time::from_ns(100_000));
    assert_eq!(c.next().0, NEVER);
    c.on_begin(RadioId(1), Time::from_ns(116_000));
    c.on_end(RadioId(1), Time::from_ns(150_000), Time::ZERO, RadioId(0), true, NEVER);
    assert_eq!(c.next().0, NEVER, "still engaged");
    c.engage(RadioId(1), false, Time::from_ns(150_000));
    assert_eq!(c.next(), (Time::from_ns(150_000 + timing().aifs(3).as_ns() + 2 * 9_000), RadioId(1)));
}

// [IEEE80211-10.3.4.3-2]
#[test]
fn who_is_due_in_the_same_slot_collides_and_who_is_due_later_freezes() {
    let mut c = scene(3, true, true, 15, &[]);
    for (r, backoff) in [(0, 3), (1, 3), (2, 4)] {
        waits(&mut c, r, backoff);
        thaw(&mut c, r);
        c.categories.update(r);
    }
    let at = timing().aifs(3).as_ns() + 3 * 9_000;
    assert_eq!(c.next(), (Time::from_ns(at), RadioId(0)));
    c.take(RadioId(0), Time::from_ns(at));
    c.on_begin(RadioId(0), Time::from_ns(at));
    assert_eq!(c.next(), (Time::from_ns(at), RadioId(1)));
    c.take(RadioId(1), Time::from_ns(at));
    c.on_begin(RadioId(1), Time::from_ns(at));
    assert_eq!(c.next().0, NEVER);
    assert_eq!(c.categories.access[2][BE].backoff, 0, "its slot had begun");
}

// [IEEE80211-10.3.2.11-2]
#[test]
fn those_who_collide_wait_for_the_answer_and_not_for_eifs() {
    for has_qos in [false, true] {
        for longer in [0, 50_000] {
            let (t, eifs) = (timing(), true);
            let mut c = scene(4, has_qos, eifs, 0, &[]);
            for r in [0, 1] {
                c.on_frame(RadioId(r), Ac::Be, Time::from_ns(1_000_000));
            }
            for r in [0, 1] {
                assert_eq!(c.next(), (Time::from_ns(1_000_000), RadioId(r)));
                c.take(RadioId(r), Time::from_ns(1_000_000));
                c.on_begin(RadioId(r), Time::from_ns(1_000_000));
            }
            let ends = [1_100_000, 1_100_000 + longer];
            c.on_end(RadioId(0), Time::from_ns(ends[0]), Time::ZERO, RadioId(3), false, NEVER);
            c.on_end(RadioId(1), Time::from_ns(ends[1]), Time::ZERO, RadioId(3), false, NEVER);
            let noticed = ends.map(|e| e + 45_000);
            for r in [0, 1] {
                c.finish(RadioId(r), Ac::Be, Time::from_ns(noticed[usize::from(r)]), true, true);
            }
            let aifs = t.aifs(if has_qos { 3 } else { 2 }).as_ns();
            for r in [0, 1] {
                let start =
                    c.categories.access[r][BE].ready_at.as_ns() - u64::from(c.categories.access[r][BE].backoff) * 9_000;
                // The medium was busy until the longer one was over.
                let idle = ends[1] + aifs;
                assert_eq!(
                    start,
                    if has_qos { idle.max(noticed[r] + aifs) } else { idle.max(noticed[r]) },
                    "radio {r}"
                );
            }
            waits(&mut c, 2, 0);
            thaw(&mut c, 2);
            assert_eq!(
                c.categories.access[2][BE].ready_at.as_ns(),
                ends[1] + t.eifs().as_ns() - t.difs().as_ns() + aifs,
                "who has heard both"
            );
        }
    }
}

/// Runs the next exchange: data, and its answer after SIFS; another radio gets a frame in between.
fn exchange(c: &mut Contention, now: u64, data: u64, is_answered: bool, late: RadioId, more: bool) -> u64 {
    let at = Time::from_ns;
    let (_, from) = c.next();
    let to = RadioId((from.0 + 1) % count16(c.categories.ready.len()));
    let ac = c.take(from, at(now));
    let (follows, done) = (now + data + 16_000, now + data + 60_000);
    c.on_begin(from, at(now));
    let (also_at, also) = c.next();
    if also_at <= at(now) {
        // They collide, and neither is answered.
        let other = c.take(also, at(now));
        c.on_begin(also, at(now));
        c.on_end(from, at(now + data), at(done), to, false, NEVER);
        c.finish(from, ac, at(now + data + 5_000), true, more);
        c.on_end(also, at(now + data + 9_000), at(done), late, false, NEVER);
        c.finish(also, other, at(done), true, true);
        return done;
    }
    if is_answered {
        c.engage(to, true, at(now + data));
    }
    c.on_end(from, at(now + data), at(done), to, is_answered, if is_answered { at(follows) } else { NEVER });
    if is_answered {
        c.on_frame(late, Ac::Vo, at(now + data + 3_000));
        c.on_begin(to, at(follows));
        c.engage(to, false, at(done));
        c.on_end(to, at(done), at(done), from, true, NEVER);
    }
    c.finish(from, ac, at(done), !is_answered, more);
    done
}

/// By radio and category: slots left, when they are over, and whether anything is pending.
fn seen(c: &Contention) -> Vec<(u32, Time, bool)> {
    let of = |(r, ac): (usize, usize)| {
        let (a, is_pending) = (&c.categories.access[r][ac], c.categories.pending[r] & 1 << ac != 0);
        let cell = match &c.sensing {
            Sensing::OneCell(cell) if cell.is_queued[r] && is_pending => cell,
            _ => return (a.backoff, a.ready_at, is_pending),
        };
        let queue = &cell.queues[usize::from(a.kind)];
        let left = cell.due[r][ac].saturating_sub(queue.counted);
        if left == 0 && !a.has_frame {
            return (0, NEVER, false);
        }
        (left.try_into().unwrap(), queue.end_of(queue.counted + left), true)
    };
    (0..c.categories.ready.len()).flat_map(|r| (0..4).map(move |ac| (r, ac))).map(of).collect()
}

#[test]
fn who_stays_stopped_through_an_exchange_counts_as_if_it_had_been_woken_between() {
    let mut draw = stream(5, 5, Purpose::Backoff);
    for round in 0..40 {
        let n = if round % 5 == 4 { draw.random_range(65..140) } else { draw.random_range(2..20u16) };
        let [mut stopped, mut woken] = [(); 2].map(|()| scene(usize::from(n), round % 2 == 0, true, 15, &[]));
        match &stopped.sensing {
            Sensing::OneCell(_) => assert!(n > 8),
            Sensing::PerRadio(all) => assert!(n <= 8 && all.keeps_stopped()),
        }
        // The same radios by the specification.
        let eifs_extra = timing().eifs().saturating_sub(timing().difs());
        let carriers = vec![Carrier::new(eifs_extra); usize::from(n)];
        woken.sensing = Sensing::PerRadio(PerRadio::new(carriers, &[], false));
        let mut now = 1_000_000;
        for _ in 0..60 {
            for r in 0..n {
                let ac = Ac::ALL[if draw.random_range(0..3) == 0 { draw.random_range(0..4) } else { BE }];
                if draw.random_range(0..3) > 0 {
                    continue;
                }
                stopped.on_frame(RadioId(r), ac, Time::from_ns(now));
                woken.on_frame(RadioId(r), ac, Time::from_ns(now));
            }
            let next = stopped.next();
            assert_eq!(next, woken.next());
            if next.0 == NEVER {
                continue;
            }
            let data = draw.random_range(50_000..900_000);
            let (is_answered, more) = (draw.random_range(0..4) > 0, draw.random_range(0..2) == 0);
            let late = RadioId(draw.random_range(0..n));
            let begin = now.max(next.0.as_ns());
            now = exchange(&mut stopped, begin, data, is_answered, late, more);
            exchange(&mut woken, begin, data, is_answered, late, more);
            assert_eq!(seen(&stopped), seen(&woken));
        }
    }
}
