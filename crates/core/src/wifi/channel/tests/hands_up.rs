//! Times at which MPDUs leave the receiving radio.

use super::*;
use crate::wifi::phy::signal::SnrConfig;
use crate::wifi::reorder::HandsUp;

fn config(hands_up: HandsUp) -> RadioConfig {
    let mut config = radio(Standard::N, FixedConfig { mcs: Some(7), ..FixedConfig::default() });
    config.reorder_buffer.hands_up = hands_up;
    config
}

/// One station sends so many packets at once: when each comes up, and its number.
fn arrivals(hands_up: HandsUp, packets: u32) -> Vec<(u64, u32)> {
    let mut rig = Rig::new(1, config(hands_up), SignalConfig::default(), false, 1500);
    for _ in 0..packets {
        rig.send(0);
    }
    let mut arrivals = Vec::new();
    while rig.channel.deadline() < NEVER {
        rig.now = rig.channel.deadline().as_ns();
        rig.channel.on_deadline(Time::from_ns(rig.now), &mut rig.pool, &mut rig.out);
        arrivals.extend(rig.out.delivered.iter().map(|&(_, id)| (rig.now, rig.pool[id].seq.0)));
        rig.take();
    }
    arrivals
}

#[test]
fn mpdus_go_up_together_at_the_end_or_each_at_its_last_bit() {
    let together = arrivals(HandsUp::AtPpduEnd, 22);
    let each = arrivals(HandsUp::AtLastBit, 22);
    let numbers = |arrivals: &[(u64, u32)]| arrivals.iter().map(|a| a.1).collect::<Vec<_>>();
    assert_eq!(numbers(&together), (0..22).collect::<Vec<_>>());
    assert_eq!(numbers(&each), numbers(&together));
    // The first two packets go by themselves, before there is more.
    assert_eq!(each[..2], together[..2]);
    let end = together[2].0;
    assert!(together[2..].iter().all(|a| a.0 == end), "{together:?}");
    let t = PhyConfig::of(Standard::N).timing();
    let mode = PhyConfig::of(Standard::N).mode_of_mcs(7).unwrap();
    // 20 subframes of 1544 bytes, as many as 4 ms hold; an MPDU ends before its two bytes of
    // padding.
    let psdu = 20 * 1544;
    let data = t.ppdu(mode, psdu).as_ns() - t.preamble(mode).as_ns();
    for (n, &(at, _)) in (1..).zip(&each[2..21]) {
        let bytes = 1544 * n - 2;
        let rest = data - data * bytes / u64::from(psdu);
        assert!(at.abs_diff(end - rest) <= 1, "MPDU {n}: {at}, {rest} before the end at {end}");
    }
    assert_eq!(each[21].0, end, "the last one ends with the PPDU");
}

/// Stations that hear each other: a collision takes the whole PPDU. If hidden stations hit a PPDU
/// several times, MPDUs between the hits count as lost at the end of the PPDU, and not before it.
#[test]
fn the_same_mpdus_arrive_either_way() {
    let signal = SignalConfig::Snr(SnrConfig { snr_db: 19.0, shadowing: None });
    let run = |hands_up| {
        // An MPDU that comes up sooner would be given up sooner.
        let mut config = config(hands_up);
        config.reorder_buffer.timeout = Span::MAX;
        let mut rig = Rig::new(3, config, signal.clone(), false, 1500);
        rig.saturate(60, SECOND);
        let stats: Vec<AirStats> = (0..3).map(|s| rig.channel.stats(AirLinkId(2 * s), Time::from_ns(SECOND))).collect();
        (rig.delivered.clone(), stats)
    };
    let (together, each) = (run(HandsUp::AtPpduEnd), run(HandsUp::AtLastBit));
    let failed: u64 = together.1.iter().map(|s| s.mpdus_failed).sum();
    let collided: u64 = together.1.iter().map(|s| s.ppdus_collided).sum();
    assert!(failed > 100 && collided > 10, "{failed} MPDUs failed, {collided} PPDUs collided");
    assert_eq!(together.0, each.0);
    assert_eq!(together.1, each.1);
}
