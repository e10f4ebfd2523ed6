//! Unlimited: one TCP connection that always has data to send.
//!
//! Source: the greedy source of congestion control studies; ns-2 calls it `FTP`.
//!
//! Siblings: `transfer` ends after its bytes, and `web` makes many transfers. `stream` writes no
//! faster than its rate.
//!
//! Valid: throughput and fairness of long downloads and uploads.
//!
//! Deviations: at `stop` the sender is frozen. It sends nothing more and ignores ACKs that still
//! arrive; a host would close the connection.

use airtcp_core::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{App, Context, Faults, Gives, Running};
use crate::error::BuildError;

/// TCP that never runs out of data.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unlimited {}

impl App for Unlimited {
    type Running = Unlimited;

    const IS_ONE_CONNECTION: bool = true;

    fn by_default() -> Option<Unlimited> {
        Some(Unlimited {})
    }
    fn check(&self, _: &mut Faults) {}
    fn build(&self, _: &Context) -> Result<Unlimited, BuildError> {
        Ok(Unlimited {})
    }
}

impl Running for Unlimited {
    fn on_begin(&mut self, _: Time) -> Gives {
        Gives::Endless
    }
}
