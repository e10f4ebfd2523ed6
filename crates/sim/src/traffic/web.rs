//! Web: a user who makes TCP transfers one after the other, each on a new connection.
//!
//! Source: SURGE (P. Barford and M. Crovella, "Generating representative web workloads for network
//! and server performance evaluation", SIGMETRICS 1998). The defaults are those of Table 1 of the
//! study `pacing-buffers`. Its body and tail are split 93 % to 7 %, as in Barford and Crovella.
//!
//! Siblings: `transfer` is one transfer of a given size.
//!
//! Valid: many short flows that come and go, as with pages of the web of 1998. Today's pages use
//! fewer and longer connections.
//!
//! Deviations: SURGE's pages embed objects with short gaps between them; here each transfer stands
//! alone.
//!
//! Sizes come from a lognormal body with a Pareto tail, and gaps from a Pareto distribution. At
//! `stop` a transfer in progress continues, and no other begins.

use airtcp_core::convert::floor64;
use airtcp_core::rng::{Purpose, Rng};
use airtcp_core::units::{Bytes, Probability, Span, Time};
use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{App, Context, Faults, Gives, Running};
use crate::error::BuildError;

/// A SURGE web user (Barford and Crovella, SIGMETRICS 1998): TCP transfers one after the other,
/// each on a new connection. Sizes come from a lognormal body with a Pareto tail, gaps from a
/// Pareto distribution. The defaults are those of the study `pacing-buffers`, its body and tail
/// split 93 % to 7 % as in Barford and Crovella.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// Body: mean of the natural logarithm of the bytes.
    pub body_mu: f64,
    /// Body: standard deviation of the natural logarithm of the bytes.
    #[schemars(range(min = 0))]
    pub body_sigma: f64,
    /// Part of the transfers whose size is drawn from the tail.
    pub tail_fraction: Probability,
    /// Tail: smallest size.
    pub tail_k: Bytes,
    /// Tail: Pareto shape, above 0. At 1 or below the mean is infinite, and `max_bytes` decides
    /// what is sent.
    pub tail_alpha: f64,
    /// Smallest gap.
    pub gap_k: Span,
    /// Pareto shape of the gaps, above 0. At 1 or below the mean gap is infinite.
    pub gap_alpha: f64,
    /// Event from which a gap is counted.
    pub gap_from: GapFrom,
    /// Largest size of a transfer.
    pub max_bytes: Bytes,
}

impl Default for Web {
    fn default() -> Web {
        Web {
            body_mu: 9.357,
            body_sigma: 1.318,
            tail_fraction: Probability::new(0.07).expect("from 0 to 1"),
            tail_k: Bytes::new(133_000),
            tail_alpha: 1.1,
            gap_k: Span::from_secs(1),
            gap_alpha: 1.5,
            gap_from: GapFrom::End,
            max_bytes: Bytes::new(1_000_000_000),
        }
    }
}

/// Event from which a gap between two transfers is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GapFrom {
    /// From the end of a transfer to the start of the next.
    End,
    /// From start to start; a transfer still under way delays the next.
    Start,
}

impl App for Web {
    type Running = Box<User>;

    fn by_default() -> Option<Web> {
        Some(Web::default())
    }

    fn check(&self, faults: &mut Faults) {
        for (key, alpha) in [("tail_alpha", self.tail_alpha), ("gap_alpha", self.gap_alpha)] {
            faults.require(alpha > 0.0, key, "must be above 0; the mean is finite above 1");
        }
        let logarithm = "it is the natural logarithm of the bytes";
        faults.require(self.body_mu.abs() <= 100.0, "body_mu", format!("must be from -100 to 100: {logarithm}"));
        let message = "must be from 0 to 100: it is that of the natural logarithm of the bytes";
        faults.require(self.body_sigma <= 100.0, "body_sigma", message);
        faults.require(!self.gap_k.is_zero(), "gap_k", "must be longer than 0s");
        faults.require(self.tail_k.get() > 0, "tail_k", "must be at least 1B");
        let message = format!("must be at least tail_k ({})", self.tail_k);
        faults.require(self.max_bytes >= self.tail_k, "max_bytes", message);
    }

    fn build(&self, ctx: &Context) -> Result<Box<User>, BuildError> {
        let is_positive = |x: f64| x.is_finite() && x > 0.0;
        if !is_positive(self.body_sigma) && self.body_sigma != 0.0 {
            return Err(ctx.bad("body_sigma", self.body_sigma, "finite and not negative"));
        }
        if !is_positive(self.tail_alpha) || self.tail_k.get() == 0 {
            return Err(ctx.bad("tail_alpha", self.tail_alpha, "positive, as must be tail_k"));
        }
        if !is_positive(self.gap_alpha) || self.gap_k.is_zero() {
            return Err(ctx.bad("gap_alpha", self.gap_alpha, "positive, as must be gap_k"));
        }
        Ok(Box::new(User {
            config: self.clone(),
            size_rng: ctx.rng(Purpose::TransferSize),
            gap_rng: ctx.rng(Purpose::ThinkTime),
        }))
    }
}

/// One user.
#[derive(Debug)]
pub(crate) struct User {
    config: Web,
    size_rng: Rng,
    gap_rng: Rng,
}

impl User {
    fn draw_size(&mut self) -> u64 {
        let (config, rng) = (&self.config, &mut self.size_rng);
        let from_tail = rng.random::<f64>() < config.tail_fraction.get();
        let bytes = if from_tail {
            rng.pareto(config.tail_k.get() as f64, config.tail_alpha)
        } else {
            rng.lognormal(config.body_mu, config.body_sigma)
        };
        // A float to integer cast saturates.
        floor64(bytes.ceil()).clamp(1, self.config.max_bytes.get().max(1))
    }
    fn draw_gap(&mut self) -> Span {
        Span::from_secs_f64(self.gap_rng.pareto(self.config.gap_k.as_secs_f64(), self.config.gap_alpha))
    }
}

impl Running for User {
    fn on_begin(&mut self, _: Time) -> Gives {
        Gives::Transfer(self.draw_size())
    }
    fn on_end(&mut self, now: Time, start: Time) -> Option<Time> {
        let gap = self.draw_gap();
        Some(match self.config.gap_from {
            GapFrom::End => now + gap,
            GapFrom::Start => (start + gap).max(now),
        })
    }
}
