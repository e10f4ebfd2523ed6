//! What a run leaves behind: from counters and logs to tables and the summary.

use super::*;

/// All counters at one instant.
pub(super) struct Totals {
    pub links: Vec<LinkTotals>,
    /// Of the links of WLANs, in order.
    pub air: Vec<AirStats>,
    pub flows: Vec<FlowTotals>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FlowTotals {
    tcp: SenderStats,
    sent: u64,
    received: u64,
    received_bytes: u64,
    delay_sum_ns: u128,
    dropped_at_queues: u64,
    lost_on_lines: u64,
    spurious_retransmissions: u64,
}

impl World {
    /// `before`: what arrives at this very instant is still to come.
    pub(super) fn totals(&mut self, before: bool) -> Totals {
        let now = self.now;
        let ahead = self.links.ahead(self.wires.iter(), &self.hops, now, before);
        let links = (0..self.links.lines.len() as u32).map(|l| match self.air.stats(l, now) {
            Some(stats) => link_totals(&stats),
            None => self.links.totals(l, now, &ahead),
        });
        Totals {
            links: links.collect(),
            air: self.air.links().filter_map(|link| self.air.stats(link, now)).collect(),
            flows: self.flows.iter().map(|flow| FlowTotals::of(flow, Time::from_ns(now))).collect(),
        }
    }

    /// The records up to now; a run that was cut short keeps what it has.
    pub fn finish(mut self) -> RunOutput {
        let last = self.totals(false);
        // A run that did not reach the end of its warmup has nothing to summarise.
        let (first, period) = match self.warm.take() {
            Some(first) => (first, Time::from_ns(self.now).since(Time::ZERO + self.spec.warmup)),
            None => {
                let Totals { links, air, flows } = &last;
                (Totals { links: links.clone(), air: air.clone(), flows: flows.clone() }, Span::ZERO)
            }
        };
        let warm_at = Time::ZERO + self.spec.warmup;
        let period_ns = period.as_ns() as f64;
        let mut flow_rows: Vec<FlowRow> =
            self.listed().map(|i| self.flow_row(i, &first.flows[i], &last.flows[i], period, warm_at)).collect();
        let mut probes = ProbeRows::default();
        for row in &mut flow_rows {
            let (mut raw, mut corrected) = (Mean::default(), Mean::default());
            for run in self.probes(row.flow as usize) {
                raw.add(run.estimate_packets);
                corrected.add(run.corrected_packets);
                probes.push(run);
            }
            (row.buffer_raw_packets, row.buffer_corrected_packets) = (raw.get(), corrected.get());
        }
        let link_rows: Vec<LinkRow> =
            (0..self.links.lines.len()).map(|i| self.link_row(i, &first.links[i], &last.links[i], period_ns)).collect();
        let air_rows: Vec<AirRow> = self
            .air
            .links()
            .zip(first.air.iter().zip(&last.air))
            .map(|(link, (first, last))| {
                let spec = &self.spec.links[link as usize];
                let channel = spec.air.map_or("", |air| &self.spec.channels[air.channel as usize].name);
                AirRow::new(link, spec, channel, first, last, period_ns)
            })
            .collect();
        let summary = self.summary(&flow_rows, &link_rows, &air_rows);

        let mut flows = Flows::default();
        flow_rows.into_iter().for_each(|r| flows.push(r));
        let mut links = LinkRows::default();
        link_rows.into_iter().for_each(|r| links.push(r));
        let mut air = AirRows::default();
        air_rows.into_iter().for_each(|r| air.push(r));
        let mut transfers = TransferRows::default();
        for t in &self.log.transfers {
            transfers.push(TransferRow {
                flow: t.flow.0,
                index: t.index,
                bytes: t.bytes,
                start_s: t.start.as_secs_f64(),
                end_s: t.end.map_or(f64::NAN, Time::as_secs_f64),
                segments_sent: t.segments_sent,
                segments_retransmitted: t.segments_retransmitted,
                dropped_at_queues: t.dropped_at_queues,
            });
        }
        let mut pings = PingRows::default();
        let mut datagrams = DatagramRows::default();
        for (i, flow) in self.flows.iter().enumerate() {
            match &flow.ends {
                Ends::Ping(ping) => {
                    for (number, (sent, rtt)) in ping.requests.iter().enumerate() {
                        pings.push(PingRow {
                            flow: i as u32,
                            number: number as u32,
                            sent_s: sent.as_secs_f64(),
                            rtt_ms: rtt.map_or(f64::NAN, millis),
                        });
                    }
                }
                Ends::Train(train) => {
                    for (number, (sent, received)) in train.datagrams.iter().enumerate() {
                        datagrams.push(DatagramRow {
                            flow: i as u32,
                            train: number as u32 / train.count(),
                            number: number as u32 % train.count(),
                            sent_s: sent.as_secs_f64(),
                            received_s: received.map_or(f64::NAN, Time::as_secs_f64),
                        });
                    }
                }
                Ends::Daemon(host) => self.log.daemons.push(DaemonRow::new(&self.spec.flows[i], &host.stats)),
                Ends::Tcp(_) | Ends::Cbr(_) => {}
            }
        }
        let tables = vec![
            flows.into_table(),
            links.into_table(),
            self.log.flow_series.into_table(),
            self.log.link_series.into_table(),
            self.log.drops.into_table(),
            self.log.retransmissions.into_table(),
            transfers.into_table(),
            pings.into_table(),
            datagrams.into_table(),
            probes.into_table(),
            air.into_table(),
            self.log.air_series.into_table(),
            self.log.ppdus.into_table(),
            self.log.daemons.into_table(),
            self.log.daemon_series.into_table(),
            self.roamers.handovers().into_table(),
            self.log.walkers.into_table(),
        ];
        RunOutput { tables, summary, events: self.events, packets_delivered: self.ledger.delivered_forward.packets }
    }

