//! Acknowledgements of the receiver of a flow.

use airtcp_core::convert::signed32;
use airtcp_core::packet::TcpFlags;
use airtcp_core::tcp::loss::{Hole, Report};
use airtcp_core::units::{Span, Time};

use super::classify::Spurious;
use super::limits::Heard;
use super::{Delivered, Flow, MAX_WINDOW, Passing, State};
use crate::decode::Segment;
use crate::send_history::{Marks, NONE, Sent};

/// Samples before the least one is taken as a bound of what is possible.
const ENOUGH_SAMPLES: u64 = 8;

/// Data that one ACK covered.
#[derive(Default)]
struct Covered {
    /// When the last was sent that had not been SACKed.
    newest_at: Option<Time>,
    /// When the first was sent that was sent once: of what the number covers and was not SACKed
    /// before, and of what is newly SACKed. And whether the number covers something that was
    /// sent more than once, or late.
    acknowledged_once: Option<Time>,
    sacked_once: Option<Time>,
    acknowledged_ambiguous: bool,
    /// When the last repetition of the first covered segment was sent, if the timestamp echo is
    /// that one's.
    echoed: Option<Time>,
    /// When that passed.
    newest_seen: Time,
    /// Something among it was sent more than once, or late.
    ambiguous: bool,
    delivered: u32,
    missed_bytes: u64,
    /// Order and time: most recently sent.
    newest: (u64, Time),
    /// Something sent once was delivered after something sent later.
    reordered: bool,
}

impl Covered {
    fn take(&mut self, s: &Sent, newest_before: u64) {
        if !s.has(Marks::SACKED) {
            self.delivered += 1;
            if !s.has(Marks::UNSEEN) {
                self.reordered |= !s.has(Marks::RESENT | Marks::LATE) && s.order < newest_before;
                self.newest = self.newest.max((s.order, s.last_at));
            }
        }
        if is_ambiguous(s) {
            self.ambiguous = true;
        } else if !s.has(Marks::SACKED) {
            (self.newest_at, self.newest_seen) = (Some(s.last_at), s.seen_at);
        }
    }

    fn take_acknowledged(&mut self, s: &Sent, newest_before: u64) {
        if is_ambiguous(s) {
            self.acknowledged_ambiguous = true;
        } else if !s.has(Marks::SACKED) {
            self.acknowledged_once.get_or_insert(s.last_at);
        }
        self.take(s, newest_before);
    }

    fn take_sacked(&mut self, s: &Sent, newest_before: u64) {
        if !is_ambiguous(s) {
            // The newest block comes first.
            self.sacked_once = Some(self.sacked_once.map_or(s.last_at, |first| first.min(s.last_at)));
        }
        self.take(s, newest_before);
    }

    /// When that was sent whose round trip counts for the sender's timeout. Linux since 3.12
    /// (net/ipv4/tcp_input.c, `tcp_ack_update_rtt`) falls back to what is SACKed where the
    /// number covers nothing, or something that was sent again, and from that to the timestamp.
    fn timed_from(&self) -> Option<Time> {
        self.acknowledged_once.filter(|_| !self.acknowledged_ambiguous).or(self.sacked_once).or(self.echoed)
    }
}

/// Its round trip cannot be known: it was sent more than once, or passed late or not at all.
fn is_ambiguous(s: &Sent) -> bool {
    s.has(Marks::RESENT | Marks::UNSEEN | Marks::LATE)
}

