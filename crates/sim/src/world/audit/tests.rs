//! Each law finds what it is there for: the books of a busy world agree, and no longer once one of
//! them is changed.

use airtcp_core::packet::{Kind, Packet};

use airtcp_core::packet::FlowId;
use airtcp_core::units::{Span, Time};

use super::*;
use crate::books::audit::Inspection;
use crate::capture::NoCapture;
use crate::scenario::Scenario;

/// Half a second of a world with lines of every kind, a WLAN, TCP both ways, datagrams and receive
/// offload.
fn world() -> World {
    let text = r#"
        duration = "1s"
        nodes = [
            { name = "a", kind = "host", receive_offload = "napi" },
            { name = "s", kind = "host" },
            { name = "t", kind = "host" },
            { name = "r", kind = "router" },
            { name = "ap", kind = "router" },
        ]
        links = [
            { name = "access", from = "a", to = "r", rate = "100Mbit/s", delay = "1ms" },
            { name = "narrow", from = "r", to = "ap", rate = "8Mbit/s", delay = "5ms", loss = 0.01, queue = { name = "fifo", limit_packets = 20 } },
        ]
        wlans = [{ name = "wlan", ap = "ap", stations = ["s", "t"], signal = { kind = "snr", snr_db = 15 } }]
        flows = [
            { name = "down", from = "a", to = "s" },
            { name = "up", from = "t", to = "a" },
            { name = "datagrams", from = "a", to = "t", traffic = { kind = "cbr", rate = "12Mbit/s" } },
        ]
        record = { interval = "10ms" }
    "#;
    let spec = Scenario::parse(text, "x.toml", &[]).unwrap().to_spec().unwrap();
    let mut world = World::build(&spec).unwrap();
    world.run_until(Time::ZERO + Span::from_ms(505), &mut NoCapture);
    assert_eq!(world.finding(), None);
    world
}

/// Finding of the rest of the run after a change to the world.
fn found_after(change: impl FnOnce(&mut World)) -> String {
    let mut world = world();
    change(&mut world);
    let end = world.end();
    world.run_until(end, &mut NoCapture);
    let finding = world.finding().expect("a change that no law sees").clone();
    // At the next sample, and there the world stands.
    assert_eq!((finding.time, world.now()), (Span::from_ms(510), Time::ZERO + Span::from_ms(510)));
    finding.to_string()
}

#[test]
fn what_goes_wrong_in_a_world_is_found_at_the_next_sample() {
    let dropped = found_after(|w| w.cx.books.ledger.dropped.packets -= 1);
    assert!(dropped.starts_with("audit at 510ms: world: packets sent "), "{dropped}");
    assert!(dropped.contains(" = delivered ") && dropped.contains(" + inside "), "{dropped}");
    let leaked = found_after(|w| {
        let mut packet = Packet::new(FlowId(0), Kind::Udp, 0);
        packet.size = 100;
        w.network.pool.insert(packet);
        w.cx.books.ledger.sent.add(100);
    });
    assert!(leaked.contains("pool: packets inside "), "{leaked}");
    let uncounted = found_after(|w| w.network.links.stats[2].counts().dropped_overflow += 1);
    assert!(uncounted.contains("world: packets dropped "), "{uncounted}");
    let of_flow = found_after(|w| w.hosts.flows[0].lost_on_lines += 1);
    assert!(of_flow.contains("flows: packets lost "), "{of_flow}");
    let interface = found_after(|w| w.cx.books.ledger.passed_by_interfaces.packets -= 1);
    assert!(interface.contains("interfaces: packets taken "), "{interface}");
}

/// One change of books.
type Change = fn(&mut Snapshot);

/// The finding of books that one change has been made to; those before it are sound.
fn found_in(change: impl FnOnce(&mut Snapshot)) -> String {
    let mut world = world();
    let before = world.snapshot();
    world.cx.books.audit = None;
    world.run_until(Time::ZERO + Span::from_ms(515), &mut NoCapture);
    let mut books = world.snapshot();
    let inspection = |books: &Snapshot| Inspection { spec: &world.spec, books, before: Some(&before) }.finding();
    assert_eq!(inspection(&books), None);
    change(&mut books);
    inspection(&books).expect("a change that no law sees").to_string()
}

