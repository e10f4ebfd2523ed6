//! Bytes as datagrams to the cooperative daemon: what is read writes back as it was, no connection's phase changes, memory is bounded.
#![no_main]

use airtcp_core::coop::{ANNOUNCEMENT_BYTES, Announcement, CoopConfig, Daemon, FlowId, FlowSample, TerminalId};
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::units::{Span, Time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(a) = Announcement::decode(bytes) {
        assert_eq!(a.encode(), bytes);
    }
    let config = CoopConfig { max_peers: 4, ..CoopConfig::default() };
    let mut daemon = Daemon::new(config, TerminalId::new(1).unwrap(), stream(1, 0, Purpose::Coop), Time::ZERO);
    let (mut now, mut caps) = (Time::ZERO, Vec::new());
    let sample = |rtt, delivered_bytes| FlowSample {
        id: FlowId(0),
        rtt: Some(Span::from_ms(rtt)),
        least_rtt: None,
        delivered_bytes,
        sending: true,
    };
    daemon.on_sample(now, &[sample(100, 0)], &mut caps);
    daemon.on_sample(now, &[sample(700, 1)], &mut caps);
    // Each datagram behind a byte that says how long it was in coming.
    for datagram in bytes.chunks(1 + ANNOUNCEMENT_BYTES) {
        now += Span::from_ms(10 * u64::from(datagram[0]));
        let before = daemon.phase(FlowId(0));
        let _ = daemon.on_announcement(now, &datagram[1..]);
        assert_eq!(daemon.phase(FlowId(0)), before);
        assert!(daemon.peers().len() <= 4 && (1..=5).contains(&daemon.terminals()));
        daemon.on_sample(now, &[sample(300, 1)], &mut caps);
        assert!(caps[0].is_some_and(|cap| cap >= 2));
        let _ = daemon.on_deadline(now);
    }
});
