//! One connection of the host under test: airtcp's sender and receiver side by side.
//!
//! Each of them is one half of a TCP, so this file does what lies between the halves and a wire:
//! the options of a handshake, numbers that begin elsewhere than at zero, data that carries the
//! receiver's ACK, and the end of each direction. It decides nothing that a sender or a receiver
//! decides.

use std::collections::VecDeque;
use std::sync::Arc;

use airtcp_core::packet::{AccurateEcn, Ecn, FlowId, Kind, Packet, SackBlock, TcpFlags};
use airtcp_core::rng::Streams;
use airtcp_core::tcp::{EcnEcho, Outputs, Receiver, Recovery, Sender, SenderInfo, TcpConfig};
use airtcp_core::units::{Seq32, Time};

use crate::script::{Flags, IpEcn, Opt, Segment};
use crate::settings::{Reason, Settings};

/// A segment that has left.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// When.
    pub at: Time,
    /// In the script's numbers.
    pub segment: Segment,
}

/// Bytes of the option of Accurate ECN with three counters.
const ACCURATE_ECN_BYTES: u16 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    SynSent,
    SynReceived,
    Established,
    /// Reset by the peer.
    Reset,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    settings: Settings,
    /// Segment size that this end advertises, and that of its socket option.
    advertised_mss: u16,
    mss_option: Option<u16>,
    phase: Phase,
    is_passive: bool,
    tcp: Arc<TcpConfig>,
    sender: Sender,
    receiver: Receiver,
    opened_at: Time,
    /// When SYNs were sent again.
    repeated_at: Vec<Time>,
    /// Both initial sequence numbers.
    local: u32,
    peer: u32,
    timestamps: bool,
    sack: bool,
    /// Shifts of the window field, where both ends have the option.
    shifts: Option<(u8, u8)>,
    /// ECN as the SYN and its answer have settled it (field ACE of the answer).
    agreed: u8,
    /// Both ends have the option of Accurate ECN.
    ecn_option: bool,
    /// The SYN that was answered: what one that is repeated asks for does not count.
    first_syn: Option<Segment>,
    /// How the peer's SYN or SYN-ACK came marked, as the field ACE of the answer says it.
    came_as: u8,
    /// Offset that the last segment acknowledged.
    acknowledged: u64,
    /// Newest timestamp of segments without data.
    ts_recent: u32,
    sent: VecDeque<Sent>,
    written: u64,
    ended: bool,
    peer_ended: bool,
    /// Times of the last data, in each direction.
    pub last_received: Time,
}

impl Connection {
    /// A call of `connect`.
    pub fn connect(settings: &Settings, mss_option: Option<u16>, now: Time) -> Connection {
        let mut connection = Connection::new(settings, mss_option, now, false);
        let accurate = settings.ecn == 3;
        let enabled = matches!(settings.ecn, 1 | 3 | 4);
        connection.settle(1460, enabled, accurate);
        let mut out = Outputs::default();
        connection.sender.open(now, &mut out);
        connection.send_syns(now, &out);
        connection
    }

    /// A SYN has come for a socket that listens.
    ///
    /// # Errors
    ///
    /// The SYN asks for something that is not modelled.
    pub fn accept(
        settings: &Settings,
        mss_option: Option<u16>,
        now: Time,
        syn: &Segment,
    ) -> Result<Connection, Reason> {
        let mut connection = Connection::new(settings, mss_option, now, true);
        let peer_mss = connection.take_offer(syn)?;
        connection.settle(peer_mss, settings.ecn != 0, matches!(settings.ecn, 3..=5));
        let mut out = Outputs::default();
        connection.sender.open(now, &mut out);
        connection.answer_syn(now, syn);
        connection.first_syn = Some(syn.clone());
        Ok(connection)
    }

