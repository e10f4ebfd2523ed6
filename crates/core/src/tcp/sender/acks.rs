//! What an acknowledgement says: what it covers, how long that took, and what the congestion control makes of it.

use super::*;

impl Sender {
    pub(super) fn on_ack(&mut self, now: Time, p: &Packet, out: &mut Outputs) {
        let ack = p.ack.to_offset(self.snd_una);
        if ack > self.snd_nxt {
            return; // acknowledges what was never sent (RFC 9293 section 3.10.7.4)
        }
        if p.has(tcp_flags::FIN) {
            self.peer_fin = true;
        }
        if self.config.timestamps && p.ts_val != 0 {
            self.ts_recent = p.ts_val;
        }
        let prior_in_flight = self.in_flight();
        let window_changed = u64::from(p.window) != self.send_window;
        let rate = self.wants_rate.then(|| RateProbe::new(self.delivery.total()));
        let mut covered = Covered {
            now,
            min_rtt: self.path.min_rtt,
            echo: if self.config.timestamps { p.ts_ecr } else { 0 },
            timestamp_tick: self.config.timestamp_tick,
            newest_delivered_sent_at: self.newest_delivered_sent_at,
            newest_delivered_end: self.newest_delivered_end,
            highest_delivered: self.highest_delivered,
            frto_limit: self.frto_limit(),
            rate,
            ..Covered::default()
        };
        let advanced = ack > self.snd_una;
        if ack >= self.snd_una {
            if self.send_window == 0 && p.window > 0 {
                self.persist_at = Time::NEVER;
                self.rtt.reset_backoff();
            }
            self.send_window = u64::from(p.window);
        }
        if advanced {
            self.board.acknowledge(ack, |s| {
                covered.acked += 1;
                covered.take(s);
            });
            self.stats.bytes_acked += ack.min(self.write_end) - self.snd_una.min(self.write_end);
            self.snd_una = ack;
        }
        let sack = self.config.recovery == Recovery::Sack;
        if sack {
            let floor = self.snd_una;
            covered.duplicate_sack = self.duplicate_sack(p);
            covered.echo = 0;
            for block in p.sack() {
                let (start, end) = (block.start.to_offset(floor), block.end.to_offset(floor));
                if start >= floor && end > start && end <= self.snd_nxt {
                    self.board.sack(start, end, |s| {
                        covered.sacked += 1;
                        covered.sacked_other |= s.has(seg_flags::EVER_RETRANSMITTED) || s.end() > covered.frto_limit;
                        covered.take(s);
                    });
                }
            }
        }
        let duplicate = !advanced
            && ack == self.snd_una
            && p.len == 0
            && !self.board.is_empty()
            && if sack { covered.delivered > 0 } else { !window_changed && !p.has(tcp_flags::FIN) };
        self.note_newest(now, covered.newest_delivered_sent_at, covered.newest_delivered_end);
        self.highest_delivered = covered.highest_delivered;
        if !sack {
            self.infer_delivered(now, &mut covered, duplicate);
        }
        self.delivery.on_delivered(now, covered.delivered);
        let rtt = self.sample_rtt(now, p, advanced, &covered);
        if advanced {
            self.on_advance(now, &covered);
        }
        if duplicate {
            if self.dup_acks == 0 {
                self.window_at_first_duplicate = self.window.cwnd.min(self.send_window_segments());
            }
            self.dup_acks += 1;
            self.stats.duplicate_acks += 1;
        }
        if duplicate || covered.delivered > 0 {
            self.newest_report_at = now;
        }
        let frto = if self.frto.is_undecided() { self.on_undecided_ack(&covered, duplicate) } else { FrtoStep::Usual };
        if self.undo.is_some() && advanced && frto != FrtoStep::Undecided {
            self.undo_if_spurious(p);
        }
        if self.path.state == CaState::Loss {
            self.on_frto_ack(&covered, advanced, duplicate);
            if !sack {
                self.count_frto_duplicates(advanced, duplicate);
            }
        }

        let mut duplicate_sack = covered.duplicate_sack.is_some();
        if let Some(probe) = self.probe
            && ack >= probe.end
        {
            let echo = !advanced && covered.delivered == 0 && p.len == 0 && !window_changed;
            self.on_probe_acked(probe, ack, covered.duplicate_sack.is_some(), echo);
            // The duplicate was the probe's: no sign of reordering, nor of a needless recovery.
            duplicate_sack &= !probe.is_retransmission;
        }
        let lost_before = self.board.lost_out();
        let was_recovering = matches!(self.path.state, CaState::Recovery | CaState::Loss);
        if frto != FrtoStep::Undecided {
            self.leave_states();
        }
        if let Some(range) = covered.duplicate_sack.filter(|_| duplicate_sack) {
            self.on_duplicate_sack(range);
        }
        let recovered = was_recovering && !matches!(self.path.state, CaState::Recovery | CaState::Loss);
        if covered.reordered || duplicate_sack || recovered {
            let (snd_una, snd_nxt) = (self.snd_una, self.snd_nxt);
            self.loss.on_report(&Report { reordered: covered.reordered, duplicate_sack, snd_una, snd_nxt, recovered });
        }
        self.react_to_ecn(p);
        if frto == FrtoStep::Undecided {
            self.judge_at = Time::NEVER;
        } else if duplicate || covered.delivered > 0 || self.path.state == CaState::Recovery {
            self.detect_loss_after(now, advanced, &covered, out);
        }
        let newly_lost = self.board.lost_out().saturating_sub(lost_before) + std::mem::take(&mut self.lost_again);
        self.path.in_flight = self.in_flight();
        if frto == FrtoStep::Usual || self.path.state == CaState::Cwr {
            self.control_window(now, p, &covered, rtt, prior_in_flight, newly_lost, advanced);
        }
        let sent_new = self.transmit(now, out);
        if self.frto.defers_repair() {
            self.after_frto_transmit(now, sent_new, out);
        }
        if !sent_new && (advanced || !self.may_probe()) {
            self.schedule_probe(now);
        }
        self.finish_if_done(out);
        if p.has(tcp_flags::FIN) {
            self.send_pure_ack(now, out);
        }
    }

