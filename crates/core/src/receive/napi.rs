//! NAPI: the host polls its device after an interrupt, and merges the segments of one poll.
//!
//! Source: `napi_complete_done`, `__napi_poll` and `napi_gro_flush`, net/core/dev.c and gro.c of
//! Linux 6.12. For Wi-Fi: drivers that hand up with `ieee80211_rx_napi` (iwlwifi since 4.6 or so,
//! ath10k, ath11k, ath12k, mt76, rtw88, rtw89), which ends in `napi_gro_receive`
//! (net/mac80211/rx.c). For wires: r8169 has `gro_flush_timeout = "20us"` and `napi_defer_hard_irqs
//! = 1` (`netdev_sw_irq_coalesce_default_on`, since 6.1).
//!
//! Siblings: `e1000e` and `igb` have their device wait between interrupts, by the traffic. With
//! `off` no segments are merged.
//!
//! With its defaults all packets of one instant are one poll: those of an A-MPDU, or those that the
//! reorder buffer releases together. `interrupt_interval` keeps interrupts apart.
//! `gro_flush_timeout` holds merged packets for the next poll, which a timer starts. With
//! `napi_defer_hard_irqs` the device does not interrupt before that number of polls in a row has
//! found no packet.
//!
//! Valid: for stations, and for cards with a driver that does not delay interrupts.
//!
//! Deviations: a poll takes no time, so a slow processor merges more. The interrupt of iwlwifi may
//! wait a little for others in the device (INT_COALESCING), which no document explains.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Next, Polled, ReceiveOffload};
use crate::policy::checked;
use crate::range::within;
use crate::units::{Span, Time};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "NapiReceiveOffloadConfig")]
#[allow(missing_docs)] // the page of the policy says it
pub struct NapiConfig {
    /// Least time between interrupts.
    pub interrupt_interval: Span,
    /// Longest time until the next poll, for which merged packets wait. "0s": they go up with each
    /// poll.
    pub gro_flush_timeout: Span,
    /// Polls in a row that find nothing before the device may interrupt again. Until then each
    /// comes `gro_flush_timeout` after the one before.
    #[schemars(range(max = 1000))]
    pub napi_defer_hard_irqs: u32,
    /// Segments of a poll are merged. Off: each goes up by itself, and the program reads after the
    /// poll all the same. So does a driver that hands packets up one by one in a tasklet. ath9k is
    /// one (drivers/net/wireless/ath/ath9k/recv.c, `ath_rx_tasklet`).
    pub gro: bool,
    /// Tick of the kernel's clock: nothing waits in a poll of a later tick (1 / HZ).
    pub jiffy: Span,
}

impl Default for NapiConfig {
    fn default() -> Self {
        NapiConfig {
            interrupt_interval: Span::ZERO,
            gro_flush_timeout: Span::ZERO,
            napi_defer_hard_irqs: 0,
            gro: true,
            jiffy: Span::from_ms(4),
        }
    }
}

impl NapiConfig {
    fn check(&self) -> Result<(), String> {
        if self.jiffy.is_zero() {
            return Err("`jiffy` = 0s: must be longer than 0s".to_owned());
        }
        within("napi_defer_hard_irqs", self.napi_defer_hard_irqs, 0..=1000, "")?;
        if self.napi_defer_hard_irqs > 0 && self.gro_flush_timeout.is_zero() {
            return Err(format!(
                "`napi_defer_hard_irqs` = {}: needs a `gro_flush_timeout` above 0s, the time between those polls",
                self.napi_defer_hard_irqs
            ));
        }
        Ok(())
    }

    /// As it is before the first packet.
    pub fn build(&self, _: &()) -> Napi {
        Napi { config: self.clone(), earliest: Time::ZERO, deferred: 0 }
    }
}
checked!(NapiConfig);

/// The receive interface of one host, between polls.
#[derive(Debug, Clone)]
pub struct Napi {
    config: NapiConfig,
    /// Earliest time of the next interrupt.
    earliest: Time,
    /// `defer_hard_irqs_count`.
    deferred: u32,
}

impl ReceiveOffload for Napi {
    fn interrupt_at(&mut self, now: Time) -> Time {
        now.max(self.earliest)
    }

    fn on_polled(&mut self, now: Time, polled: &Polled) -> Next {
        if polled.by_interrupt {
            self.earliest = now + self.config.interrupt_interval;
        }
        let timeout = self.config.gro_flush_timeout;
        let mut waits = false;
        if polled.last_packets > 0 {
            waits = polled.holds && !timeout.is_zero();
            self.deferred = self.config.napi_defer_hard_irqs;
        }
        let masked = self.deferred > 0;
        if masked {
            self.deferred -= 1;
            waits = true;
        }
        Next { poll_at: if waits { now + timeout } else { Time::NEVER }, keeps: waits, masked }
    }

    fn merges(&self) -> bool {
        self.config.gro
    }

    fn tick(&self, now: Time) -> u64 {
        now.as_ns() / self.config.jiffy.as_ns().max(1)
    }
}