    fn new(settings: &Settings, mss_option: Option<u16>, now: Time, is_passive: bool) -> Connection {
        let tcp = Arc::new(settings.tcp.clone());
        let of_device = settings.mtu.saturating_sub(40);
        Connection {
            settings: settings.clone(),
            advertised_mss: mss_option.unwrap_or(of_device).min(of_device),
            mss_option,
            phase: if is_passive { Phase::SynReceived } else { Phase::SynSent },
            is_passive,
            sender: new_sender(&tcp),
            receiver: Receiver::new(FlowId(0), 0, Arc::clone(&tcp)),
            tcp,
            opened_at: now,
            repeated_at: Vec::new(),
            local: 0,
            peer: 0,
            timestamps: settings.timestamps,
            sack: settings.sack,
            shifts: settings.window_scaling.then(|| (shift_of(settings.receive_memory_max), 0)),
            agreed: 0,
            ecn_option: settings.ecn_option,
            first_syn: None,
            came_as: 0,
            acknowledged: 1,
            ts_recent: 0,
            sent: VecDeque::new(),
            written: 0,
            ended: false,
            peer_ended: false,
            last_received: now,
        }
    }

    /// Builds both halves with what is known of the connection.
    fn settle(&mut self, peer_mss: u16, ecn: bool, accurate: bool) {
        let mut tcp = self.settings.tcp.clone();
        let mss = peer_mss.min(self.mss_option.unwrap_or(u16::MAX)).min(self.settings.mtu.saturating_sub(40));
        // The option of Accurate ECN is in each segment, and takes its place.
        let option = if ecn && accurate && self.ecn_option { ACCURATE_ECN_BYTES } else { 0 };
        tcp.connection.packet_bytes = mss.max(88).saturating_sub(option).saturating_add(40);
        tcp.connection.handshake = true;
        tcp.timestamps.enabled = self.timestamps;
        if !self.sack {
            tcp.loss_recovery.recovery = Recovery::NewReno;
        }
        tcp.ecn.enabled = ecn;
        tcp.ecn.echo = self.settings.echo(accurate);
        self.tcp = Arc::new(tcp);
        self.sender = new_sender(&self.tcp);
        self.receiver = Receiver::new(FlowId(0), 0, Arc::clone(&self.tcp));
        self.receiver.read_by_calls();
    }

    /// Takes the offer of a SYN or its answer; returns the segment size.
    fn take_offer(&mut self, syn: &Segment) -> Result<u16, Reason> {
        let mut mss = 536;
        let (mut timestamps, mut sack, mut scale) = (None, false, None);
        for option in syn.options.iter().flatten() {
            match option {
                Opt::Mss(bytes) => mss = *bytes,
                Opt::WindowScale(shift) => scale = Some((*shift).min(14)),
                Opt::SackPermitted => sack = true,
                Opt::Timestamps { val, .. } => timestamps = Some(*val),
                Opt::FastOpen => return Err("TCP Fast Open".to_owned()),
                Opt::Md5 => return Err("TCP MD5 signatures".to_owned()),
                _ => {}
            }
        }
        if syn.len > 0 {
            return Err("data in a SYN (TCP Fast Open)".to_owned());
        }
        self.peer = syn.seq;
        self.came_as = came_as(syn);
        let has_option = syn.options.iter().flatten().any(|option| matches!(option, Opt::AccurateEcn { .. }));
        self.ecn_option &= self.is_passive || has_option;
        self.timestamps &= timestamps.is_some();
        self.ts_recent = timestamps.unwrap_or(0);
        self.sack &= sack;
        self.shifts = self.shifts.zip(scale).map(|((ours, _), theirs)| (ours, theirs));
        Ok(mss)
    }

    fn answer_syn(&mut self, now: Time, syn: &Segment) {
        let mut p = self.packet(syn);
        p.window = u32::from(syn.window.unwrap_or(0));
        let mut out = Outputs::default();
        self.receiver.on_packet(now, &p, &mut out);
        for answer in &mut out.packets {
            let ace = answer.accurate_ecn().ace;
            self.agreed = if ace == 2 { self.came_as } else { ace };
            self.send_syn_ack(now, answer);
        }
    }

    /// Options of a SYN, or of its answer.
    fn syn_options(&self, val: u32) -> Vec<Opt> {
        let mut options = vec![Opt::Mss(self.advertised_mss)];
        if self.sack {
            options.push(Opt::SackPermitted);
        }
        if self.timestamps {
            options.push(Opt::Timestamps { val, ecr: self.ts_recent });
        }
        if let Some((shift, _)) = self.shifts {
            options.push(Opt::WindowScale(shift));
        }
        options
    }

