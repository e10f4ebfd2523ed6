//! The shell script of each kernel of a laboratory: its radio, its addresses, its lines, its
//! programs.

use std::fmt::Write as _;

use airtcp_core::tcp::Tsq;
use airtcp_core::units::{Span, Time};
use airtcp_hwsim::frame;

use super::run::ASSOCIATION_TIME;
use super::scenario::{FlowKind, Host, LabScenario, Line, Radio};
use crate::common::config::Security;
use crate::common::world::sysctls;
use crate::uml::files::GUEST_FOLDER;
use crate::uml::guest_time::GuestTime;

/// Programs that the scripts need, and the Debian packages that have them.
pub(crate) const NEEDED: [(&str, &str); 4] =
    [("hostapd", "hostapd"), ("iw", "iw"), ("ip", "iproute2"), ("tc", "iproute2")];
/// With a password, too.
pub(crate) const NEEDED_FOR_WPA: (&str, &str) = ("wpa_supplicant", "wpasupplicant");

/// Where scripts look for programs.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The first port of flows: each has its own.
const PORT: usize = 5001;
/// MHz: the first channel of the band in which a new kernel lets access points begin.
const FREQUENCY: u32 = 2412;
/// MHz, for what is wider: channel 36.
const FREQUENCY_5: u32 = 5180;
const PASSWORD: &str = "airtcp-lab";
/// A station looks no more when less than this is left before the run: a look and a ping without an
/// answer last so long.
const LAST_ATTEMPT: Span = Span::from_ms(1500);

/// The file of a flow's end.
pub(crate) fn end_file(flow: usize, end: &str) -> String {
    format!("flow{flow}.{end}")
}

