//! `[[walks]]` and `[[roaming]]`: how hosts move, and when they go to another access point.

use airtcp_core::units::Span;
use airtcp_core::wifi::roam::DEFAULT_GAP;
use airtcp_core::wifi::{ApQueue, StationQueue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The path of a host: straight lines at one speed. It stands at the first point before `start` and
/// at the last after its arrival. A `signal` of kind `path_loss` follows its distance from the
/// access point. The other kinds ignore its position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Host or group, or one member as `sta[0]`. All members of a group walk alike.
    pub node: String,
    /// Points of the path, `[[x, y], [x, y]]` in metres: at least two.
    pub waypoints_m: Vec<[f64; 2]>,
    /// Speed in metres per second, above 0. People walk at 1 to 1.5.
    pub speed_m_per_s: f64,
    /// Time at which it starts to walk.
    #[serde(default)]
    pub start: Span,
    /// True: it turns at the last point and walks to and fro until the end of the run.
    #[serde(default)]
    pub there_and_back: bool,
}

/// A host that is a station of several WLANs, one at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Roaming {
    /// Host or group, or one member as `sta[0]`. Each must be listed in the `stations` of two WLANs
    /// or more.
    pub node: String,
    /// Rule by which it changes to another access point: a table with `kind`. Default: as soon as
    /// another is nearer.
    #[serde(default)]
    pub rule: RoamingRule,
    /// Name of the WLAN with which it is associated at the start. Default: the one that the rule
    /// prefers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Time without an association, from leaving one access point until it can send through the
    /// next. Default: 50 ms, the aim of IEEE 802.11r. A station that must search for the next
    /// access point takes several hundred (Mishra, Shin and Arbaugh, SIGCOMM CCR 33(2), 2003).
    #[serde(default = "gap")]
    pub gap: Span,
    /// Fate of packets in its own queue when it leaves, and of packets that its applications send
    /// in the gap. Default: `"drop"` for hosts with a profile of Linux or Android, whose queue
    /// is reset with the carrier; else `"keep"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub station_queue: Option<StationQueue>,
    /// Fate of packets for it at the access point that it has left.
    #[serde(default)]
    pub ap_queue: ApQueue,
    /// True: TCP senders on the host learn of each new association. Some congestion controls react
    /// to it.
    #[serde(default = "tells_senders")]
    pub tells_senders: bool,
}

fn gap() -> Span {
    DEFAULT_GAP
}
fn tells_senders() -> bool {
    true
}

/// Rule by which a station changes to another access point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RoamingRule {
    /// When another access point is nearer.
    Nearest(NearestRule),
    /// When the signal is weak and that of another access point better.
    Rssi(RssiRule),
    /// At given times.
    Times(TimesRule),
}

impl Default for RoamingRule {
    fn default() -> RoamingRule {
        RoamingRule::Nearest(NearestRule::default())
    }
}

/// It changes to the nearest access point. This needs a walk, or a `signal` that knows the
/// distance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NearestRule {
    /// It changes when the other is nearer by more than this, in metres. 0: at the midpoint.
    #[schemars(range(min = 0))]
    pub hysteresis_m: f64,
}

/// It changes by received power, shadowing included. This needs a `signal` of kind `path_loss`,
/// `snr` or `trace`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RssiRule {
    /// Time between measurements. Default: 100 ms, about that of beacons (102.4 ms).
    pub every: Span,
    /// Number of measurements in the mean, and the least number between two associations.
    #[schemars(range(min = 1, max = 10_000))]
    pub samples: u16,
    /// It looks for another access point when the mean of its own is below this, dBm. Default: -65,
    /// NetworkManager's where several access points serve a network.
    #[schemars(range(min = -150, max = 50))]
    pub below_dbm: f64,
    /// The mean of the other must be better by at least this, dB. Default: 5, wpa_supplicant's at a
    /// good signal.
    #[schemars(range(min = 0, max = 100))]
    pub hysteresis_db: f64,
}

impl Default for RssiRule {
    fn default() -> RssiRule {
        RssiRule { every: Span::from_ms(100), samples: 10, below_dbm: -65.0, hysteresis_db: 5.0 }
    }
}

/// It changes at given times, wherever it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimesRule {
    /// The changes, in ascending order of time. A change that is due in a gap follows at its end.
    pub switches: Vec<Switch>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the key of this type says it
pub struct Switch {
    /// Time of the change.
    pub at: Span,
    /// Name of the WLAN to which it changes.
    pub to: String,
}