    /// Flows that tables of flows list: all but daemons.
    fn listed(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.flows.len()).filter(|&i| !matches!(self.flows[i].ends, Ends::Daemon(_)))
    }

    fn flow_row(&self, i: usize, first: &FlowTotals, last: &FlowTotals, period: Span, warm_at: Time) -> FlowRow {
        let (spec, flow) = (&self.spec.flows[i], &self.flows[i]);
        let seconds = period.as_secs_f64();
        let (a, b) = (&first.tcp, &last.tcp);
        let mut row = FlowRow {
            flow: i as u32,
            name: spec.name.clone().into(),
            group: spec.group.clone().into(),
            kind: "".into(),
            cc: "".into(),
            start_s: spec.start.as_secs_f64(),
            stop_s: secs_or_nan(spec.stop),
            bytes_acked: b.bytes_acked - a.bytes_acked,
            goodput_bps: f64::NAN,
            segments_sent: last.sent - first.sent,
            segments_retransmitted: b.segments_retransmitted - a.segments_retransmitted,
            retransmission_ratio: f64::NAN,
            timeouts: b.timeouts - a.timeouts,
            spurious_timeouts: b.spurious_timeouts - a.spurious_timeouts,
            undos: b.undos - a.undos,
            fast_retransmits: b.fast_retransmits - a.fast_retransmits,
            duplicate_acks: b.duplicate_acks - a.duplicate_acks,
            tail_loss_probes: b.tail_loss_probes - a.tail_loss_probes,
            spurious_retransmissions: last.spurious_retransmissions - first.spurious_retransmissions,
            ecn_reductions: b.ecn_reductions - a.ecn_reductions,
            dropped_at_queues: last.dropped_at_queues - first.dropped_at_queues,
            lost_on_lines: last.lost_on_lines - first.lost_on_lines,
            cwnd_mean_segments: f64::NAN,
            rtt_mean_ms: f64::NAN,
            rtt_min_ms: f64::NAN,
            rtt_max_ms: f64::NAN,
            transfers: 0,
            completion_s: f64::NAN,
            received: last.received - first.received,
            delay_mean_ms: f64::NAN,
            jitter_ms: f64::NAN,
            buffer_raw_packets: f64::NAN,
            buffer_corrected_packets: f64::NAN,
        };
        match &flow.ends {
            Ends::Tcp(tcp) => {
                row.kind = "tcp".into();
                if let Traffic::Tcp { sender, .. } = &spec.traffic {
                    row.cc = sender.cc.name().into();
                }
                row.goodput_bps = ratio(row.bytes_acked as f64 * 8.0, seconds);
                row.retransmission_ratio = ratio(row.segments_retransmitted as f64, row.segments_sent as f64);
                let sum_ms = (b.rtt_sum_ns - a.rtt_sum_ns) as f64 * 1e-6;
                row.rtt_mean_ms = ratio(sum_ms, (b.rtt_count - a.rtt_count) as f64);
                let cwnd_time = (b.cwnd_segment_ns - a.cwnd_segment_ns) as f64;
                row.cwnd_mean_segments = ratio(cwnd_time, (b.open_ns - a.open_ns) as f64);
                if b.rtt_count > 0 {
                    row.rtt_min_ms = b.rtt_min_ns as f64 * 1e-6;
                    row.rtt_max_ms = b.rtt_max_ns as f64 * 1e-6;
                }
                row.transfers = tcp.completed;
                if let Some((start, end)) = tcp.first_completion {
                    row.completion_s = end.since(start).as_secs_f64();
                }
            }
            Ends::Ping(ping) => {
                row.kind = "ping".into();
                let rtts = || ping.requests.iter().filter_map(|(sent, rtt)| rtt.map(|rtt| (*sent, millis(rtt))));
                let (n, sum) =
                    rtts().filter(|(sent, _)| *sent >= warm_at).fold((0.0, 0.0), |(n, sum), (_, r)| (n + 1.0, sum + r));
                row.rtt_mean_ms = ratio(sum, n);
                row.rtt_min_ms = rtts().map(|(_, r)| r).fold(f64::NAN, f64::min);
                row.rtt_max_ms = rtts().map(|(_, r)| r).fold(f64::NAN, f64::max);
            }
            Ends::Cbr(cbr) => {
                row.kind = "cbr".into();
                row.goodput_bps = ratio((last.received_bytes - first.received_bytes) as f64 * 8.0, seconds);
                row.delay_mean_ms = ratio((last.delay_sum_ns - first.delay_sum_ns) as f64 * 1e-6, row.received as f64);
                if cbr.counters.received > 1 {
                    row.jitter_ms = cbr.counters.jitter_ns * 1e-6;
                }
            }
            Ends::Train(_) => {
                let is_probe = matches!(spec.traffic, Traffic::BufferProbe { .. });
                row.kind = if is_probe { "buffer_probe" } else { "train" }.into();
            }
            Ends::Daemon(_) => unreachable!("not listed"),
        }
        row
    }