fn mac(index: usize) -> String {
    let bytes = frame::address(airtcp_core::convert::count16(index));
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn station_address(index: usize) -> String {
    format!("10.1.{}.{}", index / 250, index % 250 + 1)
}

fn address(host: Host) -> String {
    match host {
        Host::Station(index) => station_address(index),
        Host::Wired(index) => format!("10.2.{index}.2"),
    }
}

fn frequency(scenario: &LabScenario) -> u32 {
    if scenario.band.is_at_5_ghz() { FREQUENCY_5 } else { FREQUENCY }
}

fn ssid(ap: usize) -> String {
    format!("airtcp{ap}")
}

/// The configuration of hostapd.
pub(crate) fn hostapd(scenario: &LabScenario, ap: usize, security: Security) -> String {
    // Basic rates as those of the model: no frame goes at a rate of 802.11b. A link with many
    // errors is no reason to end it.
    let mut text = format!(
        "interface=wlan0\ndriver=nl80211\nssid={}\nieee80211n=1\nwmm_enabled=1\n\
        supported_rates=60 90 120 180 240 360 480 540\nbasic_rates=60 120 240\nbeacon_int=100\ndisassoc_low_ack=0\n",
        ssid(ap)
    );
    text += if scenario.band.is_at_5_ghz() { "hw_mode=a\nchannel=36\n" } else { "hw_mode=g\nchannel=1\n" };
    let mut abilities = String::new();
    if scenario.band.wide {
        abilities += "[HT40+]";
    }
    if scenario.radios[ap].short_gi {
        abilities += if scenario.band.wide { "[SHORT-GI-20][SHORT-GI-40]" } else { "[SHORT-GI-20]" };
    }
    if !abilities.is_empty() {
        let _ = writeln!(text, "ht_capab={abilities}");
    }
    if scenario.band.vht {
        text += "ieee80211ac=1\nvht_oper_chwidth=0\n";
    }
    match security {
        Security::Open => {}
        Security::Wpa2 => {
            let _ = writeln!(text, "wpa=2\nwpa_passphrase={PASSWORD}\nwpa_key_mgmt=WPA-PSK\nrsn_pairwise=CCMP");
        }
        Security::Wpa3 => {
            let _ = writeln!(
                text,
                "wpa=2\nsae_password={PASSWORD}\nwpa_key_mgmt=SAE\nieee80211w=2\nsae_pwe=2\nrsn_pairwise=CCMP"
            );
        }
    }
    text
}

/// The configuration of wpa_supplicant.
pub(crate) fn supplicant(scenario: &LabScenario, ap: usize, security: Security) -> String {
    let (name, frequency) = (ssid(ap), frequency(scenario));
    let key = match security {
        Security::Wpa3 => {
            format!("sae_password=\"{PASSWORD}\"\nkey_mgmt=SAE\nieee80211w=2")
        }
        Security::Open | Security::Wpa2 => format!("psk=\"{PASSWORD}\"\nkey_mgmt=WPA-PSK"),
    };
    format!("sae_pwe=2\nnetwork={{\nssid=\"{name}\"\n{key}\npairwise=CCMP\nscan_freq={frequency}\n}}\n")
}

/// The script of a radio's kernel.
pub(crate) fn script(scenario: &LabScenario, index: usize, security: Security, program: &str) -> String {
    let radio = &scenario.radios[index];
    // The rules of a new kernel forbid access points at 5 GHz: such a radio is made here, with
    // rules of its own.
    let radio_5 =
        if scenario.band.is_at_5_ghz() { format!("must {program} lab-traffic new-radio\n") } else { String::new() };
    let mut text = format!(
        "W={GUEST_FOLDER}\nfail() {{ echo \"error $1\" > $W/{index}.part; mv $W/{index}.part $W/{index}.ready; exit 1; }}\n\
        must() {{ \"$@\" || fail \"$* failed\"; }}\n\
        must mount -t debugfs none /sys/kernel/debug\nmust ip link set lo up\n{radio_5}\
        must ip link set wlan0 address {}\n",
        mac(index)
    );
    // Before there is anybody to send to: the first frames have it, too.
    if let Some(fixed) = fixed_index(scenario, radio) {
        let _ = writeln!(text, "must sh -c 'echo {fixed} > /sys/kernel/debug/ieee80211/phy0/rc/fixed_rate_idx'");
    }
    tcp(&mut text, radio.tcp.as_deref(), "");
    if scenario.is_ap(index) {
        access_point(&mut text, scenario, index, program);
    } else {
        station(&mut text, scenario, index, security);
    }
    let _ = writeln!(text, "must iw dev wlan0 set bitrates {}", rates(scenario, radio));
    for (number, flow) in scenario.flows.iter().enumerate() {
        for (host, is_source) in [(flow.from, true), (flow.to, false)] {
            let runs_here = match host {
                Host::Station(station) => station == index,
                Host::Wired(n) => index == scenario.wired[n].ap,
            };
            if runs_here {
                program_of(&mut text, scenario, number, host, is_source, program);
            }
        }
    }
    if radio.retry_out.is_some() {
        // Counters, when all flows are over.
        let end = (GuestTime::BEGIN + ASSOCIATION_TIME + scenario.duration + Span::from_ms(300)).as_ns();
        let _ = writeln!(
            text,
            "( {program} lab-traffic wait {end}; cd /sys/kernel/debug/ieee80211/phy0/retry_out; \
            grep . seen disbelieved given_up late limited > $W/{index}.retry_out ) &"
        );
    }
    let _ = writeln!(text, "echo ready > $W/{index}.part; mv $W/{index}.part $W/{index}.ready");
    text
}

/// The rates that a radio may use, as `iw` takes them: its fixed one, or all of its streams.
/// Simulated radios of hwsim have four.
fn rates(scenario: &LabScenario, radio: &Radio) -> String {
    let band = if scenario.band.is_at_5_ghz() { "5" } else { "2.4" };
    let mut all = match (radio.mcs, scenario.band.vht) {
        (Some(mcs), true) => format!("vht-mcs-{band} {}:{mcs}", radio.streams),
        (Some(mcs), false) => format!("ht-mcs-{band} {mcs}"),
        (None, true) => {
            (1..=radio.streams).fold(format!("vht-mcs-{band}"), |all, streams| format!("{all} {streams}:0-9"))
        }
        (None, false) => (0..8 * radio.streams).fold(format!("ht-mcs-{band}"), |all, mcs| format!("{all} {mcs}")),
    };
    // With the short guard interval a radio that chooses its rate may use the long one as well.
    match (radio.short_gi, radio.mcs) {
        (false, _) => all += &format!(" lgi-{band}"),
        (true, Some(_)) => all += &format!(" sgi-{band}"),
        (true, None) => {}
    }
    all
}

/// The rate that minstrel_ht keeps to. Where it only may not use the others it tests them all the
/// same, each time with another A-MPDU. Its number is that of the group and, below it, of the rate
/// (Linux 6.12, net/mac80211/rc80211_minstrel_ht.h, `MI_RATE`). Groups go by width, guard interval
/// and streams, those of 802.11ac behind 16 of HT, CCK and OFDM.
fn fixed_index(scenario: &LabScenario, radio: &Radio) -> Option<u16> {
    const STREAMS: u16 = 4;
    const FIRST_OF_VHT: u16 = 18;
    let mcs = u16::from(radio.mcs?);
    let (first, streams, index) =
        if scenario.band.vht { (FIRST_OF_VHT, u16::from(radio.streams), mcs) } else { (0, mcs / 8 + 1, mcs % 8) };
    let group = 2 * STREAMS * u16::from(scenario.band.wide) + STREAMS * u16::from(radio.short_gi) + streams - 1;
    Some(16 * (first + group) + index)
}

/// Sysctls of TCP, in a namespace if `within` enters one.
fn tcp(text: &mut String, config: Option<&airtcp_core::tcp::TcpConfig>, within: &str) {
    for sysctl in config.map(sysctls).unwrap_or_default() {
        let _ = writeln!(text, "must {within}sh -c 'echo \"{}\" > /proc/sys/net/{}'", sysctl.value, sysctl.key);
    }
}

fn access_point(text: &mut String, scenario: &LabScenario, index: usize, program: &str) {
    let _ = writeln!(
        text,
        "hostapd -B $W/{index}.conf > $W/{index}.hostapd 2>&1 || fail \"hostapd: $(tail -n 2 $W/{index}.hostapd)\"\n\
        must ip addr add {}/16 dev wlan0\nmust sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'",
        station_address(index)
    );
    for (n, host) in scenario.wired.iter().enumerate().filter(|(_, host)| host.ap == index) {
        let within = format!("ip netns exec w{n} ");
        let _ = writeln!(
            text,
            "must ip netns add w{n}\nmust ip link add v{n} gso_max_segs 1 type veth peer name eth0 netns w{n}\n\
            must ip addr add 10.2.{n}.1/24 dev v{n}\nmust ip link set v{n} up\n\
            must {within}ip link set lo up\nmust {within}ip link set eth0 gso_max_segs 1 up\n\
            must {within}ip addr add 10.2.{n}.2/24 dev eth0\nmust {within}ip route add default via 10.2.{n}.1"
        );
        if let Some(offload) = host.offload {
            // If a veth may send many segments as one, its other end merges none
            // (drivers/net/veth.c, `veth_skb_is_eligible_for_gro`).
            let _ = writeln!(
                text,
                "must {program} lab-traffic no-tso v{n}\n\
                must {within}{program} lab-traffic merge eth0 {} {}",
                offload.flush_timeout.as_ns(),
                offload.defer
            );
        }
        netem(text, host.down, &format!("dev v{n}"), "");
        netem(text, host.up, "dev eth0", &within);
        tcp(text, host.tcp.as_deref(), &within);
    }
    if let Some(table) = &scenario.radios[index].retry_out {
        let _ = writeln!(
            text,
            "R=/sys/kernel/debug/ieee80211/phy0/retry_out\n\
            [ -d $R ] || fail 'this kernel has no retry-out: tools/uml/build.py 6.12 --wifi makes one'\n\
            must sh -c \"echo {table} > $R/table\"\nmust sh -c \"echo 1 > $R/enabled\""
        );
    }
}

fn netem(text: &mut String, line: Line, device: &str, within: &str) {
    let delay_ns = line.delay.as_ns();
    let (delay, rate, limit) =
        (format!("{}.{:03}us", delay_ns / 1000, delay_ns % 1000), line.rate.as_bps(), line.limit);
    let _ = writeln!(text, "must {within}tc qdisc add {device} root netem delay {delay} rate {rate}bit limit {limit}");
}

fn station(text: &mut String, scenario: &LabScenario, index: usize, security: Security) {
    // One after the other, when the access point is there.
    let wait = 500 + 50 * index;
    // netem takes packets from their sockets at once (skb_orphan_partial), so that small queues see
    // nothing.
    if scenario.radios[index].tcp.as_ref().is_some_and(|tcp| tcp.host_queue.tsq == Tsq::Off) {
        let _ = writeln!(text, "must tc qdisc add dev wlan0 root netem delay 1us limit 100000");
    }
    let own = scenario.radios[index].ap;
    let ap = station_address(own);
    let _ = writeln!(
        text,
        "must ip link set wlan0 up\niw dev wlan0 set power_save off\nsleep {}.{:03}",
        wait / 1000,
        wait % 1000
    );
    let (first, again) = if security == Security::Open {
        let iw = format!(
            "iw dev wlan0 connect -w {} {} {} > $W/iw{index}.log 2>&1",
            ssid(own),
            frequency(scenario),
            mac(own)
        );
        (format!("{iw} || fail \"no association: $(tail -n 1 $W/iw{index}.log)\""), iw)
    } else {
        let supplicant = format!("wpa_supplicant -B -P $P -i wlan0 -c $W/{index}.conf > $W/wpa{index}.log 2>&1");
        (
            format!("P=$W/wpa{index}.pid\n{supplicant} || fail \"wpa_supplicant: $(tail -n 2 $W/wpa{index}.log)\""),
            format!("kill $(cat $P); while [ -e $P ]; do sleep 0.01; done; {supplicant}"),
        )
    };
    // A probe request is sent once, and nothing acknowledges it. Who does not find its access point
    // looks again: wpa_supplicant does so late, `iw` never.
    let latest_cs = (GuestTime::BEGIN + ASSOCIATION_TIME.saturating_sub(LAST_ATTEMPT)).as_ns() / 10_000_000;
    let _ = writeln!(
        text,
        "{first}\nmust ip addr add {}/16 dev wlan0\nmust ip route add default via {ap}\n\
        answers() {{ ping -c 1 -W 1 -q {ap} > /dev/null && ping -c 1 -W 1 -q {ap} > /dev/null; }}\n\
        until answers; do\n\
        read up idle < /proc/uptime\n\
        [ ${{up%.*}}${{up#*.}} -lt {latest_cs} ] || fail 'the access point does not answer'\n\
        iw dev wlan0 link | grep -q ^Connected || {{ {again}; }}\n\
        done",
        station_address(index)
    );
}

fn program_of(text: &mut String, scenario: &LabScenario, number: usize, host: Host, is_source: bool, program: &str) {
    let flow = &scenario.flows[number];
    let within = match host {
        Host::Station(_) => String::new(),
        Host::Wired(index) => format!("ip netns exec w{index} "),
    };
    let at = |time: Time| (GuestTime::of(time) + ASSOCIATION_TIME).as_ns();
    let (start, stop, interval) = (at(flow.start), at(flow.stop), scenario.interval.as_ns());
    let (port, to) = (PORT + number, address(flow.to));
    let out = |end: &str| format!("{GUEST_FOLDER}/{}", end_file(number, end));
    let words = match (&flow.kind, is_source) {
        (FlowKind::Tcp { cc }, true) => format!("send {to} {port} {start} {stop} {interval} {} {cc}", out("sent")),
        (FlowKind::Tcp { .. }, false) => format!("sink {port} {start} {stop} {interval} {}", out("came")),
        (FlowKind::Ping { interval, payload }, true) => {
            format!("ping {to} {port} {start} {stop} {} {} {payload}", interval.as_ns(), out("sent"))
        }
        (FlowKind::Ping { .. }, false) => format!("echo {port}"),
        (FlowKind::Cbr { interval, payload }, true) => {
            format!("datagrams {to} {port} {start} {stop} {} {} {payload}", interval.as_ns(), out("sent"))
        }
        (FlowKind::Cbr { .. }, false) => format!("count {port} {start} {stop} {interval} {}", out("came")),
    };
    let _ = writeln!(text, "{within}{program} lab-traffic {words} &");
}

/// A radio's part of the report.
pub(crate) fn rate_control(radio: &Radio) -> String {
    radio.mcs.map_or_else(|| "minstrel_ht".to_owned(), |mcs| format!("MCS {mcs}"))
}