    fn send_syns(&mut self, now: Time, out: &Outputs) {
        for p in out.packets.iter().filter(|p| p.has(TcpFlags::SYN)) {
            let segment = Segment {
                flags: Flags { syn: true, ..flags_of_ace(p.accurate_ecn().ace) },
                seq: self.local,
                window: u16::try_from(p.window).ok(),
                options: Some(self.syn_options(p.ts_val)),
                ecn: Some(IpEcn::NotEct),
                ..Segment::default()
            };
            self.sent.push_back(Sent { at: now, segment });
        }
    }

    fn send_syn_ack(&mut self, now: Time, p: &Packet) {
        let mut options = self.syn_options(p.ts_val);
        // It may be what kept the first SYN-ACK from arriving, so a repeated one is without.
        if self.is_accurate() && self.ecn_option && self.first_syn.is_none() {
            options.push(Opt::AccurateEcn { ceb: Some(0), e0b: None, e1b: None });
        }
        let segment = Segment {
            flags: Flags { syn: true, ack: true, ..flags_of_ace(self.agreed) },
            seq: self.local,
            ack: self.peer.wrapping_add(1),
            window: Some(u16::try_from(p.window).unwrap_or(u16::MAX)),
            options: Some(options),
            ecn: Some(IpEcn::NotEct),
            ..Segment::default()
        };
        self.sent.push_back(Sent { at: now, segment });
    }

    /// When [`Self::on_deadline`] is due.
    pub fn deadline(&self) -> Time {
        match self.phase {
            Phase::SynSent => self.sender.deadline(),
            Phase::SynReceived | Phase::Established => self.sender.deadline().min(self.receiver.deadline()),
            Phase::Reset => Time::NEVER,
        }
    }

    /// A timer runs out.
    pub fn on_deadline(&mut self, now: Time) {
        let mut out = Outputs::default();
        self.sender.on_deadline(now, &mut out);
        let mut acks = Outputs::default();
        match self.phase {
            Phase::SynSent => {
                self.repeated_at.push(now);
                self.send_syns(now, &out);
            }
            Phase::SynReceived => {
                self.receiver.on_deadline(now, &mut acks);
                for p in &acks.packets {
                    self.send_syn_ack(now, p);
                }
            }
            Phase::Established => {
                if now >= self.receiver.deadline() {
                    self.receiver.on_deadline(now, &mut acks);
                }
                self.send(now, &out.packets, acks.packets);
            }
            Phase::Reset => {}
        }
    }

    /// A segment of the peer.
    ///
    /// # Errors
    ///
    /// It asks for something that is not modelled.
    pub fn on_segment(&mut self, now: Time, segment: &Segment) -> Result<(), Reason> {
        for option in segment.options.iter().flatten() {
            match option {
                Opt::FastOpen => return Err("TCP Fast Open".to_owned()),
                Opt::Md5 => return Err("TCP MD5 signatures".to_owned()),
                _ => {}
            }
        }
        if segment.urgent {
            return Err("urgent data".to_owned());
        }
        match self.phase {
            Phase::Reset => return Err("segments after a reset".to_owned()),
            Phase::Established if segment.flags.rst => {
                let exact = Seq32::from_offset(self.receiver.next()).0;
                if segment.seq.wrapping_sub(self.peer) != exact {
                    return Err("a reset that is not for the next byte (RFC 5961)".to_owned());
                }
                self.phase = Phase::Reset;
                return Ok(());
            }
            _ if segment.flags.rst => {
                self.phase = Phase::Reset;
                return Ok(());
            }
            Phase::SynSent => {
                if !segment.flags.syn || !segment.flags.ack {
                    return Err("a simultaneous open, or a first segment that is no SYN-ACK".to_owned());
                }
                if segment.ack != self.local.wrapping_add(1) {
                    return Err("an answer to a SYN that was not sent (it takes a reset)".to_owned());
                }
                return self.on_syn_ack(now, segment);
            }
            Phase::SynReceived if segment.flags.syn => {
                self.came_as = came_as(segment);
                let first = self.first_syn.clone();
                self.answer_syn(now, first.as_ref().unwrap_or(segment));
                return Ok(());
            }
            Phase::SynReceived => {
                if !segment.flags.ack {
                    return Ok(());
                }
                if segment.ack != self.local.wrapping_add(1) {
                    return Err("a third segment of a handshake that is to be refused by a reset".to_owned());
                }
                self.establish(now, segment);
            }
            Phase::Established => {}
        }
        self.on_established(now, segment);
        Ok(())
    }

