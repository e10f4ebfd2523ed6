//! igb: the device waits between interrupts, longer for large frames, and the host merges the
//! segments of one interrupt.
//!
//! Source: `igb_update_ring_itr`, drivers/net/ethernet/intel/igb/igb_main.c of Linux 6.12, with
//! several queues and in the driver's default (IGB_DEFAULT_ITR = 3, "conservative").
//!
//! Siblings: `e1000e` goes by how much arrives. `napi` has an interrupt for each packet, or a fixed
//! time between them. With `off` no segments are merged.
//!
//! After each poll the host sets the time to the next interrupt. It goes by the mean size of frames
//! that came since the last one, or of those that left if they were larger. It is an eighth of that
//! size in microseconds, a twelfth in the middle range, and at least 49 us. It holds from the next
//! interrupt on. Full segments give 192 us: 16 of them at 1 Gbit/s. A packet that comes later than
//! this time after the last interrupt is polled at once.
//!
//! Valid: for hosts with a gigabit card for servers (82576, I350, I210).
//!
//! Deviations: the driver waits for 245 us where a line is not one of 1 Gbit/s; here all lines are
//! treated like that. All flows of a host are in one queue. Frames that leave are counted when they
//! are sent, and their completion causes no interrupt. A poll takes no time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Next, Polled, ReceiveOffload};
use crate::units::{Span, Time};

/// Ethernet's header, which the driver counts.
const ETHERNET_HEADER: u64 = 14;
/// Checksum, preamble and gap between frames.
const AROUND: u64 = 24;
/// Largest mean size.
const MOST: u64 = 3000;
/// Shortest time between interrupts, quarters of a microsecond (IGB_20K_ITR).
const LEAST_QUARTERS: u64 = 196;
/// The first (IGB_START_ITR).
const START_QUARTERS: u64 = 648;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "IgbReceiveOffloadConfig")]
#[allow(missing_docs)] // the page of the policy says it
pub struct IgbConfig {}

impl IgbConfig {
    /// As it is before the first packet.
    pub fn build(&self, _: &()) -> Igb {
        Igb { received: (0, 0), sent: (0, 0), quarters: START_QUARTERS, earliest: Time::ZERO }
    }
}

/// The receive interface of one host, with its moderation of interrupts.
#[derive(Debug, Clone)]
pub struct Igb {
    /// Frames and bytes since the last interrupt.
    received: (u64, u64),
    sent: (u64, u64),
    /// Time between interrupts, which holds from the next one on.
    quarters: u64,
    /// Earliest time of the next interrupt.
    earliest: Time,
}

impl ReceiveOffload for Igb {
    #[inline]
    fn interrupt_at(&mut self, now: Time) -> Time {
        now.max(self.earliest)
    }

    #[inline]
    fn on_received(&mut self, bytes: u32) {
        self.received.0 += 1;
        self.received.1 += u64::from(bytes) + ETHERNET_HEADER;
    }

    #[inline]
    fn on_sent(&mut self, bytes: u32) {
        self.sent.0 += 1;
        self.sent.1 += u64::from(bytes) + ETHERNET_HEADER;
    }

    #[inline]
    fn on_polled(&mut self, now: Time, _polled: &Polled) -> Next {
        // Mostly there is one at most, and a division takes long.
        let mean = |(frames, bytes): (u64, u64)| if frames > 1 { bytes / frames } else { bytes };
        let size = (mean(self.received).max(mean(self.sent)) + AROUND).min(MOST);
        // The device takes a new value at the beginning of an interrupt.
        self.earliest = now + Span::from_ns(self.quarters * 250);
        let quarters = if (301..1200).contains(&size) { size / 3 } else { size / 2 };
        self.quarters = quarters.max(LEAST_QUARTERS);
        (self.received, self.sent) = ((0, 0), (0, 0));
        Next::IDLE
    }
}
