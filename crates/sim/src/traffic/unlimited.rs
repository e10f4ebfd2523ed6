//! One connection that never runs out of data. At `stop` its sender is frozen: it sends nothing more, and ACKs that still arrive
//! are ignored.

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
