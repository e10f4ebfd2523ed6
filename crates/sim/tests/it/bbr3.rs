//! BBR version 3 in whole runs: the pipe, losses at random, and CUBIC beside it.

use crate::common::goodputs_and_rtts;

/// 20 Mbit/s and 40 ms: 67 segments in the pipe.
const LINE: &str = r#"
duration = "60s"
warmup = "15s"
nodes = [{ name = "a", kind = "host", profile = "linux-6" }, { name = "r", kind = "router" }, { name = "b", kind = "host", profile = "linux-6" }]

[[links]]
name = "line"
from = "r"
to = "b"
rate = "20Mbit/s"
delay = "20ms"
queue = { name = "fifo", limit_packets = 67 }
reverse = { loss = 0.0 }

[[links]]
from = "a"
to = "r"
rate = "1Gbit/s"
delay = "0s"

[[flows]]
name = "one"
from = "a"
to = "b"
tcp = { cc = "bbr3" }

[[flows]]
name = "two"
from = "a"
to = "b"
start = "200ms"
tcp = { cc = "cubic" }
"#;

/// Mbit/s and mean round trip in ms of both.
fn run(sets: &[&str]) -> [(f64, f64); 2] {
    let flows = goodputs_and_rtts(LINE, sets);
    println!("{sets:?}: {flows:.1?}");
    [flows[0], flows[1]]
}

#[test]
fn alone_it_fills_the_pipe_without_a_standing_queue() {
    for limit in [20, 67, 670] {
        let limit = format!("links.line.queue.limit_packets={limit}");
        let [(rate, rtt), _] = run(&[&limit, "flows.two.stop=300ms"]);
        // 20 x 1448 / 1500 = 19.3.
        assert!(rate > 0.93 * 19.3, "{rate} Mbit/s");
        assert!(rtt < 52.0, "{rtt} ms");
    }
}

/// The draft, section 3: it tolerates losses below two percent, which leave CUBIC a fraction of the
/// line.
#[test]
fn one_percent_of_losses_keeps_its_rate() {
    let rate = |cc: &str| {
        let cc = format!("flows.one.tcp.cc={cc}");
        run(&[&cc, "links.line.loss=0.01", "flows.two.stop=300ms"])[0].0
    };
    let (bbr3, cubic) = (rate("bbr3"), rate("cubic"));
    assert!(bbr3 > 0.8 * 19.3 && bbr3 > 2.0 * cubic, "{bbr3} and {cubic} Mbit/s");
}

/// With a buffer of one bandwidth-delay product it leaves CUBIC more than version 1 does; with five
/// both have their share, too.
#[test]
fn cubic_lives_beside_it() {
    let share = |cc: &str, packets: u32| {
        let (cc, limit) = (format!("flows.one.tcp.cc={cc}"), format!("links.line.queue.limit_packets={packets}"));
        let [(own, _), (cubic, _)] = run(&[&cc, &limit]);
        assert!(own + cubic > 17.5, "{own} + {cubic} Mbit/s");
        cubic / (own + cubic)
    };
    let (short, old, long) = (share("bbr3", 67), share("bbr", 67), share("bbr3", 335));
    assert!(short > old && (0.2..0.8).contains(&short), "{short} of the line, {old} beside version 1");
    assert!((0.3..0.95).contains(&long), "{long}");
}
