use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::RngExt;

use super::*;
use crate::rng::Stream;

const GENERATORS: [u32; 2] = [0o133, 0o171];

/// Which of the two coded bits of successive information bits are sent (IEEE 802.11-2020 17.3.5.6,
/// 19.3.11).
fn puncturing(rate: CodeRate) -> &'static [[bool; 2]] {
    const BOTH: [bool; 2] = [true, true];
    const A: [bool; 2] = [true, false];
    const B: [bool; 2] = [false, true];
    match rate {
        CodeRate::Uncoded | CodeRate::Half => &[BOTH],
        CodeRate::TwoThirds => &[BOTH, A],
        CodeRate::ThreeQuarters => &[BOTH, A, B],
        CodeRate::FiveSixths => &[BOTH, A, B, A, B],
    }
}

/// Next state (the last six bits) and coded bits when `bit` enters.
fn encode(state: u32, bit: u32) -> (u32, [u32; 2]) {
    let register = bit << 6 | state;
    (register >> 1, GENERATORS.map(|g| (register & g).count_ones() & 1))
}

#[test]
fn spectra_follow_from_the_generators() {
    for rate in [CodeRate::Half, CodeRate::TwoThirds, CodeRate::ThreeQuarters, CodeRate::FiveSixths] {
        let pattern = puncturing(rate);
        let expected = spectrum(rate);
        let limit = expected.free_distance + 7;
        let mut found = vec![0.0; limit as usize + 1];
        for phase in 0..pattern.len() {
            let branch = |state, bit, phase: usize| {
                let (next, coded) = encode(state, bit);
                let sent = pattern[phase % pattern.len()];
                (next, (0..2).map(|i| if sent[i] { coded[i] } else { 0 }).sum::<u32>())
            };
            // Paths that have left state 0, by state and weight.
            let mut open = BTreeMap::from([(branch(0, 1, phase), 1.0)]);
            for step in 1.. {
                let mut next = BTreeMap::new();
                for ((state, weight), paths) in open {
                    for bit in 0..2 {
                        let (to, more) = branch(state, bit, phase + step);
                        match weight + more {
                            w if w > limit => {}
                            w if to == 0 => found[w as usize] += paths,
                            w => *next.entry((to, w)).or_insert(0.0) += paths,
                        }
                    }
                }
                if next.is_empty() {
                    break;
                }
                open = next;
            }
        }
        assert_eq!(found[expected.free_distance as usize..], expected.paths, "{rate:?}");
        assert!(found[..expected.free_distance as usize].iter().all(|&n| n == 0.0), "{rate:?}");
        assert_eq!(expected.period, pattern.len() as f64);
    }
}

/// SNR at which the success is `target`, by bisection.
fn snr_for(model: &ErrorModel, mode: Mode, bytes: u32, target: f64) -> f64 {
    let (mut low, mut high) = (-20.0f32, 60.0f32);
    for _ in 0..40 {
        let mid = (low + high) / 2.0;
        if model.mpdu_success(mode, mid, bytes) < target { low = mid } else { high = mid }
    }
    f64::from(low)
}

fn ht(mcs: u8) -> Mode {
    Mode::ht(mcs, Width::Mhz20, false).unwrap()
}

/// SNR in dB for a frame error rate of 10 % at 1458 bytes, 802.11n with BCC in AWGN, MCS 0 to 7:
/// link simulation with 40 000 frames per point (University of Washington 2020; interpolated), and
/// what this model makes of it.
#[test]
fn thresholds_are_near_those_of_link_simulation() {
    let simulated = [0.92, 3.94, 6.43, 9.70, 12.80, 17.04, 18.38, 19.63];
    let deviation = [-0.17, -0.18, -0.09, -0.11, -0.09, -0.04, -0.07, -0.12];
    let soft = ErrorModel::default();
    let hard = ErrorModel::new(&ErrorConfig { decoding: Decoding::Hard, ..ErrorConfig::default() });
    for mcs in 0..8u8 {
        let (reference, expected) = (simulated[usize::from(mcs)], deviation[usize::from(mcs)]);
        let found = snr_for(&soft, ht(mcs), 1458, 0.9) - reference;
        assert!((found - expected).abs() < 0.01, "MCS {mcs}: {found:.3} dB off, documented {expected}");
        let found = snr_for(&hard, ht(mcs), 1458, 0.9) - reference;
        assert!((2.0..3.2).contains(&found), "MCS {mcs}, hard decisions: {found:.2} dB off");
    }
}