    fn note_newest(&mut self, now: Time, sent_at: Time, end: u64) {
        if (sent_at, end) > (self.newest_delivered_sent_at, self.newest_delivered_end) {
            (self.newest_delivered_sent_at, self.newest_delivered_end) = (sent_at, end);
            self.newest_delivered_rtt = now.since(sent_at);
        }
    }

    /// RFC 2883 section 4: the first block reports a duplicate if it lies below the cumulative ACK or within the second.
    fn duplicate_sack(&mut self, p: &Packet) -> Option<(u64, u64)> {
        let ack = p.ack.to_offset(self.snd_una);
        let range = |i: usize| p.sack().get(i).map(|b| (b.start.to_offset(ack), b.end.to_offset(ack)));
        let (start, end) = range(0).filter(|_| self.config.dsack)?;
        let is_below = end <= ack;
        let is_within = range(1).is_some_and(|(from, to)| from <= start && end <= to);
        (start < end && (is_below || is_within)).then(|| {
            self.stats.duplicate_sacks += 1;
            (start, end)
        })
    }

    /// Without SACK a duplicate ACK says that some segment arrived; the cumulative ACK that follows must not count it again.
    pub(super) fn infer_delivered(&mut self, now: Time, covered: &mut Covered, duplicate: bool) {
        if duplicate {
            covered.delivered = 1;
            self.inferred = (self.inferred + 1).min(self.board.packets_out());
            if let Some((sent_at, end)) = self.board.sent(self.inferred) {
                self.note_newest(now, sent_at, end);
            }
        } else if covered.acked > 0 {
            covered.delivered = covered.acked.saturating_sub(self.inferred).max(1);
            self.inferred = self.inferred.saturating_sub(covered.acked - 1);
        }
    }