    /// The answer to our SYN: both halves are built anew with what it offers, and the sender lives
    /// through its SYNs again.
    fn on_syn_ack(&mut self, now: Time, segment: &Segment) -> Result<(), Reason> {
        let peer_mss = self.take_offer(segment)?;
        // Linux agrees to Accurate ECN whatever its SYN asked for (`tcp_ecn_rcv_synack`).
        let enabled = self.tcp.ecn.enabled;
        let accurate = self.tcp.ecn.echo == EcnEcho::Accurate || matches!(segment.flags.ace_field(), 2 | 3 | 4 | 6);
        self.settle(peer_mss, enabled, accurate);
        let mut out = Outputs::default();
        self.sender.open(self.opened_at, &mut out);
        for &at in &self.repeated_at {
            self.sender.on_deadline(at, &mut out);
        }
        let p = self.packet(segment);
        let answer = p.accurate_ecn().ace;
        // Over there our SYN was answered; here the answer opens the other direction.
        let mut syn = p;
        syn.flags = TcpFlags::SYN;
        let asked = match answer {
            2 | 3 | 4 | 6 if accurate => 7,
            answer if enabled && answer & 1 != 0 => 3,
            _ => 0,
        };
        self.agreed = if asked == 0 { 0 } else { answer };
        syn.set_accurate_ecn(AccurateEcn { ace: asked, ce_bytes: None });
        let mut ignored = Outputs::default();
        self.receiver.on_packet(now, &syn, &mut ignored);
        let mut first = Packet::new(FlowId(0), Kind::Tcp, 0);
        (first.flags, first.seq, first.ack) = (TcpFlags::ACK, Seq32(1), Seq32(1));
        self.receiver.on_packet(now, &first, &mut ignored);
        self.phase = Phase::Established;
        self.last_received = now;
        let mut out = Outputs::default();
        let mut unscaled = p;
        unscaled.window = u32::from(segment.window.unwrap_or(0));
        self.sender.on_packet(now, &unscaled, &mut out);
        if self.written > 0 {
            self.sender.write(now, self.written, &mut out);
        }
        if self.ended {
            self.sender.close(now, &mut out);
        }
        let first = self.sent.len();
        self.send(now, &out.packets, Vec::new());
        // The third segment tells how the second came.
        if self.is_accurate() {
            if let Some(third) = self.sent.get_mut(first) {
                let told = flags_of_ace(self.came_as);
                let flags = &mut third.segment.flags;
                (flags.ae, flags.cwr, flags.ece) = (told.ae, told.cwr, told.ece);
            }
        }
        Ok(())
    }

    /// The third segment of a handshake that the peer began. For the sender it is the answer to the
    /// SYN that went out as a SYN-ACK.
    fn establish(&mut self, now: Time, segment: &Segment) {
        let has_option = segment.options.iter().flatten().any(|o| matches!(o, Opt::AccurateEcn { .. }));
        self.ecn_option &= has_option || segment.options.is_none();
        let mut answer = self.packet(segment);
        answer.flags = TcpFlags::SYN | TcpFlags::ACK;
        answer.ack = Seq32(1);
        answer.len = 0;
        answer.set_accurate_ecn(AccurateEcn { ace: self.agreed, ce_bytes: None });
        let mut out = Outputs::default();
        self.sender.on_packet(now, &answer, &mut out);
        let mut first = Packet::new(FlowId(0), Kind::Tcp, 0);
        (first.flags, first.seq, first.ack) = (TcpFlags::ACK, Seq32(1), Seq32(1));
        let mut acks = Outputs::default();
        self.receiver.on_packet(now, &first, &mut acks);
        self.phase = Phase::Established;
    }

