//! Changes of path as the kernel of this host tells them.
#![allow(clippy::disallowed_methods)]

mod common;

use std::time::Duration;

use airtcp_core::units::Span;
use airtcp_host::paths::Watch;
use airtcp_host::paths::change::{Change, Family, Whose};
use airtcp_host::sys;
use common::{Bed, LINE};

/// Changes of a path within 300 ms of what `words` of `ip` did.
fn changed(bed: &Bed, words: &'static str) -> Vec<Change> {
    bed.a.run(move || {
        let mut watch = Watch::new().unwrap();
        let done = std::process::Command::new("ip").args(words.split(' ')).status().unwrap();
        assert!(done.success(), "ip {words}");
        let (begin, mut all) = (sys::monotonic(), Vec::new());
        while sys::monotonic().since(begin) < Span::from_ms(300) {
            let wait = watch.wait(sys::monotonic(), Duration::from_millis(50));
            sys::readable(&watch.fds(), wait).unwrap();
            watch.read(sys::monotonic());
            all.extend(watch.due(sys::monotonic(), |_| true));
        }
        all
    })
}

#[test]
fn next_hops_and_lost_sources_are_changes_and_other_things_are_not() {
    if let Some(reason) = common::missing_namespaces() {
        common::skipped(&reason);
        return;
    }
    let bed = Bed::new(LINE);
    let air = bed.a.run(|| sys::interface_index("air0").unwrap());
    let source = Whose::Source([10, 9, 1, 1].into());
    for (words, expected) in [
        ("route add default dev air0", Some(Whose::Family(Family::V4))),
        ("route change default dev air0 metric 0 mtu 1400", None),
        ("addr add 10.9.1.1/24 dev air0", None),
        ("addr change 10.9.1.1/24 dev air0 valid_lft 1000 preferred_lft 900", None),
        ("route add 10.9.3.0/24 dev air0", None),
        ("route replace default via 10.9.1.7 dev air0", Some(Whose::Family(Family::V4))),
        ("route add default via 10.9.1.8 dev air0 metric 50", None),
        ("addr add 2001:db8::1/64 dev air0", None),
        ("-6 route add default via 2001:db8::7 dev air0", Some(Whose::Family(Family::V6))),
        ("-6 route del default via 2001:db8::7 dev air0", None),
        ("addr del 10.9.1.1/24 dev air0", Some(source)),
        ("route add blackhole 192.0.2.0/24", None),
        ("link set air0 txqueuelen 500", None),
        ("link set air0 alias air", None),
    ] {
        let expected: Vec<Change> = expected.into_iter().map(|whose| Change { interface: air, whose }).collect();
        assert_eq!(changed(&bed, words), expected, "ip {words}");
    }
}
