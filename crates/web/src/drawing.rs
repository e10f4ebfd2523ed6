//! Tables that a picture of a run needs beside the engine's own. They hold every frame in the air,
//! and the packets that wait, by flow and place.

use airtcp_core::convert::{count, low32};
use airtcp_core::packet::Packet;
use airtcp_core::table;
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::{FrameKind, FrameRecord};
use airtcp_sim::capture::{CaptureSink, Captured};
use airtcp_sim::record::Table;
use airtcp_sim::spec::{ChannelId, LinkId, NodeId, RunSpec};
use airtcp_sim::world::{WaitsIn, World};

/// Rows of a table of this file at most: what comes later is not drawn.
const MOST_ROWS: usize = 400_000;

/// Where there is no number.
const NONE: u32 = u32::MAX;

table! {
    /// One row per frame in the air, as a monitor beside its receiver has it.
    pub(crate) FrameRows of FrameRow as "frames" {
        time_s: F64(f64) = "s since the start of the run, end of its PPDU",
        channel: U32(u32) = "index of the channel",
        kind: U32(u32) = "0 data, 1 ACK, 2 Block Ack, 3 Block Ack request, 4 RTS, 5 CTS",
        from: U32(u32) = "index of the node that sent it",
        to: U32(u32) = "index of the node that it is for",
        sn: U32(u32) = "sequence number of a data frame, first one of a Block Ack or its request",
        ok: Bool(bool) = "it arrived whole",
        retry: Bool(bool) = "it had been sent before",
        ampdu: U32(u32) = "number of its A-MPDU, 4294967295: none",
        bitmap_low: U32(u32) = "bit n: sn + n was received (Block Ack)",
        bitmap_high: U32(u32) = "bit n: sn + 32 + n was received (Block Ack)",
        flow: U32(u32) = "index of the flow of its packet, 4294967295: none",
        reverse: Bool(bool) = "the packet goes from its flow's destination to its source",
        seq: U32(u32) = "sequence number of the packet",
        bytes: U32(u32) = "bytes of the packet at the IP layer",
    }
}

table! {
    /// Packets that wait, at instants: one row per link, place and flow of which any do.
    pub(crate) WaitingRows of WaitingRow as "waiting" {
        time_s: F64(f64) = "s since the start of the run",
        link: U32(u32) = "index of the link that they wait for, or came over",
        reorder: Bool(bool) = "in the reorder buffer of the receiver, not in a queue of the sender",
        flow: U32(u32) = "index of the flow",
        reverse: Bool(bool) = "from the flow's destination to its source",
        packets: U32(u32) = "packets",
    }
}

/// Data of a drawing, as it comes together.
#[derive(Debug)]
pub(crate) struct Drawing {
    every: Span,
    next: Time,
    /// By channel and radio.
    node_of: Vec<Vec<NodeId>>,
    frames: FrameRows,
    /// Frames that are not in the table for want of room begin here.
    frames_until: Time,
    waiting: WaitingRows,
    waiting_until: Time,
}

impl Drawing {
    /// Adds to what the run records, and looks at its queues at this distance. Without frames PPDUs
    /// are not recorded either.
    pub(crate) fn new(spec: &mut RunSpec, every: Span, has_frames: bool) -> Drawing {
        let channels = (0..).map(ChannelId).zip(&spec.channels).map(|(id, _)| id);
        let channels: Vec<ChannelId> = channels.filter(|_| has_frames).collect();
        let record = &mut spec.record;
        record.ppdus.clone_from(&channels);
        record.capture_air = channels;
        record.capture.clear();
        record.drops = LinkId::all(spec.links.len()).collect();
        // Its interval stays: a sample of a signal with shadowing draws from it, and the run would
        // be another.
        let node_of = spec.channels.iter().map(|c| c.radios.iter().map(|radio| radio.node).collect()).collect();
        Drawing {
            every,
            next: Time::ZERO + every,
            node_of,
            frames: FrameRows::default(),
            frames_until: Time::NEVER,
            waiting: WaitingRows::default(),
            waiting_until: Time::NEVER,
        }
    }

    /// Runs up to `until`, and looks at the queues on the way.
    pub(crate) fn advance(&mut self, world: &mut World, until: Time) {
        while self.next <= until {
            let now = self.next;
            world.run_until(now, self);
            self.look(world, now);
            self.next = now + self.every;
        }
        world.run_until(until, self);
    }

    fn look(&mut self, world: &World, now: Time) {
        if self.waiting.count() >= MOST_ROWS {
            self.waiting_until = self.waiting_until.min(now);
            return;
        }
        let mut all = world.waiting();
        all.sort_unstable();
        for alike in all.chunk_by(|a, b| a == b) {
            let (w, packets) = (alike[0], count(alike.len()));
            self.waiting.push(WaitingRow {
                time_s: now.as_secs_f64(),
                link: w.link.0,
                reorder: w.place == WaitsIn::Reorder,
                flow: w.flow.0,
                reverse: w.is_reverse,
                packets,
            });
        }
    }

    /// Time up to which the tables are complete, if not to the end.
    pub(crate) fn until(&self) -> Option<Time> {
        Some(self.frames_until.min(self.waiting_until)).filter(|until| !until.is_never())
    }

    /// The finished tables.
    pub(crate) fn into_tables(self) -> [Table; 2] {
        [self.frames.into_table(), self.waiting.into_table()]
    }
}

impl CaptureSink for Drawing {
    fn packet(&mut self, _: &Captured) {}

    fn frame(&mut self, channel: ChannelId, frame: &FrameRecord) {
        if self.frames.count() >= MOST_ROWS {
            self.frames_until = self.frames_until.min(frame.time);
            return;
        }
        let node = |radio: usize| self.node_of[channel.index()].get(radio).map_or(NONE, |node| node.0);
        let packet = frame.packet.as_ref();
        self.frames.push(FrameRow {
            time_s: frame.time.as_secs_f64(),
            channel: channel.0,
            kind: match frame.kind {
                FrameKind::Data => 0,
                FrameKind::Ack => 1,
                FrameKind::BlockAck => 2,
                FrameKind::BlockAckRequest => 3,
                FrameKind::Rts => 4,
                FrameKind::Cts => 5,
            },
            from: node(frame.from.index()),
            to: node(frame.to.index()),
            sn: u32::from(frame.sn),
            ok: frame.fcs_ok,
            retry: frame.retry,
            ampdu: frame.ampdu.unwrap_or(NONE),
            bitmap_low: low32(frame.bitmap),
            bitmap_high: low32(frame.bitmap >> 32),
            flow: packet.map_or(NONE, |p| p.flow.0),
            reverse: packet.is_some_and(Packet::is_reverse),
            seq: packet.map_or(0, |p| p.seq.0),
            bytes: packet.map_or(0, |p| u32::from(p.size)),
        });
    }
}