    /// In the network, as the sender can tell. Without SACK each duplicate ACK stands for a segment that has left it.
    pub(super) fn in_flight(&self) -> u32 {
        let pipe = self.board.pipe();
        if self.config.recovery == Recovery::Sack {
            // Without limited transmit what was SACKed makes no room before a loss is found (RFC 6675 section 5 step 3).
            let waits = !self.config.limited_transmit && matches!(self.path.state, CaState::Open | CaState::Disorder);
            return if waits { pipe + self.board.sacked_out() } else { pipe };
        }
        let left = match self.path.state {
            CaState::Recovery => self.dup_acks,
            CaState::Loss if !self.config.limited_transmit_after_timeout => self.frto_arrived,
            // RFC 3042: at most two segments beyond the window.
            _ if self.config.limited_transmit => self.dup_acks.min(2),
            _ => 0,
        };
        pipe.saturating_sub(left)
    }

    pub(super) fn sample_rtt(&mut self, now: Time, p: &Packet, advanced: bool, covered: &Covered) -> Option<Span> {
        // Beside a retransmission an original may have waited for the hole below it (Karn's problem).
        let exact = covered.newest_sent_at.filter(|_| !covered.retransmitted_data).map(|t| now.since(t));
        if self.config.rtt_per_segment {
            if !covered.retransmitted_data {
                if let Some(oldest) = covered.oldest_sent_at {
                    self.on_rtt(oldest, now, advanced);
                }
            } else if advanced && self.config.timestamps && p.ts_ecr != 0 {
                // Karn's problem does not arise with timestamps (RFC 7323 section 4).
                let ticks = timestamp(now, &self.config).wrapping_sub(p.ts_ecr);
                let span = self.config.timestamp_tick.saturating_mul(u64::from(ticks));
                if ticks < 1 << 31 {
                    let span = span.max(Span::from_ns(1));
                    self.sample_for_timeout(span);
                    self.note_rtt(span);
                }
            }
        } else if let Some((end, sent_at)) = self.timed
            && self.snd_una >= end
        {
            self.timed = None;
            self.rtt.reset_backoff();
            self.on_rtt(sent_at, now, true);
        }
        if let Some(rtt) = exact {
            self.path.min_rtt = self.path.min_rtt.min(rtt);
            self.stats.rtt_min_ns =
                if self.stats.rtt_count == 0 { rtt.as_ns() } else { self.stats.rtt_min_ns.min(rtt.as_ns()) };
            self.stats.rtt_count += 1;
            self.stats.rtt_sum_ns += rtt.as_ns();
            self.stats.rtt_max_ns = self.stats.rtt_max_ns.max(rtt.as_ns());
        }
        exact
    }

    pub(super) fn on_rtt(&mut self, sent_at: Time, now: Time, for_timeout: bool) {
        let rtt = now.since(sent_at);
        if for_timeout || self.rtt.srtt().is_zero() {
            match self.clock.counter(sent_at, now) {
                Some(counter) => self.rtt.on_ticks(rtt, counter, &self.config),
                None => self.sample_for_timeout(rtt),
            }
        }
        self.note_rtt(rtt);
    }

    fn sample_for_timeout(&mut self, rtt: Span) {
        let new_round = self.snd_una > self.rtt_round_end;
        if new_round {
            self.rtt_round_end = self.snd_nxt;
        }
        self.rtt.on_sample(rtt, new_round, &self.config);
    }

    fn note_rtt(&mut self, rtt: Span) {
        self.path.srtt = self.rtt.srtt();
        self.path.min_rtt = self.path.min_rtt.min(rtt);
    }

