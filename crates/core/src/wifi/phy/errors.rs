//! Probability that an MPDU arrives intact at a given SNR: closed forms for an AWGN channel.
//!
//! Errors come as *events*, not as single bits: a Viterbi decoder that leaves the right path errs
//! in several bits until it returns, and a wrong CCK codeword spoils up to eight. A frame is lost
//! if any event begins in it. So [`ErrorModel`] knows one figure per mode and SNR, the events begun
//! per information bit `r`, and
//!
//! `success = exp(-8 bytes r)`.
//!
//! The header of a corrupt MPDU is legible if no event begins in the header's bits: the same
//! formula with the header's length ([`ErrorModel::header_success`]). Given the MPDU error rate,
//! its chance thus depends on the two lengths alone, and the bits in error per event (3 to 6.6 at
//! the free distance) do not enter. They would if bit errors were counted instead and taken for
//! independent: each event would count several times, and the SNR for a given error rate would come
//! out some tenths of a dB higher. An event spans 9 to 17 information bits at the free distance, so
//! that those beginning before the header and reaching into it are less than a tenth of those
//! beginning in its 208 bits; they are left out.
//!
//! **OFDM, HT, VHT.** `r` is the union bound over the error events of the K = 7 code (133, 171
//! octal) as punctured: `r = sum of a(d) P2(d)`, with `a(d)` paths of weight `d` per information
//! bit (computed from the generators; a test does so again) and `P2(d)` the probability that one of
//! them beats the right path:
//!
//! - `soft` decisions (the default; what receivers do): `P2(d) = Q(sqrt(2 d g))`, where `exp(-g)`
//!   is the Bhattacharyya parameter of one coded bit, averaged over the bits of a Gray-mapped
//!   symbol. For BPSK and QPSK this is exact, with `g` = SNR and SNR/2; for QAM it is the Gaussian
//!   approximation for bit-interleaved coded modulation of Martinez, Guillén i Fàbregas and Caire
//!   (IEEE Trans. Inf. Theory 52(1), 2006), `g` by numerical integration.
//! - `hard` decisions: `P2(d)` is the binomial probability that half of the `d` coded bits or more
//!   are wrong, from the uncoded bit error rate (Proakis, *Digital Communications*, chapter 8).
//!   About 2 dB worse.
//!
//! **DSSS.** `r` is the bit error rate of differential BPSK, `exp(-Es/N0) / 2`, and of Gray-mapped
//! differential QPSK in its single-integral form (Simon and Alouini, *Digital Communication over
//! Fading Channels*, chapter 8). **CCK.** A wrong codeword, by the union bound over the code's 16
//! or 256 codewords, coherently detected (compare Pursley and Royster, IEEE Trans. Commun. 57(2),
//! 2009), and a wrong phase of the codeword as a whole, which the standard encodes differentially:
//! as differential QPSK with the codeword's energy.
//!
//! **SNR** is that of the received signal, with all its power in 20 MHz, over the noise in 20 MHz,
//! whatever the mode's width; hence one figure per link. For the OFDM kinds it is taken as that of
//! each subcarrier (the guard band's 0.6 to 0.9 dB are not credited). A wider channel takes in more
//! noise (3 dB per doubling); `n` streams share the power (`10 log10 n`, the streams otherwise
//! orthogonal). DSSS gains by despreading 20 MHz to its symbol rate. `implementation_loss_db` is
//! taken off for everything a real receiver loses (channel estimation, quantisation, phase noise).
//!
//! Valid for AWGN with ideal synchronisation. Union bounds err towards failure, the more the worse
//! the channel: where they say that 20 % of 100-byte frames are lost, a Viterbi decoder loses 12 to
//! 15 % (simulated in the tests), which is about 0.1 dB. Against link simulation (figures of
//! 802.11n with BCC in the tests), the SNR for 10 % of 1458-byte frames lost is within some tenths
//! of a dB for every MCS without any fitting.

#[cfg(test)]
mod tests;

use std::f64::consts::PI;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mode::{CodeRate, Format, Mode, Modulation, Width};
use crate::convert::{count8, floor_index, floor32, single};
use crate::policy::checked;
use crate::range::within;

/// Input of the Viterbi decoder for each coded bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decoding {
    /// Likelihoods.
    Soft,
    /// Zeros and ones.
    Hard,
}

