//! Walks and roaming of a scenario: what they expand to, and what is wrong with them.

use airtcp_core::wifi::phy::SignalConfig;
use airtcp_core::wifi::{ApQueue, RoamRule, StationQueue};

use super::*;

const NET: &str = r#"duration = "60s"

[[nodes]]
name = "phone"
kind = "host"
count = 2

[[nodes]]
name = "laptop"
kind = "host"

[[nodes]]
name = "ap1"
kind = "router"

[[nodes]]
name = "ap2"
kind = "router"

[[nodes]]
name = "server"
kind = "host"

[[links]]
from = "ap1"
to = "server"
rate = "1Gbit/s"
delay = "1ms"

[[links]]
from = "ap2"
to = "server"
rate = "1Gbit/s"
delay = "1ms"

[[wlans]]
ap = "ap1"
signal = { kind = "path_loss" }
stations = ["phone"]

[[wlans]]
ap = "ap2"
ap_position_m = [20, 0]
signal = { kind = "path_loss" }
stations = ["phone", { node = "laptop", position_m = [20, 5] }]

[[walks]]
node = "phone"
waypoints_m = [[0, 5], [20, 5]]
speed_m_per_s = 1.5

[[roaming]]
node = "phone"
rule = { kind = "nearest" }
gap = "20ms"

[[flows]]
name = "up"
from = "phone"
to = "server"
"#;

fn with(from: &str, to: &str) -> String {
    assert_eq!(NET.matches(from).count(), 1, "{from:?} is not unique");
    NET.replace(from, to)
}

#[test]
fn walks_and_roaming_become_members() {
    let roaming = "[[roaming]]\nnode = \"phone\"\n";
    let more = format!("{roaming}station_queue = \"drop\"\nap_queue = \"forward\"\nfirst = \"ap2\"\n");
    let spec = spec(&with(roaming, &more));
    assert_eq!(spec.walks.len(), 2);
    let [a, b] = spec.roaming.as_slice() else { panic!("{:?}", spec.roaming) };
    let names = |r: &crate::spec::RoamingSpec| -> Vec<&str> {
        r.candidates.iter().map(|l| spec.links[l.0 as usize].name.as_str()).collect()
    };
    assert_eq!(names(a), ["phone[0]->ap1", "phone[0]->ap2"]);
    assert_eq!(names(b), ["phone[1]->ap1", "phone[1]->ap2"]);
    assert_eq!(a.rule, RoamRule::Nearest { hysteresis_m: 0.0 });
    assert_eq!((a.first, a.gap, a.tells_senders), (Some(1), Span::from_ms(20), true));
    assert_eq!((a.station_queue, a.ap_queue), (StationQueue::Drop, ApQueue::Forward));
    let pairs = &spec.channels[1].pairs;
    let motion = pairs[0].motion.as_ref().unwrap();
    assert_eq!(motion.from_m, [20.0, 0.0]);
    assert_eq!(motion.distance_m(Time::ZERO), f64::hypot(20.0, 5.0));
    assert!(pairs[0].roams.is_some() && pairs[2].roams.is_none() && pairs[2].motion.is_none());
    assert!(matches!(&pairs[2].signal, SignalConfig::PathLoss(c) if c.distance_m == Some(5.0)));
}

/// The carrier goes off when a Linux or Android station leaves, and its queue is reset. Nothing is
/// known of the others.
#[test]
fn what_becomes_of_a_stations_queue_follows_its_profile() {
    let roaming = "[[roaming]]\nnode = \"phone\"\n";
    for (base, wants) in [
        ("linux-6", StationQueue::Drop),
        ("linux-2.6.32", StationQueue::Drop),
        ("android-2.2", StationQueue::Drop),
        ("windows-10", StationQueue::Keep),
    ] {
        let text = format!("{NET}\n[profiles.mine]\nbase = \"{base}\"\n");
        let text = text.replace("name = \"phone\"\n", "name = \"phone\"\nprofile = \"mine\"\n");
        let of = |text: &str| {
            let spec = spec(text);
            let pair = spec.channels[0].pairs.iter().find_map(|p| p.roams).unwrap();
            assert_eq!(pair.station_queue, spec.roaming[0].station_queue);
            pair.station_queue
        };
        assert_eq!(of(&text), wants, "{base}");
        assert_eq!(of(&text.replace(roaming, &format!("{roaming}station_queue = \"keep\"\n"))), StationQueue::Keep);
    }
}

