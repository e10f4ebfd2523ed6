//! Group-addressed frames against worked cases.

use super::*;
use crate::wifi::phy::{ErrorRateConfig, SignalConfig};

/// Stations 0 to n - 1, and access point n with the group link 2n.
fn rig(signals: &[SignalConfig], config: RadioConfig, hidden: Vec<(u16, u16)>) -> Rig {
    let n = signals.len() as u16;
    let mut rig = Rig::new(usize::from(n), config.clone(), SignalConfig::default(), false, 1500);
    let pairs = (0..n).zip(signals);
    rig.channel = Channel::new(&ChannelConfig {
        radios: (0..=n).map(|_| Arc::new(config.clone())).collect(),
        pairs: pairs.map(|(s, signal)| PairConfig::fixed(s, n, signal.clone())).collect(),
        groups: vec![RadioId(n)],
        hidden: ids(hidden),
        sensing: Span::ZERO,
        capture_effect: Probability::ZERO,
        seed: 7,
        index: 0,
        trace: TraceConfig { ppdus: true, frames: true },
    });
    rig.numbers.push(0);
    rig.delivered.push(Vec::new());
    rig
}

fn error_rate(rate: f64) -> SignalConfig {
    SignalConfig::ErrorRate(ErrorRateConfig { rate: Some(Probability::new(rate).unwrap()), rates: None, bytes: 1500 })
}

impl Rig {
    /// Runs until there are no events. Returns the stations that each frame reached.
    fn heard(&mut self) -> Vec<(u32, u32)> {
        let mut heard = Vec::new();
        loop {
            heard.extend(self.out.heard.drain(..).map(|(pair, id)| (u32::from(pair.0), self.pool[id].seq.0)));
            self.take();
            let at = self.channel.deadline().as_ns();
            if at == u64::MAX {
                return heard;
            }
            self.now = at;
            self.channel.on_deadline(Time::from_ns(at), &mut self.pool, &mut self.out);
        }
    }
}

// [IEEE80211-10.3.6-1] [IEEE80211-10.6.5-1]
#[test]
fn each_station_hears_it_once_at_the_lowest_basic_rate_and_nobody_answers() {
    for (standard, mbps) in [(Standard::B, 1), (Standard::A, 6), (Standard::N, 6)] {
        let config = RadioConfig { transmit: TransmitConfig::default(), ..radio(standard, FixedConfig::default()) };
        let mut rig = rig(&[SignalConfig::default(), SignalConfig::default()], config, Vec::new());
        rig.send(4);
        rig.send(4);
        assert_eq!(rig.heard(), [(0, 0), (1, 0), (0, 1), (1, 1)], "{standard:?}");
        assert_eq!(rig.delivered[4], [0, 1], "the packet leaves the channel once");
        let kinds: Vec<FrameKind> = rig.channel.mac.frames.iter().map(|f| f.kind).collect();
        assert_eq!(kinds, [FrameKind::Data; 2], "no RTS, no ACK");
        let frame = &rig.channel.mac.frames[0];
        assert_eq!((frame.mode.rate().as_bps(), frame.duration_us), (mbps * 1_000_000, 0));
        let t = &rig.channel.mac.radios[2].timing;
        let bytes = rig.channel.mac.radios[2].framing.mpdu_bytes(1500);
        let ppdu = &rig.channel.mac.ppdus[0];
        assert_eq!(ppdu.end.since(ppdu.start), t.ppdu(frame.mode, bytes));
        assert_eq!(rig.channel.stats(AirLinkId(4), Time::from_ns(rig.now)).held_packets, 0);
    }
}

/// No receiver could answer an RTS (IEEE 802.11-2020 10.3.2.9: it precedes individually addressed
/// frames).
// [IEEE80211-10.3.2.9-4] [IEEE80211-10.3.6-1]
#[test]
fn no_rts_goes_before_it_however_long_it_is() {
    for standard in [Standard::G, Standard::N] {
        let config = RadioConfig { rts_threshold_bytes: 50, ..radio(standard, FixedConfig::default()) };
        let mut rig = rig(&[SignalConfig::default()], config, Vec::new());
        rig.send(2);
        assert_eq!(rig.heard(), [(0, 0)]);
        let kinds: Vec<FrameKind> = rig.channel.mac.frames.iter().map(|f| f.kind).collect();
        assert_eq!(kinds, [FrameKind::Data]);
    }
}

// [IEEE80211-10.3.6-2]
#[test]
fn what_does_not_arrive_is_not_repeated() {
    let config = radio(Standard::G, FixedConfig::default());
    let mut rig = rig(&[error_rate(0.5), error_rate(1.0), SignalConfig::default()], config, Vec::new());
    for _ in 0..2000 {
        rig.send(6);
        let before = rig.heard();
        assert!(before.iter().all(|(pair, _)| *pair != 1), "beyond reach");
        rig.delivered[0].extend(before.iter().filter(|h| h.0 == 0).map(|h| h.1));
        assert_eq!(before.iter().filter(|h| h.0 == 2).count(), 1);
    }
    let share = rig.delivered[0].len() as f64 / 2000.0;
    assert!((share - 0.5).abs() < 0.05, "{share}");
    assert_eq!(rig.channel.stats(AirLinkId(6), Time::from_ns(rig.now)).mpdus, 2000);
}

/// No station hears it: the packet is lost, and counted.
#[test]
fn nobody_in_reach() {
    let mut rig = rig(&[error_rate(1.0)], radio(Standard::G, FixedConfig::default()), Vec::new());
    rig.send(2);
    assert_eq!(rig.heard(), []);
    let stats = rig.channel.stats(AirLinkId(2), Time::from_ns(rig.now));
    assert_eq!((stats.lost_errors, stats.held_packets, rig.delivered[2].len()), (1, 0, 0));
}

/// While one station is on the air, another and the access point get something to send: both draw
/// one of 16 slots, and one time in 16 the same. The broadcast is then lost; the other frame is
/// sent again.
// [IEEE80211-10.3.6-2]
#[test]
fn collisions_are_not_repaired() {
    let config = radio(Standard::G, FixedConfig::default());
    let mut rig = rig(&[SignalConfig::default(), SignalConfig::default()], config, Vec::new());
    for _ in 0..1000 {
        rig.send(0);
        let on_air = rig.channel.deadline().as_ns();
        rig.channel.on_deadline(Time::from_ns(on_air), &mut rig.pool, &mut rig.out);
        rig.now = on_air + 50_000;
        rig.send(2);
        rig.send(4);
        rig.heard();
    }
    let stats = rig.channel.stats(AirLinkId(4), Time::from_ns(rig.now));
    assert_eq!((rig.delivered[0].len(), rig.delivered[2].len()), (1000, 1000));
    assert_eq!(rig.delivered[4].len() as u64 + stats.lost_collision, 1000);
    assert!((40..=90).contains(&stats.lost_collision), "{}", stats.lost_collision);
}