    /// The trains of a buffer probe whose time is over, up to the start of the next; none for other traffic.
    fn probes(&self, flow: usize) -> Vec<ProbeRow> {
        let Traffic::BufferProbe { count, packet_bytes, every, estimator, .. } = &self.spec.flows[flow].traffic else {
            return Vec::new();
        };
        let Ends::Train(train) = &self.flows[flow].ends else { return Vec::new() };
        let trains = train.datagrams.chunks_exact(*count as usize);
        let over = trains.take_while(|train| (train[0].0 + *every).as_ns() <= self.now);
        let logs: Vec<RunLog> = over.map(|datagrams| RunLog { datagrams, packet_bytes: *packet_bytes }).collect();
        let or_nan = |n: Option<u32>| n.map_or(f64::NAN, f64::from);
        (0u32..)
            .zip(estimate(estimator, &logs))
            .map(|(run, e)| ProbeRow {
                flow: flow as u32,
                run,
                sent: e.sent,
                received: e.received,
                onset: or_nan(e.onset),
                estimate_packets: or_nan(e.first_gap),
                corrected_packets: or_nan(e.corrected),
                drained: or_nan(e.drained),
                at_least_packets: e.at_least,
                unexplained: e.unexplained,
            })
            .collect()
    }

    fn link_row(&self, i: usize, first: &LinkTotals, last: &LinkTotals, period_ns: f64) -> LinkRow {
        let spec = &self.spec.links[i];
        let arrived_packets = last.arrived_packets - first.arrived_packets;
        let dropped_overflow = last.dropped_overflow - first.dropped_overflow;
        let dropped_early = last.dropped_early - first.dropped_early;
        let dropped_gone = last.dropped_gone - first.dropped_gone;
        let queue_ns = (last.queue_packet_ns - first.queue_packet_ns) as f64;
        LinkRow {
            link: i as u32,
            name: spec.name.clone().into(),
            group: spec.group.clone().into(),
            rate_bps: spec.rate.as_bps(),
            delay_ms: millis(spec.delay),
            arrived_packets,
            arrived_bytes: last.arrived_bytes - first.arrived_bytes,
            dropped_overflow,
            dropped_early,
            filtered: last.filtered - first.filtered,
            dropped_gone,
            marked: last.marked - first.marked,
            lost_packets: last.lost_packets - first.lost_packets,
            held_back_packets: last.held_back_packets - first.held_back_packets,
            forwarded_packets: last.forwarded_packets - first.forwarded_packets,
            forwarded_bytes: last.forwarded_bytes - first.forwarded_bytes,
            utilisation: ratio((last.busy_ns - first.busy_ns) as f64, period_ns),
            loss_ratio: ratio((dropped_overflow + dropped_early + dropped_gone) as f64, arrived_packets as f64),
            queue_mean_packets: ratio(queue_ns, period_ns),
            queue_max_packets: match self.air.stats(i as u32, self.now) {
                Some(stats) => stats.held_max,
                None => u64::from(self.links.cold[i].max_queue),
            },
            queue_delay_mean_ms: ratio(queue_ns * 1e-6, (last.started_packets - first.started_packets) as f64),
        }
    }

