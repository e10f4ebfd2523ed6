//! Associations that end and begin.
//!
//! **The end.** A frame exchange that is under way goes on to its end, but is not repeated.
//! Everything else is taken out at both ends: sequence numbers, Block Ack windows and reorder
//! buffers are given up (mac80211: `ieee80211_sta_tear_down_BA_sessions`), and so is what rate
//! control has learnt. MPDUs in a reorder buffer are lost, as in `ieee80211_free_tid_rx`, although
//! their sender has an acknowledgement for them. Packets that a sender has not delivered are
//! dropped or handed back to the owner, as the pair's [`Roams`] say. The order is oldest first,
//! from the frames that were ready for the air up to the queue of the host.
//!
//! A queue that an access point has for all its stations is not searched. A packet that leaves it
//! for a station without association is turned away. If the station has come back meanwhile, the
//! packet is sent.
//!
//! **Without association** a packet for the station is turned away at the access point. The
//! station's own packets wait in its queue or are turned away. Packets that are handed back leave
//! the queue discipline in its own order; the discipline may drop some of them then.

use super::originator::Mpdu;
use super::{Gate, SimMac};
use crate::packet::{Held, PacketId, Pool};
use crate::queue::DropReason;
use crate::units::Time;
use crate::wifi::ids::{AirLinkId, PairId, SessionId};
use crate::wifi::medium::Medium;
use crate::wifi::outputs::AirOutputs;
use crate::wifi::roam::{ApQueue, StationQueue};
use crate::wifi::setup::Roams;
use crate::wifi::trace::Ac;

impl Gate {
    pub(super) fn without_association(roams: Roams, down: bool) -> Gate {
        match (down, roams.station_queue, roams.ap_queue) {
            (false, StationQueue::Keep, _) => Gate::Waits,
            (true, _, ApQueue::Forward) => Gate::HandsBack,
            _ => Gate::Drops,
        }
    }
}

impl SimMac {
    /// True if the station of a pair is associated.
    pub(in crate::wifi) fn is_associated(&self, pair: PairId) -> bool {
        self.pairs[pair.index()].is_associated
    }

    /// The station of a pair that roams is associated from now on.
    pub(in crate::wifi) fn associate(
        &mut self,
        now: Time,
        pair: PairId,
        medium: &mut Medium,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) {
        let up = pair.up().index();
        self.pairs[pair.index()].is_associated = true;
        for link in &mut self.links[up..up + 2] {
            link.gate = Gate::Open;
            if let Some(setup) = &mut link.rate_setup {
                setup.1.stream = setup.1.stream.again(1);
                link.rate = setup.0.build(&setup.1);
            }
        }
        let station = self.links[up].from;
        self.radios[station.index()].is_shut = false;
        for ac in Ac::ALL {
            self.serve(now, station, ac, medium, pool, out);
        }
    }

    /// The station of a pair that roams has left.
    pub(in crate::wifi) fn disassociate(
        &mut self,
        now: Time,
        pair: PairId,
        medium: &mut Medium,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) {
        let up = pair.up();
        let Some(roams) = self.pairs[pair.index()].roams else { return };
        let station = self.links[up.index()].from;
        self.radios[station.index()].is_shut = true;
        self.pairs[pair.index()].is_associated = false;
        for link in [up, up.opposite()] {
            let l = &mut self.links[link.index()];
            l.gate = Gate::without_association(roams, link.is_down());
            let radio = l.from;
            for ac in Ac::ALL {
                let session = self.links[link.index()].sessions[ac.index()].take();
                if let Some(session) = session {
                    self.end_session(now, session, ac, medium, pool, out);
                }
                if radio == station {
                    self.empty_qdisc(now, radio.index(), ac, pool, out);
                } else {
                    // Others have the room that there is now.
                    self.serve(now, radio, ac, medium, pool, out);
                }
            }
        }
        self.update_holding();
    }

    /// The session that has taken the place of one that is over; `None` if there is no association.
    pub(super) fn session_now(&mut self, over: SessionId, ac: Ac) -> Option<SessionId> {
        let link = self.sessions[over.index()].link;
        let l = &self.links[link.index()];
        match l.sessions[ac.index()] {
            _ if l.gate != Gate::Open => None,
            None => Some(self.open_session(link, ac)),
            open => open,
        }
    }

    /// A packet that its host holds does not go through: dropped, or handed back.
    #[cold]
    pub(super) fn drop_or_hand_back(
        &mut self,
        now: Time,
        link: AirLinkId,
        id: PacketId,
        report: bool,
        pool: &Pool,
        out: &mut AirOutputs,
    ) {
        let packet = &pool[id];
        let l = &mut self.links[link.index()];
        l.release(now, 1, packet.size.into());
        if l.pair.and_then(|pair| self.pairs[pair.index()].roams).is_some_and(|roams| hands_back(roams, link)) {
            l.stats.handed_back += 1;
            out.handed_back.push((link, id));
        } else {
            l.stats.dropped_gone += 1;
            if report {
                out.release(packet.flow, packet.len);
            }
            out.dropped.push((link, id, DropReason::Gone));
        }
    }