/// The frame error rate of a Viterbi decoder, by simulation: `bits` information bits per frame,
/// coded bits scattered at random over Gray-mapped symbols, soft decisions.
fn simulated_frame_error_rate(modulation: Modulation, rate: CodeRate, snr_db: f64, bits: usize, frames: u32) -> f64 {
    let mut rng = Stream::of_test(7).open();
    let pattern = puncturing(rate);
    let per_dimension = if modulation == Modulation::Bpsk { 1 } else { modulation.bits() / 2 };
    let levels = 1u32 << per_dimension;
    let dimensions = if modulation == Modulation::Bpsk { 1.0 } else { 2.0 };
    // Per dimension: noise variance for levels at odd integers.
    let variance = dimensions * f64::from(levels * levels - 1) / 3.0 / 10f64.powf(snr_db / 10.0) / 2.0;
    let mut failed = 0;
    for _ in 0..frames {
        let data: Vec<u32> = (0..bits).map(|_| rng.random_range(0..2)).chain(std::iter::repeat_n(0, 6)).collect();
        let (mut state, mut coded) = (0, Vec::new());
        for (i, &bit) in data.iter().enumerate() {
            let (next, out) = encode(state, bit);
            state = next;
            coded.extend((0..2).filter(|&k| pattern[i % pattern.len()][k]).map(|k| out[k]));
        }
        let padded = coded.len().next_multiple_of(per_dimension as usize);
        let mut place: Vec<usize> = (0..padded).collect();
        for i in (1..padded).rev() {
            place.swap(i, rng.random_range(0..=i));
        }
        let mut sent = vec![0; padded];
        for (i, &bit) in coded.iter().enumerate() {
            sent[place[i]] = bit;
        }
        // ln p(y|0) - ln p(y|1) of every coded bit.
        let mut likelihood = vec![0.0; padded];
        for (symbol, out) in sent.chunks(per_dimension as usize).zip(likelihood.chunks_mut(per_dimension as usize)) {
            let label = symbol.iter().enumerate().fold(0, |l, (b, bit)| l | bit << b);
            let amplitude = |level: u32| f64::from(2 * level) - f64::from(levels - 1);
            let level = (0..levels).find(|l| l ^ (l >> 1) == label).unwrap();
            let noise = rng.normal();
            let y = amplitude(level) + variance.sqrt() * noise;
            for (b, out) in out.iter_mut().enumerate() {
                let density = |value| {
                    let with = (0..levels).filter(|l| (l ^ (l >> 1)) >> b & 1 == value);
                    with.map(|l| (-(y - amplitude(l)).powi(2) / (2.0 * variance)).exp()).sum::<f64>()
                };
                *out = (density(0).max(1e-300) / density(1).max(1e-300)).ln();
            }
        }
        // Viterbi: the metric is the sum of likelihoods of bits taken for 1; the least wins.
        let mut metrics = [f64::INFINITY; 64];
        metrics[0] = 0.0;
        let mut history = Vec::with_capacity(data.len());
        let mut at = 0;
        for i in 0..data.len() {
            let mut cost = [0.0; 2];
            for (k, cost) in cost.iter_mut().enumerate() {
                if pattern[i % pattern.len()][k] {
                    *cost = likelihood[place[at]];
                    at += 1;
                }
            }
            let (mut next, mut from) = ([f64::INFINITY; 64], [0u8; 64]);
            for state in 0..64u32 {
                for bit in 0..2 {
                    let (to, out) = encode(state, bit);
                    let metric = metrics[state as usize] + f64::from(out[0]) * cost[0] + f64::from(out[1]) * cost[1];
                    if metric < next[to as usize] {
                        next[to as usize] = metric;
                        from[to as usize] = state as u8;
                    }
                }
            }
            metrics = next;
            history.push(from);
        }
        let mut state = 0u32;
        let mut is_right = true;
        for (i, from) in history.iter().enumerate().rev() {
            // The newest bit is the top of the state.
            is_right &= state >> 5 == data[i];
            state = u32::from(from[state as usize]);
        }
        failed += u32::from(!is_right);
    }
    f64::from(failed) / f64::from(frames)
}

