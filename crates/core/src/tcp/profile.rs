//! The named **host profiles**: era and operating system as data.
//!
//! A profile is a file `profiles/<name>.toml` with options of TCP ([`TcpOptions`]). A scenario
//! names one and may override any of its options. There is no branch on an operating system
//! anywhere.

use serde::Deserialize;

use super::TcpOptions;
use crate::receive::ReceiveOffloadConfig;
use crate::wifi::roam::StationQueue;

/// Names of the built-in profiles, and their files.
const PROFILES: &[(&str, &str)] = &[
    ("linux-6", include_str!("profiles/linux-6.toml")),
    ("linux-3.13", include_str!("profiles/linux-3.13.toml")),
    ("linux-3.13-no-tsq", include_str!("profiles/linux-3.13-no-tsq.toml")),
    ("linux-3.13-codel", include_str!("profiles/linux-3.13-codel.toml")),
    ("linux-2.6.32", include_str!("profiles/linux-2.6.32.toml")),
    ("android-2.2", include_str!("profiles/android-2.2.toml")),
    ("android-4.1", include_str!("profiles/android-4.1.toml")),
    ("windows-10", include_str!("profiles/windows-10.toml")),
    ("macos-10.11", include_str!("profiles/macos-10.11.toml")),
    ("freebsd-2.2.1", include_str!("profiles/freebsd-2.2.1.toml")),
    ("ns2-reno", include_str!("profiles/ns2-reno.toml")),
];

/// Names of the built-in profiles.
pub fn profile_names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

/// A built-in profile's file as it stands: its comments are its documentation.
pub fn profile_file(name: &str) -> Option<&'static str> {
    PROFILES.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// How a host takes packets from its interfaces.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    /// From a line.
    pub wired: ReceiveOffloadConfig,
    /// From the air; `None`: as the driver of the radio does.
    pub wifi: Option<ReceiveOffloadConfig>,
}

/// Behaviour of a host that changes to another access point.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Roams {
    station_queue: StationQueue,
}

/// A profile's file: TCP options, the profile `base` that holds where it says nothing, and the
/// tables `wifi`, `receive` and `roaming`.
struct ProfileFile {
    base: Option<String>,
    wifi: Option<toml::Table>,
    receive: Option<Receive>,
    roaming: Option<Roams>,
    options: TcpOptions,
}

impl ProfileFile {
    fn read(name: &str) -> Option<ProfileFile> {
        Some(ProfileFile::parse(profile_file(name)?).unwrap_or_else(|e| unreachable!("built-in profile {name}: {e}")))
    }

    fn parse(text: &str) -> Result<ProfileFile, toml::de::Error> {
        let mut table: toml::Table = toml::from_str(text)?;
        let mut take = |key| table.remove(key);
        let base = take("base").map(toml::Value::try_into).transpose()?;
        let wifi = take("wifi").map(toml::Value::try_into).transpose()?;
        let receive = take("receive").map(toml::Value::try_into).transpose()?;
        let roaming = take("roaming").map(toml::Value::try_into).transpose()?;
        Ok(ProfileFile { base, wifi, receive, roaming, options: table.try_into()? })
    }
}

/// The built-in profile of that name, complete.
pub fn profile(name: &str) -> Option<TcpOptions> {
    let file = ProfileFile::read(name)?;
    match file.base {
        Some(base) => profile(&base).map(|base| file.options.over(base)),
        None => Some(file.options),
    }
}

/// How the Wi-Fi device of the built-in profile's host queues packets, as its file or its base's
/// says: the table `wifi`, for whoever builds stations. `None`: no such profile, or it says
/// nothing.
pub fn wifi(name: &str) -> Option<toml::Table> {
    let file = ProfileFile::read(name)?;
    file.wifi.or_else(|| file.base.and_then(|base| wifi(&base)))
}

/// How the host of the built-in profile takes packets from its interfaces, as its file or its
/// base's says: the table `receive`. `None`: no such profile.
pub fn receive(name: &str) -> Option<Receive> {
    let file = ProfileFile::read(name)?;
    file.receive.or_else(|| file.base.and_then(|base| receive(&base)))
}