#[test]
fn every_law_sees_what_breaks_it() {
    let cases: [(&str, Change); 17] = [
        ("world: packets sent", |b| b.ledger.delivered.packets += 1),
        ("world: bytes sent", |b| b.ledger.lost.bytes += 1),
        ("pool: packets inside", |b| b.in_queues.0 += 1),
        ("pool: bytes inside", |b| b.on_wires.1 -= 1),
        ("world: packets lost", |b| b.totals.links[2].lost_packets += 1),
        ("flows: packets dropped", |b| b.totals.flows[0].dropped_at_queues += 1),
        ("link r->ap", |b| b.totals.links[2].arrived_packets += 1),
        ("link r->ap", |b| b.totals.links[2].forwarded_bytes -= 1),
        ("packets waiting for the line", |b| {
            let on = b.on_lines[2].as_mut().expect("a line");
            on.waiting.0 += 1;
        }),
        ("channel wlan: packets without an end", |b| b.channels[0].holdings.without_end += 1),
        ("channel wlan: packets held", |b| b.channels[0].holdings.held.0 += 1),
        ("channel wlan: frames of drivers", |b| b.channels[0].holdings.driver_frames += 1),
        ("channel wlan: ns elapsed", |b| b.channels[0].occupancy.idle_ns -= 1),
        ("channel wlan: ns of airtime", |b| b.channels[0].airtime_of_radios[0] += 1),
        ("link r->ap: queue from", |b| b.totals.links[2].queue_packet_ns = 0),
        ("flow down: acknowledged to", |b| {
            let ((from, _), next) = b.connections[0].as_mut().expect("TCP");
            *from = *next + 1;
        }),
        ("sequence numbers: 7 before 3", |b| {
            b.channels[0].disorder = Some((crate::spec::LinkId(0), "7 before 3".to_owned()))
        }),
    ];
    for (want, change) in cases {
        let found = found_in(change);
        assert!(found.contains(want), "{want}: {found}");
    }
}

#[test]
fn counters_that_fall_are_named() {
    let mut world = world();
    let mut before = world.snapshot();
    before.totals.links[0].held_back_packets = 1;
    before.totals.air[0].reorder_timeouts = 1;
    let found = |books: &Snapshot| Inspection { spec: &world.spec, books, before: Some(&before) }.counters_never_fall();
    assert_eq!(found(&before), Ok(()));
    let cases: [(&str, Change); 4] = [
        ("flow down: segments_sent fell", |b| b.totals.flows[0].counters.tcp.segments_sent -= 1),
        ("flow up: open_ns fell", |b| b.totals.flows[1].counters.tcp.open_ns -= 1),
        ("held_back_packets fell from 1 to 0", |b| b.totals.links[0].held_back_packets = 0),
        ("reorder_timeouts fell from 1 to 0", |b| b.totals.air[0].reorder_timeouts = 0),
    ];
    for (want, lower) in cases {
        let mut books = before.clone();
        lower(&mut books);
        let found = found(&books).unwrap_err().to_string();
        assert!(found.contains(want), "{want}: {found}");
    }
}

#[test]
fn an_audit_changes_nothing_and_its_times_are_those_of_samples() {
    let spec = world().spec;
    let run = |audited: bool| {
        let mut world = World::build(&spec).unwrap();
        if audited {
            world.audit();
            assert_eq!(world.cx.books.next_audit(), Some(Time::ZERO + Span::from_ms(10)));
        } else {
            world.cx.books.audit = None;
        }
        world.run(&mut NoCapture);
        assert_eq!(world.cx.books.next_audit(), audited.then_some(Time::NEVER));
        world.finish()
    };
    assert_eq!(format!("{:?}", run(true)), format!("{:?}", run(false)));
}
