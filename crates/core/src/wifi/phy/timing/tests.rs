use proptest::prelude::*;

use super::*;

fn ht(mcs: u8, width: Width, short_gi: bool) -> Mode {
    Mode::ht(mcs, width, short_gi).unwrap()
}
fn vht(mcs: u8, streams: u8, width: Width, short_gi: bool) -> Mode {
    Mode::vht(mcs, streams, width, short_gi).unwrap()
}
fn low_band_n() -> PhyConfig {
    PhyConfig { band: Some(Band::Ghz2), ..PhyConfig::of(Standard::N) }
}

/// By hand from the TXTIME equations; the working is beside each.
#[test]
fn durations_of_ppdus() {
    use Width::{Mhz20, Mhz40, Mhz80};
    let [b, a, g] = [Standard::B, Standard::A, Standard::G].map(|s| PhyConfig::of(s).timing());
    let short = PhyConfig { short_preamble: true, ..PhyConfig::of(Standard::B) }.timing();
    let (n, n2, ac) =
        (PhyConfig::of(Standard::N).timing(), low_band_n().timing(), PhyConfig::of(Standard::Ac).timing());
    for (timing, mode, bytes, us, working) in [
        (&b, Mode::DSSS[3], 1534, 1308, "192 + ceil(12272 / 11)"),
        (&short, Mode::DSSS[3], 1534, 1212, "96 + 1116"),
        (&short, Mode::DSSS[0], 14, 304, "1 Mbit/s is always long: 192 + 112"),
        (&b, Mode::DSSS[2], 1534, 2424, "192 + ceil(12272 / 5.5 = 2231.3)"),
        (&b, Mode::DSSS[1], 14, 248, "192 + 56"),
        (&a, Mode::OFDM[7], 1500, 244, "20 + 4 ceil(12022 / 216 = 55.7)"),
        (&a, Mode::OFDM[7], 1536, 248, "20 + 4 ceil(12310 / 216 = 56.99)"),
        (&a, Mode::OFDM[4], 14, 28, "20 + 4 ceil(134 / 96)"),
        (&a, Mode::OFDM[0], 14, 44, "20 + 4 ceil(134 / 24 = 5.6)"),
        (&a, Mode::OFDM[4], 32, 32, "20 + 4 ceil(278 / 96 = 2.9)"),
        (&g, Mode::OFDM[7], 1536, 254, "the same and 6"),
        (&g, Mode::DSSS[3], 1534, 1308, "no signal extension"),
        (&n, ht(7, Mhz20, false), 1538, 228, "36 + 4 ceil(12326 / 260 = 47.4)"),
        (&n, ht(7, Mhz20, true), 1538, 212, "36 + 4 ceil(48 x 0.9 = 43.2)"),
        (&n2, ht(7, Mhz20, true), 1538, 218, "and 6"),
        (&n, ht(0, Mhz20, false), 1538, 1936, "36 + 4 ceil(12326 / 26 = 474.1)"),
        (&n, ht(15, Mhz40, true), 65_535, 1792, "40 + 4 ceil(0.9 ceil(524302 / 1080 = 485.5))"),
        (&n, ht(31, Mhz40, false), 65_535, 1020, "48 + 4 ceil(524308 / 2160 = 242.7), two encoders"),
        (&ac, vht(9, 2, Mhz80, true), 10_000, 140, "44 + 4 ceil(0.9 ceil(80028 / 3120 = 25.7) = 23.4)"),
        (&ac, vht(0, 1, Mhz20, false), 14, 64, "40 + 4 ceil(134 / 26 = 5.2)"),
        (&ac, vht(8, 3, Mhz80, false), 10_000, 128, "52 + 4 x 80028 / 4212, exactly 19 with two encoders"),
    ] {
        assert_eq!(timing.ppdu(mode, bytes), Span::from_us(us), "{mode:?}, {bytes} bytes: {working}");
    }
}