/// Treatment of the host's queue when the host leaves an access point, as the built-in profile's
/// file or its base's says. `None`: no such profile, or its files do not say.
pub fn station_queue(name: &str) -> Option<StationQueue> {
    let file = ProfileFile::read(name)?;
    file.roaming.map(|roams| roams.station_queue).or_else(|| file.base.and_then(|base| station_queue(&base)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{SegmentsAtOnce, Tsq};
    use crate::units::Span;

    #[test]
    fn every_profile_is_complete() {
        for name in profile_names() {
            let config = profile(name).unwrap().resolve().unwrap_or_else(|missing| panic!("{name}: {missing:?}"));
            assert!(config.mss() > 1);
        }
    }

    #[test]
    fn a_profile_states_what_differs_from_its_base() {
        let of = |name| profile(name).unwrap().resolve().unwrap();
        let mut codel = of("linux-3.13-codel");
        assert_eq!((codel.host_queue.tsq, codel.cwnd.initial), (Tsq::Off, 10));
        let segments = codel.buffers.send_max.get() / u64::from(codel.mss());
        assert_eq!(
            segments,
            (4 << 20) / (u64::from(codel.mss()) + codel.host_queue.tsq_overhead.get()),
            "4 MiB of such skbs"
        );
        assert_eq!(segments, 963);
        codel.host_queue.tsq = Tsq::AtLeast;
        assert_eq!(codel, of("linux-3.13"));
        for (name, queue) in [
            ("linux-6", Some(StationQueue::Drop)),
            ("linux-2.6.32", Some(StationQueue::Drop)),
            ("android-4.1", Some(StationQueue::Drop)),
            ("windows-10", Some(StationQueue::Keep)),
            ("ns2-reno", None),
        ] {
            assert_eq!(station_queue(name), queue, "{name}");
        }
        assert_eq!((profile("linux-5"), wifi("linux-5"), wifi("ns2-reno")), (None, None, None));
        assert!(ProfileFile::parse("base = \"linux-6\"\ncwnd = 3").is_err(), "unknown keys are refused");
    }

    /// RFC 5681 section 4.2 and RFC 6298 rules 2.1 and 2.5.
    // [RFC5681-3.1-16] [RFC5681-4.2-3] [RFC5681-4.2-4] [RFC6298-2.1-1] [RFC6298-2.5-1]
    /// Rules of receivers that came later (4.18, 6.x): with them ACK overflow is another one.
    #[test]
    fn hosts_of_the_studies_of_2010_to_2014_have_receivers_of_their_time() {
        for name in ["linux-2.6.32", "android-2.2", "android-4.1", "linux-3.13"] {
            let c = profile(name).unwrap().resolve().unwrap();
            let later = (c.receiver.window_in_steps, c.receiver.pushed_acks, c.receiver.compressed_sacks);
            assert_eq!(later, (false, false, 0), "{name}");
            assert_eq!(c.host_queue.segments_at_once, SegmentsAtOnce::Single, "{name}");
        }
    }

    #[test]
    fn every_profile_keeps_the_bounds_of_the_rfcs() {
        for name in profile_names() {
            let c = profile(name).unwrap().resolve().unwrap();
            assert!(c.receiver.delayed_ack.max(c.timers.delayed_ack_tick) <= Span::from_ms(500), "{name}");
            assert!(c.rto.initial >= Span::from_secs(1) && c.rto.max >= Span::from_secs(60), "{name}");
            assert!(c.receiver.ack_every <= 2 && c.rto_recovery.loss_window == 1, "{name}");
        }
    }

    #[test]
    fn wifi_tables_come_from_the_profile_or_its_base() {
        let qdisc = |name: &str| wifi(name).unwrap()["transmit"]["qdisc"]["name"].as_str().unwrap().to_owned();
        for (name, expected) in [
            ("linux-3.13", "fifo"),
            ("linux-3.13-no-tsq", "fifo"),
            ("linux-3.13-codel", "codel"),
            ("windows-10", "fifo"),
            ("macos-10.11", "fifo"),
        ] {
            assert_eq!(qdisc(name), expected, "{name}");
        }
        assert_eq!(wifi("linux-6").unwrap()["transmit"]["name"].as_str(), Some("mac80211"));
    }

    #[test]
    fn every_profile_says_how_its_host_receives() {
        let of = |name| receive(name).map(|r| (r.wired.name(), r.wifi.as_ref().map_or("as its card", |w| w.name())));
        for (names, expected) in [
            (&["linux-6"][..], ("igb", "as its card")),
            // ath9k and bcm4329 hand up packet by packet.
            (&["linux-3.13", "linux-3.13-no-tsq", "linux-3.13-codel", "linux-2.6.32"], ("igb", "off")),
            (&["android-2.2", "android-4.1"], ("off", "off")),
            (&["windows-10", "macos-10.11", "freebsd-2.2.1", "ns2-reno"], ("off", "off")),
        ] {
            for name in names {
                assert_eq!(of(name), Some(expected), "{name}");
            }
        }
        assert_eq!(profile_names().filter_map(receive).count(), PROFILES.len());
    }

    /// The qdiscs that the tables name are ones that exist, with parameters they take.
    #[test]
    fn wifi_tables_name_real_queue_disciplines() {
        for name in profile_names() {
            let transmit = wifi(name).and_then(|table| table.get("transmit").cloned());
            if let Some(qdisc) = transmit.as_ref().and_then(|t| t.get("qdisc")) {
                let qdisc: Result<crate::queue::QueueConfig, _> = qdisc.clone().try_into();
                assert!(qdisc.is_ok(), "{name}: {qdisc:?}");
            }
        }
    }
}
