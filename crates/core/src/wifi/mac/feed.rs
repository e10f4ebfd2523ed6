//! From the host's queues to PPDUs that wait for the air.

use super::originator::{MOST_BOOKED, Mpdu};
use super::{Booking, Link, NEVER, SimMac};
use crate::packet::{Held, Pool};
use crate::units::{Span, Time};
use crate::wifi::ids::{RadioId, SessionId};
use crate::wifi::medium::{Medium, Signals};
use crate::wifi::outputs::AirOutputs;
use crate::wifi::trace::Ac;

impl SimMac {
    /// Fills the driver from the queues and forms PPDUs as long as there is room. Returns true if
    /// the category begins to contend.
    pub(in crate::wifi) fn serve(
        &mut self,
        now: Time,
        radio: RadioId,
        ac: Ac,
        medium: &mut Medium,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) -> bool {
        self.refill(now, radio, ac, pool, out);
        self.form_ahead(now, radio, ac, 0, medium.signals(), pool, out);
        self.has_frame(radio, ac) && medium.on_frame(now, radio, ac)
    }

    /// True if [`Self::serve`] would do nothing, since a driver that pulls has formed as many PPDUs
    /// as it keeps ready. These contend already, or are on the air.
    #[inline]
    pub(in crate::wifi) fn has_ppdus_ready(&self, radio: RadioId, ac: Ac) -> bool {
        let r = &self.radios[radio.index()];
        r.is_pulled && !r.lacks_ppdus(ac, 1)
    }

    /// Forms as many PPDUs as the radio keeps ready, and `least` at least.
    #[expect(clippy::too_many_arguments, reason = "parts of one channel")]
    #[inline]
    pub(super) fn form_ahead(
        &mut self,
        now: Time,
        radio: RadioId,
        ac: Ac,
        least: usize,
        signals: &mut Signals,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) {
        while self.radios[radio.index()].lacks_ppdus(ac, least) && self.form_ppdu(now, radio, ac, signals, pool, out) {}
    }

    /// True if a category has something to send.
    #[inline]
    pub(super) fn has_frame(&self, radio: RadioId, ac: Ac) -> bool {
        let radio = &self.radios[radio.index()];
        let queue = &radio.queues[ac.index()];
        !queue.formed.is_empty() || (radio.formed_ahead == 0 && !queue.schedule.is_empty())
    }

    /// Moves packets from the queues to the driver, and looks when the discipline wants to be
    /// called.
    #[inline]
    pub(super) fn refill(&mut self, now: Time, radio: RadioId, ac: Ac, pool: &mut Pool, out: &mut AirOutputs) {
        if !self.radios[radio.index()].is_pulled {
            self.refill_driver(now, radio, ac, pool, out);
        }
    }

    fn refill_driver(&mut self, now: Time, radio: RadioId, ac: Ac, pool: &mut Pool, out: &mut AirOutputs) {
        let r = &self.radios[radio.index()];
        let queue = &r.queues[ac.index()];
        if !r.is_shut && queue.driver_count < queue.driver_frames {
            self.dequeue_to_driver(now, radio, ac, pool, out);
        }
        self.aqm_at = self.aqm_at.min(self.transmits[radio.index()].deadline(ac));
    }

    /// Moves packets to the driver as long as it has room.
    fn dequeue_to_driver(&mut self, now: Time, radio: RadioId, ac: Ac, pool: &mut Pool, out: &mut AirOutputs) {
        let mut renewed = None;
        loop {
            let SimMac { radios, transmits, sessions, links, drops, .. } = self;
            let (r, transmit) = (&mut radios[radio.index()], &mut transmits[radio.index()]);
            let (orphans, queue) = (r.orphans, &mut r.queues[ac.index()]);
            let (id, airtime, over) = loop {
                if queue.driver_count >= queue.driver_frames {
                    return;
                }
                let (id, airtime, to) = if let Some(next) = renewed.take() {
                    next
                } else {
                    let airtime = |held: &Held| {
                        let session = &sessions[SessionId::of(held.session).index()];
                        airtime_estimate(held.size, &links[session.link.index()])
                    };
                    let next = transmit.dequeue(now, ac, &airtime, pool, drops);
                    Booking { now, drops, sessions, links, pool, out }.settle();
                    let Some((id, airtime)) = next else { return };
                    (id, airtime, SessionId::of(pool.held(id).session))
                };
                let (held, session) = (pool.held(id), &mut sessions[to.index()]);
                if session.is_over {
                    break (id, airtime, to);
                }
                if held.reports && orphans {
                    out.release(held.flow, held.len);
                }
                queue.driver_count += 1;
                session.unsent.push_back(Mpdu::new(id, held, held.reports && !orphans, airtime));
                queue.schedule(to, session, transmit);
            };
            // The packet comes from a queue for all stations, where it waited before the
            // association ended.
            match self.session_now(over, ac) {
                Some(new) => renewed = Some((id, airtime, new)),
                None => {
                    let report = pool.held(id).reports;
                    self.drop_or_hand_back(now, self.sessions[over.index()].link, id, report, pool, out);
                }
            }
        }
    }

