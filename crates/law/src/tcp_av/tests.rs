use proptest::prelude::*;

use super::*;

fn path() -> Path {
    Path { now_ns: 0, srtt_ns: 0, min_rtt_ns: UNKNOWN, mss: 1448, cwnd_clamp: MOST }
}

/// As wide as it takes.
fn exact(bps: u64, span_ns: u64, mss: u64) -> u64 {
    let product = u128::from(bps) * u128::from(span_ns) * u128::from(UNIT) / (8_000_000_000 * u128::from(mss));
    u64::try_from(product.min(u128::from(MOST) * u128::from(UNIT))).unwrap()
}

#[test]
fn a_window_is_rate_times_round_trip_over_segment() {
    assert_eq!(segments(4_000_000, 100_000_000, 1448), 35_359); // 34.53 segments
    assert_eq!(segments(MOST_BPS, 67_000_000_000, 1448), exact(MOST_BPS, 67_000_000_000, 1448));
    assert_eq!(segments(0, UNKNOWN, 1), 0);
    assert_eq!(segments(u64::MAX, UNKNOWN, 0), MOST * UNIT);
}

proptest! {
    #[test]
    fn segments_are_exact_in_64_bits(bps in 0..=MOST_BPS, span: u64, shift in 0u32..64, mss in 1u64..=65_535) {
        let span = span >> shift;
        prop_assert_eq!(segments(bps, span, mss), exact(bps, span, mss));
    }

    #[test]
    fn products_end_at_the_largest(a: u64, b: u32, shift in 0u32..64) {
        let (a, b) = (a >> shift, u64::from(b));
        prop_assert_eq!(times(a, b), a.saturating_mul(b));
    }

    /// Overflow checks are on here: nothing wraps, and nothing panics, whatever comes.
    #[test]
    fn wild_input_keeps_the_window_in_its_bounds(
        words in prop::collection::vec((any::<u64>(), 0u32..64), 64), steps in 1usize..40
    ) {
        let mut next = words.iter().cycle().map(|(word, shift)| word >> shift);
        let mut draw = move || next.next().unwrap();
        let p = Params {
            target_bps: draw(), rtt_min: draw() % 3, rtt_min_window_ns: draw(), floor_rtt: draw() % 2,
            after_timeout: draw() % 3, above: draw() % 2, rise: draw(), fall: draw(), tune_rounds: draw(),
            tune_limit: draw(), severe_rounds: draw() % 8, severe_reductions: draw() % 4, severe_share: draw(),
            reduced_to: draw(), target_min: draw(), recover_step: draw(),
        };
        let mut s = State::NEW;
        let mut w = Window { cwnd: 10, ssthresh: MOST };
        for _ in 0..steps {
            let path = Path { now_ns: draw(), srtt_ns: draw(), min_rtt_ns: draw(), mss: draw(), cwnd_clamp: draw().max(1) };
            let ack = Ack {
                rtt_ns: draw(), credit: draw(), delivered: draw(), cwnd_limited: draw() % 2, snd_una: draw(), snd_nxt: draw(),
            };
            w.cwnd = draw().max(1);
            let before = w.cwnd;
            if on_ack(&p, &mut s, &mut w, &path, &ack) == Verdict::UNLIMITED {
                prop_assert_eq!(w.cwnd, before);
                steer(&mut s, &mut w, &path, &ack);
            }
            prop_assert!(w.cwnd >= 1 && w.ssthresh >= 1);
            prop_assert!(s.share <= UNIT);
            let fallen = ssthresh(&p, &mut s, w.cwnd, &path, w.cwnd / 2);
            prop_assert!(fallen <= w.cwnd.max(2) || fallen == w.cwnd / 2);
            on_state(&p, &mut s, &mut w, &path, draw() % 2);
            prop_assert!(loss_window(&p, &s, &path) >= 1);
            if draw() % 4 == 0 { on_restart(&mut s) }
            if draw() % 4 == 0 { on_path_change(&p, &mut s) }
        }
    }
}

#[test]
fn a_change_of_path_forgets_the_least_round_trip() {
    let mut s = State::NEW;
    let mut w = Window { cwnd: 10, ssthresh: MOST };
    let ack = Ack { rtt_ns: 20_000_000, credit: 1, delivered: 1, cwnd_limited: 1, snd_una: 1, snd_nxt: 9 };
    on_ack(&Params::HOST, &mut s, &mut w, &path(), &ack);
    assert_eq!(least_rtt(&Params::HOST, &s, &path()), 20_000_000);
    on_path_change(&Params::HOST, &mut s);
    assert_eq!(least_rtt(&Params::HOST, &s, &path()), UNKNOWN);
    assert_eq!(threshold(&Params::HOST, &s, &path()), 0);
}

#[test]
fn a_loss_and_a_timeout_leave_what_the_target_needs() {
    let path = Path { srtt_ns: 200_000_000, min_rtt_ns: 100_000_000, ..path() };
    let p = Params { rtt_min: choice::CONNECTION, ..Params::HOST };
    let mut s = State::NEW;
    assert_eq!(ssthresh(&p, &mut s, 100, &path, 50), 69);
    assert_eq!(ssthresh(&p, &mut s, 20, &path, 10), 20);
    assert_eq!(loss_window(&p, &s, &path), 69);
    assert_eq!(loss_window(&Params { after_timeout: choice::ONE, ..p }, &s, &path), 1);
    let mut w = Window { cwnd: 1, ssthresh: 5 };
    on_state(&p, &mut s, &mut w, &path, 1);
    assert_eq!(w.ssthresh, 34);
}
