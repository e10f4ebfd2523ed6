//! A wireless channel: a [`Medium`], and above it the queues, sessions and rate control of the
//! simulator's radios ([`SimMac`]).
//!
//! The owner hands packets over with [`Channel::enqueue`], calls [`Channel::on_deadline`] at
//! [`Channel::deadline`], and takes the events out of [`AirOutputs`]. One deadline serves the whole
//! channel: the end of a transmission, the end of a gap, a response that is overdue, the next frame
//! that contention lets go, a reorder buffer's timeout.
//!
//! **An association** can end and begin, where a pair is set up so
//! ([`PairConfig::roams`](super::PairConfig::roams)).
//!
//! **Group-addressed frames** (broadcast) go from an access point to all its stations.

#[cfg(test)]
mod tests;

use super::ids::{AirLinkId, PairId, RadioId};
use super::mac::{AirHoldings, Sim, SimMac};
use super::medium::{Medium, NEVER, Occupancy};
use super::outputs::AirOutputs;
use super::phy::Mode;
use super::setup::ChannelConfig;
use super::trace::{Ac, AirStats, FrameRecord, PpduRecord};
use crate::packet::{PacketId, Pool};
use crate::units::Time;

/// See the module.
#[derive(Debug)]
pub struct Channel {
    medium: Medium,
    mac: SimMac,
    due: Time,
}

impl Channel {
    /// The channel at time 0, with nothing to send.
    pub fn new(config: &ChannelConfig) -> Channel {
        let (mac, setup) = SimMac::new(config);
        Channel { medium: Medium::new(setup), mac, due: NEVER }
    }

    /// Time at which [`Self::on_deadline`] must be called.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.due
    }

    /// Counters of a link from the start of the run to now.
    pub fn stats(&self, link: AirLinkId, now: Time) -> AirStats {
        let mut stats = self.mac.stats(link, now);
        // A transmission is booked when it ends. One under way counts with its duration so far.
        let id = u64::from(link.0);
        let under_way = self
            .medium
            .under_way()
            .filter(|(request, _)| request.users.head.id == id || request.users.tail.iter().any(|user| user.id == id));
        stats.airtime_ns += under_way.map(|(_, start)| now.since(start).as_ns()).sum::<u64>();
        stats
    }

    /// The most packets held is counted anew from now.
    pub fn reset_held_max(&mut self, link: AirLinkId) {
        self.mac.reset_held_max(link);
    }

    /// The mode that rate control now thinks best for a link.
    pub fn best_mode(&self, link: AirLinkId) -> Mode {
        self.mac.best_mode(link)
    }

    /// The signal-to-noise ratio of a link, NaN where its signal has none.
    pub fn snr_db(&mut self, link: AirLinkId, now: Time) -> f32 {
        let Some((from, to)) = self.mac.ends(link) else { return f32::NAN };
        let quality = self.medium.signals().quality(from, to, now);
        quality.and_then(|quality| quality.snr_db()).unwrap_or(f32::NAN)
    }

    /// Received power of a pair at either end, NaN where its signal has none.
    pub fn received_dbm(&mut self, pair: PairId, now: Time) -> f64 {
        let Some((from, to)) = self.mac.ends(pair.up()) else { return f64::NAN };
        self.medium.signals().received_dbm(from, to, now).unwrap_or(f64::NAN)
    }

    /// The radio that sends on a link.
    pub fn sender(&self, link: AirLinkId) -> RadioId {
        self.mac.sender(link)
    }

    /// True if the station of a pair is associated.
    pub fn is_associated(&self, pair: PairId) -> bool {
        self.mac.is_associated(pair)
    }

    /// The station of a pair that roams is associated from now on.
    pub fn associate(&mut self, now: Time, pair: PairId, pool: &mut Pool, out: &mut AirOutputs) {
        self.mac.associate(now, pair, &mut self.medium, pool, out);
        self.set_due();
    }

    /// The station of a pair that roams has left.
    pub fn disassociate(&mut self, now: Time, pair: PairId, pool: &mut Pool, out: &mut AirOutputs) {
        self.mac.disassociate(now, pair, &mut self.medium, pool, out);
        self.set_due();
    }

    /// The host at the sending end of `link` hands over a packet. `report`: the channel reports the
    /// packet's release.
    #[expect(clippy::too_many_arguments, reason = "the hottest entry: what is known of a packet, and where it goes")]
    pub fn enqueue(
        &mut self,
        now: Time,
        link: AirLinkId,
        id: PacketId,
        ac: Ac,
        report: bool,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) {
        if let Some((radio, ac)) = self.mac.enqueue(now, link, id, ac, report, pool, out) {
            if !self.mac.has_ppdus_ready(radio, ac) && self.mac.serve(now, radio, ac, &mut self.medium, pool, out) {
                self.set_due();
            } else {
                self.due = self.due.min(self.mac.aqm_at);
            }
        }
    }

    /// Does everything that is due at `now`.
    pub fn on_deadline(&mut self, now: Time, pool: &mut Pool, out: &mut AirOutputs) {
        loop {
            // The earliest event comes first. Among simultaneous ones, the one that began first
            // does.
            if self.medium.advance(now, &mut Sim { mac: &mut self.mac, pool, out }) {
                continue;
            }
            if self.mac.reorder_at <= now {
                self.mac.release_held(now, pool, out);
                continue;
            }
            if self.mac.completions.at <= now {
                self.mac.completions.report(now, out);
                continue;
            }
            if self.mac.aqm_at <= now {
                self.mac.on_aqm(now, &mut self.medium, pool, out);
                continue;
            }
            if !self.medium.begin_next(now, &mut Sim { mac: &mut self.mac, pool, out }) {
                break;
            }
        }
        self.set_due();
    }

    fn set_due(&mut self) {
        let mac = &self.mac;
        self.due = mac.reorder_at.min(mac.aqm_at).min(mac.completions.at).min(self.medium.deadline());
    }

    /// Time that the medium was idle, busy, or carried several exchanges, up to `now`.
    pub fn occupancy(&self, now: Time) -> Occupancy {
        self.medium.occupancy(now)
    }

    /// Packets that the channel holds, counted one by one.
    pub fn holdings(&self, pool: &Pool) -> AirHoldings {
        self.mac.holdings(pool)
    }

    /// Packets in reorder buffers, which wait for earlier ones, each with its link.
    pub fn reordering(&self) -> impl Iterator<Item = (AirLinkId, PacketId)> {
        self.mac.reordering()
    }

    /// First fault in the order of the senders' sequence numbers: the link and a message; `None` if
    /// there is none.
    pub fn disorder(&self) -> Option<(AirLinkId, String)> {
        self.mac.disorder()
    }

    /// Records of the PPDUs sent. The owner takes them out.
    pub fn ppdus(&mut self) -> &mut Vec<PpduRecord> {
        &mut self.mac.ppdus
    }

    /// Records of the frames sent. The owner takes them out.
    pub fn frames(&mut self) -> &mut Vec<FrameRecord> {
        &mut self.mac.frames
    }
}