// [IEEE80211-10.3.2.3-1] [IEEE80211-10.3.2.3-2] [IEEE80211-10.3.2.3-3] [IEEE80211-10.3.2.3-4]
#[test]
fn interframe_spaces() {
    let long_slot = PhyConfig { short_slot: false, ..PhyConfig::of(Standard::G) };
    let g_only = PhyConfig { g_only: true, ..PhyConfig::of(Standard::G) };
    // Slot, SIFS, DIFS, EIFS in us, CWmin. EIFS = SIFS + ACK + DIFS, the ACK at 1 Mbit/s: 304, or
    // at 6: 44 (and 6).
    for (config, slot, sifs, difs, eifs, cw_min) in [
        (PhyConfig::of(Standard::B), 20, 10, 50, 364, 31),
        (PhyConfig::of(Standard::A), 9, 16, 34, 94, 15),
        (PhyConfig::of(Standard::G), 9, 10, 28, 342, 15),
        (long_slot, 20, 10, 50, 364, 15),
        (g_only, 9, 10, 28, 88, 15),
        (PhyConfig::of(Standard::N), 9, 16, 34, 94, 15),
        (low_band_n(), 9, 10, 28, 342, 15),
        (PhyConfig::of(Standard::Ac), 9, 16, 34, 94, 15),
    ] {
        let t = config.timing();
        let found = [t.slot, t.sifs, t.difs(), t.eifs()].map(|time| time.as_ns() / 1_000);
        assert_eq!((found, t.cw_min, t.cw_max), ([slot, sifs, difs, eifs], cw_min, 1023), "{config:?}");
        assert_eq!(t.aifs(3), t.difs() + t.slot);
    }
}

// [IEEE80211-10.6.6-1] [IEEE80211-10.6.6.5-1] [IEEE80211-10.6.6.5-2] [IEEE80211-10.6.11-1]
#[test]
fn responses_use_the_highest_basic_rate_of_the_same_kind() {
    let mbps = |rates: &[u64]| Some(rates.iter().map(|&r| DataRate::from_mbps(r)).collect());
    let (b, a, g, n) = (Standard::B, Standard::A, Standard::G, Standard::N);
    for (standard, basic_rates, data, response) in [
        (b, None, Mode::DSSS[3], Mode::DSSS[3]),
        (b, mbps(&[1, 2]), Mode::DSSS[3], Mode::DSSS[1]),
        (b, mbps(&[1, 2]), Mode::DSSS[0], Mode::DSSS[0]),
        (a, None, Mode::OFDM[7], Mode::OFDM[4]),
        (a, None, Mode::OFDM[3], Mode::OFDM[2]),
        (a, None, Mode::OFDM[1], Mode::OFDM[0]),
        (a, mbps(&[6]), Mode::OFDM[7], Mode::OFDM[0]),
        (a, mbps(&[6, 54]), Mode::OFDM[7], Mode::OFDM[7]),
        // No basic rate is low enough: mandatory.
        (a, mbps(&[24]), Mode::OFDM[3], Mode::OFDM[2]),
        (g, None, Mode::OFDM[7], Mode::OFDM[4]),
        (g, None, Mode::DSSS[3], Mode::DSSS[3]),
        // Basic rates of the other kind do not count.
        (g, mbps(&[1, 2, 11]), Mode::OFDM[7], Mode::OFDM[4]),
        (g, mbps(&[1, 2, 11]), Mode::OFDM[0], Mode::OFDM[0]),
        (n, None, ht(0, Width::Mhz20, false), Mode::OFDM[0]),
        (n, None, ht(2, Width::Mhz20, false), Mode::OFDM[2]),
        (n, None, ht(3, Width::Mhz20, false), Mode::OFDM[4]),
        (n, None, ht(15, Width::Mhz40, true), Mode::OFDM[4]),
        (n, mbps(&[6, 48]), ht(5, Width::Mhz20, false), Mode::OFDM[6]),
    ] {
        let config = PhyConfig { basic_rates, ..PhyConfig::of(standard) };
        config.check().unwrap();
        assert_eq!(config.timing().response_mode(data), response, "{config:?}, {data:?}");
    }
}

