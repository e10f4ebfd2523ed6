//! Changes of path as the kernel of this host tells them.
#![allow(clippy::disallowed_methods)]

mod common;

use std::time::Duration;

use airtcp_core::units::Span;
use airtcp_host::paths::Watch;
use airtcp_host::sys;
use common::{Bed, LINE};

/// Interfaces that have changed within 300 ms of what `words` of `ip` did.
fn changed(bed: &Bed, words: &'static str) -> Vec<u32> {
    bed.a.run(move || {
        let mut watch = Watch::new().unwrap();
        let done = std::process::Command::new("ip").args(words.split(' ')).status().unwrap();
        assert!(done.success(), "ip {words}");
        let (begin, mut all) = (sys::monotonic(), Vec::new());
        while sys::monotonic().since(begin) < Span::from_ms(300) {
            let wait = watch.wait(sys::monotonic(), Duration::from_millis(50));
            sys::readable(&watch.fds(), wait).unwrap();
            watch.read(sys::monotonic());
            all.extend(watch.due(sys::monotonic()));
        }
        all
    })
}

#[test]
fn routes_and_addresses_are_changes_and_other_things_are_not() {
    if let Some(reason) = common::missing_namespaces() {
        common::skipped(&reason);
        return;
    }
    let bed = Bed::new(LINE);
    let air = bed.a.run(|| sys::interface_index("air0").unwrap());
    for (words, expected) in [
        ("route add default dev air0", vec![air]),
        ("route change default dev air0 metric 0 mtu 1400", vec![air]),
        ("addr add 10.9.1.1/24 dev air0", vec![air]),
        ("route add blackhole 192.0.2.0/24", vec![]),
        ("link set air0 txqueuelen 500", vec![]),
        ("link set air0 alias air", vec![]),
    ] {
        assert_eq!(changed(&bed, words), expected, "ip {words}");
    }
}
