//! One transfer, then close. It goes on to its end whenever the flow stops.

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
