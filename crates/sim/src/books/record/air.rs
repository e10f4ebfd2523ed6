//! Tables of what happens in the air: per link, over time, per PPDU.

use airtcp_core::table;
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::phy::Mode;
use airtcp_core::wifi::{Ac, AirStats, PpduRecord};

use super::{Cow, ratio};
use crate::spec::{LinkId, LinkSpec};

table! {
    /// One row per link of a WLAN: a station's to its access point and the one back.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) AirRows of AirRow as "air" {
        link: U32(u32) = "index of the link",
        name: Str(Cow<'static, str>) = "name of the link",
        group: Str(Cow<'static, str>) = "WLAN it belongs to",
        channel: Str(Cow<'static, str>) = "name of the channel",
        direction: Str(Cow<'static, str>) = "up: from a station to its access point, or down",
        mac_rate_mean_bps: F64(f64) = "bit/s, data rate of the PPDUs with data, mean over these",
        mpdu_error_rate: F64(f64) = "MPDUs sent that were not acknowledged (without acknowledgements: did not arrive) / MPDUs sent, every try counted",
        ppdus: U64(u64) = "PPDUs with data, every try counted",
        ppdus_unanswered: U64(u64) = "of these, those without an acknowledgement; if there are none: those that did not arrive",
        ppdus_collided: U64(u64) = "of these, those hit by another transmission at their receiver",
        rts_unanswered: U64(u64) = "RTS without a CTS, so that no PPDU followed",
        mpdus: U64(u64) = "MPDUs in them, every try counted",
        mpdus_failed: U64(u64) = "of these, those that were not acknowledged, or without acknowledgements did not arrive",
        mpdus_per_ppdu: F64(f64) = "MPDUs in a PPDU, mean: 1 without aggregation",
        airtime: F64(f64) = "part of the time that frames of this link, responses and the gaps between took",
        dropped_retries: U64(u64) = "packets the sender gave up after its last try; WaveLAN: after finding the medium busy too often",
        lost_collision: U64(u64) = "packets sent without acknowledgement and lost to another transmission",
        lost_errors: U64(u64) = "packets sent without acknowledgement and lost to errors",
        dropped_late: U64(u64) = "packets that arrived after the recipient had passed over them",
        dropped_gone: U64(u64) = "packets dropped because the station was not associated, or left before they were through",
        handed_back: U64(u64) = "packets that went another way when the station left: to its next association, or over the wires",
        block_ack_requests: U64(u64) = "Block Ack requests sent",
        given_up: U64(u64) = "MPDUs the recipient gave up by retry-out",
        reorder_timeouts: U64(u64) = "times the recipient passed over a hole after its reorder timeout",
        held_mean_packets: F64(f64) = "packets held by the sending host, queued or not yet acknowledged, time average",
        held_max_packets: U64(u64) = "most packets held since warmup",
    }
}

table! {
    /// Links of WLANs over time: those in `record.air_series`, every `record.interval`.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) AirSeries of AirSample as "air_series" {
        time_s: F64(f64) = "s since the start of the run",
        link: U32(u32) = "index of the link",
        mac_rate_mean_bps: F64(f64) = "bit/s, data rate of the PPDUs since the last sample, mean, NaN: none",
        mpdu_error_rate: F64(f64) = "MPDUs not acknowledged / MPDUs sent since the last sample, NaN: none",
        mpdus_per_ppdu: F64(f64) = "MPDUs in a PPDU since the last sample, mean, NaN: none",
        airtime: F64(f64) = "part of the time since the last sample that the link took",
        delivered_bytes: U64(u64) = "bytes at the IP layer that arrived in order since the last sample",
        held_packets: U64(u64) = "packets held by the sending host, queued or not yet acknowledged",
        held_mean_packets: F64(f64) = "packets held, time average since the last sample",
        snr_db: F64(f64) = "dB in 20 MHz, signal-to-noise ratio, NaN: the signal has none",
        best_rate_bps: U64(u64) = "bit/s, rate of the mode that rate control now considers best",
        best_mode: Str(Cow<'static, str>) = "name of that mode",
    }
}

table! {
    /// One row per PPDU with data and per Block Ack request, on the channels in `record.ppdus`.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) PpduRows of PpduRow as "ppdus" {
        start_s: F64(f64) = "s since the start of the run, first bit of the preamble",
        duration_us: F64(f64) = "us on the air",
        link: U32(u32) = "index of the link",
        ac: Str(Cow<'static, str>) = "access category: bk, be, vi or vo",
        mode: Str(Cow<'static, str>) = "name of the mode",
        rate_bps: U64(u64) = "bit/s, data rate of the mode",
        mpdus: U32(u32) = "MPDUs in it, 0: a Block Ack request",
        received: U32(u32) = "of these, those that arrived without error",
        legible: U32(u32) = "of these, those that arrived corrupt with a legible header",
        psdu_bytes: U32(u32) = "bytes of the PSDU",
        repeat: U32(u32) = "times the same PPDU had been sent before",
        answered: Bool(bool) = "an acknowledgement came back; without acknowledgements: it arrived",
        collided: Bool(bool) = "another transmission hit it at its receiver",
        snr_db: F64(f64) = "dB in 20 MHz, signal-to-noise ratio, NaN: the signal has none",
    }
}

/// Counts since `first`; current values and the most held are those of `last`.
fn since(first: &AirStats, last: &AirStats) -> AirStats {
    AirStats {
        arrived_packets: last.arrived_packets - first.arrived_packets,
        arrived_bytes: last.arrived_bytes - first.arrived_bytes,
        dropped_overflow: last.dropped_overflow - first.dropped_overflow,
        dropped_early: last.dropped_early - first.dropped_early,
        filtered: last.filtered - first.filtered,
        marked: last.marked - first.marked,
        dropped_retries: last.dropped_retries - first.dropped_retries,
        lost_collision: last.lost_collision - first.lost_collision,
        lost_errors: last.lost_errors - first.lost_errors,
        dropped_late: last.dropped_late - first.dropped_late,
        dropped_gone: last.dropped_gone - first.dropped_gone,
        handed_back: last.handed_back - first.handed_back,
        delivered_packets: last.delivered_packets - first.delivered_packets,
        delivered_bytes: last.delivered_bytes - first.delivered_bytes,
        held_packets: last.held_packets,
        held_bytes: last.held_bytes,
        held_packet_ns: last.held_packet_ns - first.held_packet_ns,
        held_max: last.held_max,
        ppdus: last.ppdus - first.ppdus,
        ppdus_unanswered: last.ppdus_unanswered - first.ppdus_unanswered,
        ppdus_collided: last.ppdus_collided - first.ppdus_collided,
        rts_unanswered: last.rts_unanswered - first.rts_unanswered,
        mpdus: last.mpdus - first.mpdus,
        mpdus_failed: last.mpdus_failed - first.mpdus_failed,
        rate_sum_bps: last.rate_sum_bps - first.rate_sum_bps,
        airtime_ns: last.airtime_ns - first.airtime_ns,
        bars: last.bars - first.bars,
        given_up: last.given_up - first.given_up,
        reorder_timeouts: last.reorder_timeouts - first.reorder_timeouts,
    }
}

impl AirRow {
    /// `first` and `last`: the counters at both ends of a period.
    pub(crate) fn new(
        link: LinkId,
        spec: &LinkSpec,
        channel: &str,
        first: &AirStats,
        last: &AirStats,
        period: Span,
    ) -> AirRow {
        let period_ns = period.as_ns() as f64;
        let s = since(first, last);
        let is_down = spec.air.is_some_and(|air| air.down);
        AirRow {
            link: link.0,
            name: spec.name.clone().into(),
            group: spec.group.clone().into(),
            channel: channel.to_owned().into(),
            direction: if is_down { "down" } else { "up" }.into(),
            mac_rate_mean_bps: ratio(s.rate_sum_bps as f64, s.ppdus as f64),
            mpdu_error_rate: ratio(s.mpdus_failed as f64, s.mpdus as f64),
            ppdus: s.ppdus,
            ppdus_unanswered: s.ppdus_unanswered,
            ppdus_collided: s.ppdus_collided,
            rts_unanswered: s.rts_unanswered,
            mpdus: s.mpdus,
            mpdus_failed: s.mpdus_failed,
            mpdus_per_ppdu: ratio(s.mpdus as f64, s.ppdus as f64),
            airtime: ratio(s.airtime_ns as f64, period_ns),
            dropped_retries: s.dropped_retries,
            lost_collision: s.lost_collision,
            lost_errors: s.lost_errors,
            dropped_late: s.dropped_late,
            dropped_gone: s.dropped_gone,
            handed_back: s.handed_back,
            block_ack_requests: s.bars,
            given_up: s.given_up,
            reorder_timeouts: s.reorder_timeouts,
            held_mean_packets: ratio(s.held_packet_ns as f64, period_ns),
            held_max_packets: s.held_max,
        }
    }
}

impl AirSeries {
    /// Times and links of all samples.
    pub(crate) fn samples(&self) -> (&[f64], &[u32]) {
        (&self.time_s, &self.link)
    }
}

impl AirSample {
    /// `first`: the counters at the last sample.
    pub(crate) fn new(
        now: Time,
        link: LinkId,
        (first, last): (&AirStats, &AirStats),
        period: Span,
        snr_db: f32,
        best: Mode,
    ) -> AirSample {
        let period_ns = period.as_ns() as f64;
        let s = since(first, last);
        AirSample {
            time_s: now.as_secs_f64(),
            link: link.0,
            mac_rate_mean_bps: ratio(s.rate_sum_bps as f64, s.ppdus as f64),
            mpdu_error_rate: ratio(s.mpdus_failed as f64, s.mpdus as f64),
            mpdus_per_ppdu: ratio(s.mpdus as f64, s.ppdus as f64),
            airtime: ratio(s.airtime_ns as f64, period_ns),
            delivered_bytes: s.delivered_bytes,
            held_packets: s.held_packets,
            held_mean_packets: ratio(s.held_packet_ns as f64, period_ns),
            snr_db: f64::from(snr_db),
            best_rate_bps: best.rate().as_bps(),
            best_mode: best.name().into(),
        }
    }
}

impl PpduRow {
    /// `link`: index of its link in the world.
    pub(crate) fn new(link: LinkId, p: &PpduRecord) -> PpduRow {
        let ac = match p.ac {
            Ac::Bk => "bk",
            Ac::Be => "be",
            Ac::Vi => "vi",
            Ac::Vo => "vo",
        };
        PpduRow {
            start_s: p.start.as_secs_f64(),
            duration_us: p.end.since(p.start).as_ns() as f64 * 1e-3,
            link: link.0,
            ac: ac.into(),
            mode: p.mode.name().into(),
            rate_bps: p.mode.rate().as_bps(),
            mpdus: p.mpdus.into(),
            received: p.received.into(),
            legible: p.header_ok.into(),
            psdu_bytes: p.psdu_bytes,
            repeat: p.repeat.into(),
            answered: p.answered,
            collided: p.collided,
            snr_db: f64::from(p.snr_db),
        }
    }
}

#[cfg(test)]
mod tests {
    use airtcp_core::units::{DataRate, Span};
    use airtcp_core::wifi::phy::{PhyConfig, Standard};

    use super::*;
    use crate::spec::{AirSpec, ChannelId, LineSpec, NodeId};

    fn link(down: bool) -> LinkSpec {
        LinkSpec {
            name: "sta[0]->ap".into(),
            from: NodeId(1),
            to: NodeId(0),
            delay: Span::ZERO,
            line: LineSpec { is_member_of_group: true, ..LineSpec::new("home", DataRate::from_mbps(65)) }.into(),
            air: Some(AirSpec { channel: ChannelId(0), pair: 0, down, is_group: false }),
        }
    }

    /// Ten PPDUs of 65 Mbit/s and 160 MPDUs, of which 40 failed, before the period; in it four at
    /// 13 and one at 26.
    fn stats() -> (AirStats, AirStats) {
        let first = AirStats {
            arrived_packets: 130,
            arrived_bytes: 130 * 1500,
            delivered_packets: 120,
            delivered_bytes: 120 * 1500,
            held_packets: 10,
            held_bytes: 15_000,
            held_packet_ns: 7_000_000_000,
            held_max: 99,
            ppdus: 10,
            ppdus_unanswered: 1,
            ppdus_collided: 1,
            rts_unanswered: 6,
            mpdus: 160,
            mpdus_failed: 40,
            rate_sum_bps: 10 * 65_000_000,
            airtime_ns: 30_000_000,
            bars: 2,
            given_up: 5,
            reorder_timeouts: 1,
            dropped_retries: 3,
            ..AirStats::default()
        };
        let last = AirStats {
            arrived_packets: 150,
            delivered_packets: 138,
            delivered_bytes: 138 * 1500,
            held_packets: 7,
            held_packet_ns: 11_000_000_000,
            held_max: 25,
            ppdus: 15,
            ppdus_unanswered: 3,
            ppdus_collided: 2,
            rts_unanswered: 8,
            mpdus: 180,
            mpdus_failed: 45,
            rate_sum_bps: first.rate_sum_bps + 4 * 13_000_000 + 26_000_000,
            airtime_ns: 530_000_000,
            bars: 2,
            given_up: 8,
            lost_collision: 6,
            lost_errors: 2,
            dropped_late: 4,
            dropped_gone: 9,
            handed_back: 11,
            ..first
        };
        (first, last)
    }

    #[test]
    fn a_row_counts_between_two_snapshots() {
        let (first, last) = stats();
        let row = AirRow::new(LinkId(4), &link(false), "36", &first, &last, Span::from_secs(2));
        let want = AirRow {
            link: 4,
            name: "sta[0]->ap".into(),
            group: "home".into(),
            channel: "36".into(),
            direction: "up".into(),
            mac_rate_mean_bps: 15_600_000.0,
            mpdu_error_rate: 0.25,
            ppdus: 5,
            ppdus_unanswered: 2,
            ppdus_collided: 1,
            rts_unanswered: 2,
            mpdus: 20,
            mpdus_failed: 5,
            mpdus_per_ppdu: 4.0,
            airtime: 0.25,
            dropped_retries: 0,
            lost_collision: 6,
            lost_errors: 2,
            dropped_late: 4,
            dropped_gone: 9,
            handed_back: 11,
            block_ack_requests: 0,
            given_up: 3,
            reorder_timeouts: 0,
            held_mean_packets: 2.0,
            held_max_packets: 25,
        };
        assert_eq!(row, want);
        assert_eq!(AirRow::new(LinkId(4), &link(true), "36", &first, &last, Span::from_secs(2)).direction, "down");
    }

    #[test]
    fn what_did_not_happen_is_nan() {
        let (_, last) = stats();
        let row = AirRow::new(LinkId(0), &link(false), "36", &last, &last, Span::ZERO);
        for value in
            [row.mac_rate_mean_bps, row.mpdu_error_rate, row.mpdus_per_ppdu, row.airtime, row.held_mean_packets]
        {
            assert!(value.is_nan());
        }
        assert_eq!((row.ppdus, row.given_up, row.held_max_packets), (0, 0, 25));
    }

    #[test]
    fn a_sample_counts_since_the_last_one() {
        let (first, last) = stats();
        let phy = PhyConfig::of(Standard::N);
        let best = phy.mode_of_mcs(7).unwrap();
        let sample =
            AirSample::new(Time::from_ns(3_000_000_000), LinkId(2), (&first, &last), Span::from_secs(1), 21.5, best);
        assert_eq!((sample.time_s, sample.airtime, sample.held_packets), (3.0, 0.5, 7));
        assert_eq!((sample.mac_rate_mean_bps, sample.held_mean_packets), (15_600_000.0, 4.0));
        assert_eq!((sample.delivered_bytes, sample.snr_db), (18 * 1500, 21.5));
        assert_eq!((sample.best_rate_bps, sample.best_mode.as_ref()), (65_000_000, "MCS 7 20 MHz"));
    }

    #[test]
    fn ppdus_keep_what_was_recorded() {
        let mode = PhyConfig::of(Standard::G).modes().into_iter().max_by_key(|m| m.rate()).unwrap();
        let record = PpduRecord {
            start: Time::from_ns(1_500_000_000),
            end: Time::from_ns(1_500_248_000),
            link: airtcp_core::wifi::AirLinkId(3),
            ac: Ac::Vo,
            mode,
            mpdus: 3,
            received: 1,
            header_ok: 2,
            psdu_bytes: 4700,
            repeat: 1,
            answered: true,
            collided: false,
            snr_db: f32::NAN,
        };
        let row = PpduRow::new(LinkId(9), &record);
        assert_eq!((row.start_s, row.duration_us, row.link), (1.5, 248.0, 9));
        assert_eq!((row.ac.as_ref(), row.mode.as_ref(), row.rate_bps), ("vo", "54 Mbit/s", 54_000_000));
        assert_eq!((row.mpdus, row.received, row.legible, row.psdu_bytes, row.repeat), (3, 1, 2, 4700, 1));
        assert!(row.answered && !row.collided && row.snr_db.is_nan());
    }
}
