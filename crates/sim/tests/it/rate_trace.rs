//! Lines whose rate varies: times by hand, one rate as a line without a trace, and nothing lost or
//! made.

use airtcp_core::units::{Span, Time};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::record::Data;
use airtcp_sim::scenario::Scenario;
use airtcp_sim::world::{RunOutput, World};
use proptest::prelude::*;

fn output(text: &str) -> RunOutput {
    let spec = Scenario::parse(text, "x.toml", &[]).unwrap().to_spec().unwrap();
    let mut world = World::build(&spec).unwrap();
    // Every sample is audited: packets, bytes and times of every line.
    world.run(&mut NoCapture);
    world.finish()
}

fn column(output: &RunOutput, table: &str, column: &str) -> Vec<f64> {
    match output.table(table).unwrap().column(column) {
        Some(Data::F64(v)) => v.clone(),
        other => panic!("{table}.{column}: {other:?}"),
    }
}

#[test]
fn packets_leave_as_their_bits_pass() {
    // 1500 bytes: 1 ms at 12 Mbit/s, then a change within the second packet, an outage within the
    // third, and a delay of 10 ms.
    let output = output(
        r#"duration = "1s"
        nodes = [{ name = "a", kind = "host" }, { name = "b", kind = "host" }]
        [[links]]
        from = "a"
        to = "b"
        rate = "12Mbit/s"
        delay = "10ms"
        rate_trace = { points = [[0, 12], [0.0015, 6], [0.003, 0], [0.02, 24]] }
        [[flows]]
        name = "train"
        from = "a"
        to = "b"
        traffic = { kind = "train", count = 4, packet_bytes = 1500 }"#,
    );
    // 2.5 ms for the second; a quarter of the third passes before 3 ms, the rest after 20 ms; then
    // 0.5 ms.
    let received = column(&output, "datagrams", "received_s");
    for (at, expected_ms) in received.iter().zip([11.0, 12.5, 30.375, 30.875]) {
        assert!((at - expected_ms * 1e-3).abs() < 1e-12, "{received:?}");
    }
    // The outage counts as busy: the line has a packet on it.
    assert!((column(&output, "links", "utilisation")[0] - 20.875e-3).abs() < 1e-12);
}

/// Two TCP flows and pings over a narrow line; `line` is in the entry of that line.
fn network(seed: u64, line: &str) -> String {
    format!(
        r#"seed = {seed}
        duration = "3s"
        nodes = [{{ name = "a", kind = "host", count = 2 }}, {{ name = "r", kind = "router" }}, {{ name = "b", kind = "host" }}]
        record = {{ interval = "10ms" }}
        [[links]]
        from = "a"
        to = "r"
        rate = "100Mbit/s"
        delay = "1ms"
        [[links]]
        from = "r"
        to = "b"
        delay = "10ms"
        {line}
        [[flows]]
        name = "up"
        from = "a"
        to = "b"
        traffic = {{ kind = "unlimited" }}
        [[flows]]
        name = "ping"
        from = "a[0]"
        to = "b"
        traffic = {{ kind = "ping", interval = "50ms" }}"#
    )
}

#[test]
fn one_rate_is_a_line_without_a_trace() {
    for queue in ["", "queue = { name = \"fifo\", limit_packets = 20 }", "queue = { name = \"fq_codel\" }"] {
        let plain = output(&network(3, &format!("rate = \"10Mbit/s\"\n{queue}")));
        let trace = "rate_trace = { points = [[0, 10], [1, 10], [2.5, 10]], repeat = true }";
        let traced = output(&network(3, &format!("rate = \"10Mbit/s\"\n{trace}\n{queue}")));
        assert_eq!(format!("{:?}", plain.summary), format!("{:?}", traced.summary), "{queue}");
        assert_eq!(format!("{:?}", plain.table("pings")), format!("{:?}", traced.table("pings")), "{queue}");
    }
}

#[test]
fn a_rate_of_its_own_leaves_the_trace_of_the_other_direction_out() {
    let trace = "rate_trace = { deliveries_ms = [1, 2, 5] }";
    let spec = |line: &str| Scenario::parse(&network(1, line), "x.toml", &[]).unwrap().to_spec().unwrap();
    let traces = |line: &str| spec(line).links[4..].iter().map(|link| link.rate_trace.is_some()).collect::<Vec<_>>();
    assert_eq!(traces(&format!("rate = \"7Mbit/s\"\n{trace}")), [true, true]);
    assert_eq!(traces(&format!("rate = \"7Mbit/s\"\n{trace}\nreverse = {{ rate = \"7Mbit/s\" }}")), [true, false]);
    assert_eq!(traces(&format!("rate = \"7Mbit/s\"\nreverse = {{ rate = \"7Mbit/s\", {trace} }}")), [false, true]);
}

#[test]
fn a_fault_in_a_trace_says_where() {
    let line = "rate = \"7Mbit/s\"\nreverse = { rate_trace = { points = [[0, 1], [1, -4]] } }";
    let faults = Scenario::parse(&network(1, line), "x.toml", &[]).unwrap().to_spec().unwrap_err().to_string();
    assert!(faults.contains("links[1].reverse.rate_trace.points[1]"), "{faults}");
    assert!(faults.contains("rate -4: must be 0, or from 0.000001 to 1000000 Mbit/s"), "{faults}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The audit of every sample holds, and what a busy line carries is what its trace lets pass.
    #[test]
    fn a_world_over_a_line_that_varies_keeps_its_books(
        seed in 0u64..1000,
        rates in prop::collection::vec(0u32..300, 1..8),
        queue in prop::sample::select(vec!["fifo", "fq_codel", "pie", "cake", "dualpi2"]),
    ) {
        let mut points: Vec<String> = rates.iter().enumerate()
            .map(|(i, &tenths)| format!("[{:.2}, {:.1}]", i as f64 * 0.07, f64::from(tenths) / 10.0)).collect();
        points.push(format!("[{:.2}, 6]", rates.len() as f64 * 0.07));
        points[0] = "[0, 5]".into();
        let trace = format!("rate_trace = {{ points = [{}], repeat = true }}", points.join(", "));
        let text = network(seed, &format!("rate = \"10Mbit/s\"\nqueue = {{ name = \"{queue}\" }}\n{trace}"));
        let whole = output(&text);
        // In one piece or in many.
        let spec = Scenario::parse(&text, "x.toml", &[]).unwrap().to_spec().unwrap();
        let mut pieces = World::build(&spec).unwrap();
        for k in 1..=7 {
            pieces.run_until(Time::ZERO + Span::from_ms(400 * k), &mut NoCapture);
        }
        pieces.run(&mut NoCapture);
        let pieces = pieces.finish();
        prop_assert_eq!(format!("{:?}", whole.summary), format!("{:?}", pieces.summary));
        // No more than the trace lets pass in the run, and one packet that is on the line.
        let mut mbits = 5.0 * 0.07;
        for &tenths in &rates[1..] {
            mbits += f64::from(tenths) / 10.0 * 0.07;
        }
        let passes = mbits / (rates.len() as f64 * 0.07) * 3.0 + 30.0 * 0.07 * 2.0;
        let Some(Data::U64(bytes)) = whole.table("links").unwrap().column("forwarded_bytes") else { panic!() };
        prop_assert!(bytes[4] as f64 * 8e-6 <= passes, "{} of {passes}", bytes[4]);
    }
}