/// The receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "ErrorConfig")]
pub struct ErrorConfig {
    /// Decisions of the convolutional decoder: "soft" or "hard".
    pub decoding: Decoding,
    /// Loss of a real receiver against theory, in dB taken off the SNR. -20 to 40.
    #[schemars(range(min = -20, max = 40))]
    pub implementation_loss_db: f64,
}

impl Default for ErrorConfig {
    fn default() -> Self {
        ErrorConfig { decoding: Decoding::Soft, implementation_loss_db: 0.0 }
    }
}

impl ErrorConfig {
    /// Checks the values. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        within("implementation_loss_db", self.implementation_loss_db, -20.0..=40.0, "dB")
    }
}
checked!(ErrorConfig);

/// Paths that leave the right one at a given time and return, by their weight: the lowest weight,
/// then how many there are of it and of the ones above it, summed over one period of the puncturing
/// pattern; and the information bits per period.
struct Spectrum {
    free_distance: u32,
    paths: [f64; 8],
    period: f64,
}

/// IEEE 802.11-2020 17.3.5.6 and 19.3.11: generators 133 and 171, punctured to 2/3, 3/4 and 5/6.
fn spectrum(rate: CodeRate) -> Spectrum {
    let (free_distance, paths, period) = match rate {
        CodeRate::Uncoded => (1, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1.0),
        CodeRate::Half => (10, [11.0, 0.0, 38.0, 0.0, 193.0, 0.0, 1331.0, 0.0], 1.0),
        CodeRate::TwoThirds => (6, [1.0, 16.0, 48.0, 158.0, 642.0, 2435.0, 9174.0, 34701.0], 2.0),
        CodeRate::ThreeQuarters => (5, [8.0, 31.0, 160.0, 892.0, 4512.0, 23297.0, 120_976.0, 624_304.0], 3.0),
        CodeRate::FiveSixths => (4, [14.0, 69.0, 654.0, 4996.0, 39677.0, 314_973.0, 2_503_576.0, 19_875_546.0], 5.0),
    };
    Spectrum { free_distance, paths, period }
}

/// Tail of the normal distribution.
fn q(x: f64) -> f64 {
    0.5 * libm::erfc(x / std::f64::consts::SQRT_2)
}

/// -ln of the Bhattacharyya parameter of one coded bit, at symbol SNR `snr` (linear).
fn bit_exponent(modulation: Modulation, snr: f64) -> f64 {
    match modulation {
        Modulation::Bpsk => snr,
        Modulation::Qpsk => snr / 2.0,
        _ => -libm::log(gray_pam_bhattacharyya(modulation.bits() / 2, snr)),
    }
}

/// Mean over the `bits` of a Gray-mapped PAM symbol (one dimension of QAM) of the integral of
/// `sqrt(p(y|0) p(y|1))`.
fn gray_pam_bhattacharyya(bits: u32, snr: f64) -> f64 {
    let levels = 1u32 << bits;
    // Levels are odd integers; the mean energy of both dimensions is 2 (levels² - 1) / 3.
    let variance = f64::from(levels * levels - 1) / 3.0 / snr;
    let sigma = variance.sqrt();
    // The integrand is made of Gaussians of this width.
    let step = sigma / 3.0;
    // By symmetry, half of the line.
    let points = floor32(((f64::from(levels) + 8.0 * sigma) / step).ceil());
    let mut sum = 0.0;
    for i in 0..points {
        let y = (f64::from(i) + 0.5) * step;
        let mut by_bit = [[0.0f64; 2]; 4];
        for level in 0..levels {
            let x = f64::from(2 * level) - f64::from(levels - 1);
            let density = libm::exp(-(y - x) * (y - x) / (2.0 * variance));
            let label = level ^ (level >> 1);
            for (b, sums) in by_bit.iter_mut().enumerate().take(bits as usize) {
                sums[(label >> b & 1) as usize] += density;
            }
        }
        sum += by_bit[..bits as usize].iter().map(|[zero, one]| (zero * one).sqrt()).sum::<f64>();
    }
    // Each density is a mean over levels/2 levels.
    let scale = 2.0 * step / f64::from(bits) / (f64::from(levels) / 2.0) / (sigma * (2.0 * PI).sqrt());
    (sum * scale).min(1.0)
}

/// Probability that a coded bit is wrong when decided alone, at symbol SNR `snr`: exact for BPSK
/// and QPSK, nearest neighbours for Gray-mapped QAM.
fn uncoded_ber(modulation: Modulation, snr: f64) -> f64 {
    match modulation {
        Modulation::Bpsk => q((2.0 * snr).sqrt()),
        Modulation::Qpsk => q(snr.sqrt()),
        _ => {
            let size = f64::from(1u32 << modulation.bits());
            4.0 / f64::from(modulation.bits()) * (1.0 - 1.0 / size.sqrt()) * q((3.0 * snr / (size - 1.0)).sqrt())
        }
    }
}