// [IEEE80211-10.3.2.9-3] [IEEE80211-10.3.2.11-2] [IEEE80211-10.6.6-1] [IEEE80211-10.27-1]
#[test]
fn responses_protection_and_timeouts() {
    let a = PhyConfig::of(Standard::A).timing();
    let n = PhyConfig::of(Standard::N).timing();
    let g = |protection| PhyConfig { protection, ..PhyConfig::of(Standard::G) };
    let cts_to_self = g(Protection::CtsToSelf).timing();
    let rts_cts = g(Protection::RtsCts).timing();
    let slow = PhyConfig { protection_rate: Some(DataRate::from_mbps(1)), ..g(Protection::CtsToSelf) }.timing();
    let (ofdm, mcs7) = (Mode::OFDM[7], ht(7, Width::Mhz20, false));
    for (found, us, what) in [
        (a.ack(ofdm), 28, "ACK at 24"),
        (a.rts(ofdm), 28, "RTS at 24: 20 + 4 ceil(182 / 96)"),
        (a.cts(ofdm), 28, "CTS at 24"),
        (n.block_ack(mcs7), 32, "Block Ack at 24"),
        (n.bar(mcs7), 32, "BAR at 24: 20 + 4 ceil(214 / 96)"),
        (n.block_ack(ht(0, Width::Mhz20, false)), 68, "Block Ack at 6: 20 + 4 ceil(278 / 24)"),
        (a.ack_timeout(ofdm), 45, "16 + 9 + 20"),
        (PhyConfig::of(Standard::B).timing().ack_timeout(Mode::DSSS[3]), 222, "10 + 20 + 192"),
        (a.protection_time(ofdm), 0, "none"),
        (cts_to_self.protection_time(ofdm), 213, "192 + ceil(112 / 11) and SIFS"),
        (cts_to_self.protection_time(Mode::DSSS[3]), 0, "DSSS needs none"),
        (rts_cts.protection_time(ofdm), 430, "192 + ceil(160 / 11) + 10 + 203 + 10"),
        (slow.protection_time(ofdm), 314, "192 + 112 and SIFS"),
        (rts_cts.cts_timeout(ofdm), 10 + 9 + 192, "the CTS is in CCK"),
        (rts_cts.ack_timeout(ofdm), 10 + 9 + 20, "the ACK is not"),
    ] {
        assert_eq!(found, Span::from_us(us), "{what}");
    }
}

#[test]
fn frame_sizes() {
    assert_eq!(mpdu_bytes(1500, true), 1538);
    assert_eq!(mpdu_bytes(1500, false), 1536);
    assert_eq!([1536, 1537, 1538, 1540].map(subframe_bytes), [1540, 1544, 1544, 1544]);
}

// [IEEE80211-10.23.2.2-1] [IEEE80211-10.23.2.2-2]
#[test]
fn edca() {
    let tuple = |p: EdcaParams| (p.aifsn, p.cw_min, p.cw_max, p.txop.as_ns() / 1_000);
    let n = PhyConfig::of(Standard::N).timing();
    assert_eq!(
        edca_defaults(&n, false).map(tuple),
        [(7, 15, 1023, 0), (3, 15, 1023, 0), (2, 7, 15, 3008), (2, 3, 7, 1504)]
    );
    assert_eq!(
        edca_defaults(&n, true).map(tuple),
        [(7, 15, 1023, 0), (3, 15, 63, 0), (1, 7, 15, 3008), (1, 3, 7, 1504)]
    );
    assert_eq!(
        edca_defaults(&PhyConfig::of(Standard::B).timing(), false).map(tuple),
        [(7, 31, 1023, 0), (3, 31, 1023, 0), (2, 15, 31, 6016), (2, 7, 15, 3264)]
    );
}

#[test]
fn modes_of_a_phy() {
    let names = |c: &PhyConfig| c.modes().iter().map(|m| m.name().to_string()).collect::<Vec<_>>();
    assert_eq!(names(&PhyConfig::of(Standard::B)), ["1 Mbit/s", "2 Mbit/s", "5.5 Mbit/s", "11 Mbit/s"]);
    let g = PhyConfig::of(Standard::G);
    assert_eq!(g.modes().len(), 12);
    assert_eq!(PhyConfig { g_only: true, ..g }.modes(), Mode::OFDM);
    assert_eq!(names(&PhyConfig::of(Standard::N))[..2], ["MCS 0 20 MHz", "MCS 1 20 MHz"]);
    let wide = PhyConfig { width_mhz: 40, short_guard_interval: true, streams: 2, ..PhyConfig::of(Standard::N) };
    assert_eq!(wide.modes().len(), 2 * 2 * 16);
    for pair in wide.modes().windows(2) {
        assert!((pair[0].streams(), pair[0].rate()) <= (pair[1].streams(), pair[1].rate()));
    }
    assert_eq!(wide.mode_of_mcs(15), Mode::ht(15, Width::Mhz40, true));
    assert_eq!(wide.mode_of_mcs(16), None);
    // 20 MHz lacks MCS 9 of one stream.
    let ac = PhyConfig { width_mhz: 80, ..PhyConfig::of(Standard::Ac) };
    assert_eq!(ac.modes().len(), 9 + 10 + 10);
    assert_eq!(ac.mode_of_mcs(9), Mode::vht(9, 1, Width::Mhz80, false));
}