    fn on_established(&mut self, now: Time, segment: &Segment) {
        if !segment.flags.ack && !segment.flags.syn {
            return; // RFC 9293 section 3.10.7.4: without ACK it is dropped
        }
        let mut p = self.packet(segment);
        let start = p.seq.to_offset(self.receiver.next());
        let end = start + u64::from(p.len) + u64::from(segment.flags.fin);
        let mut acks = Outputs::default();
        // RFC 9293 section 3.10.7.4: a segment that acknowledges unsent data is dropped whole.
        // Each half knows one direction, so this is for both.
        let acknowledges_unsent = p.ack.to_offset(self.sender.outstanding().0) > self.sender.outstanding().1;
        if acknowledges_unsent && !segment.flags.syn {
            let mut out = Outputs::default();
            p.flags = p.flags.without(TcpFlags::FIN);
            p.len = 0;
            self.sender.on_packet(now, &p, &mut out);
            return self.send(now, &out.packets, Vec::new());
        }
        if p.len > 0 || segment.flags.fin {
            self.last_received = now;
            let merged = p.len.div_ceil(self.advertised_mss.max(1)).max(1);
            let mut data = p;
            data.ack = Seq32(1);
            self.receiver.on_merged(now, &data, (merged, p.len.min(self.advertised_mss)), false, &mut acks);
            self.end_peer(now, &mut acks);
        } else if end < self.acknowledged || segment.flags.syn {
            let mut probe = p;
            probe.ack = Seq32(1);
            self.receiver.on_packet(now, &probe, &mut acks);
        } else if self.timestamps && p.ts_val != 0 && start <= self.acknowledged {
            self.ts_recent = p.ts_val;
        }
        let mut out = Outputs::default();
        if !segment.flags.syn {
            // A FIN takes a number as a byte does, so that its segment counts as no duplicate ACK.
            p.len = p.len.max(u16::from(segment.flags.fin));
            p.flags = p.flags.without(TcpFlags::FIN);
            self.sender.on_packet(now, &p, &mut out);
        }
        self.send(now, &out.packets, acks.packets);
    }

    /// airtcp's receiver answers a FIN with its own at once. Here the other direction ends by
    /// itself, so that FIN is taken off and counts as acknowledged.
    fn end_peer(&mut self, now: Time, acks: &mut Outputs) {
        let mut ended = false;
        for ack in &mut acks.packets {
            ended |= ack.has(TcpFlags::FIN);
            ack.flags = ack.flags.without(TcpFlags::FIN);
        }
        if ended && !self.peer_ended {
            self.peer_ended = true;
            let mut last = Packet::new(FlowId(0), Kind::Tcp, 0);
            (last.flags, last.seq, last.ack) = (TcpFlags::ACK, Seq32::from_offset(self.receiver.next()), Seq32(2));
            self.receiver.on_packet(now, &last, acks);
        }
    }

    /// Sends for both halves: data carries the receiver's last ACK.
    fn send(&mut self, now: Time, packets: &[Packet], mut acks: Vec<Packet>) {
        let carried = if packets.is_empty() { None } else { acks.pop() };
        for ack in acks {
            self.send_one(now, None, &ack);
        }
        let mut carried = carried;
        for p in packets {
            let ack = match carried.take() {
                Some(ack) => ack,
                None => self.present_ack(now),
            };
            self.send_one(now, Some(p), &ack);
        }
    }

    fn present_ack(&mut self, now: Time) -> Packet {
        let mut out = Outputs::default();
        self.receiver.acknowledge(now, &mut out);
        self.end_peer(now, &mut out);
        out.packets.pop().unwrap_or_default()
    }