/// Probability that `d` bits, each wrong with probability `p`, decide for the wrong path; ties are
/// broken at random.
fn hard_pairwise(d: u32, p: f64) -> f64 {
    let mut binomial = 1.0;
    let mut sum = 0.0;
    for k in 0..=d {
        let term = binomial * libm::pow(p, f64::from(k)) * libm::pow(1.0 - p, f64::from(d - k));
        if 2 * k > d {
            sum += term;
        } else if 2 * k == d {
            sum += term / 2.0;
        }
        binomial = binomial * f64::from(d - k) / f64::from(k + 1);
    }
    sum
}

/// Bit error rate of Gray-mapped differential QPSK at `snr` per bit.
fn dqpsk_ber(snr: f64) -> f64 {
    // Marcum's Q and I0 of the textbook form, both as one integral over a period; the trapezoid
    // rule is exact for it to machine precision.
    const POINTS: u32 = 128;
    let ratio = std::f64::consts::SQRT_2 - 1.0;
    let (a2, b2) = (2.0 * snr * (1.0 - 0.5f64.sqrt()), 2.0 * snr * (1.0 + 0.5f64.sqrt()));
    let sum: f64 = (0..POINTS)
        .map(|i| {
            let cos = libm::cos(2.0 * PI * f64::from(i) / f64::from(POINTS));
            let kernel = 0.5 * (1.0 - ratio * ratio) / (1.0 - 2.0 * ratio * cos + ratio * ratio);
            kernel * libm::exp((a2 * b2).sqrt() * cos - (a2 + b2) / 2.0)
        })
        .sum();
    sum / f64::from(POINTS)
}

/// Distances of CCK: how many codewords, of those that differ in more than the common phase, have
/// the correlation `(i - 8) / 8` (its real part) with a given one, by `i`.
/// Differences of codewords form a group, so that this holds for every codeword. IEEE 802.11-2020
/// clause 16.
fn cck_correlations(modulation: Modulation) -> [u32; 17] {
    let mut counts = [0; 17];
    // Phases in quarter turns. At 5.5 Mbit/s the second is 0 or 2 from its start, the third fixed,
    // the fourth 0 or 2.
    let (second, third, fourth): (&[usize], &[usize], &[usize]) = match modulation {
        Modulation::Cck5 => (&[0, 2], &[0], &[0, 2]),
        _ => (&[0, 1, 2, 3], &[0, 1, 2, 3], &[0, 1, 2, 3]),
    };
    for p1 in 0..4 {
        for &p2 in second {
            for &p3 in third {
                for &p4 in fourth.iter().filter(|&p4| p2 + p3 + p4 > 0) {
                    // One more than the cosine, per chip. The negated chips are so in both
                    // codewords.
                    let chips = [p2 + p3 + p4, p3 + p4, p2 + p4, p4, p2 + p3, p3, p2, 0];
                    counts[chips.iter().map(|c| [2, 1, 0, 1][(p1 + c) % 4]).sum::<usize>()] += 1;
                }
            }
        }
    }
    counts
}

/// Events begun per information bit of DSSS and CCK at `snr` (linear) in 20 MHz.
fn dsss_event_rate(modulation: Modulation, snr: f64) -> f64 {
    const BANDWIDTH: f64 = 20e6;
    match modulation {
        Modulation::Dbpsk => 0.5 * libm::exp(-snr * BANDWIDTH / 1e6),
        Modulation::Dqpsk => dqpsk_ber(snr * BANDWIDTH / 2e6),
        _ => {
            let codeword_snr = snr * BANDWIDTH * 8.0 / 11e6;
            let wrong: f64 = (0u8..)
                .zip(cck_correlations(modulation))
                .map(|(i, n)| f64::from(n) * q((codeword_snr * f64::from(16 - i) / 8.0).sqrt()))
                .sum();
            (wrong + 2.0 * dqpsk_ber(codeword_snr / 2.0)) / f64::from(modulation.bits())
        }
    }
}

/// Events begun per information bit of the convolutional code, given the probability that a path of
/// weight `d` wins.
fn coded_event_rate(code_rate: CodeRate, pairwise: impl Fn(u32) -> f64) -> f64 {
    let Spectrum { free_distance, paths, period } = spectrum(code_rate);
    let weights = (free_distance..).zip(paths);
    weights.map(|(d, paths)| if paths > 0.0 { paths * pairwise(d) } else { 0.0 }).sum::<f64>() / period
}

