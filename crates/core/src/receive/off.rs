//! Off: each packet goes up to TCP by itself, the moment it arrives.
//!
//! Source: drivers that hand up packet by packet: `ieee80211_rx` and `netif_rx` without NAPI
//! (ath5k, brcmfmac and bcm4329 among others; drivers/net/wireless of Linux 6.12). The driver ath9k
//! does so, too, with the packets of an A-MPDU in one tasklet. That is `napi` with `gro = false`.
//! Windows
//! coalesces segments in cards that can (RSC), and those of clients mostly cannot. OS X has it for
//! cards of 10 Gbit/s. FreeBSD has it since 7.0.
//!
//! Siblings: the others merge the segments of one poll, and so a receiver sends fewer ACKs.
//!
//! Valid: for such hosts, and for comparison with simulators, none of which merges.
//!
//! Deviations: a real driver takes some microseconds from the interrupt to TCP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Next, Polled, ReceiveOffload};
use crate::units::Time;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "OffReceiveOffloadConfig")]
#[allow(missing_docs)] // the page of the policy says it
pub struct OffConfig {}

impl OffConfig {
    /// As it is before the first packet.
    pub fn build(&self, _: &()) -> Off {
        Off
    }
}

/// Every packet goes up by itself.
#[derive(Debug, Clone)]
pub struct Off;

impl ReceiveOffload for Off {
    fn interrupt_at(&mut self, now: Time) -> Time {
        now
    }

    fn on_polled(&mut self, _now: Time, _polled: &Polled) -> Next {
        Next::IDLE
    }
}
