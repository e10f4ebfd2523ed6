//! Carrier sense, physical and virtual: the medium as one radio senses it (IEEE 802.11-2020
//! 10.3.2.1, 10.3.2.3 and 10.3.2.4).

use crate::units::{Span, Time};

/// The medium as one radio senses it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carrier {
    /// Transmissions it senses, its own included.
    pub(super) sensed: u16,
    /// Since the medium became busy there was one transmission only, and not its own.
    pub(super) clean: bool,
    /// It was sending when the transmission that it senses began.
    pub(super) deaf: bool,
    /// It takes part in an exchange, as originator or with a response to send.
    pub(super) engaged: bool,
    pub(super) idle_since: Time,
    /// Virtual carrier sense: busy until then.
    pub(super) nav: Time,
    /// Time added to AIFS after a transmission that could not be decoded: EIFS - DIFS, or zero.
    pub(super) extra: Span,
    /// No backoff slot begins before this: when a missing response was noticed.
    pub(super) hold: Time,
    pub(super) eifs_extra: Span,
}

impl Carrier {
    /// The medium as a radio senses it that has sensed nothing yet. `eifs_extra`: EIFS - DIFS if it
    /// keeps EIFS.
    pub(super) fn new(eifs_extra: Span) -> Carrier {
        Carrier {
            sensed: 0,
            clean: true,
            deaf: false,
            engaged: false,
            idle_since: Time::ZERO,
            nav: Time::ZERO,
            extra: Span::ZERO,
            hold: Time::ZERO,
            eifs_extra,
        }
    }
    /// Another radio begins.
    #[inline]
    pub(super) fn hear_begin(&mut self) {
        self.sensed += 1;
        self.clean = self.sensed == 1;
        self.deaf &= self.sensed > 1;
    }
    /// Another radio ends; see [`super::Contention::on_end`]. True if the medium is idle now.
    #[inline]
    pub(super) fn hear_end(&mut self, now: Time, nav_end: Time, is_receiver: bool, is_decoded: bool) -> bool {
        self.sensed -= 1;
        if self.sensed > 0 {
            return false;
        }
        self.idle_since = now;
        // [IEEE80211-10.3.2.3-4]
        self.extra = if self.deaf { Span::ZERO } else { self.eifs_extra };
        // [IEEE80211-10.3.2.3-5]
        if self.clean && (!is_receiver || is_decoded) {
            self.extra = Span::ZERO;
            // [IEEE80211-10.3.2.4-2]
            if !is_receiver {
                // [IEEE80211-10.3.2.4-1]
                self.nav = self.nav.max(nav_end);
            }
        }
        true
    }
    /// True if a radio that senses this acts as one that senses `other`. Both must be idle since
    /// the same instant, which is now; the next transmission ends the effect of earlier ones.
    pub(super) fn is_equivalent_to(&self, other: &Carrier) -> bool {
        let now = other.idle_since;
        let same_nav = self.nav == other.nav || self.nav.max(other.nav) <= now;
        !self.engaged && same_nav && self.idle_since == now && self.extra == other.extra && self.hold <= now
    }
}