    /// The cumulative acknowledgement moved.
    pub(super) fn on_advance(&mut self, now: Time, covered: &Covered) {
        self.timeouts_in_row = 0;
        // Karn: a backed-off timeout stays until there is a sample again, here that of the timed segment.
        if self.config.rtt_per_segment && (!covered.retransmitted_data || self.config.timestamps) {
            self.rtt.reset_backoff();
        }
        self.persist_at = Time::NEVER;
        // RFC 6582 section 4, the impatient variant: only the first partial ACK restarts the timer, so that a window with
        // many holes ends in a timeout and slow start instead of a round trip for each.
        let partial = self.path.state == CaState::Recovery
            && self.config.recovery == Recovery::NewReno
            && self.snd_una < self.high_seq;
        self.partial_acks += u32::from(partial);
        if self.board.is_empty() {
            self.rto_at = Time::NEVER;
        } else if !partial || self.partial_acks == 1 {
            self.rto_at = self.timeout_from(now);
        }
        if self.path.state == CaState::Recovery && self.config.recovery == Recovery::NewReno {
            // Of what a partial ACK covers, one was the hole and the rest had each sent a duplicate (RFC 6582).
            self.dup_acks = self.dup_acks.saturating_sub(covered.acked.saturating_sub(1));
        } else {
            self.dup_acks = 0;
        }
    }

    #[allow(clippy::too_many_arguments)] // one caller; the sample is assembled here
    pub(super) fn control_window(
        &mut self,
        now: Time,
        p: &Packet,
        covered: &Covered,
        rtt: Option<Span>,
        prior_in_flight: u32,
        lost: u32,
        advanced: bool,
    ) {
        let state = self.path.state;
        let reducing = matches!(state, CaState::Recovery | CaState::Cwr);
        if reducing && !self.owns_window {
            if self.config.prr {
                let pipe = self.path.in_flight;
                let safe = advanced && lost == 0;
                self.window.cwnd = self.reduction.on_ack(covered.delivered, pipe, self.window.ssthresh, safe);
            } else if self.config.rate_halving && (covered.delivered > 0 || covered.duplicate_sack.is_some()) {
                let Window { cwnd, ssthresh, .. } = self.window;
                self.window.cwnd = self.reduction.halve(cwnd, self.path.in_flight, ssthresh);
            }
            self.window.cwnd = self.window.cwnd.clamp(1, self.path.cwnd_clamp);
            return;
        }
        if covered.delivered == 0 && !advanced {
            return;
        }
        let credit = match self.config.byte_counting {
            0 => u32::from(advanced),
            // All that it newly reports, SACKed included; what was reported before was credited then.
            limit if self.window.in_slow_start() => covered.delivered.min(limit),
            _ => covered.delivered,
        };
        let rate = covered.rate.as_ref().and_then(|probe| {
            let sample = probe.sample(now, &self.delivery, self.path.min_rtt);
            probe.commit(&mut self.delivery);
            sample
        });
        let sample = AckSample {
            acked: covered.acked,
            delivered: covered.delivered,
            credit,
            lost,
            rtt,
            prior_in_flight,
            total_delivered: self.delivery.total(),
            rate,
            ece: self.ecn_ok && p.has(tcp_flags::ECE),
            cwnd_limited: self.is_cwnd_limited(prior_in_flight),
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        };
        if self.owns_window || advanced {
            self.cc.on_ack(&mut self.window, &self.path, &sample);
        }
    }

    /// RFC 7661: growth only while the window is what holds the sender back; in slow start half of it in use is enough.
    pub(super) fn is_cwnd_limited(&self, prior_in_flight: u32) -> bool {
        if !self.config.cwnd_validation {
            true
        } else if self.config.cwnd_slack > 0 {
            prior_in_flight.saturating_add(self.config.cwnd_slack) >= self.window.cwnd
        } else {
            self.cwnd_limited
                || (self.window.in_slow_start() && self.window.cwnd < self.max_in_flight.saturating_mul(2))
        }
    }
}