    /// A session has something to send.
    #[inline]
    pub(super) fn schedule(&mut self, radio: RadioId, ac: Ac, id: SessionId) {
        if self.sessions[id.index()].is_scheduled {
            return;
        }
        let queue = &mut self.radios[radio.index()].queues[ac.index()];
        queue.schedule(id, &mut self.sessions[id.index()], &self.transmits[radio.index()]);
    }

    /// Forms one PPDU; returns false if nothing can be sent.
    pub(super) fn form_ppdu(
        &mut self,
        now: Time,
        radio: RadioId,
        ac: Ac,
        signals: &mut Signals,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) -> bool {
        let i = radio.index();
        if self.radios[i].is_shut {
            return false;
        }
        let mut mpdus = self.spare.pop().unwrap_or_default();
        loop {
            let (r, transmit) = (&mut self.radios[i], &mut self.transmits[i]);
            let Some(id) = r.next_session(now, ac, transmit, &self.sessions) else {
                self.spare.push(mpdus);
                return false;
            };
            let session = &mut self.sessions[id.index()];
            let link = &mut self.links[session.link.index()];
            let snr = if link.wants_snr && !link.is_group() {
                signals.quality(link.from, link.to, now).and_then(|quality| quality.snr_db())
            } else {
                None
            };
            let (rate, drops) = (&mut link.rate, &mut self.drops);
            let mut fetched = 0;
            let fetch = |receiver, to: &mut Vec<Mpdu>| {
                let Some(packet) = transmit.fetch(now, ac, receiver, pool, drops) else { return false };
                let held = pool.held(packet);
                to.push(Mpdu::new(packet, held, held.reports, Span::ZERO));
                fetched += 1;
                true
            };
            let ppdu = r.form_ppdu(
                ac,
                id,
                session,
                |only_retransmissions| rate.choose(now, only_retransmissions, snr),
                fetch,
                mpdus,
            );
            let queue = &mut r.queues[ac.index()];
            queue.driver_count += fetched;
            if !session.has_backlog() && !transmit.can_fetch(ac, session.receiver) {
                session.is_scheduled = false;
                queue.schedule.retain(|&s| s != id);
            }
            let is_formed = ppdu.is_some();
            if let Some(ppdu) = ppdu {
                queue.formed.push_back(ppdu);
            }
            self.book_drops(now, pool, out);
            if is_formed {
                return true;
            }
            mpdus = self.spare.pop().unwrap_or_default();
        }
    }

    /// Does the periodic work of the disciplines for which it is due.
    #[cold]
    pub(in crate::wifi) fn on_aqm(&mut self, now: Time, medium: &mut Medium, pool: &mut Pool, out: &mut AirOutputs) {
        self.aqm_at = NEVER;
        for r in 0..self.radios.len() {
            for ac in Ac::ALL {
                let transmit = &mut self.transmits[r];
                if transmit.deadline(ac) <= now {
                    transmit.on_deadline(now, ac);
                    self.serve(now, RadioId::at(r), ac, medium, pool, out);
                }
                self.aqm_at = self.aqm_at.min(self.transmits[r].deadline(ac));
            }
        }
    }
}

/// Airtime that AQL counts for a packet: its duration at the mode that rate control thinks best,
/// without a share of the overhead.
fn airtime_estimate(size: u16, link: &Link) -> Span {
    link.rate.best().rate().time_for(u64::from(size)).min(MOST_BOOKED)
}
