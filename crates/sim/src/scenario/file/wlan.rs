//! `[[wlans]]`: access points, their stations, and what lies between them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use airtcp_core::units::{Probability, Span};
use airtcp_core::wifi::RadioOptions;
use airtcp_core::wifi::phy::{PhyConfig, SignalConfig};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

/// A wireless LAN: an access point and its stations. Each station has a line to the access point
/// and one back, named by their ends (`sta[0]->ap`, `ap->sta[0]`).
///
/// Layers of radio options are combined key by key. A station's entry wins over `station_radio`,
/// that over `phy`, that over the `wifi` table of the host's profile, and that over the defaults. A
/// table of another `name`, `kind` or `standard` replaces the one below it as a whole, and so does
/// a `rate_control` with parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wlan {
    /// Name by which `record` and `--set` refer to it: letters, digits, `_` and `-`. Default: that
    /// of the access point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The access point: a router, or one member of a group as `ap[1]`.
    pub ap: String,
    /// Frequency: WLANs that name the same channel share the air. Captures show it if it is a
    /// channel number of the band (`"36"`). Default: a channel of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Hosts that are associated with the access point: names of hosts or groups, members as
    /// `sta[0]`, or tables with `node` and its own options. A host is in one WLAN only, unless
    /// it has an entry in `roaming`.
    pub stations: Vec<StationEntry>,
    /// The radio link between each station and the access point, in both directions alike:
    /// `"perfect"`, or a table with `kind`. Default: `"perfect"`, only collisions lose frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Layer<SignalConfig>>,
    /// Standard, band, width, guard interval and streams of all radios. Default: 802.11n, 20 MHz,
    /// one stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phy: Option<Layer<PhyConfig>>,
    /// Options of the stations' radios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub station_radio: Option<Layer<RadioOptions>>,
    /// Options of the access point's radio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ap_radio: Option<Layer<RadioOptions>>,
    /// Pairs of radios that do not hear each other: `[["near", "far"]]`. A group stands for each of
    /// its members. `"all"`: no two stations of this WLAN hear each other. Default: all radios
    /// on a channel hear each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Hidden>,
    /// Position of the access point, `[x, y]` in metres. Default: `[0, 0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ap_position_m: Option<[f64; 2]>,
    /// Power in dBm at which a radio hears another and keeps silent. Who hears whom then follows
    /// from the positions and the path loss, without shadowing; a station and its access point
    /// always hear each other. Needs a `signal` of kind `path_loss` and `position_m` of every
    /// station. Default: all radios hear each other except `hidden` ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carrier_sense_dbm: Option<f64>,
    /// Time for which a transmission goes unnoticed: a radio whose turn comes within it transmits
    /// as well. WLANs on one channel have the same value. Default: `4us`, the longest that
    /// 802.11 allows OFDM receivers (IEEE 802.11-2020 17.3.10.6). With the standard
    /// `wavelan` it is `16us`, the least slot of its controllers, which must cover it. At most
    /// `20us`, with `wavelan` `1ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensing: Option<Span>,
    /// Probability that one of two colliding transmissions is strong enough at a receiver to be
    /// received. Each of the two has half of it; the later one only if it begins within the
    /// preamble of the earlier. WLANs on one channel have the same value. Default: 0, both are
    /// lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture_effect: Option<Probability>,
}

impl Wlan {
    /// The name it is given or goes by.
    pub fn name(&self) -> Cow<'_, str> {
        match &self.name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(plain_name(&self.ap)),
        }
    }
}

/// A member is named without its brackets (`ap1`), so that the name can be used like any other.
pub(in crate::scenario) fn plain_name(node: &str) -> String {
    node.replace(['[', ']'], "")
}

/// A host by its name, or with its own options.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StationEntry {
    #[allow(missing_docs)] // its type says it
    Name(String),
    #[allow(missing_docs)] // its type says it
    Table(Station),
}

impl StationEntry {
    /// The host.
    pub fn node(&self) -> &str {
        match self {
            StationEntry::Name(node) => node,
            StationEntry::Table(station) => &station.node,
        }
    }
    /// Its table, if it has one.
    pub fn table(&self) -> Option<&Station> {
        match self {
            StationEntry::Name(_) => None,
            StationEntry::Table(station) => Some(station),
        }
    }
}

/// By hand, because an untagged enum forgets which key of the table was wrong.
impl<'de> Deserialize<'de> for StationEntry {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = StationEntry;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("the name of a host, or a table with `node`")
            }
            fn visit_str<E: serde::de::Error>(self, node: &str) -> Result<StationEntry, E> {
                Ok(StationEntry::Name(node.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StationEntry, A::Error> {
                Station::deserialize(MapAccessDeserializer::new(map)).map(StationEntry::Table)
            }
        }
        d.deserialize_any(V)
    }
}

/// A station, or a group of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Station {
    /// Host or group, or one member as `sta[0]`.
    pub node: String,
    /// Position, `[x, y]` in metres. It sets the `distance_m` of a `signal` of kind `path_loss`, as
    /// an entry in `walks` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_m: Option<[f64; 2]>,
    /// The radio link between it and the access point. Its keys replace those of the WLAN's
    /// `signal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Layer<SignalConfig>>,
    /// Options of its radio. They replace those of the WLAN's `station_radio` and `phy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<Layer<RadioOptions>>,
}