    /// As [`Self::drop_or_hand_back`], of an MPDU that the driver has. One that has arrived is no
    /// longer the sender's.
    pub(super) fn drop_or_hand_back_mpdu(
        &mut self,
        now: Time,
        session: SessionId,
        ac: Ac,
        mpdu: Mpdu,
        out: &mut AirOutputs,
    ) {
        let session = &mut self.sessions[session.index()];
        let link = session.link;
        let l = &mut self.links[link.index()];
        let radio = &mut self.radios[l.from.index()];
        self.transmits[l.from.index()].on_released(ac, session.receiver, mpdu.airtime());
        radio.queues[ac.index()].driver_count -= 1;
        l.release(now, 1, mpdu.size.into());
        let goes_back =
            l.pair.and_then(|pair| self.pairs[pair.index()].roams).is_some_and(|roams| hands_back(roams, link));
        if !mpdu.has_arrived() && goes_back {
            l.stats.handed_back += 1;
            out.handed_back.push((link, mpdu.packet));
            // The host still holds it.
            return;
        }
        if !mpdu.has_arrived() {
            l.stats.dropped_gone += 1;
            out.dropped.push((link, mpdu.packet, DropReason::Gone));
        }
        if mpdu.reports() {
            out.release(mpdu.flow, mpdu.payload);
        }
    }

    fn end_session(
        &mut self,
        now: Time,
        id: SessionId,
        ac: Ac,
        medium: &Medium,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) {
        let session = &mut self.sessions[id.index()];
        session.is_over = true;
        session.bar_due = false;
        session.is_scheduled = false;
        let link = session.link;
        let l = &mut self.links[link.index()];
        if let Some(mut recipient) = session.recipient.take() {
            let stats = recipient.stats();
            l.stats.given_up += stats.given_up;
            l.stats.reorder_timeouts += stats.timeouts;
            recipient.clear(&mut self.deliverable);
            for packet in self.deliverable.drain(..) {
                l.stats.dropped_gone += 1;
                out.dropped.push((link, packet, DropReason::Gone));
            }
        }
        let radio = l.from;
        let queue = &mut self.radios[radio.index()].queues[ac.index()];
        queue.schedule.retain(|&s| s != id);
        let is_on_air = medium.under_way().any(|(request, _)| request.from == radio && request.ac == ac);
        let mut mpdus: Vec<Mpdu> = session.retransmissions.drain(..).collect();
        // The first stays while it is on the air.
        let first = usize::from(is_on_air).min(queue.formed.len());
        let mut n = first;
        while n < queue.formed.len() {
            if queue.formed[n].session == id {
                let mut ppdu = queue.formed.remove(n).expect("it is there");
                mpdus.append(&mut ppdu.mpdus);
                self.spare.push(ppdu.mpdus);
            } else {
                n += 1;
            }
        }
        // All of them lie within one window behind the next number.
        let next = session.next_sn;
        mpdus.sort_by_key(|m| std::cmp::Reverse(m.sn.distance_to(next)));
        mpdus.extend(session.unsent.drain(..));
        let receiver = session.receiver;
        self.transmits[radio.index()].close(ac, receiver);
        for mpdu in mpdus {
            self.drop_or_hand_back_mpdu(now, id, ac, mpdu, out);
        }
        loop {
            let transmit = &mut self.transmits[radio.index()];
            let next = transmit.take_back(now, ac, receiver, pool, &mut self.drops);
            self.book_drops(now, pool, out);
            let Some(packet) = next else { return };
            let report = pool.held(packet).reports;
            self.drop_or_hand_back(now, link, packet, report, pool, out);
        }
    }

    /// Takes all packets out of a station's own queue.
    fn empty_qdisc(&mut self, now: Time, r: usize, ac: Ac, pool: &mut Pool, out: &mut AirOutputs) {
        loop {
            let transmit = &mut self.transmits[r];
            let next = transmit.take_any(now, ac, pool, &mut self.drops);
            self.book_drops(now, pool, out);
            let Some(packet) = next else { return };
            let Held { session, reports, .. } = *pool.held(packet);
            let link = self.sessions[SessionId::of(session).index()].link;
            self.drop_or_hand_back(now, link, packet, reports, pool, out);
        }
    }
}

fn hands_back(roams: Roams, link: AirLinkId) -> bool {
    if link.is_down() { roams.ap_queue == ApQueue::Forward } else { roams.station_queue == StationQueue::Keep }
}
