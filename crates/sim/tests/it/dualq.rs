//! A scalable and a classic flow that share a line: what RFC 9332 is for.

use crate::common::goodputs_and_rtts;

const LINE: &str = r#"
duration = "40s"
warmup = "10s"

[[nodes]]
name = "a"
kind = "host"
profile = "linux-6"

[[nodes]]
name = "b"
kind = "host"
profile = "linux-6"

[[links]]
name = "line"
from = "a"
to = "b"
rate = "40Mbit/s"
delay = "20ms"
queue = "dualpi2"

[[flows]]
name = "scalable"
from = "a"
to = "b"
tcp = { cc = "dctcp", ecn = true, ecn_echo = "each", ect1 = true }

[[flows]]
name = "classic"
from = "a"
to = "b"
tcp = { cc = "reno", ecn = true }
"#;

/// Result of the scalable and the classic flow: Mbit/s and mean round trip in ms.
fn run(sets: &[&str]) -> [(f64, f64); 2] {
    let flows = goodputs_and_rtts(LINE, sets);
    [flows[0], flows[1]]
}

#[test]
fn neither_starves_and_only_the_classic_one_waits() {
    let [(scalable, its_rtt), (classic, its_other)] =
        run(&["flows.scalable.tcp.cc={ name = 'dctcp', alpha_bits = 20 }"]);
    println!("dualpi2: {scalable:.1} Mbit/s {its_rtt:.1} ms, {classic:.1} Mbit/s {its_other:.1} ms");
    // RFC 9332, appendix C: a coupling of 2 gives equal shares; the shorter round trip of the
    // scalable flow is in its favour.
    assert!((0.5..2.0).contains(&(scalable / classic)), "{scalable} and {classic} Mbit/s");
    assert!(scalable + classic > 34.0, "{scalable} + {classic} Mbit/s");
    // 40 ms and its own time on the line; the classic queue is held at 15 ms.
    assert!(its_rtt < 43.0, "{its_rtt} ms");
    assert!((48.0..62.0).contains(&its_other), "{its_other} ms");
}

#[test]
fn a_classic_echo_tells_dctcp_too_much() {
    // Latched, every ACK until the reduction carries the echo: alpha comes out too large, and the
    // line is not full.
    let alone = |more: &[&str]| {
        let sets: Vec<&str> = ["flows.classic.stop=11s"].iter().chain(more).copied().collect();
        run(&sets)[0].0
    };
    let (each, latched) = (alone(&[]), alone(&["flows.scalable.tcp.ecn_echo=latched"]));
    println!("each {each:.2}, latched {latched:.2} Mbit/s");
    assert!(each > latched, "{each} and {latched} Mbit/s");
}

/// RFC 9332, appendix C: a coupling of 2 gives flows of either kind the same share. Ten and ten, so
/// that the probability hardly varies: it squares the mean of what it marks with, not of what it
/// drops with.
#[test]
fn ten_scalable_and_ten_classic_flows_share_alike() {
    for control in [
        "{ cc = 'dctcp', ecn = true, ecn_echo = 'each', ect1 = true }",
        "{ cc = 'dctcp', ecn = true, ecn_echo = 'accurate', ect1 = true }",
        "{ cc = 'prague', ecn = true, ecn_echo = 'accurate', ect1 = true }",
    ] {
        let control = format!("flows.scalable.tcp={control}");
        let flows = goodputs_and_rtts(
            LINE,
            &[
                &control,
                "links.line.rate=100Mbit/s",
                "flows.scalable.count=10",
                "flows.classic.count=10",
                "flows.scalable.start={ from = '0s', to = '1s' }",
                "flows.classic.start={ from = '0s', to = '1s' }",
            ],
        );
        let sum = |of: &[(f64, f64)]| of.iter().map(|f| f.0).sum::<f64>();
        let (scalable, classic) = (sum(&flows[..10]), sum(&flows[10..]));
        println!("{control}: {scalable:.1} and {classic:.1} Mbit/s");
        assert!((0.8..1.4).contains(&(scalable / classic)), "{scalable} and {classic} Mbit/s");
        assert!(scalable + classic > 93.0, "{scalable} + {classic} Mbit/s");
    }
}

/// Two flows, of 6 and 26 ms: Prague's have about the same rate, where the rates of `dctcp` go by
/// their round trips.
#[test]
fn prague_does_not_depend_on_short_round_trips() {
    let share = |control: &str| {
        let tcp = format!("tcp = {{ cc = {control}, ecn = true, ecn_echo = 'accurate', ect1 = true }}");
        let text = format!(
            r#"
            duration = "40s"
            warmup = "10s"
            nodes = [
              {{ name = "near", kind = "host", profile = "linux-6" }}, {{ name = "far", kind = "host", profile = "linux-6" }},
              {{ name = "r", kind = "router" }}, {{ name = "b", kind = "host", profile = "linux-6" }},
            ]
            links = [
              {{ from = "near", to = "r", rate = "1Gbit/s", delay = "1ms" }},
              {{ from = "far", to = "r", rate = "1Gbit/s", delay = "11ms" }},
              {{ from = "r", to = "b", rate = "40Mbit/s", delay = "2ms", queue = "dualpi2" }},
            ]
            flows = [
              {{ name = "short", from = "near", to = "b", {tcp} }},
              {{ name = "long", from = "far", to = "b", {tcp} }},
            ]
            "#
        );
        let flows = goodputs_and_rtts(&text, &[]);
        println!("{control}: {flows:.1?}");
        flows[0].0 / flows[1].0
    };
    let (prague, dctcp) = (share("'prague'"), share("{ name = 'dctcp', alpha_bits = 20 }"));
    assert!((0.67..1.5).contains(&prague), "{prague}");
    assert!(dctcp > 2.0, "{dctcp}");
}

/// Segments that the card merges make ACKs of eight and more, and nothing marks: Accurate ECN costs
/// nothing.
#[test]
fn long_acks_are_no_marks() {
    let rate = |tcp: &str| {
        let tcp = format!("flows.scalable.tcp={tcp}");
        let sets =
            ["links.line.rate=1Gbit/s", "links.line.delay=10ms", "links.line.queue=fifo", "duration=6s", "warmup=2s"];
        run(&[&sets[..], &[&tcp, "flows.classic.stop=1s"]].concat())[0].0
    };
    let latched = rate("{ cc = 'cubic', ecn = true }");
    for tcp in [
        "{ cc = 'cubic', ecn = true, ecn_echo = 'accurate' }",
        "{ cc = 'prague', ecn = true, ecn_echo = 'accurate', ect1 = true }",
    ] {
        let accurate = rate(tcp);
        println!("{tcp}: {accurate:.1} Mbit/s, latched {latched:.1}");
        assert!(accurate > 0.98 * latched, "{tcp}: {accurate} of {latched} Mbit/s");
    }
}