#[test]
fn a_viterbi_decoder_fails_as_often_as_predicted() {
    let model = ErrorModel::default();
    for mcs in [0, 1, 4, 7] {
        let mode = ht(mcs);
        let snr_db = snr_for(&model, mode, 100, 0.8);
        let found = simulated_frame_error_rate(mode.modulation(), mode.code_rate(), snr_db, 800, 500);
        // The bound is 0.2. 0.12 to 0.15 were found, each with a standard deviation of 0.016.
        assert!((0.1..0.2).contains(&found), "MCS {mcs} at {snr_db:.2} dB: {found}, bound 0.2");
    }
}

#[test]
fn bit_exponents() {
    // One bit per dimension is QPSK, whose exponent is known.
    for snr in [0.01, 0.1, 1.0, 10.0, 20.0] {
        let found = -gray_pam_bhattacharyya(1, snr).ln();
        assert!((found / (snr / 2.0) - 1.0).abs() < 1e-6, "{snr}: {found}");
    }
    // At high SNR the nearest of the other bit's levels, twice the unit away, decides: energy over
    // noise per dimension tends to 3 snr / (2 (M - 1)), less a constant for how many bits have such
    // neighbours.
    for (modulation, size) in [(Modulation::Qam16, 16.0), (Modulation::Qam64, 64.0), (Modulation::Qam256, 256.0)] {
        let snr = 40.0 * size;
        let (found, limit) = (bit_exponent(modulation, snr), 3.0 * snr / (2.0 * (size - 1.0)));
        assert!(found > limit && found < limit + 1.2, "{modulation:?}: {found} against {limit}");
    }
}

#[test]
fn tables_agree_with_the_closed_forms_they_sample() {
    let model = ErrorModel::default();
    for mcs in 0..8 {
        let mode = ht(mcs);
        for step in 0..300 {
            let snr_db = 0.1 * f64::from(step) + 0.037;
            let found = model.event_rate(mode, snr_db as f32);
            let exponent = bit_exponent(mode.modulation(), 10f64.powf(snr_db / 10.0));
            let direct = coded_event_rate(mode.code_rate(), |d| q((2.0 * f64::from(d) * exponent).sqrt()));
            if direct < 0.5 && direct > 1e-12 {
                assert!((found / direct - 1.0).abs() < 0.01, "MCS {mcs} at {snr_db:.3} dB: {found} {direct}");
            }
        }
    }
}

/// The textbook form with Marcum's Q function, by the series of modified Bessel functions.
#[test]
fn differential_qpsk_agrees_with_its_series() {
    let bessel = |k: i32, z: f64| {
        let first = (1..=k).fold(1.0, |p, i| p * z / 2.0 / f64::from(i));
        let terms = (1..200).scan(first, |t, m| {
            *t *= z * z / 4.0 / f64::from(m) / f64::from(m + k);
            Some(*t)
        });
        first + terms.sum::<f64>()
    };
    for snr in [0.1f64, 1.0, 3.0, 8.0] {
        let (a, b) = ((2.0 * snr * (1.0 - 0.5f64.sqrt())).sqrt(), (2.0 * snr * (1.0 + 0.5f64.sqrt())).sqrt());
        let scale = (-(a * a + b * b) / 2.0).exp();
        let marcum = scale * (0..60).map(|k| (a / b).powi(k) * bessel(k, a * b)).sum::<f64>();
        let expected = marcum - 0.5 * bessel(0, a * b) * scale;
        assert!((dqpsk_ber(snr) / expected - 1.0).abs() < 1e-9, "{snr}: {} {expected}", dqpsk_ber(snr));
    }
    // Without signal, a coin.
    assert!((dqpsk_ber(0.0) - 0.5).abs() < 1e-12);
}

#[test]
fn cck_distances() {
    // By hand for the four words of 5.5 Mbit/s: apart from the phase, any two differ in half of
    // their chips, by pi.
    let half = cck_correlations(Modulation::Cck5);
    assert_eq!((half[8], half.iter().sum::<u32>()), (12, 12));
    let full = cck_correlations(Modulation::Cck11);
    assert_eq!(full.iter().sum::<u32>(), 252);
    // Squared distance 16 - 2 i + ... of at least half the orthogonal one: correlation 1/2 for 24
    // words, none nearer.
    assert_eq!(full[12..], [24, 0, 0, 0, 0]);
    // With every word its negative.
    assert!((0..17).all(|i| full[i] == full[16 - i]));
}