#[test]
fn bad_configurations_are_refused() {
    for (toml, message) in [
        ("standard = \"b\"\nband = \"5GHz\"", "`band` = \"5GHz\": `standard` = \"b\" works at \"2.4GHz\" only"),
        ("standard = \"ac\"\nband = \"2.4GHz\"", "`band` = \"2.4GHz\": `standard` = \"ac\" works at \"5GHz\" only"),
        ("standard = \"g\"\nwidth_mhz = 40", "`width_mhz` = 40: `standard` = \"g\" has 20"),
        ("width_mhz = 80", "`width_mhz` = 80: `standard` = \"n\" has 20, 40"),
        (
            "standard = \"a\"\nshort_guard_interval = true",
            "`short_guard_interval` = true: needs `standard` = \"n\" or \"ac\", not \"a\"",
        ),
        ("streams = 0", "`streams` = 0: must be 1 to 4"),
        ("streams = 5", "`streams` = 5: must be 1 to 4"),
        ("standard = \"g\"\nstreams = 2", "`streams` = 2: `standard` = \"g\" has 1 only"),
        ("short_preamble = true", "`short_preamble` = true: only at 2.4 GHz; leave it out or say false"),
        ("short_slot = false", "`short_slot` = false: at 5 GHz the slot is always 9us; leave it out or say true"),
        ("standard = \"b\"\ng_only = true", "`g_only` = true: only for `standard` = \"g\", or \"n\" at 2.4 GHz"),
        (
            "protection = \"rts_cts\"",
            "`protection` = \"rts_cts\": must be \"none\" except for `standard` = \"g\", or \"n\" at 2.4 GHz",
        ),
        (
            "standard = \"g\"\nprotection_rate = \"6Mbit/s\"",
            "`protection_rate` = \"6Mbit/s\": must be one of \"1Mbit/s\", \"2Mbit/s\", \"5500kbit/s\", \"11Mbit/s\"",
        ),
        (
            "standard = \"b\"\nbasic_rates = []",
            "`basic_rates` = []: needs at least one of \"1Mbit/s\", \"2Mbit/s\", \"5500kbit/s\", \"11Mbit/s\"; leave it out for the mandatory rates",
        ),
        (
            "standard = \"b\"\nbasic_rates = [\"1Mbit/s\", \"6Mbit/s\"]",
            "`basic_rates` has \"6Mbit/s\": must be among \"1Mbit/s\", \"2Mbit/s\", \"5500kbit/s\", \"11Mbit/s\"",
        ),
    ] {
        let error = toml::from_str::<PhyConfig>(toml).unwrap_err();
        assert_eq!(error.message(), message, "{toml}");
    }
    for (toml, part) in [
        ("standrad = \"g\"", "unknown field `standrad`"),
        ("standard = \"be\"", "unknown variant `be`, expected one of `b`, `a`, `g`, `n`, `ac`"),
        ("band = \"6GHz\"", "unknown variant `6GHz`, expected `2.4GHz` or `5GHz`"),
        ("protection = \"all\"", "expected one of `none`, `cts_to_self`, `rts_cts`"),
        ("basic_rates = [6]", "data rate"),
        ("streams = 300", "u8"),
    ] {
        let error = toml::from_str::<PhyConfig>(toml).unwrap_err();
        assert!(error.message().contains(part), "{toml}: {}", error.message());
    }
}

#[test]
fn configurations_survive_being_written() {
    let config = PhyConfig {
        band: Some(Band::Ghz2),
        short_slot: false,
        protection: Protection::CtsToSelf,
        protection_rate: Some(DataRate::from_mbps(2)),
        basic_rates: Some(vec![DataRate::from_mbps(1), DataRate::from_bps(5_500_000)]),
        ..PhyConfig::of(Standard::N)
    };
    let written = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<PhyConfig>(&written).unwrap(), config);
    assert_eq!(toml::from_str::<PhyConfig>("").unwrap(), PhyConfig::default());
}

