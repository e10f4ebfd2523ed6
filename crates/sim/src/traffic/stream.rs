//! Stream: live video over one TCP connection. The application writes data at a constant rate as
//! they come into being.
//!
//! Source: none; it is an encoder of a constant rate. The default period is that of 25 pictures per
//! second.
//!
//! Siblings: `cbr` sends the same rate over UDP and does not react to losses. `unlimited` has no
//! rate.
//!
//! Valid: live video and other sources that cannot send ahead. A stored video is fetched in
//! transfers.
//!
//! Deviations: a video encoder's pictures vary in size; here all are equal. At `stop` the sender is
//! frozen.
//!
//! Data that the connection does not carry in time wait at the sender.

use airtcp_core::units::{DataRate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{App, Context, Faults, Gives, Running};
use crate::error::BuildError;

/// Live video over TCP: data of a constant rate that are written as they come into being. Data that
/// the connection does not carry in time wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Rate of the payload.
    pub rate: DataRate,
    /// Time between two writes. Default: 40ms, a picture at 25 per second.
    #[serde(default = "picture")]
    pub every: Span,
}

/// Each write is an event, whether or not anything is sent.
const SHORTEST: Span = Span::from_us(1);

fn picture() -> Span {
    Span::from_ms(40)
}

impl App for Stream {
    type Running = Encoder;

    const IS_ONE_CONNECTION: bool = true;

    fn check(&self, faults: &mut Faults) {
        faults.require(self.rate.as_bps() > 0, "rate", "must be above 0bit/s");
        faults.require(self.every >= SHORTEST, "every", format!("must be at least {SHORTEST}"));
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
    /// Bytes that have come into being since the last call, and when to call again.
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