    fn send_one(&mut self, now: Time, data: Option<&Packet>, ack: &Packet) {
        let offset = ack.ack.to_offset(self.receiver.next());
        self.acknowledged = offset;
        let is_accurate = self.is_accurate();
        let told = ack.accurate_ecn();
        let mut flags = Flags { ack: true, ece: ack.has(TcpFlags::ECE), ..Flags::default() };
        if is_accurate {
            (flags.ae, flags.cwr, flags.ece) = (told.ace & 4 != 0, told.ace & 2 != 0, told.ace & 1 != 0);
        }
        let (mut seq, mut len, mut ecn) = (Seq32::from_offset(self.sender.outstanding().1).0, 0, ack.ecn);
        let mut val = ack.ts_val;
        if let Some(p) = data {
            (flags.fin, flags.psh) = (p.has(TcpFlags::FIN), p.has(TcpFlags::PSH));
            flags.cwr |= !is_accurate && p.has(TcpFlags::CWR);
            (seq, len, ecn) = (p.seq.0, p.len, p.ecn);
            if len > 0 {
                self.receiver.on_data_sent(now);
            }
            val = p.ts_val;
        }
        let mut options = Vec::new();
        if self.timestamps {
            let newer = ack.ts_ecr == 0 || self.ts_recent.wrapping_sub(ack.ts_ecr) < 1 << 31;
            options.push(Opt::Timestamps { val, ecr: if newer { self.ts_recent } else { ack.ts_ecr } });
        }
        if let Some(bytes) = told.ce_bytes.filter(|_| self.ecn_option) {
            options.push(Opt::AccurateEcn { ceb: Some(bytes), e0b: None, e1b: None });
        }
        if !ack.sack().is_empty() {
            let number = |s: Seq32| s.0.wrapping_add(self.peer);
            options.push(Opt::Sack(ack.sack().iter().map(|b| (number(b.start), number(b.end))).collect()));
        }
        let shift = self.shifts.map_or(0, |(ours, _)| ours);
        let segment = Segment {
            ecn: Some(match ecn {
                Ecn::NotEct => IpEcn::NotEct,
                Ecn::Ect0 => IpEcn::Ect0,
                Ecn::Ect1 => IpEcn::Ect1,
                Ecn::Ce => IpEcn::Ce,
            }),
            flags,
            seq: seq.wrapping_add(self.local),
            len,
            ack: Seq32::from_offset(offset).0.wrapping_add(self.peer),
            window: Some(u16::try_from(ack.window >> shift).unwrap_or(u16::MAX)),
            options: Some(options),
            ..Segment::default()
        };
        self.sent.push_back(Sent { at: now, segment });
    }

    /// A segment of the script as airtcp's halves see it.
    fn packet(&self, segment: &Segment) -> Packet {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        let flags = &segment.flags;
        p.flags = TcpFlags::when(flags.fin, TcpFlags::FIN)
            | TcpFlags::when(flags.syn, TcpFlags::SYN)
            | TcpFlags::when(flags.psh, TcpFlags::PSH)
            | TcpFlags::when(flags.ack, TcpFlags::ACK);
        p.seq = Seq32(segment.seq.wrapping_sub(self.peer));
        p.ack = Seq32(segment.ack.wrapping_sub(self.local));
        p.len = segment.len;
        p.size = segment.len.saturating_add(40);
        p.ecn = match segment.ecn {
            Some(IpEcn::Ect0 | IpEcn::Ect01) => Ecn::Ect0,
            Some(IpEcn::Ect1) => Ecn::Ect1,
            Some(IpEcn::Ce) => Ecn::Ce,
            Some(IpEcn::NotEct) | None => Ecn::NotEct,
        };
        let shift = self.shifts.map_or(0, |(_, theirs)| theirs);
        p.window = u32::from(segment.window.unwrap_or(0)) << shift;
        let mut ce_bytes = None;
        for option in segment.options.iter().flatten() {
            match option {
                Opt::Timestamps { val, ecr } if self.timestamps => (p.ts_val, p.ts_ecr) = (*val, *ecr),
                Opt::Sack(blocks) if self.sack => {
                    for &(start, end) in blocks.iter().take(4) {
                        let number = |n: u32| Seq32(n.wrapping_sub(self.local));
                        p.push_sack(SackBlock { start: number(start), end: number(end) });
                    }
                }
                Opt::AccurateEcn { ceb, .. } => ce_bytes = *ceb,
                _ => {}
            }
        }
        p.set_accurate_ecn(AccurateEcn { ace: flags.ace_field(), ce_bytes });
        p
    }

    // ---- the application

    /// It writes.
    pub fn write(&mut self, now: Time, bytes: u64) {
        self.written += bytes;
        if self.phase == Phase::Established {
            let mut out = Outputs::default();
            self.sender.write(now, bytes, &mut out);
            self.send(now, &out.packets, Vec::new());
        }
    }