impl Flow {
    /// A packet of the flow's receiver passes.
    pub(crate) fn on_ack(&mut self, at: &Passing, p: &Segment) {
        if !p.has(TcpFlags::ACK) || p.has(TcpFlags::RST) {
            return;
        }
        if self.initial.is_none() {
            self.initial = Some(p.ack.wrapping_sub(1));
        }
        let Some(ack) = self.offset(p.ack, self.una) else { return };
        if ack.abs_diff(self.una) >= MAX_WINDOW {
            return;
        }
        self.counts.acks += 1;
        let permitted = (self.flight(), self.window);
        let rto = self.rtt.rto(at.near);
        let window_changed = self.take_window(p, ack);
        let before = self.una;
        let data = before < self.data_end;
        let advanced = ack > before;
        let mut covered = Covered::default();
        let was_open = self.state == State::Open;
        if advanced {
            self.advance(at, p, ack, &mut covered);
        }
        let newly_sacked = self.take_sack(p, &mut covered);
        let sack_known = self.sack && !p.options.cut;
        let duplicate = !advanced
            && ack == before
            && p.payload == 0
            && !p.has(TcpFlags::SYN)
            && self.flight() > 0
            && if sack_known { newly_sacked } else { !window_changed && !p.has(TcpFlags::FIN) };
        let rtt = covered.newest_at.filter(|_| !covered.ambiguous).map(|sent| at.now.since(sent));
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
            self.limit_of_sample(rtt);
            let far = at.seen.since(covered.newest_seen);
            self.far.sample(far);
            self.rtt_points.offer(at.limits.points, || (at.seen, far, rtt));
        }
        if let Some(sent) = covered.timed_from() {
            self.rtt.smooth(at.now.since(sent));
        }
        self.note_delivered(at, covered.newest);
        if duplicate {
            if self.dup_acks == 0 {
                self.window_at_first_duplicate = self.window_segments();
            }
            self.dup_acks += 1;
            self.counts.duplicate_acks += 1;
            self.infer_delivered(at);
        }
        let room = advanced || window_changed || newly_sacked || duplicate;
        let stamp = p.options.timestamps.map(|(value, _)| value).filter(|_| !p.has(TcpFlags::SYN));
        self.limit_of_ack(at, &Heard { before: permitted, room, asks: p.payload > 0, data, rto, stamp });
        if advanced || newly_sacked {
            self.line_of_ack(at, covered.newest_seen);
        }
        self.look_for_reasons(at);
        self.look_for_recovery(!was_open && self.state == State::Open);
        let kind = if advanced {
            "ack"
        } else if duplicate {
            "dup_ack"
        } else {
            "sack"
        };
        if advanced || duplicate || newly_sacked {
            self.reported_at = at.now;
            self.note_ack(at, kind, before, ack.max(before));
            self.judge(at, advanced, &covered, p);
            self.note_window(at);
        }
    }

    /// Says whether the window is another one than before.
    fn take_window(&mut self, p: &Segment, ack: u64) -> bool {
        let changed = p.window != self.raw_window;
        if ack < self.una {
            return changed;
        }
        let scale = if p.has(TcpFlags::SYN) { 0 } else { self.receiver_scale.unwrap_or(0) };
        let window = u64::from(p.window) << scale;
        self.counts.zero_windows += u64::from(window == 0 && self.window.is_some_and(|w| w > 0));
        self.window = Some(window);
        self.raw_window = p.window;
        changed
    }

    /// The acknowledgement moves to `ack`.
    fn advance(&mut self, at: &Passing, p: &Segment, ack: u64, covered: &mut Covered) {
        self.see_up_to(at, ack);
        let front = self.history.front().copied();
        if let Some(front) = front {
            self.look_for_spurious(at, p, &front, covered);
        }
        let newest_before = self.newest_delivered.order;
        self.history.acknowledge(ack, |s| {
            covered.take_acknowledged(s, newest_before);
            if s.has(Marks::UNSEEN) {
                covered.missed_bytes += s.len();
            }
        });
        self.counts.missed_bytes += covered.missed_bytes;
        if self.una < self.data_end {
            self.data_acked_at = at.now;
        }
        self.una = ack;
        self.advanced_at = at.now;
        self.dup_acks = 0;
        self.what_if.reset();
        if let Some((_, first)) = self.first_data.filter(|&(_, first)| ack > first && self.initial_bytes.is_none()) {
            self.initial_bytes = Some(self.max - first);
        }
        self.overtaken_at = None;
        self.overtaken_clearly_at = None;
        self.third_report_at = None;
        match &mut self.state {
            State::Recovery { high, .. } | State::Loss { high, .. } if ack >= *high => {
                self.state = State::Open;
                self.round_flight = self.flight();
            }
            State::Recovery { partial, .. } | State::Loss { partial, .. } => *partial = true,
            State::Open => {}
        }
    }

    /// The receiver has something the capture has not shown.
    fn see_up_to(&mut self, at: &Passing, end: u64) {
        if end > self.max {
            self.sent_order += 1;
            self.history.push(Sent {
                start: self.max,
                end,
                last_at: at.now,
                seen_at: at.seen,
                order: self.sent_order,
                first_stamp: 0,
                last_stamp: 0,
                row: NONE,
                ip_id: 0,
                marks: Marks::UNSEEN,
            });
            self.max = end;
            self.data_end = end;
        }
    }

    /// RFC 3522 (Eifel), and its sibling without timestamps: the ACK answers the original.
    fn look_for_spurious(&mut self, at: &Passing, p: &Segment, front: &Sent, covered: &mut Covered) {
        if !front.has(Marks::RESENT) {
            return;
        }
        if let Some((_, echo)) = p.options.timestamps {
            if front.first_stamp != front.last_stamp {
                if signed32(echo.wrapping_sub(front.last_stamp)) < 0 {
                    self.mark_spurious(front.row, Spurious::Echo);
                    if let State::Recovery { partial: false, undone, .. } | State::Loss { partial: false, undone, .. } =
                        &mut self.state
                    {
                        *undone = true;
                    }
                } else if echo == front.last_stamp {
                    // Karn's problem does not arise with timestamps (RFC 7323 section 4).
                    covered.echoed = Some(front.last_at);
                }
                return;
            }
        }
        let least = self.rtt.min().filter(|_| self.rtt.samples >= ENOUGH_SAMPLES && !front.has(Marks::LATE));
        if least.is_some_and(|least| at.now.since(front.last_at) < least / 4 * 3) {
            self.mark_spurious(front.row, Spurious::TooSoon);
        }
    }

    /// Says whether anything was SACKed for the first time.
    fn take_sack(&mut self, p: &Segment, covered: &mut Covered) -> bool {
        let blocks = p.options.sack();
        if blocks.is_empty() {
            return false;
        }
        self.sack = true;
        let mut known = [(0, 0); 4];
        let count = covered.delivered;
        for (i, &(from, to)) in blocks.iter().enumerate() {
            let (Some(start), Some(end)) = (self.offset(from, self.una), self.offset(to, self.una)) else { continue };
            if start >= end || end - start >= MAX_WINDOW || end > self.max + MAX_WINDOW {
                continue;
            }
            // RFC 2883 section 4: below the acknowledgement, or within the second block.
            let duplicate = i == 0
                && (end <= self.una
                    || blocks.get(1).is_some_and(|&(from, to)| {
                        self.offset(from, self.una).is_some_and(|s| s <= start)
                            && self.offset(to, self.una).is_some_and(|e| e >= end)
                    }));
            if duplicate {
                let rows: Vec<u32> = self.history.within(start, end).map(|s| s.row).filter(|&r| r != NONE).collect();
                for row in rows {
                    self.mark_spurious(row, Spurious::Dsack);
                }
                continue;
            }
            if start < self.una || end > self.max {
                continue;
            }
            known[i] = (start, end);
            // If a block only grew, its earlier part is marked already.
            let before = self.blocks.iter().find(|b| b.0 == start && b.1 <= end && b.1 > start).map_or(start, |b| b.1);
            let newest_before = self.newest_delivered.order;
            self.history.sack(before, end, |s| {
                covered.take_sacked(&Sent { marks: s.marks.without(Marks::SACKED), ..*s }, newest_before)
            });
        }
        self.blocks = known;
        covered.delivered > count
    }

    /// Without SACK a duplicate stands for the arrival of the next segment above the hole.
    fn infer_delivered(&mut self, at: &Passing) {
        if self.sack {
            return;
        }
        if let Some(s) = self.history.nth(self.dup_acks as usize) {
            self.note_delivered(at, (s.order, s.last_at));
        }
    }

    /// Since when the sender could know that the first unacknowledged segment is lost.
    fn look_for_reasons(&mut self, at: &Passing) {
        let Some(front) = self.history.front() else { return };
        let newest = &self.newest_delivered;
        if front.order < newest.order {
            self.overtaken_at.get_or_insert(at.now);
            // Linux before RACK, see the policies' `lost_retransmissions`.
            if front.last_at + self.rtt.min().unwrap_or_default() / 4 < newest.sent_at {
                self.overtaken_clearly_at.get_or_insert(at.now);
            }
        }
        if self.dup_acks.max(self.history.sacked()) >= 3 {
            self.third_report_at.get_or_insert(at.now);
        }
    }

    /// Checks if fast recovery begins with this ACK. The first repetition may come later, when the
    /// congestion window lets it. `ended`: an earlier recovery has ended with this ACK. Linux then
    /// begins anew if anything is still taken for lost (`tcp_fastretrans_alert`,
    /// `tcp_time_to_recover` in net/ipv4/tcp_input.c of 6.12).
    fn look_for_recovery(&mut self, ended: bool) {
        if self.known_lost.is_some_and(|high| self.una >= high) {
            self.known_lost = None;
        }
        if self.state != State::Open || self.known_lost.is_some() || self.flight() == 0 {
            return;
        }
        let is_lost = self.third_report_at.is_some()
            || (ended
                && self.sack
                && self.history.within(self.una, self.max).any(|s| s.has(Marks::RESENT) && !s.has(Marks::SACKED)));
        if is_lost {
            self.known_lost = Some(self.max);
        }
    }

    fn note_delivered(&mut self, at: &Passing, (order, sent_at): (u64, Time)) {
        if order > self.newest_delivered.order {
            self.newest_delivered = Delivered { order, sent_at, rtt: at.now.since(sent_at) };
        }
    }

    /// Shows what is missing to the policies.
    fn judge(&mut self, at: &Passing, advanced: bool, covered: &Covered, p: &Segment) {
        let mss = self.mss();
        let reported = self.dup_acks > 0 || self.history.sacked() > 0;
        if !reported && !covered.reordered {
            return;
        }
        self.what_if.on_report(
            mss,
            &Report {
                reordered: covered.reordered,
                duplicate_sack: p.options.sack().first().is_some_and(|_| covered.delivered == 0 && !advanced),
                snd_una: self.una,
                snd_nxt: self.max,
                recovered: false,
            },
        );
        let Some(front) = self.history.front().copied().filter(|_| reported) else { return };
        let window = self.window.unwrap_or(u64::MAX);
        let full = u64::from(mss);
        let above = if self.sack { self.history.sacked() } else { self.dup_acks };
        let reported_bytes =
            if self.sack { self.history.sacked_bytes() } else { (u64::from(self.dup_acks) * full).min(self.flight()) };
        let hole = Hole {
            dup_acks: self.dup_acks,
            sacked_above: above,
            reported: above,
            number: front.order,
            newest_delivered_number: self.newest_delivered.order,
            sent_at: front.last_at,
            retransmitted: front.has(Marks::RESENT),
            newest_delivered_sent_at: self.newest_delivered.sent_at,
            newest_delivered_rtt: self.newest_delivered.rtt,
            last_delivered_rtt: self.newest_delivered.rtt,
            newest_report_at: at.now,
            outstanding: self.history.count(),
            outstanding_bytes: self.flight(),
            reported_bytes,
            cwnd: self.whole_segments(self.cwnd_estimate()).max(1),
            send_window: self.whole_segments(window),
            window_at_first_duplicate: self.window_at_first_duplicate,
            can_send_new: !self.pushed && self.flight() + full <= window,
            in_recovery: self.state != State::Open,
            min_rtt: self.rtt.min().map_or(Span::MAX, |rtt| rtt + at.near),
        };
        self.what_if.judge(at.now, mss, &hole, self.rtt.srtt() + at.near);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(order: u64, ms: u64, marks: Marks) -> Sent {
        let at = Time::ZERO + Span::from_ms(ms);
        let (start, end) = (1000 * order, 1000 * order + 1000);
        Sent { start, end, last_at: at, seen_at: at, order, first_stamp: 0, last_stamp: 0, row: NONE, ip_id: 0, marks }
    }

    fn at(ms: u64) -> Option<Time> {
        Some(Time::ZERO + Span::from_ms(ms))
    }

    /// Linux 6.12, net/ipv4/tcp_input.c: `sack_rtt_us` stands in where nothing was acknowledged, or
    /// something that was sent again.
    #[test]
    fn what_is_sacked_is_timed_where_the_number_tells_nothing() {
        let mut covered = Covered::default();
        covered.take_sacked(&sent(5, 50, Marks::NONE), 0);
        covered.take_sacked(&sent(3, 30, Marks::NONE), 0);
        covered.take_sacked(&sent(2, 20, Marks::RESENT), 0);
        assert_eq!(covered.timed_from(), at(30), "the oldest that was sent once, whatever the order of the blocks");
        covered.take_acknowledged(&sent(1, 10, Marks::NONE), 0);
        assert_eq!(covered.timed_from(), at(10));
        covered.take_acknowledged(&sent(0, 5, Marks::RESENT), 0);
        assert_eq!(covered.timed_from(), at(30));
    }

    #[test]
    fn a_timestamp_comes_last_and_what_was_sacked_before_does_not_count() {
        let mut covered = Covered { echoed: at(40), ..Covered::default() };
        covered.take_acknowledged(&sent(0, 5, Marks::RESENT), 0);
        covered.take_acknowledged(&sent(1, 10, Marks::SACKED), 0);
        assert_eq!(covered.timed_from(), at(40));
        covered.take_sacked(&sent(3, 30, Marks::NONE), 0);
        assert_eq!(covered.timed_from(), at(30));
    }
}
