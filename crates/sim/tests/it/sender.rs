//! The sender of a Linux host above a radio: what it sends again, and how much waits below it.

use airtcp_sim::record::Data;
use airtcp_sim::scenario::Scenario;
use airtcp_sim::world::RunOutput;

use crate::common::run;

/// A station uploads through an access point to a server; `wlan`, `flow`: further lines of both.
fn upload(seconds: u32, wlan: &str, flow: &str) -> RunOutput {
    let text = format!(
        r#"
duration = "{seconds}s"
warmup = "2s"
nodes = [
    {{ name = "sta", kind = "host" }},
    {{ name = "server", kind = "host" }},
    {{ name = "ap", kind = "router" }},
]
links = [{{ from = "ap", to = "server", rate = "1Gbit/s", delay = "1ms" }}]
[[wlans]]
ap = "ap"
stations = ["sta"]
{wlan}
[[flows]]
name = "up"
from = "sta"
to = "server"
{flow}
"#
    );
    let scenario = Scenario::parse(&text, "x.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    run(&scenario.to_spec().unwrap())
}

fn of(output: &RunOutput, column: &str, flow: usize) -> f64 {
    match output.table("flows").unwrap().column(column) {
        Some(Data::F64(v)) => v[flow],
        Some(Data::U64(v)) => v[flow] as f64,
        other => panic!("{column}: {other:?}"),
    }
}

const MBPS_13: &str = r#"{ rate_control = { name = "fixed", rate = "13Mbit/s" }"#;

/// The ACKs of a whole A-MPDU come in one instant. RACK (RFC 8985) repeats what the radio has given
/// up, and nothing else.
#[test]
fn rack_sends_nothing_again_that_was_only_overtaken_in_the_same_instant() {
    let wlan = format!(
        "signal = {{ kind = \"error_rate\", rate = 0.2 }}\nap_radio = {MBPS_13} }}\n\
         station_radio = {MBPS_13}, retries = {{ frame_tries = 1, software = 1 }} }}"
    );
    let output = upload(20, &wlan, "receiver = { delayed_ack = \"0s\" }");
    let (again, needless) = (of(&output, "segments_retransmitted", 0), of(&output, "spurious_retransmissions", 0));
    assert!(again >= 100.0, "{again} retransmissions: the scene is to have losses");
    assert_eq!(needless, 0.0, "of {again}");
}

/// Below a sender there is what `tcp_tso_autosize` and `tcp_small_queue_check` leave room for: at
/// 6.5 Mbit/s an skb has 4 or 5 segments, and two of them and one more may wait; a sender of single
/// segments has less there, and a shorter round trip.
#[test]
fn what_waits_below_a_sender_follows_from_what_it_sends_at_once() {
    let with = |rate: &str, flow: &str| {
        let radio = format!("{{ rate_control = {{ name = \"fixed\", rate = \"{rate}\" }} }}");
        let wlan = format!("station_radio = {radio}\nap_radio = {radio}");
        let output = upload(12, &wlan, flow);
        (of(&output, "rtt_mean_ms", 0), of(&output, "goodput_bps", 0) / 1e6)
    };
    for rate in ["6.5Mbit/s", "13Mbit/s", "52Mbit/s"] {
        let (linux, mbps) = with(rate, "");
        let (single, mbps_single) = with(rate, "tcp = { segments_at_once = \"single\" }");
        println!("{rate}: rtt {linux:.1} ms at {mbps:.2} Mbit/s, singly {single:.1} ms at {mbps_single:.2} Mbit/s");
        assert!(linux > 1.25 * single, "{rate}: {linux} and {single} ms");
        assert!(mbps > 0.98 * mbps_single, "{rate}: {mbps} and {mbps_single} Mbit/s");
    }
}

/// A short queue in the host itself overflows. Linux hears of it, and nothing is lost; a sender
/// that does not hear repeats what it dropped.
#[test]
fn what_the_hosts_own_queue_has_no_room_for_is_not_sent_and_not_repeated() {
    let radio = format!(
        "ap_radio = {MBPS_13} }}\n\
         station_radio = {MBPS_13}, transmit = {{ name = \"qdisc\", qdisc = {{ name = \"fifo\", limit_packets = 20 }}, driver_frames = 20 }} }}"
    );
    for (drops, least, most) in [("unsent", 0.0, 0.0), ("lost", 10.0, f64::INFINITY)] {
        let output = upload(12, &radio, &format!("tcp = {{ tsq = \"off\", local_drops = \"{drops}\" }}"));
        let again = of(&output, "segments_retransmitted", 0);
        assert!((least..=most).contains(&again), "{drops}: {again}");
        assert!(of(&output, "dropped_at_queues", 0) > 0.0, "{drops}: the queue overflows");
        assert!(of(&output, "goodput_bps", 0) > 8e6, "{drops}: {}", of(&output, "goodput_bps", 0));
        assert_eq!(of(&output, "timeouts", 0), 0.0, "{drops}");
    }
}

/// The same on a wire: the host's own line is the narrow one.
#[test]
fn a_wired_host_hears_of_its_own_queue_too() {
    for (drops, least, most) in [("unsent", 0.0, 0.0), ("lost", 10.0, f64::INFINITY)] {
        let text = format!(
            r#"
duration = "20s"
nodes = [{{ name = "a", kind = "host" }}, {{ name = "b", kind = "host" }}]
links = [{{ from = "a", to = "b", rate = "10Mbit/s", delay = "10ms", queue = {{ name = "fifo", limit_packets = 20 }} }}]
flows = [{{ name = "up", from = "a", to = "b", tcp = {{ local_drops = "{drops}" }} }}]
"#
        );
        let output = run(&Scenario::parse(&text, "x.toml", &[]).unwrap().to_spec().unwrap());
        let again = of(&output, "segments_retransmitted", 0);
        assert!((least..=most).contains(&again), "{drops}: {again}");
        assert!(of(&output, "dropped_at_queues", 0) > 0.0, "{drops}: the queue overflows");
        assert!(of(&output, "goodput_bps", 0) > 8e6, "{drops}: {}", of(&output, "goodput_bps", 0));
    }
}

/// Disciplines that drop on the way in, as the host's own queue (net/sched of Linux 6.12): what
/// each tells, and what follows.
#[test]
fn red_pie_and_fq_codel_tell_the_sender_above_them_what_they_drop() {
    let with = |queue: &str, drops: &str| {
        let text = format!(
            r#"
duration = "20s"
nodes = [{{ name = "a", kind = "host" }}, {{ name = "b", kind = "host" }}]
links = [{{ from = "a", to = "b", rate = "10Mbit/s", delay = "10ms", queue = {queue} }}]
flows = [{{ name = "up", from = "a", to = "b", tcp = {{ cc = "reno", local_drops = "{drops}" }} }}]
"#
        );
        let output = run(&Scenario::parse(&text, "x.toml", &[]).unwrap().to_spec().unwrap());
        let [again, dropped, repairs] =
            ["segments_retransmitted", "dropped_at_queues", "fast_retransmits"].map(|what| of(&output, what, 0));
        assert!(dropped > 0.0, "{queue}, {drops}");
        (again, dropped, repairs)
    };
    // PIE drops packets before they get in: NET_XMIT_DROP. A packet that it drops from the midst of
    // several that left together is repaired all the same.
    let pie = "{ name = \"pie\", limit_packets = 50 }";
    let (again, dropped, _) = with(pie, "unsent");
    assert!(again < 0.8 * dropped, "{again} of {dropped}");
    let (again, dropped, _) = with(pie, "lost");
    assert!(again >= dropped, "{again} of {dropped}");
    // RED's early drops and FQ-CoDel's overflow are losses that the sender hears of at once:
    // NET_XMIT_CN. It reduces before it repairs, and once.
    for queue in ["{ name = \"red\", limit_packets = 100 }", "{ name = \"fq_codel\", limit_packets = 20 }"] {
        let (again, dropped, _) = with(queue, "unsent");
        assert!(again > 0.0, "{queue}");
        let (_, unheard, _) = with(queue, "lost");
        assert!(dropped < unheard, "{queue}: {dropped}, {unheard}");
    }
}
