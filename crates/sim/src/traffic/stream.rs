//! One connection to which data are written at a constant rate; at `stop` its sender is frozen.

use airtcp_core::units::{DataRate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{App, Context, Faults, Gives, Running};
use crate::error::BuildError;

/// Live video over TCP: data of a constant rate that are written as they come into being. What the connection does not
/// carry in time waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Rate of the payload.
    pub rate: DataRate,
    /// Distance between two writes. Default: 40ms, a picture at 25 per second.
    #[serde(default = "picture")]
    pub every: Span,
}

fn picture() -> Span {
    Span::from_ms(40)
}

impl App for Stream {
    type Running = Encoder;

    fn check(&self, faults: &mut Faults) {
        faults.require(self.rate.as_bps() > 0, "rate", "must be above 0bit/s");
        faults.require(!self.every.is_zero(), "every", "must be longer than 0s");
    }
    fn build(&self, _: &Context) -> Result<Encoder, BuildError> {
        Ok(Encoder { config: self.clone(), start: Time::ZERO, written: 0 })
    }
}

/// Data that come into being at a rate.
#[derive(Debug)]
pub(crate) struct Encoder {
    config: Stream,
    start: Time,
    written: u64,
}

impl Encoder {
    /// What has come into being since the last call, bytes, and when to call again.
    fn write(&mut self, now: Time) -> (u64, Time) {
        // One period is there from the start: the first picture.
        let made = self.config.rate.bytes_in(now.since(self.start) + self.config.every).get();
        let bytes = made - self.written;
        self.written = made;
        (bytes, now + self.config.every)
    }
}

impl Running for Encoder {
    fn on_begin(&mut self, now: Time) -> Gives {
        self.start = now;
        let (bytes, next) = self.write(now);
        Gives::Data { bytes, next }
    }
    fn on_deadline(&mut self, now: Time) -> (u64, Time) {
        self.write(now)
    }
}