#[test]
fn thresholds_of_dsss_and_cck() {
    // SNR for a frame error rate of 8 % at 1024 bytes (the standard's measure of sensitivity). By
    // hand
    // for 1 Mbit/s: 0.0834 / 8192 = exp(-x) / 2, x = 10.8 = 10.3 dB, less 13 dB of despreading.
    let model = ErrorModel::default();
    for (mode, expected) in Mode::DSSS.into_iter().zip([-2.68, 1.95, 3.01, 4.46]) {
        let found = snr_for(&model, mode, 1024, 0.92);
        assert!((found - expected).abs() < 0.01, "{mode:?}: {found}");
    }
}

#[test]
fn width_streams_and_losses_shift_the_snr() {
    let model = ErrorModel::default();
    let lossy = ErrorModel::new(&ErrorConfig { implementation_loss_db: 2.5, ..ErrorConfig::default() });
    let base = snr_for(&model, ht(4), 1500, 0.5);
    for (mode, model, shift) in [
        (Mode::ht(4, Width::Mhz40, true).unwrap(), &model, 3.01),
        (ht(12), &model, 3.01),
        (Mode::ht(28, Width::Mhz40, false).unwrap(), &model, 9.03),
        (Mode::vht(4, 2, Width::Mhz80, false).unwrap(), &model, 9.03),
        (Mode::OFDM[5], &model, 0.0),
        (ht(4), &lossy, 2.5),
    ] {
        let found = snr_for(model, mode, 1500, 0.5) - base;
        assert!((found - shift).abs() < 0.01, "{mode:?}: {found}");
    }
}

#[test]
fn the_ends_of_the_scale() {
    for decoding in [Decoding::Soft, Decoding::Hard] {
        let model = ErrorModel::new(&ErrorConfig { decoding, ..ErrorConfig::default() });
        for mode in Mode::all() {
            for (snr, low, high) in [
                (-60.0, 0.0, 1e-6),
                (f32::NEG_INFINITY, 0.0, 1e-6),
                (f32::NAN, 0.0, 1e-6),
                (90.0, 1.0, 1.0),
                (f32::INFINITY, 1.0, 1.0),
            ] {
                for found in [model.mpdu_success(mode, snr, 14), model.preamble_success(mode, snr)] {
                    assert!((low..=high).contains(&found), "{mode:?} at {snr} dB: {found}");
                }
            }
            assert_eq!(model.mpdu_success(mode, -60.0, 0), 1.0);
        }
    }
}

#[test]
fn a_loss_out_of_range_is_refused() {
    let read = |s: &str| toml::from_str::<ErrorConfig>(s).map_err(|e| e.message().to_owned());
    assert_eq!(read("decoding = \"hard\"").unwrap().decoding, Decoding::Hard);
    let error = read("implementation_loss_db = nan").unwrap_err();
    assert_eq!(error, "`implementation_loss_db` = NaN: must be from -20 to 40 dB");
    assert!(read("decoding = \"medium\"").unwrap_err().contains("`soft` or `hard`"));
    assert!(read("loss = 1").unwrap_err().contains("unknown field `loss`"));
}

proptest! {
    #[test]
    fn success_grows_with_snr_and_falls_with_length(
        mode in proptest::sample::select(Mode::all().collect::<Vec<_>>()),
        hard in any::<bool>(), snr in -30f32..60.0, more in 0f32..20.0, bytes in 1u32..65_536, fewer in 0.0..1.0,
    ) {
        let decoding = if hard { Decoding::Hard } else { Decoding::Soft };
        let model = ErrorModel::new(&ErrorConfig { decoding, ..ErrorConfig::default() });
        let success = model.mpdu_success(mode, snr, bytes);
        prop_assert!((0.0..=1.0).contains(&success));
        prop_assert!(model.mpdu_success(mode, snr + more, bytes) >= success);
        prop_assert!(model.header_success(mode, snr, (f64::from(bytes) * fewer) as u32) >= success);
        prop_assert!(model.preamble_success(mode, snr + more) >= model.preamble_success(mode, snr));
        // Halves of an MPDU are independent.
        let (half, whole) = (model.mpdu_success(mode, snr, bytes), model.mpdu_success(mode, snr, 2 * bytes));
        prop_assert!((half * half - whole).abs() < 1e-9);
    }
}
