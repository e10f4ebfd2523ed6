//! Functions of a radio for TCP alone: a lower retry limit, the early release of a socket's frames,
//! and retry-out.

use super::*;
use crate::wifi::phy::{ErrorRateConfig, SignalConfig};
use crate::wifi::retry_out::{FixedConfig as FixedIndex, RetryOutConfig, TcpKnownBy};

/// One station whose MPDUs fail at `rate`, in the mode `mcs`.
fn rig(mcs: u8, rate: f64, change: impl FnOnce(&mut RadioConfig)) -> Rig {
    let mut config = radio(Standard::N, FixedConfig { mcs: Some(mcs), ..FixedConfig::default() });
    change(&mut config);
    let rate = Some(Probability::new(rate).unwrap());
    Rig::new(1, config, SignalConfig::ErrorRate(ErrorRateConfig { rate, rates: None, bytes: 1538 }), false, 1500)
}

impl Rig {
    /// Sends a packet up. `reports`: its host is told of its release.
    fn send_kind(&mut self, kind: Kind, reports: bool) {
        let mut p = Packet::new(FlowId(0), kind, 0);
        (p.size, p.len) = (self.bytes, self.bytes - 52);
        let id = self.pool.insert(p);
        let now = Time::from_ns(self.now);
        self.channel.enqueue(now, AirLinkId(0), id, Ac::Be, reports, &mut self.pool, &mut self.out);
    }

    fn run_dry(&mut self) -> AirStats {
        while self.channel.deadline() < NEVER {
            self.now = self.channel.deadline().as_ns();
            self.channel.on_deadline(Time::from_ns(self.now), &mut self.pool, &mut self.out);
            let (delivered, dropped) = (self.out.delivered.drain(..), self.out.dropped.drain(..));
            for id in delivered.map(|(_, id)| id).chain(dropped.map(|(_, id, _)| id)) {
                self.pool.remove(id);
            }
        }
        self.channel.stats(AirLinkId(0), Time::from_ns(self.now))
    }
}

#[test]
fn a_lower_limit_holds_for_tcp_and_by_the_rate_alone() {
    // MCS 0: 6.5 Mbit/s, MCS 4: 39, MCS 7: 65, each sent once whenever the driver hands it to the
    // radio. An MPDU with n tries has n - 1 retries.
    for (mcs, kind, tcp_limit, tries) in [
        (0, Kind::Tcp, None, 31),
        (0, Kind::Tcp, Some(RetryOutConfig::default()), 3),
        (4, Kind::Tcp, Some(RetryOutConfig::default()), 6),
        (7, Kind::Tcp, Some(RetryOutConfig::default()), 9),
        (0, Kind::Udp, Some(RetryOutConfig::default()), 31),
        (0, Kind::Tcp, Some(RetryOutConfig::Fixed(FixedIndex { index: 255 })), 31),
    ] {
        let mut rig = rig(mcs, 1.0, |radio| {
            radio.retries = Retries { hardware_tries: 1, tcp_limit: tcp_limit.clone(), ..Retries::default() };
        });
        rig.send_kind(kind, false);
        let s = rig.run_dry();
        assert_eq!((s.mpdus, s.dropped_retries), (tries, 1), "MCS {mcs}, {kind:?}, {tcp_limit:?}");
    }
}

#[test]
fn a_driver_that_orphans_lets_go_of_what_it_takes() {
    for (orphans, at_once) in [(false, 0), (true, 10)] {
        let mut rig = rig(7, 0.0, |radio| {
            let qdisc = QdiscConfig { driver_frames: 10, orphans, ..QdiscConfig::default() };
            radio.transmit = TransmitConfig::Qdisc(qdisc);
        });
        let released = |rig: &mut Rig| rig.out.released.drain(..).map(|r| r.packets).sum::<u32>();
        (0..25).for_each(|_| rig.send_kind(Kind::Tcp, true));
        assert_eq!(released(&mut rig), at_once, "{orphans}");
        rig.run_dry();
        assert_eq!(released(&mut rig), 25 - at_once, "each once");
    }
}

#[test]
fn where_payloads_are_encrypted_the_remedy_guesses() {
    // Every second packet is a datagram, as long as the segments or half. Given up: segments,
    // datagrams.
    let given_up = |tcp_known_by, datagram: u16| {
        let mut rig = rig(0, 0.4, |radio| {
            radio.reorder_buffer.retry_out = Some(RetryOutConfig::default());
            radio.reorder_buffer.tcp_known_by = tcp_known_by;
        });
        for _ in 0..1000 {
            rig.bytes = 1500;
            rig.send_kind(Kind::Tcp, false);
            rig.bytes = datagram;
            rig.send_kind(Kind::Udp, false);
            rig.run_dry();
        }
        rig.channel.stats(AirLinkId(0), Time::from_ns(rig.now)).given_up
    };
    let known = given_up(TcpKnownBy::Payload, 1500);
    assert!(known > 30, "{known}");
    // Half of the MPDUs are TCP.
    let all = given_up(TcpKnownBy::Length, 1500);
    assert!((1.5..2.7).contains(&(all as f64 / known as f64)), "{all} of both, {known} of TCP");
    for (tcp_known_by, datagram, none) in [
        (TcpKnownBy::Length, 750, false),
        (TcpKnownBy::SameLength, 750, false),
        (TcpKnownBy::SameLength, 1500, true),
        (TcpKnownBy::LastGood, 750, true), // half is not most
        (TcpKnownBy::AllTcp, 750, true),
    ] {
        let n = given_up(tcp_known_by, datagram);
        // At the very beginning nothing but TCP may have been heard.
        assert_eq!(n <= 1, none, "{tcp_known_by:?} beside datagrams of {datagram} bytes: {n}");
    }
}