const STEPS_PER_DB: u16 = 10;

/// Values of `f` at (linear) SNRs a tenth of a dB apart, from [`FROM_DB`] until `is_enough`. `f` is
/// called at every `stride`-th SNR. Its logarithm is interpolated in between, which is exact for a
/// power of the SNR.
fn sampled(stride: u16, f: impl Fn(f64) -> f64, is_enough: impl Fn(f64) -> bool) -> Vec<f64> {
    let snr = |step: u16| libm::pow(10.0, (f64::from(step) / f64::from(STEPS_PER_DB) + FROM_DB) / 10.0);
    let at = |step| libm::log(f(snr(step)));
    let mut values = Vec::new();
    let mut left = at(0);
    for step in (stride..1000).step_by(stride.into()) {
        let right = at(step);
        for i in 0..stride {
            values.push(libm::exp(left + (right - left) * f64::from(i) / f64::from(stride)));
        }
        if is_enough(libm::exp(left)) {
            break;
        }
        left = right;
    }
    values
}

/// SNR of the first entry of every table. Nothing survives there.
const FROM_DB: f64 = -20.0;

/// ln of the event rate at SNRs that are a tenth of a dB apart.
#[derive(Debug, Default)]
struct Curve {
    /// SNR of the first entry in dB.
    from_db: f32,
    /// Below the first entry its value holds, beyond the last there are no errors.
    ln_rate: Vec<f32>,
}

/// Events per bit below which there are none: one in 10^15 bits, a day at 10 Gbit/s.
const NEGLIGIBLE: f64 = 1e-15;
/// Events per bit above which nothing survives: 24 bits once in 10^10.
const HOPELESS: f64 = 1.0;

impl Curve {
    /// `rates` from [`FROM_DB`] on.
    fn new(rates: impl Iterator<Item = f64>) -> Curve {
        let mut skipped = 0u16;
        let mut ln_rate: Vec<f32> = Vec::new();
        for rate in rates.take_while(|&r| r >= NEGLIGIBLE) {
            if rate > HOPELESS {
                skipped += 1;
                ln_rate.clear();
            }
            ln_rate.push(single(libm::log(rate.min(1.0))));
        }
        let first = skipped.saturating_sub(1);
        Curve { from_db: single(FROM_DB + f64::from(first) / f64::from(STEPS_PER_DB)), ln_rate }
    }

    #[inline]
    fn rate(&self, snr_db: f32) -> f64 {
        let at = ((snr_db - self.from_db) * f32::from(STEPS_PER_DB)).max(0.0);
        let below = floor_index(at).min(self.ln_rate.len());
        let Some(&[a, b]) = self.ln_rate.get(below..below + 2) else { return 0.0 };
        libm::exp(f64::from(a + (b - a) * (at - below as f32)))
    }
}

const CURVES: [(Modulation, CodeRate); 15] = [
    (Modulation::Dbpsk, CodeRate::Uncoded),
    (Modulation::Dqpsk, CodeRate::Uncoded),
    (Modulation::Cck5, CodeRate::Uncoded),
    (Modulation::Cck11, CodeRate::Uncoded),
    (Modulation::Bpsk, CodeRate::Half),
    (Modulation::Bpsk, CodeRate::ThreeQuarters),
    (Modulation::Qpsk, CodeRate::Half),
    (Modulation::Qpsk, CodeRate::ThreeQuarters),
    (Modulation::Qam16, CodeRate::Half),
    (Modulation::Qam16, CodeRate::ThreeQuarters),
    (Modulation::Qam64, CodeRate::TwoThirds),
    (Modulation::Qam64, CodeRate::ThreeQuarters),
    (Modulation::Qam64, CodeRate::FiveSixths),
    (Modulation::Qam256, CodeRate::ThreeQuarters),
    (Modulation::Qam256, CodeRate::FiveSixths),
];

#[derive(Debug)]
struct Tables {
    decoding: Decoding,
    implementation_loss_db: f32,
    /// Curves, computed at the first use: a run uses a few of them.
    curves: [OnceLock<Curve>; CURVES.len()],
    /// By [`Mode::index`]: the curve, and the loss of SNR by the mode's width and streams and by
    /// the receiver, dB.
    by_mode: Vec<(u8, f32)>,
}

