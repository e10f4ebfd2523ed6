//! Every table of an analysis, column by column with unit and meaning. A value that a capture does
//! not show is NaN.

use std::borrow::Cow;

use airtcp_core::table;
pub use airtcp_core::table::{Column, Data, Table};

table! {
    /// One direction of a connection that carried data or a SYN.
    pub(crate) Flows of FlowRow as "flows" {
        flow: U32(u32) = "number of the flow, from 0, in the order of their first packets with data or SYN",
        connection: U32(u32) = "number of the connection, from 0, in the order of their first packets",
        place: U32(u32) = "number of the place of capture, from 0: a file, or files that one was rotated into",
        source: Str(Cow<'static, str>) = "address that sent the data",
        source_port: U32(u32) = "its TCP port",
        destination: Str(Cow<'static, str>) = "address that acknowledged it",
        destination_port: U32(u32) = "its TCP port",
        ip_version: U32(u32) = "4 or 6",
        start_s: F64(f64) = "s since the first packet of the capture, first packet of the flow",
        end_s: F64(f64) = "s, last packet of the connection",
        complete: Bool(bool) = "the capture has the flow's SYN, and its FIN or a RST",
        mss_bytes: U32(u32) = "bytes of payload in a full segment: the largest that was not larger than announced",
        sack_permitted: Bool(bool) = "both ends permitted SACK, or the receiver sent it",
        timestamps: Bool(bool) = "data carried TCP timestamps",
        window_scale: F64(f64) = "shift of the receiver's window, NaN: its SYN was not captured, windows are taken unscaled",
        vantage: Str(Cow<'static, str>) = "where the capture was taken, from the parts of the round trip before and behind it: sender, receiver, between; empty: not known",
        packets: U64(u64) = "packets of the flow's sender",
        data_packets: U64(u64) = "of these, those with payload",
        payload_bytes: U64(u64) = "bytes of payload, repetitions included",
        unique_bytes: U64(u64) = "of these, bytes the capture shows for the first time",
        retransmitted_packets: U64(u64) = "packets classified as retransmissions of data: rows in retransmissions",
        retransmitted_bytes: U64(u64) = "bytes of payload that the capture shows again, without those lost before the capture",
        fast_retransmits: U64(u64) = "entries into fast recovery",
        recovery_retransmissions: U64(u64) = "further retransmissions within fast recovery",
        timeouts: U64(u64) = "retransmission timeouts of data",
        repair_retransmissions: U64(u64) = "further retransmissions after a timeout",
        tail_loss_probes: U64(u64) = "tail loss probes that repeat data",
        spurious_retransmissions: U64(u64) = "retransmissions of data that had arrived",
        unclassified_retransmissions: U64(u64) = "retransmissions that fit no class",
        syn_retransmissions: U64(u64) = "SYNs sent again",
        keep_alives: U64(u64) = "keep-alives and probes of a closed window",
        out_of_order: U64(u64) = "packets overtaken by later ones before they came to the capture",
        duplicate_acks: U64(u64) = "duplicate ACKs (RFC 5681), with SACK those that report something new",
        acks: U64(u64) = "packets of the receiver that acknowledge",
        zero_windows: U64(u64) = "times the receiver closed its window",
        lost_before_capture: U64(u64) = "packets the capture missed: acknowledged, but never seen; from their bytes",
        outside_window: U64(u64) = "packets whose sequence number fits nothing; left out of all other counts but packets",
        goodput_bps: F64(f64) = "bit/s of payload acknowledged, from the first data to the last ACK that was new",
        rtt_min_ms: F64(f64) = "ms, least round trip from the capture to the receiver and back",
        rtt_mean_ms: F64(f64) = "ms, mean of these",
        rtt_max_ms: F64(f64) = "ms, greatest of these",
        rtt_samples: U64(u64) = "number of samples",
        rtt_near_min_ms: F64(f64) = "ms, least round trip from the capture to the sender and back, NaN: not shown",
        initial_window_segments: U32(u32) = "full segments sent before the first ACK of data, begun ones counted",
        flight_max_bytes: U64(u64) = "bytes, most data outstanding",
        timeouts_dup_0: U64(u64) = "timeouts with no duplicate ACK received",
        timeouts_dup_1: U64(u64) = "timeouts with one",
        timeouts_dup_2: U64(u64) = "timeouts with two",
        timeouts_dup_3_or_more: U64(u64) = "timeouts with three or more",
        avoided_efr: U64(u64) = "timeouts before which EFR would have found the loss",
        avoided_early_retransmit: U64(u64) = "timeouts before which Early Retransmit (RFC 5827) would have",
        avoided_rack: U64(u64) = "timeouts before which RACK (RFC 8985) would have",
        timeouts_untold: U64(u64) = "timeouts of which the capture does not tell what other policies would have done: it was taken at the receiver, and there are no timestamps",
        path_rtt_min_ms: F64(f64) = "ms, least round trip of the sender, as far as the capture shows it",
        path_rtt_p50_ms: F64(f64) = "ms, half of the sender's round trips do not exceed it",
        path_rtt_p95_ms: F64(f64) = "ms, 95 percent of the sender's round trips do not exceed it",
        receive_window_max_bytes: F64(f64) = "bytes, largest receive window, NaN: none seen",
        limited_receive_window_s: F64(f64) = "s in which the receive window held the sender back",
        limited_receiver_app_s: F64(f64) = "s in which the receiver's application did: it had closed the window, or more than a quarter of it",
        limited_sender_app_s: F64(f64) = "s in which the sender's application had nothing to send",
        limited_think_s: F64(f64) = "s from a request's last packet to the first packet of its answer",
        limited_idle_s: F64(f64) = "s in which all was acknowledged and the peer had asked for nothing",
        limited_slow_start_s: F64(f64) = "s in which the congestion window limited, in slow start",
        limited_queue_s: F64(f64) = "s in which the congestion window limited, with a queue on the path",
        limited_loss_s: F64(f64) = "s in which the congestion window limited without a queue after losses, or a loss was repaired",
        limited_cwnd_s: F64(f64) = "s in which the congestion window limited, with neither queue nor loss",
        limited_outage_s: F64(f64) = "s in which the receiver was silent over two timeouts, or over one and for a second",
        limited_air_s: F64(f64) = "s in which the congestion window limited, with a queue, and the air was taken: captures in monitor mode",
        limited_paced_s: F64(f64) = "s in which data waited for pacing or for a shaper before the capture: nothing prompted it, in the middle of a write",
        limited_steady_s: F64(f64) = "s of pauses without a prompt at one rate, after full segments: the sender's application, pacing or a shaper, which look alike",
        role: Str(Cow<'static, str>) = "client (it sent the SYN) or server; empty: the capture has no SYN",
        opening: Str(Cow<'static, str>) = "what became of the SYN: answered, refused (by RST), unanswered; empty: no SYN, or the capture ends too soon",
        opening_ms: F64(f64) = "ms, from the connection's first SYN to the first packet of the other end",
        asked_after_ms: F64(f64) = "ms, from that packet to the client's first data",
        reset_by: Str(Cow<'static, str>) = "end that sent a RST before any FIN: source, destination; empty: none",
        reset_cut: Bool(bool) = "at that RST data was not acknowledged, or its sender had not answered any",
        one_way: Bool(bool) = "the capture has packets of one direction only",
        longest_think_s: F64(f64) = "s, longest time from a request's last packet to the first packet of its answer",
        window_closed_s: F64(f64) = "s in which the receiver's window was closed",
        ends_closed: Bool(bool) = "the receiver's window was closed at the end of the connection",
        line_bps: F64(f64) = "bit/s of payload, rate of the slowest line, NaN: not shown",
        line_by: Str(Cow<'static, str>) = "how that shows: trains (stretched between capture and receiver), queue (the rate while one stood), plateau (most bytes at one rate)",
        path_bps: F64(f64) = "bit/s of payload sent while path or receive window limited",
    }
}

table! {
    /// A time in which one limit held a sender back.
    pub(crate) Limits of LimitRow as "limits" {
        flow: U32(u32) = "number of the flow",
        from_s: F64(f64) = "s since the first packet of the capture",
        to_s: F64(f64) = "s, its end",
        limit: Str(Cow<'static, str>) = "limit: receive_window, receiver_app, sender_app, think, idle, slow_start, queue, loss, cwnd, outage, air, paced, steady",
    }
}

table! {
    /// A packet that repeats data.
    pub(crate) Retransmissions of RetransmissionRow as "retransmissions" {
        flow: U32(u32) = "number of the flow",
        packet: U64(u64) = "number of the packet in the file, from 1",
        time_s: F64(f64) = "s since the first packet of the capture",
        seq: U64(u64) = "sequence number of its first byte, the first byte of the flow being 1",
        bytes: U32(u32) = "bytes of payload repeated",
        class: Str(Cow<'static, str>) = "fast (begins fast recovery), recovery (goes on with it), timeout, repair (follows one), probe (tail loss probe), unknown",
        spurious: Bool(bool) = "the repeated data had arrived",
        waited_s: F64(f64) = "s since the bytes were last sent; if the capture had missed that: since the gap showed",
        dup_acks: U32(u32) = "duplicate ACKs received: since the acknowledgement last moved",
        flight_segments: U32(u32) = "segments outstanding, this one included",
        rto_estimate_s: F64(f64) = "s, retransmission timeout by RFC 6298 with at least 200 ms for the variation, not backed off",
        reason: Str(Cow<'static, str>) = "reason for its class; after a semicolon the reason why it counts as spurious",
    }
}

table! {
    /// A retransmission timeout.
    pub(crate) Timeouts of TimeoutRow as "timeouts" {
        flow: U32(u32) = "number of the flow",
        packet: U64(u64) = "number of the packet in the file that was sent then, from 1",
        time_s: F64(f64) = "s since the first packet of the capture",
        waited_s: F64(f64) = "s since the bytes were last sent",
        dup_acks: U32(u32) = "duplicate ACKs received",
        flight_segments: U32(u32) = "segments outstanding",
        window_segments: U32(u32) = "full segments in the smaller of receive window and cwnd, estimated as the largest flight since the last loss",
        efr_at_s: F64(f64) = "s, when EFR would have found the loss, NaN: not before the timeout",
        early_retransmit_at_s: F64(f64) = "s, when Early Retransmit (RFC 5827) would have, NaN: not before",
        rack_at_s: F64(f64) = "s, when RACK (RFC 8985) would have, NaN: not before",
    }
}

table! {
    /// A round trip.
    pub(crate) RttSamples of RttRow as "rtt_samples" {
        flow: U32(u32) = "number of the flow",
        time_s: F64(f64) = "s since the first packet of the capture, when the ACK passed",
        rtt_ms: F64(f64) = "ms from data to its ACK, both as they passed the capture",
        path_rtt_ms: F64(f64) = "ms, whole round trip of the sender: with the way and the queue before the capture, as far as it shows them",
    }
}

table! {
    /// Windows of a flow.
    pub(crate) Windows of WindowRow as "windows" {
        flow: U32(u32) = "number of the flow",
        time_s: F64(f64) = "s since the first packet of the capture",
        flight_bytes: U64(u64) = "bytes outstanding",
        receive_window_bytes: F64(f64) = "bytes, NaN: none seen yet",
        cwnd_estimate_bytes: U64(u64) = "bytes, largest flight since the last loss: cwnd is at least that",
    }
}

table! {
    /// A packet in the time-sequence diagram.
    pub(crate) Segments of SegmentRow as "segments" {
        flow: U32(u32) = "number of the flow",
        time_s: F64(f64) = "s since the first packet of the capture",
        kind: Str(Cow<'static, str>) = "data, retransmission, ack, dup_ack, sack",
        seq_from: U64(u64) = "first byte, the first of the flow being 1; of an ack its previous value",
        seq_to: U64(u64) = "first byte after it; of an ack the byte up to which it acknowledges",
    }
}

table! {
    /// Traffic from one station to another, in a capture in monitor mode.
    pub(crate) Stations of StationRow as "stations" {
        place: U32(u32) = "number of the place of capture, from 0",
        channel_mhz: U32(u32) = "centre of the primary channel, 0: not told",
        transmitter: Str(Cow<'static, str>) = "address of the station that sent, empty: an ACK or CTS to nobody who was heard",
        receiver: Str(Cow<'static, str>) = "address that it sent to",
        first_s: F64(f64) = "s since the first packet of the capture, first frame",
        data_frames: U64(u64) = "data frames (MPDUs) heard, copies included",
        data_bytes: U64(u64) = "their bytes, headers and FCS included",
        retries: U64(u64) = "of the data frames, those marked as sent again",
        encrypted: U64(u64) = "of the data frames, those with encrypted payload",
        corrupt: U64(u64) = "of the data frames, those with a wrong FCS",
        management_frames: U64(u64) = "beacons and other management frames",
        control_frames: U64(u64) = "ACK, Block Ack, RTS, CTS and other control frames",
        airtime_s: F64(f64) = "s on the air, calculated from modes and lengths, preambles included",
        rate_mean_bps: F64(f64) = "bit/s, bits of data frames by the time that they take without preambles",
        phy: Str(Cow<'static, str>) = "format of most data frames: DSSS, OFDM, HT, VHT, HE; empty: not told",
        mcs_mean: F64(f64) = "mean MCS of data frames, of one stream (0 to 7 with HT), NaN: they have none",
        streams: F64(f64) = "spatial streams of most data frames",
        width_mhz: F64(f64) = "MHz, channel width of most data frames",
        signal_mean_dbm: F64(f64) = "dBm at the monitor, mean",
        signal_min_dbm: F64(f64) = "dBm at the monitor, least",
        ppdus: U64(u64) = "transmissions with data",
        ampdus: U64(u64) = "of these, A-MPDUs",
        ampdu_mpdus_mean: F64(f64) = "MPDUs heard of an A-MPDU, mean",
        ampdu_mpdus_max: U32(u32) = "MPDUs heard of an A-MPDU, at most",
        block_acks: U64(u64) = "compressed Block Acks that answer its A-MPDUs",
        acked_mpdus: U64(u64) = "MPDUs that an ACK or a Block Ack says arrived",
        lost_mpdus: U64(u64) = "MPDUs that a Block Ack says did not arrive",
        unseen_mpdus: U64(u64) = "MPDUs that a Block Ack says arrived, and the monitor did not hear",
    }
}

table! {
    /// A connection of QUIC, as far as its packets show without being decrypted.
    pub(crate) QuicConnections of QuicRow as "quic" {
        place: U32(u32) = "number of the place of capture, from 0",
        client: Str(Cow<'static, str>) = "address that opened the connection",
        client_port: U32(u32) = "its UDP port",
        server: Str(Cow<'static, str>) = "address of the server",
        server_port: U32(u32) = "its UDP port",
        version: Str(Cow<'static, str>) = "version of QUIC, hexadecimal; empty: the handshake is not in the capture",
        start_s: F64(f64) = "s since the first packet of the capture, first packet",
        end_s: F64(f64) = "s, last packet",
        client_packets: U64(u64) = "datagrams of the client",
        server_packets: U64(u64) = "datagrams of the server",
        client_bytes: U64(u64) = "bytes in these datagrams, without headers of UDP",
        server_bytes: U64(u64) = "the same of the server",
        client_largest_bytes: U32(u32) = "bytes, largest datagram of the client",
        server_largest_bytes: U32(u32) = "bytes, largest datagram of the server",
        client_small_packets: U64(u64) = "datagrams with a short header of less than 60 bytes, mostly acknowledgements alone",
        server_small_packets: U64(u64) = "the same of the server",
        initial_packets: U64(u64) = "handshake datagrams of the client before the server's first; more than one: the first may have been lost",
        rate_bps: F64(f64) = "bit/s of the direction with most bytes, headers of QUIC included, stalls left out",
        handshake_far_ms: F64(f64) = "ms from the client's first datagram to the server's first, NaN: not captured, or repeated",
        handshake_near_ms: F64(f64) = "ms from the server's first datagram to the client's next, NaN: not captured",
        spin_samples: U64(u64) = "round trips by the spin bit (RFC 9000 section 17.4); 0: it does not spin, or too little was sent",
        spin_min_ms: F64(f64) = "ms, least of these",
        spin_mean_ms: F64(f64) = "ms, mean of these",
        spin_max_ms: F64(f64) = "ms, greatest of these",
        stalls: U64(u64) = "pauses of the direction with most bytes of at least 200 ms and four round trips",
        stalled_s: F64(f64) = "s in these pauses",
        longest_pause_s: F64(f64) = "s, longest pause of the direction with most bytes",
    }
}

table! {
    /// Airtime of a station over time.
    pub(crate) Airtime of AirtimeRow as "airtime" {
        place: U32(u32) = "number of the place of capture, from 0",
        transmitter: Str(Cow<'static, str>) = "address of the station that sent, empty: not known",
        time_s: F64(f64) = "s since the first packet of the capture, begin of the time",
        for_s: F64(f64) = "s, length of the time",
        airtime_s: F64(f64) = "s of it in which the station sent",
    }
}

/// Rows not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub flows: Flows,
    pub retransmissions: Retransmissions,
    pub timeouts: Timeouts,
    pub rtt_samples: RttSamples,
    pub windows: Windows,
    pub segments: Segments,
    pub limits: Limits,
    pub stations: Stations,
    pub airtime: Airtime,
    pub quic: QuicConnections,
}

impl Rows {
    pub(crate) fn into_tables(self) -> Vec<Table> {
        vec![
            self.flows.into_table(),
            self.retransmissions.into_table(),
            self.timeouts.into_table(),
            self.rtt_samples.into_table(),
            self.windows.into_table(),
            self.segments.into_table(),
            self.limits.into_table(),
            self.stations.into_table(),
            self.airtime.into_table(),
            self.quic.into_table(),
        ]
    }
}

/// All tables without rows.
pub fn empty() -> Vec<Table> {
    Rows::default().into_tables()
}