#[test]
fn rules_by_signal_and_by_time() {
    let rule = r#"rule = { kind = "nearest" }"#;
    let by_signal = spec(&with(rule, r#"rule = { kind = "rssi", below_dbm = -60 }"#));
    let want = RoamRule::Rssi { every: Span::from_ms(100), samples: 10, below_dbm: -60.0, hysteresis_db: 5.0 };
    assert_eq!(by_signal.roaming[0].rule, want);
    let times = r#"rule = { kind = "times", switches = [{ at = "3s", to = "ap2" }, { at = "4s", to = "ap1" }] }"#;
    let at = |s| Time::ZERO + Span::from_secs(s);
    assert_eq!(spec(&with(rule, times)).roaming[1].rule, RoamRule::Times(vec![(at(3), 1), (at(4), 0)]));
}

#[test]
fn what_is_written_out_means_the_same() {
    let scenario = Scenario::parse(NET, "x.toml", &[]).unwrap();
    let again = Scenario::parse(&scenario.to_toml(), "y.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(scenario.to_spec().unwrap(), again.to_spec().unwrap());
}

#[test]
fn every_fault_is_named_with_its_place_and_what_would_be_accepted() {
    let roaming = "[[roaming]]\nnode = \"phone\"\nrule = { kind = \"nearest\" }\ngap = \"20ms\"\n";
    let walk = "[[walks]]\nnode = \"phone\"\n";
    let rule = r#"rule = { kind = "nearest" }"#;
    let signal2 = "ap_position_m = [20, 0]\nsignal = { kind = \"path_loss\" }";
    let cases: &[(&str, &str, &[&str])] = &[
        (
            roaming,
            "",
            &[
                "wlans[1].stations[0]",
                "phone[0] is already a station of wlans[0]",
                "unless it has an entry in `roaming`",
            ],
        ),
        (roaming, &format!("{roaming}\n{roaming}"), &["roaming[1].node", "phone[0] already has roaming[0]"]),
        ("[[roaming]]\nnode = \"phone\"", "[[roaming]]\nnode = \"ap1\"", &["roaming[0].node", "is a router"]),
        (
            "[[roaming]]\nnode = \"phone\"",
            "[[roaming]]\nnode = \"phon\"",
            &["roaming[0].node", "did you mean `phone`?"],
        ),
        (
            roaming,
            &format!("{roaming}[[roaming]]\nnode = \"laptop\"\n"),
            &[
                "roaming[1].node",
                "laptop is a station of one WLAN: a roaming host must be in the `stations` of at least two",
            ],
        ),
        (
            roaming,
            &format!("{roaming}[[roaming]]\nnode = \"server\"\n"),
            &["roaming[1].node", "server is a station of no WLAN"],
        ),
        ("gap = \"20ms\"", "gap = \"20ms\"\nfirst = \"ap3\"", &["roaming[0].first = \"ap3\"", "did you mean `ap1`?"]),
        ("gap = \"20ms\"", "gap = \"2h\"", &["roaming[0].gap", "must be at most"]),
        ("gap = \"20ms\"", "gap = 20", &["roaming[0].gap", "duration"]),
        (rule, r#"rule = "nearest""#, &["roaming[0].rule", "a table with kind"]),
        (rule, r#"rule = { kind = "near" }"#, &["roaming[0].rule.kind", "nearest"]),
        (rule, r#"rule = { kind = "nearest", hysteresis_m = -1 }"#, &["roaming[0].rule.hysteresis_m = -1"]),
        (rule, r#"rule = { kind = "rssi", every = "0s" }"#, &["roaming[0].rule.every", "must be longer than 0s"]),
        (rule, r#"rule = { kind = "rssi", samples = 0 }"#, &["roaming[0].rule.samples = 0"]),
        (rule, r#"rule = { kind = "times" }"#, &["roaming[0].rule", "switches"]),
        (
            rule,
            r#"rule = { kind = "times", switches = [{ at = "3s", to = "ap2" }, { at = "3s", to = "ap1" }] }"#,
            &["roaming[0].rule.switches[1].at", "must be later than the one before (3s)"],
        ),
        (
            rule,
            r#"rule = { kind = "times", switches = [{ at = "3s", to = "server" }] }"#,
            &["roaming[0].rule.switches[0].to = \"server\"", "accepted: ap1, ap2"],
        ),
        (
            walk,
            "[[walks]]\nnode = \"laptop\"\n",
            &["wlans[1].stations[1].position_m", "walks[0] already sets its position"],
        ),
        (walk, "[[walks]]\nnode = \"ap1\"\n", &["walks[0].node", "routers stay where they are"]),
        (walk, "[[walks]]\nnode = \"phone[2]\"\n", &["walks[0].node", "phone[0] to phone[1]"]),
        (
            walk,
            "[[walks]]\nnode = \"phone[1]\"\nwaypoints_m = [[0, 0], [1, 1]]\nspeed_m_per_s = 1\n\n[[walks]]\nnode = \"phone\"\n",
            &["walks[1].node", "phone[1] already walks in walks[0]"],
        ),
        ("[[0, 5], [20, 5]]", "[[0, 5]]", &["walks[0].waypoints_m", "at least two points"]),
        ("[[0, 5], [20, 5]]", "[[0, 5], [20]]", &["walks[0].waypoints_m[1]"]),
        ("[[0, 5], [20, 5]]", "[[0, 5], [2e7, 5]]", &["walks[0].waypoints_m[1]", "must be [x, y] in metres"]),
        ("speed_m_per_s = 1.5", "speed_m_per_s = 0", &["walks[0].speed_m_per_s = 0", "must be above 0"]),
        ("speed_m_per_s = 1.5", "speed_m_per_s = -1", &["walks[0].speed_m_per_s = -1", "must be above 0"]),
        ("speed_m_per_s = 1.5", "", &["walks[0]", "speed_m_per_s"]),
        (
            signal2,
            &format!("{signal2}\ncarrier_sense_dbm = -80"),
            &["wlans[1].carrier_sense_dbm", "if a station walks"],
        ),
        (
            "[[walks]]\nnode = \"phone\"\nwaypoints_m = [[0, 5], [20, 5]]\nspeed_m_per_s = 1.5\n",
            "",
            &["wlans[0].signal", "needs `distance_m`", "or an entry in `walks`"],
        ),
    ];
    for (from, to, wanted) in cases {
        let errors = errors_with(&with(from, to), &[]);
        for want in *wanted {
            assert!(errors.contains(want), "{from} -> {to}\nmust say {want:?}, says:\n{errors}");
        }
    }
}

#[test]
fn a_rule_needs_what_it_measures() {
    let standing = "[[walks]]\nnode = \"phone\"\nwaypoints_m = [[0, 5], [20, 5]]\nspeed_m_per_s = 1.5\n";
    let perfect = |text: &str| {
        text.replace("signal = { kind = \"path_loss\" }\nstations = [\"phone\"]", "stations = [\"phone\"]")
    };
    // A walk says where the host is, whatever its signal.
    assert_eq!(errors_with(&perfect(NET), &[]), "accepted");
    let rssi = errors_with(&perfect(&with(r#"kind = "nearest""#, r#"kind = "rssi""#)), &[]);
    assert!(rssi.contains("roaming[0].rule") && rssi.contains("in the WLAN ap1 has no received power"), "{rssi}");
    let text = perfect(&with(standing, ""))
        .replace("signal = { kind = \"path_loss\" }", "signal = { kind = \"path_loss\", distance_m = 5 }");
    let nearest = errors_with(&text.replace(", position_m = [20, 5]", ""), &[]);
    assert!(nearest.contains("the position of phone[0] is unknown: give it an entry in `walks`"), "{nearest}");
}