fn any_timing() -> impl Strategy<Value = Timing> {
    let standards = [Standard::B, Standard::A, Standard::G, Standard::N, Standard::Ac];
    (proptest::sample::select(standards.to_vec()), any::<bool>()).prop_map(|(standard, short_preamble)| {
        let short_preamble = short_preamble && matches!(standard, Standard::B | Standard::G);
        PhyConfig { short_preamble, ..PhyConfig::of(standard) }.timing()
    })
}

proptest! {
    #[test]
    fn psdu_bytes_within_inverts_ppdu(
        timing in any_timing(),
        mode in proptest::sample::select(Mode::all().collect::<Vec<_>>()),
        ns in 0u64..20_000_000, bytes in 0u32..2_000_000,
    ) {
        let time = Span::from_ns(ns);
        let fits = timing.psdu_bytes_within(mode, time);
        prop_assert!(fits == 0 || timing.ppdu(mode, fits) <= time);
        prop_assert!(timing.ppdu(mode, fits + 1) > time);
        let exact = timing.ppdu(mode, bytes);
        prop_assert!(timing.psdu_bytes_within(mode, exact) >= bytes);
        prop_assert!(bytes == 0 || timing.psdu_bytes_within(mode, exact.saturating_sub(Span::from_ns(1))) < bytes);
    }

    #[test]
    fn durations_grow_with_length_and_keep_the_rate(
        timing in any_timing(),
        mode in proptest::sample::select(Mode::all().collect::<Vec<_>>()),
        bytes in 0u32..2_000_000, more in 0u32..10_000,
    ) {
        let whole = timing.ppdu(mode, bytes);
        prop_assert!(timing.ppdu(mode, bytes + more) >= whole);
        // The payload takes no less than at the nominal rate, and at most service, tails, a symbol
        // and roundings more.
        let payload = whole.saturating_sub(timing.preamble(mode)).as_ns();
        let nominal = mode.rate().time_for(bytes.into()).as_ns();
        // The rate is rounded down by less than a bit per second.
        prop_assert!(payload + nominal / mode.rate().as_bps() + 1 >= nominal);
        prop_assert!(payload <= nominal + 22_000);
        // Responses never outlast what they answer for want of a rate: they are legacy modes of the
        // same kind.
        let response = timing.response_mode(mode);
        prop_assert!(!response.is_ht_or_later() && response.is_dsss() == mode.is_dsss());
        prop_assert!(response.rate() <= mode.reference().rate());
    }
}

#[test]
fn radios_of_two_standards_meet_at_the_earlier_one() {
    let of = |standard, band, width_mhz, streams| PhyConfig {
        band: Some(band),
        width_mhz,
        streams,
        ..PhyConfig::of(standard)
    };
    let (low, high) = (Band::Ghz2, Band::Ghz5);
    let (b, a) = (PhyConfig::of(Standard::B), PhyConfig::of(Standard::A));
    let g_only = PhyConfig { g_only: true, ..PhyConfig::of(Standard::G) };
    let (n40, n2) = (of(Standard::N, high, 40, 1), of(Standard::N, high, 20, 2));
    let ac80 = of(Standard::Ac, high, 80, 4);
    let cases: [(&PhyConfig, &PhyConfig, Vec<Mode>); 7] = [
        (&b, &PhyConfig::of(Standard::G), Mode::DSSS.to_vec()),
        (&b, &of(Standard::N, low, 20, 1), Mode::DSSS.to_vec()),
        (&b, &g_only, vec![]),
        (&a, &n40, Mode::OFDM.to_vec()),
        (&a, &ac80, Mode::OFDM.to_vec()),
        (&n2, &ac80, n2.modes()),
        // One stream of 20 MHz is what both have.
        (&n40, &n2, of(Standard::N, high, 20, 1).modes()),
    ];
    for (one, other, want) in cases {
        assert_eq!(one.modes_with(other), want, "{one:?} {other:?}");
        assert_eq!(other.modes_with(one), want, "{other:?} {one:?}");
    }
    assert_eq!(ac80.modes_with(&ac80), ac80.modes());
}