impl Tables {
    #[inline]
    fn rate(&self, curve: u8, snr_db: f32) -> f64 {
        let curve = usize::from(curve);
        self.curves[curve].get_or_init(|| make_curve(CURVES[curve], self.decoding)).rate(snr_db)
    }
}

#[cold]
fn make_curve((modulation, code_rate): (Modulation, CodeRate), decoding: Decoding) -> Curve {
    if code_rate == CodeRate::Uncoded {
        return Curve::new(sampled(1, |snr| dsss_event_rate(modulation, snr), |r| r < NEGLIGIBLE).into_iter());
    }
    match decoding {
        Decoding::Soft => {
            let exponents = sampled(5, |snr| bit_exponent(modulation, snr), |g| g > 10.0);
            let pairwise = |g: f64| move |d| q((2.0 * f64::from(d) * g).sqrt());
            Curve::new(exponents.into_iter().map(|g| coded_event_rate(code_rate, pairwise(g))))
        }
        Decoding::Hard => {
            let errors = sampled(1, |snr| uncoded_ber(modulation, snr), |p| p < 1e-9);
            Curve::new(errors.into_iter().map(|p| coded_event_rate(code_rate, |d| hard_pairwise(d, p))))
        }
    }
}

/// Frame errors by mode, SNR and length. Cheap to clone: the tables are shared.
#[derive(Debug, Clone)]
pub struct ErrorModel(Arc<Tables>);

impl ErrorModel {
    /// The tables for these parameters; each is computed at its first use.
    pub fn new(config: &ErrorConfig) -> ErrorModel {
        let mut by_mode = vec![(0, 0.0); Mode::COUNT];
        for mode in Mode::all() {
            let curve = CURVES.iter().position(|&c| c == (mode.modulation(), mode.code_rate()));
            let loss_db = config.implementation_loss_db + penalty_db(mode);
            by_mode[mode.index()] = (count8(curve.unwrap_or(0)), single(loss_db));
        }
        ErrorModel(Arc::new(Tables {
            decoding: config.decoding,
            implementation_loss_db: single(config.implementation_loss_db),
            curves: Default::default(),
            by_mode,
        }))
    }

    /// Error events begun per information bit.
    #[inline]
    pub fn event_rate(&self, mode: Mode, snr_db: f32) -> f64 {
        let (curve, loss_db) = self.0.by_mode[mode.index()];
        self.0.rate(curve, snr_db - loss_db)
    }

    /// Probability that an MPDU of `bytes` arrives intact, given that the preamble was received.
    #[inline]
    pub fn mpdu_success(&self, mode: Mode, snr_db: f32, bytes: u32) -> f64 {
        survival(self.event_rate(mode, snr_db), bytes)
    }

    /// Probability that the first `header_bytes` of an MPDU arrive intact. Never below
    /// [`ErrorModel::mpdu_success`] of the whole MPDU, which implies it.
    #[inline]
    pub fn header_success(&self, mode: Mode, snr_db: f32, header_bytes: u32) -> f64 {
        survival(self.event_rate(mode, snr_db), header_bytes)
    }

    /// Probability that the PPDU's own headers are understood: the PHY header (48 bits at 1
    /// Mbit/s), L-SIG (24 bits, BPSK 1/2) and for HT and VHT another 48 bits of it. They go out
    /// over one stream and are repeated in every 20 MHz, so that streams and width cost them
    /// nothing.
    #[inline]
    pub fn preamble_success(&self, mode: Mode, snr_db: f32) -> f64 {
        let (curve, bits) = match mode.format() {
            Format::Dsss => (0, 48.0),
            Format::Ofdm => (4, 24.0),
            Format::Ht | Format::Vht => (4, 72.0),
        };
        let rate = self.0.rate(curve, snr_db - self.0.implementation_loss_db);
        libm::exp(-bits * rate)
    }
}

impl Default for ErrorModel {
    fn default() -> Self {
        ErrorModel::new(&ErrorConfig::default())
    }
}

/// Cost of a mode's width and streams, in dB against 20 MHz and one stream.
pub fn penalty_db(mode: Mode) -> f64 {
    let width = f64::from(mode.width().mhz()) / f64::from(Width::Mhz20.mhz());
    10.0 * libm::log10(width * f64::from(mode.streams()))
}

#[inline]
pub(super) fn survival(event_rate: f64, bytes: u32) -> f64 {
    if event_rate == 0.0 { 1.0 } else { libm::exp(-8.0 * f64::from(bytes) * event_rate) }
}
