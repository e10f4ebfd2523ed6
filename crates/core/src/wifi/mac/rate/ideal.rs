//! Ideal: knows the signal-to-noise ratio and takes the mode that carries the most at it.
//!
//! Source: none; it is a bound to measure the others against, and a stand-in for chips that report
//! channel quality.
//!
//! The expected goodput of a mode is `P(an MPDU of reference_mpdu bytes arrives) * payload /
//! airtime`, by the same error model that the channel uses. Airtime is DIFS, the mean first
//! backoff, protection where it is on, the PPDU and its acknowledgement. In 802.11n and ac the PPDU
//! is the longest A-MPDU that a sender forms (`max_mpdus`, `max_airtime`), elsewhere one MPDU.
//! Goodputs are computed once, in steps of a quarter of a decibel.
//!
//! Siblings: Minstrel and ARF learn from acknowledgements. Ideal never samples and learns nothing,
//! so losses for other reasons, such as collisions, do not move it.
//!
//! Valid: only where the signal describes the channel. Without a known ratio (a perfect channel,
//! error rates given by mode) it takes the fastest mode.
//!
//! Deviations: none, as there is no original.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RateContext, RateControl, RateRules, RateSeries, Stage, TxStatus, fastest};
use crate::convert::{floor_index, saturate32};
use crate::policy::checked;
use crate::units::{Bytes, Span, Time};
use crate::wifi::phy::{self, Mode, PhyConfig};

/// Parameters of the ideal control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "IdealConfig")]
pub struct IdealConfig {
    /// IP packet in the reference MPDU. 1B to 2304B. 1500B: full TCP segments.
    pub reference_packet: Bytes,
    /// Most MPDUs in an A-MPDU. At least 1. 32: ath9k's default.
    #[schemars(range(min = 1))]
    pub max_mpdus: u16,
    /// Most airtime of an A-MPDU; one MPDU may exceed it. 4 ms: ath9k's frame limit.
    pub max_airtime: Span,
    /// Tries per series. At least 1. 255: the sender's retry limit decides.
    #[schemars(range(min = 1))]
    pub tries: u8,
}

impl Default for IdealConfig {
    fn default() -> Self {
        IdealConfig { reference_packet: Bytes::new(1500), max_mpdus: 32, max_airtime: Span::from_ms(4), tries: u8::MAX }
    }
}

/// Range and step of the table, dB. Outside it the ends hold: below, nothing gets through; above,
/// everything does.
const MIN_DB: f32 = -10.0;
const STEPS_PER_DB: f32 = 4.0;
const STEPS: usize = 60 * 4 + 1;

impl IdealConfig {
    /// Checks the values. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        super::check_reference_packet(self.reference_packet)?;
        if self.max_mpdus == 0 {
            return Err("`max_mpdus` = 0: must be from 1 to 65535".into());
        }
        if self.tries == 0 {
            return Err("`tries` = 0: must be from 1 to 255".into());
        }
        Ok(())
    }

    /// The control of one link, at the beginning.
    pub fn build(&self, ctx: &RateContext) -> Ideal {
        let mpdu = phy::timing::mpdu_bytes(saturate32(self.reference_packet.get()), true);
        let timing = &ctx.timing;
        let access = timing.difs() + timing.slot * u64::from(timing.cw_min) / 2;
        // Payload bits per second without errors.
        let rates: Vec<f64> = ctx
            .modes
            .iter()
            .map(|&mode| {
                let (mpdus, exchange) = if mode.is_ht_or_later() {
                    let subframe = phy::timing::subframe_bytes(mpdu);
                    let room = timing.psdu_bytes_within(mode, self.max_airtime).min(mode.max_psdu_bytes());
                    let mpdus = (room / subframe).clamp(1, u32::from(self.max_mpdus));
                    (mpdus, timing.ppdu(mode, mpdus * subframe) + timing.block_ack(mode))
                } else {
                    (1, timing.ppdu(mode, mpdu) + timing.ack(mode))
                };
                let bits = f64::from(mpdus) * self.reference_packet.get() as f64 * 8.0;
                let time = access + timing.protection_time(mode) + timing.sifs + exchange;
                bits * 1e9 / time.as_ns() as f64
            })
            .collect();
        let best_at = |step: usize| {
            let snr_db = MIN_DB + step as f32 / STEPS_PER_DB;
            let goodput = |i: usize| rates[i] * ctx.errors.mpdu_success(ctx.modes[i], snr_db, mpdu);
            let slowest = (0..rates.len()).fold(0, |a, i| if rates[i] < rates[a] { i } else { a });
            (0..rates.len()).fold(slowest, |a, i| if goodput(i) > goodput(a) { i } else { a })
        };
        let series = |i: usize| RateSeries::of(Stage { mode: ctx.modes[i], tries: self.tries, rts: false });
        let by_snr: Vec<RateSeries> = (0..STEPS).map(best_at).map(series).collect();
        let unknown = series(fastest(&ctx.modes));
        Ideal { by_snr, unknown, last: unknown }
    }
}
checked!(IdealConfig);

impl RateRules for IdealConfig {
    fn check_with(&self, _: &PhyConfig) -> Result<(), String> {
        self.check()
    }
}

/// The ideal control of one link.
#[derive(Debug, Clone)]
pub struct Ideal {
    /// By signal-to-noise ratio, from `MIN_DB` in steps of `1 / STEPS_PER_DB`.
    by_snr: Vec<RateSeries>,
    unknown: RateSeries,
    last: RateSeries,
}

impl RateControl for Ideal {
    #[inline]
    fn choose(&mut self, _now: Time, _is_retransmission: bool, snr_db: Option<f32>) -> RateSeries {
        // The cast saturates, and takes NaN for zero.
        let step = |snr_db: f32| floor_index(((snr_db - MIN_DB) * STEPS_PER_DB).round());
        self.last = snr_db.map_or(self.unknown, |snr_db| self.by_snr[step(snr_db).min(STEPS - 1)]);
        self.last
    }
    fn on_status(&mut self, _now: Time, _status: &TxStatus<'_>) {}
    fn wants_snr(&self) -> bool {
        true
    }
    fn best(&self) -> Mode {
        self.last.first().mode
    }
}
