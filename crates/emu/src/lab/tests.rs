//! Text of strangers reaches a laboratory in two places: names of a scenario, and files of a guest.

use std::io::Write;
use std::process::{Command, Stdio};

use airtcp_sim::scenario::{Override, Scenario};

use super::scenario::{LabScenario, lab_scenario};
use super::traffic::{Datagram, Observations, Sample};
use super::{script, tables};
use crate::common::config::Security;
use crate::uml::guest_time::GuestTime;

const FILE: &str = include_str!("../../../../examples/lab-upload.toml");
const HOSTILE: [&str; 8] = ["$(touch x)", "`id`", "a;id", "a\nid", "../../etc", "a' \"b", "\u{1b}]0;t\u{7}", "a b"];

fn example() -> LabScenario {
    lab_scenario(&Scenario::parse(FILE, "lab.toml", &[]).unwrap().to_spec().unwrap()).unwrap()
}

fn scripts(scenario: &LabScenario) -> Vec<String> {
    let mut all = Vec::new();
    for security in [Security::Open, Security::Wpa2, Security::Wpa3] {
        for index in 0..scenario.radios.len() {
            all.push(script::script(scenario, index, security, "/media/init"));
            all.push(script::hostapd(scenario, index, security));
            all.push(script::supplicant(scenario, index, security));
        }
    }
    all
}

/// A name of letters alone is one. If others were, scripts would not differ: they have numbers in
/// place of names.
#[test]
fn names_do_not_reach_the_scripts_of_guests() {
    let plain = scripts(&example());
    for name in HOSTILE {
        let text = FILE.replace("\"sta\"", &format!("{name:?}"));
        let said = Scenario::parse(&text, "lab.toml", &[]).map(|scenario| scenario.to_spec().map(|_| ()));
        assert!(!matches!(said, Ok(Ok(()))), "{name:?} is taken for a name");
        let mut scenario = example();
        for radio in &mut scenario.radios {
            radio.name = name.to_owned();
        }
        scenario.wired.iter_mut().for_each(|host| host.name = name.to_owned());
        for flow in &mut scenario.flows {
            (flow.name, flow.group) = (name.to_owned(), name.to_owned());
        }
        assert_eq!(scripts(&scenario), plain, "{name:?}");
    }
}

/// minstrel_ht tests rates that it only may not use: it is told of the one that it has to keep to.
/// Numbers by Linux 6.12, net/mac80211/rc80211_minstrel_ht.c, `minstrel_mcs_groups`.
#[test]
fn minstrel_ht_keeps_to_the_rate_of_the_scenario() {
    let told = |phy: &str, rate: &str| {
        let sets = [
            format!("wlans.wlan.phy={{ {phy} }}"),
            format!("wlans.wlan.station_radio.rate_control={rate}"),
            format!("wlans.wlan.ap_radio.rate_control={rate}"),
        ]
        .map(|set| Override::parse(&set).unwrap());
        let spec = Scenario::parse(FILE, "lab.toml", &sets).unwrap().to_spec().unwrap();
        let text = script::script(&lab_scenario(&spec).unwrap(), 0, Security::Open, "/media/init");
        text.split("must sh -c 'echo ").find_map(|part| {
            let (index, file) = part.split_once(" > ")?;
            file.contains("fixed_rate_idx").then(|| index.parse::<u16>().unwrap())
        })
    };
    // One stream, 20 MHz: group 0. Two streams and 40 MHz: group 9. 40 MHz of 802.11ac: group 26.
    assert_eq!(told("standard = 'n'", "{ name = 'fixed', mcs = 1 }"), Some(1));
    assert_eq!(told("standard = 'n', width_mhz = 40, streams = 2", "{ name = 'fixed', mcs = 11 }"), Some(9 * 16 + 3));
    assert_eq!(told("standard = 'ac', width_mhz = 40", "{ name = 'fixed', mcs = 8 }"), Some(26 * 16 + 8));
    assert_eq!(told("standard = 'n'", "'minstrel_ht'"), None);
}

#[test]
fn scripts_are_ones_that_a_shell_reads() {
    let scenario = example();
    for index in 0..scenario.radios.len() {
        let text = script::script(&scenario, index, Security::Wpa2, "/media/init");
        let mut shell = Command::new("/bin/sh").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success());
    }
}

/// Counters that run backwards, times that are none: there are tables, whatever a guest has
/// written.
#[test]
fn figures_of_guests_that_make_no_sense_become_tables() {
    let scenario = example();
    let far = GuestTime::from_ns(u64::MAX);
    let after = GuestTime::from_ns(60_000_000_000);
    let sample = |at, number: u32| Sample {
        at,
        bytes_acked: u64::from(number),
        srtt_us: number,
        min_rtt_us: number,
        cwnd: number,
        segments: number,
        retransmitted: number,
    };
    let datagram = |sent, came, number| Datagram { number, sent, came };
    let observations = Observations {
        samples: vec![sample(after, u32::MAX), sample(far, 0), sample(after, 0), sample(GuestTime::ZERO, 7)],
        came: vec![(far, u64::MAX), (after, 3), (far, 0)],
        datagrams: vec![
            datagram(far, Some(GuestTime::ZERO), u64::MAX),
            datagram(after, Some(after), 0),
            datagram(after, None, 1),
        ],
    };
    let air = airtcp_hwsim::Air::new(&scenario.medium);
    let both: Vec<[Observations; 2]> =
        scenario.flows.iter().map(|_| [observations.clone(), observations.clone()]).collect();
    let (all, summary) = tables::tables(&scenario, &both, &air.mac);
    assert_eq!(all.iter().find(|table| table.name == "flows").map(|table| table.len()), Some(scenario.flows.len()));
    assert!(serde_json::to_string(&summary).is_ok());
}
