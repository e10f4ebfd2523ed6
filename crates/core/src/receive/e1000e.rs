//! e1000e: the device waits between interrupts, longer the more arrives, and the host merges the
//! segments of one interrupt.
//!
//! Source: `e1000_update_itr` and `e1000_set_itr`, drivers/net/ethernet/intel/e1000e/netdev.c of
//! Linux 6.12, in the driver's default (InterruptThrottleRate = 3, "conservative").
//!
//! Siblings: `igb` waits by the size of frames. `napi` has an interrupt for each packet, or a fixed
//! time between them. With `off` no segments are merged.
//!
//! After each poll the host sets the time to the next interrupt, from the packets that came and
//! left since the last one. There are two values: 50 us (`low_latency`) and 250 us (`bulk`). More
//! than 10 000 bytes lead to the longer one. Fewer than 6000, or more than 35 packets in 25 000
//! bytes, lead back to the shorter one. The way back takes several steps. A packet that comes later
//! than this time after the last interrupt is polled at once. A line of 1 Gbit/s carries no 10 000
//! bytes in 50 us, so a long burst goes up by four segments at a time.
//!
//! Valid: for desktops and small servers with such a card.
//!
//! Deviations: the driver throttles by 250 us where a line is not one of 1 Gbit/s; here all lines
//! are treated like that. Frames that leave are counted when they are sent, and their completion
//! causes no interrupt. A poll takes no time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Next, Polled, ReceiveOffload};
use crate::policy::checked;
use crate::units::{Span, Time};

/// Ethernet's header, which the driver counts.
const ETHERNET_HEADER: u32 = 14;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "E1000eReceiveOffloadConfig")]
#[allow(missing_docs)] // the page of the policy says it
pub struct E1000eConfig {
    /// Time between interrupts while little comes and leaves.
    pub low_latency: Span,
    /// Time between interrupts while much comes or leaves.
    pub bulk: Span,
}

impl Default for E1000eConfig {
    /// 20 000 and 4000 interrupts a second.
    fn default() -> Self {
        E1000eConfig { low_latency: Span::from_us(50), bulk: Span::from_us(250) }
    }
}

impl E1000eConfig {
    fn check(&self) -> Result<(), String> {
        if self.low_latency.is_zero() || self.low_latency > self.bulk || self.bulk > Span::from_ms(100) {
            return Err(format!(
                "`low_latency` = {} and `bulk` = {}: must be above 0s, the first not longer than the second, and at most 100ms",
                self.low_latency, self.bulk
            ));
        }
        Ok(())
    }

    /// As it is before the first packet.
    pub fn build(&self, _: &()) -> E1000e {
        let per_second = |span: Span| Span::from_secs(1).as_ns() / span.as_ns().max(1);
        let rates = [per_second(self.low_latency), per_second(self.bulk)];
        E1000e {
            rates,
            rate: rates[0],
            received: Side { class: Class::LowLatency, packets: 0, bytes: 0 },
            sent: Side { class: Class::LowLatency, packets: 0, bytes: 0 },
            earliest: Time::ZERO,
        }
    }
}
checked!(E1000eConfig);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    LowLatency,
    Bulk,
}

/// Packets and bytes in one direction since the last interrupt.
#[derive(Debug, Clone, Copy)]
struct Side {
    class: Class,
    packets: u32,
    bytes: u32,
}

impl Side {
    #[inline]
    fn count(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(bytes + ETHERNET_HEADER);
    }

    /// `e1000_update_itr` without its third class, which the conservative mode turns into this
    /// second one.
    fn update(&mut self) -> Class {
        if let (bytes, Some(per_packet)) = (self.bytes, self.bytes.checked_div(self.packets)) {
            self.class = match self.class {
                Class::LowLatency if bytes > 10_000 => {
                    // More than 35 small packets would lead to the third class.
                    if self.packets < 10 || per_packet > 1200 { Class::Bulk } else { Class::LowLatency }
                }
                Class::LowLatency if per_packet > 2000 => Class::Bulk,
                Class::Bulk if bytes > 25_000 && self.packets > 35 || bytes < 6000 => Class::LowLatency,
                class => class,
            };
        }
        (self.packets, self.bytes) = (0, 0);
        self.class
    }
}

/// The receive interface of one host, with its moderation of interrupts.
#[derive(Debug, Clone)]
pub struct E1000e {
    /// Interrupts a second of both classes.
    rates: [u64; 2],
    /// The rate in force.
    rate: u64,
    received: Side,
    sent: Side,
    /// Earliest time of the next interrupt.
    earliest: Time,
}

impl ReceiveOffload for E1000e {
    #[inline]
    fn interrupt_at(&mut self, now: Time) -> Time {
        now.max(self.earliest)
    }

    #[inline]
    fn on_received(&mut self, bytes: u32) {
        self.received.count(bytes);
    }

    #[inline]
    fn on_sent(&mut self, bytes: u32) {
        self.sent.count(bytes);
    }

    fn on_polled(&mut self, now: Time, _polled: &Polled) -> Next {
        let class = self.received.update().max(self.sent.update());
        let rate = self.rates[usize::from(class == Class::Bulk)];
        // Slower at once, faster by steps.
        self.rate = if rate > self.rate { rate.min(self.rate + rate / 4) } else { rate };
        self.earliest = now + Span::from_ns(Span::from_secs(1).as_ns() / self.rate.max(1));
        Next::IDLE
    }
}