/// Radios that do not hear each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Hidden {
    #[allow(missing_docs)] // its type says it
    All(AllHidden),
    /// Pairs of hosts, groups, members or access points on the same channel.
    Pairs(Vec<[String; 2]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // its value says it
pub enum AllHidden {
    /// No two stations of the WLAN hear each other.
    All,
}

/// All, none, or the named ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Selection {
    #[allow(missing_docs)] // its type says it
    All(bool),
    #[allow(missing_docs)] // its type says it
    Names(Vec<String>),
}

/// A table as it was written, to be laid over another one key by key. Which values go together
/// shows only then, so it is held against the schema of `T` but not read as a `T`.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer<T> {
    /// As it stands in the file.
    pub written: Json,
    meaning: PhantomData<T>,
}

impl<T> Serialize for Layer<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(s)
    }
}

impl<'de, T> Deserialize<'de> for Layer<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Json::deserialize(d).map(|written| Layer { written, meaning: PhantomData })
    }
}

impl<T: JsonSchema> JsonSchema for Layer<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

/// Lays `over` on `base`: tables key by key, unless `over` says that it is of another kind;
/// anything else replaces what is there. A bare name of what is there changes nothing. A
/// `rate_control` with parameters is one choice, so it replaces the other as a whole.
pub(in crate::scenario) fn lay(base: &mut Json, over: &Json) {
    /// Keys whose value decides what the others in the table mean.
    const KINDS: [&str; 3] = ["name", "kind", "standard"];
    let is_named = |table: &serde_json::Map<String, Json>| KINDS.iter().any(|kind| table.get(*kind) == Some(over));
    match (&mut *base, over) {
        (Json::Object(below), Json::String(_)) if is_named(below) => {}
        (Json::Object(below), Json::Object(above))
            if KINDS.iter().all(|kind| above.get(*kind).is_none_or(|own| below.get(*kind) == Some(own))) =>
        {
            for (key, value) in above {
                match below.get_mut(key) {
                    Some(there) if key != "rate_control" || is_bare(value) => lay(there, value),
                    _ => drop(below.insert(key.clone(), value.clone())),
                }
            }
        }
        _ => *base = over.clone(),
    }
}

/// Says which one, and nothing about it.
fn is_bare(value: &Json) -> bool {
    value.as_object().map_or(value.is_string(), |table| table.len() == 1 && table.contains_key("name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_merge_key_by_key_within_one_kind() {
        let cases = [
            (r#"{}"#, r#"{"a": 1}"#, r#"{"a": 1}"#),
            (r#"{"a": 1, "b": 2}"#, r#"{"a": 3}"#, r#"{"a": 3, "b": 2}"#),
            (r#"{"t": {"a": 1, "b": 2}}"#, r#"{"t": {"b": 3}}"#, r#"{"t": {"a": 1, "b": 3}}"#),
            // A table of the same name changes single keys; one of another name replaces the whole.
            (r#"{"name": "x", "a": 1}"#, r#"{"name": "x", "b": 2}"#, r#"{"name": "x", "a": 1, "b": 2}"#),
            (r#"{"name": "x", "a": 1}"#, r#"{"name": "y"}"#, r#"{"name": "y"}"#),
            (r#"{"a": 1}"#, r#"{"standard": "b"}"#, r#"{"standard": "b"}"#),
            // A bare name of what is there leaves it as it is; another one means its defaults.
            (r#"{"name": "x", "a": 1}"#, r#""x""#, r#"{"name": "x", "a": 1}"#),
            (r#"{"name": "x", "a": 1}"#, r#"{"name": "x"}"#, r#"{"name": "x", "a": 1}"#),
            (r#"{"kind": "x", "a": 1}"#, r#""x""#, r#"{"kind": "x", "a": 1}"#),
            (r#"{"name": "x", "a": 1}"#, r#""y""#, r#""y""#),
            (r#""x""#, r#"{"name": "x", "a": 1}"#, r#"{"name": "x", "a": 1}"#),
            (
                r#"{"rate_control": {"name": "fixed", "mcs": 1}}"#,
                r#"{"rate_control": {"name": "fixed", "rate": "1"}}"#,
                r#"{"rate_control": {"name": "fixed", "rate": "1"}}"#,
            ),
            (
                r#"{"rate_control": {"name": "arf", "up": 1}}"#,
                r#"{"rate_control": "arf"}"#,
                r#"{"rate_control": {"name": "arf", "up": 1}}"#,
            ),
            (
                r#"{"rate_control": {"name": "arf", "up": 1}}"#,
                r#"{"rate_control": {"name": "arf"}}"#,
                r#"{"rate_control": {"name": "arf", "up": 1}}"#,
            ),
            (r#"{"l": [1, 2]}"#, r#"{"l": [3]}"#, r#"{"l": [3]}"#),
        ];
        for (base, over, want) in cases {
            let mut base: Json = serde_json::from_str(base).unwrap();
            lay(&mut base, &serde_json::from_str(over).unwrap());
            assert_eq!(base, serde_json::from_str::<Json>(want).unwrap(), "{over}");
        }
    }
}
