//! Transfer: one TCP connection that carries a number of bytes and is closed.
//!
//! Source: none; it is a file that is sent without an application protocol.
//!
//! Siblings: `unlimited` has no end. `web` makes transfers of random sizes, one after the other.
//!
//! Valid: completion times of files of one size.
//!
//! Deviations: no request precedes the data. The transfer continues to its end even if the flow's
//! `stop` comes first.

use airtcp_core::units::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{App, Context, Faults, Gives, Running};
use crate::error::BuildError;

/// One TCP transfer, then close.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Payload to transfer, at least one byte.
    pub bytes: Bytes,
}

impl App for Transfer {
    type Running = Transfer;
    const OUTLASTS_STOP: bool = true;

    fn check(&self, faults: &mut Faults) {
        faults.require(self.bytes.get() > 0, "bytes", "must be at least 1B");
    }
    fn build(&self, _: &Context) -> Result<Transfer, BuildError> {
        Ok(self.clone())
    }
}

impl Running for Transfer {
    fn on_begin(&mut self, _: Time) -> Gives {
        Gives::Transfer(self.bytes.get())
    }
}