    fn summary(&self, flows: &[FlowRow], links: &[LinkRow], air: &[AirRow]) -> Summary {
        let mut order: Vec<Vec<&FlowRow>> = Vec::new();
        let mut by_name = BTreeMap::new();
        let mut group_of = Vec::with_capacity(flows.len());
        for row in flows {
            let at = *by_name.entry(row.group.as_ref()).or_insert(order.len());
            if at == order.len() {
                order.push(Vec::new());
            }
            order[at].push(row);
            group_of.push(at);
        }
        let mut durations = vec![(0.0, 0.0); order.len()];
        for t in &self.log.transfers {
            if let Some(end) = t.end.filter(|_| t.start >= Time::ZERO + self.spec.warmup) {
                let (n, sum) = &mut durations[group_of[t.flow.0 as usize]];
                *n += 1.0;
                *sum += end.since(t.start).as_secs_f64();
            }
        }
        Summary {
            seed: self.spec.seed,
            end_s: secs(self.now),
            warmup_s: self.spec.warmup.as_secs_f64(),
            groups: order
                .iter()
                .zip(durations)
                .map(|(rows, (n, sum))| GroupSummary::new(rows, (n > 0.0).then(|| sum / n)))
                .collect(),
            links: links
                .iter()
                .zip(&self.spec.links)
                .filter(|(_, spec)| !spec.is_member_of_group)
                .map(|(row, _)| LinkSummary::new(row))
                .collect(),
            air: air
                .iter()
                .filter(|row| air.len() <= MAX_AIR_LISTED || !self.spec.links[row.link as usize].is_member_of_group)
                .map(AirSummary::new)
                .collect(),
        }
    }
}

impl FlowTotals {
    fn of(flow: &Flow, now: Time) -> FlowTotals {
        let mut totals = FlowTotals {
            tcp: flow.ends.tcp_stats(now),
            dropped_at_queues: flow.dropped_at_queues,
            lost_on_lines: flow.lost_on_lines,
            ..FlowTotals::default()
        };
        match &flow.ends {
            Ends::Tcp(tcp) => {
                totals.sent = totals.tcp.segments_sent;
                totals.spurious_retransmissions = tcp.spurious_retransmissions();
            }
            Ends::Ping(ping) => {
                totals.sent = ping.requests.len() as u64;
                totals.received = ping.requests.iter().filter(|(_, rtt)| rtt.is_some()).count() as u64;
            }
            Ends::Cbr(cbr) => {
                totals.sent = cbr.counters.sent;
                totals.received = cbr.counters.received;
                totals.received_bytes = cbr.counters.received_bytes;
                totals.delay_sum_ns = cbr.counters.delay_sum_ns;
            }
            Ends::Train(train) => {
                totals.sent = train.datagrams.len() as u64;
                totals.received = train.datagrams.iter().filter(|(_, at)| at.is_some()).count() as u64;
            }
            Ends::Daemon(_) => {}
        }
        totals
    }
}

/// Mean of the numbers that are any.
#[derive(Default)]
struct Mean {
    count: f64,
    sum: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        if !value.is_nan() {
            (self.count, self.sum) = (self.count + 1.0, self.sum + value);
        }
    }
    fn get(&self) -> f64 {
        ratio(self.sum, self.count)
    }
}
