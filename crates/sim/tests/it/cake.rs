//! CAKE before a modem: the wait leaves the modem, and hosts share alike.

use crate::common::goodputs_and_rtts;

/// Mbit/s of the person with eight connections and of the one with one; mean of the pings in ms.
fn run(sets: &[&str]) -> (f64, f64, f64) {
    let flows = goodputs_and_rtts(include_str!("../../../../examples/shared-uplink.toml"), sets);
    let result = (flows[..8].iter().map(|f| f.0).sum(), flows[8].0, flows[9].1);
    println!("{sets:?}: {result:.2?}");
    result
}

#[test]
fn hosts_share_alike_and_nothing_waits_in_the_modem() {
    let (many, one, ping) = run(&[]);
    // 9.5 Mbit/s less headers: 9.5 x 1448 / 1500 = 9.17.
    assert!((9.0..9.2).contains(&(many + one)), "{many} + {one} Mbit/s");
    // Half is 4.58. A CUBIC alone under an AQM does not fill its part: after each signal its queue
    // runs
    // empty for a while, and others use that. `cake`'s own tests have the shares of queues that
    // never run empty.
    assert!(one > 0.85 * 4.58 && many < 1.15 * 4.58, "{many} and {one} Mbit/s");
    // 20.6 ms and a packet before it on either line.
    assert!(ping < 24.0, "{ping} ms");
    let (many, one, ping) = run(&["links.router.queue.isolation=flows"]);
    assert!((7.0..9.0).contains(&(many / one)), "{many} and {one} Mbit/s: nine flows");
    assert!(ping < 24.0, "{ping} ms");
    let (.., ping) = run(&["links.router.queue=fifo"]);
    assert!(ping > 200.0, "{ping} ms");
}

/// A shaper below a line's rate: the line is busy for that part of the time, whatever the line.
#[test]
fn the_shaper_holds_its_rate_on_any_line() {
    for line in ["9.6Mbit/s", "100Mbit/s", "10Gbit/s"] {
        let rate = format!("links.router.rate={line}");
        let (many, one, _) = run(&[&rate]);
        assert!((9.0..9.2).contains(&(many + one)), "{line}: {many} + {one} Mbit/s");
    }
}