    /// It will write no more.
    pub fn end(&mut self, now: Time) {
        if !std::mem::replace(&mut self.ended, true) && self.phase == Phase::Established {
            let mut out = Outputs::default();
            self.sender.close(now, &mut out);
            self.send(now, &out.packets, Vec::new());
        }
    }

    /// It takes up to so many bytes; returns how many.
    pub fn read(&mut self, now: Time, bytes: u64) -> u64 {
        let mut out = Outputs::default();
        let taken = self.receiver.read(now, bytes, &mut out);
        self.end_peer(now, &mut out);
        self.send(now, &[], out.packets);
        taken
    }

    /// Bytes that it could read.
    pub fn unread(&self) -> u64 {
        self.receiver.unread()
    }

    /// The peer has sent all, and all of it has come.
    pub fn peer_has_ended(&self) -> bool {
        self.peer_ended
    }

    /// It has said that it writes no more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Its handshake is done.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// The peer has reset it.
    pub fn is_reset(&self) -> bool {
        self.phase == Phase::Reset
    }

    /// Bytes written that are not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        (1 + self.written).saturating_sub(self.sender.outstanding().0)
    }

    /// Bytes written that have never left.
    pub fn unsent(&self) -> u64 {
        (1 + self.written).saturating_sub(self.sender.outstanding().1)
    }

    /// Segment size of its data, options of a segment apart.
    pub fn mss(&self) -> u16 {
        self.tcp.connection.packet_bytes.saturating_sub(40)
    }

    /// Both ends have Accurate ECN.
    pub fn is_accurate(&self) -> bool {
        self.tcp.ecn.enabled && self.tcp.ecn.echo == EcnEcho::Accurate && matches!(self.agreed, 2 | 3 | 4 | 6)
    }

    /// The sender's state.
    pub fn info(&self) -> SenderInfo {
        self.sender.info()
    }

    /// Counters of the sender.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Counters of the receiver.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Shifts of the window, ours first.
    pub fn shifts(&self) -> Option<(u8, u8)> {
        self.shifts
    }

    /// Agreed on: timestamps, SACK, ECN.
    pub fn agreed(&self) -> (bool, bool, bool) {
        (self.timestamps, self.sack, self.agreed != 0)
    }

    /// Segment size that it advertises.
    pub fn advertised_mss(&self) -> u16 {
        self.advertised_mss
    }

    /// The peer began it.
    pub fn is_passive(&self) -> bool {
        self.is_passive
    }

    /// From here on our numbers begin there, as the first segment says that the script expects.
    pub fn begin_at(&mut self, isn: u32) {
        let moved = isn.wrapping_sub(self.local);
        self.local = isn;
        for sent in &mut self.sent {
            sent.segment.seq = sent.segment.seq.wrapping_add(moved);
        }
    }

    /// Segments that have left and were not looked at, the oldest first.
    pub fn sent(&mut self) -> &mut VecDeque<Sent> {
        &mut self.sent
    }
}

fn new_sender(tcp: &Arc<TcpConfig>) -> Sender {
    Sender::new(FlowId(0), 0, Arc::clone(tcp), Streams::of(1, 0))
}

/// Mark with which a segment of a handshake came, as the field ACE of its answer says it (RFC
/// 9768 section 3.1.2).
fn came_as(segment: &Segment) -> u8 {
    match segment.ecn {
        None | Some(IpEcn::NotEct) => 2,
        Some(IpEcn::Ect1) => 3,
        Some(IpEcn::Ect0 | IpEcn::Ect01) => 4,
        Some(IpEcn::Ce) => 6,
    }
}

/// The three flags of a field ACE.
fn flags_of_ace(ace: u8) -> Flags {
    Flags { ae: ace & 4 != 0, cwr: ace & 2 != 0, ece: ace & 1 != 0, ..Flags::default() }
}

/// The shift that makes the largest window fit (`tcp_select_initial_window` of Linux).
fn shift_of(receive_memory_max: u64) -> u8 {
    let bits = receive_memory_max.max(1).ilog2();
    u8::try_from(bits.saturating_sub(15).min(14)).unwrap_or(14)
}
