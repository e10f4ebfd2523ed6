//! A TXOP holds several exchanges, and none goes beyond its limit.

use super::behaviour::PPDUS;
use super::*;

fn mcs(mcs: u8) -> RadioConfig {
    radio(Standard::N, FixedConfig { mcs: Some(mcs), ..FixedConfig::default() })
}

// [IEEE80211-10.23.2.8-1] [IEEE80211-10.23.2.9-1]
#[test]
fn a_txop_bounds_its_ampdus_and_holds_several_of_them() {
    let mut config = mcs(7);
    config.aggregation.max_frames = 8;
    let mut rig = Rig::of(vec![config.clone(), config.clone()], vec![SignalConfig::default()], vec![], PPDUS);
    for _ in 0..900 {
        rig.send_as(0, Ac::Vo);
    }
    rig.drain();
    let t = config.phy.timing();
    let limit = rig.channel.mac.radios[0].edca[Ac::Vo as usize].txop;
    let ppdus = &rig.channel.mac.ppdus;
    let mode = ppdus[0].mode;
    let response_to = |p: &PpduRecord| t.sifs + if p.mpdus > 1 { t.block_ack(p.mode) } else { t.ack(p.mode) };
    // A TXOP: exchanges with no more than SIFS between them.
    let (mut start, mut exchanges, mut several) = (ppdus[0].start, 1, 0);
    for pair in ppdus.windows(2) {
        let answered_at = pair[0].end + response_to(&pair[0]);
        if pair[1].start == answered_at + t.sifs {
            exchanges += 1;
        } else {
            assert!(pair[1].start >= answered_at + t.aifs(2), "{pair:?}");
            several += u32::from(exchanges > 1);
            (start, exchanges) = (pair[1].start, 1);
        }
        let taken = (pair[1].end + response_to(&pair[1])).since(start);
        assert!(taken <= limit, "{taken:?}");
    }
    let fits = |n: &u32| {
        t.ppdu(mode, n * timing::subframe_bytes(timing::mpdu_bytes(1500, true))) + t.sifs + t.block_ack(mode) <= limit
    };
    let most = (1..=8u32).filter(fits).max().unwrap();
    assert_eq!(ppdus.iter().map(|p| u32::from(p.mpdus)).max(), Some(most));
    assert!(several > 0, "short A-MPDUs share a TXOP");
}

// [IEEE80211-10.23.2.9-1]
#[test]
fn long_ampdus_fit_into_the_txop() {
    let config = mcs(0);
    // Some of these sizes would just fit if no answer had to fit with them.
    let mut tight = 0;
    for bytes in (100..400).step_by(20) {
        let mut rig = Rig::of(vec![config.clone(), config.clone()], vec![SignalConfig::default()], vec![], PPDUS);
        rig.bytes = bytes;
        for _ in 0..200 {
            rig.send_as(0, Ac::Vo);
        }
        rig.drain();
        let t = config.phy.timing();
        let limit = rig.channel.mac.radios[0].edca[Ac::Vo as usize].txop;
        assert!(limit < config.aggregation.max_duration);
        for p in &rig.channel.mac.ppdus {
            let answer = t.sifs + t.block_ack(p.mode);
            assert!(p.end.since(p.start) + answer <= limit, "{bytes} bytes, {} MPDUs", p.mpdus);
            let longer = u32::from(p.mpdus + 1) * timing::subframe_bytes(timing::mpdu_bytes(bytes.into(), true));
            tight += u32::from(p.mpdus > 1 && t.ppdu(p.mode, longer) <= limit);
        }
    }
    assert!(tight > 0);
}
