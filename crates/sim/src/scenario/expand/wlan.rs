//! WLANs: radios, pairs of them, channels, and the two lines of each station.
//!
//! A channel's radios are in the order of the file: of each WLAN on it the access point, then its
//! stations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use airtcp_core::convert::{count, count16};
use airtcp_core::tcp::profile;
use airtcp_core::units::{DataRate, Probability, Span};
use airtcp_core::wifi::phy::mobility::distance_m;
use airtcp_core::wifi::phy::{Band, Distance, Motion, SignalConfig, Standard};
use airtcp_core::wifi::{RadioConfig, RadioId, RadioOptions, Roams};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::super::file::{AllHidden, Hidden, Layer, NodeKind, Station, StationEntry, Wlan, lay};
use super::super::tree::{KeyPath, Step};
use super::{Expander, MAX_LINKS, Members, root};
use crate::spec::{AirSpec, ChannelId, ChannelSpec, LineSpec, LinkId, LinkSpec, NodeId, PairSpec, RadioSpec};

/// Radios of a channel have 16-bit numbers.
const MAX_RADIOS: usize = u16::MAX as usize;
/// Pairs that do not hear each other: each takes 4 bytes, and there may be as many as radios
/// squared.
const MAX_HIDDEN: usize = 50_000_000;
const SENSING: Span = Span::from_us(4);
/// Longer than any slot makes carrier sense pointless.
const MAX_SENSING: Span = Span::from_us(20);
/// WaveLAN: the slot that its drivers set (32 bit times at 2 Mbit/s), which covers it as any slot
/// does.
const WAVELAN_SENSING: Span = Span::from_us(16);
/// The value of WaveLAN is not published, so users may vary it beyond the slot.
const MAX_WAVELAN_SENSING: Span = Span::from_ms(1);

/// Options as written somewhere, to be laid over those below.
struct Written {
    /// Where: `at.k` is the key `k` of `options`. A built-in profile is not in the file.
    at: Option<KeyPath>,
    options: Json,
}

fn written<T>(at: KeyPath, layer: &Option<Layer<T>>) -> Option<Written> {
    layer.as_ref().map(|layer| Written { at: Some(at), options: layer.written.clone() })
}

/// A radio and where it came from.
struct Placed {
    /// Index into `wlans`.
    wlan: usize,
    is_station: bool,
    walks: bool,
    /// Its entry.
    at: KeyPath,
    position_m: Option<[f64; 2]>,
    /// Signal of a station.
    signal: Option<SignalConfig>,
}

/// A channel under construction.
struct Channel {
    spec: ChannelSpec,
    placed: Vec<Placed>,
    /// The WLAN that has set `sensing`.
    sensing_from: Option<usize>,
    /// The WLAN that has set `capture_effect`.
    capture_effect_from: Option<usize>,
}

impl Expander<'_> {
    pub(super) fn wlans(&mut self) {
        let file = self.file;
        let names: Vec<_> = file.wlans.iter().map(Wlan::name).collect();
        let mut seen = BTreeMap::new();
        let mut channels: Vec<Channel> = Vec::new();
        let mut wlan_of: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (i, wlan) in file.wlans.iter().enumerate() {
            let path = root("wlans").index(i);
            self.wlan_name(&mut seen, i, &names[i]);
            let channel = self.channel(&mut channels, i, &names);
            let start = count(self.links.len());
            let access_point = self.access_point(&path, wlan);
            let ap_radio = self.ap_radio(&path, wlan);
            let is_wavelan = ap_radio.as_ref().is_some_and(|r| r.phy.standard == Standard::Wavelan);
            self.sensing(&path, wlan, &mut channels[channel.index()], i, is_wavelan);
            self.capture_effect(&path, wlan, &mut channels[channel.index()], i);
            if wlan.stations.is_empty() {
                self.error(&path.key("stations"), "must name at least one host");
            }
            let channel_spec = &mut channels[channel.index()];
            let ap_index = channel_spec.spec.radios.len();
            if let (Some(node), Some(config)) = (access_point, &ap_radio) {
                let place = Placed {
                    wlan: i,
                    is_station: false,
                    walks: false,
                    at: path.clone(),
                    position_m: Some(wlan.ap_position_m.unwrap_or_default()),
                    signal: None,
                };
                self.add_radio(channel_spec, place, node, config);
            }
            for (j, entry) in wlan.stations.iter().enumerate() {
                let at = path.key("stations").index(j);
                let Some(ends) = self.stations(&at, entry, i, &mut wlan_of) else { continue };
                let config = self.station_radio(&path, wlan, &at, entry, ends);
                let signal = self.signal(&path, wlan, &at, entry, ends);
                let (Some(config), Some(signal), Some(ap)) = (config, signal, access_point) else { continue };
                let Some(ap_config) = &ap_radio else { continue };
                if let Err(message) = signal.check_phy(&config.phy) {
                    let layers = signal_layers(&path, wlan, &at, entry);
                    let place = self.place(&layers, &[], &message, &at);
                    self.error(&place, message);
                    continue;
                }
                let Some(rate) = self.common_rate(&at, &config, ap_config) else { continue };
                for k in 0..ends.len {
                    let station = ends.member(k);
                    let channel_spec = &mut channels[channel.index()];
                    let radio = channel_spec.spec.radios.len();
                    if radio > MAX_RADIOS || self.links.len() as u64 + 2 > MAX_LINKS {
                        self.error(&at, format!("too many stations: at most {MAX_RADIOS} radios on a channel"));
                        break;
                    }
                    let from_m = wlan.ap_position_m.unwrap_or_default();
                    let motion = self.walks.get(&station).map(|(_, track)| Motion { track: track.clone(), from_m });
                    let roams = self
                        .roams
                        .get(&station)
                        .map(|&(r, station_queue)| Roams { station_queue, ap_queue: file.roaming[r].ap_queue });
                    let place = Placed {
                        wlan: i,
                        is_station: true,
                        walks: motion.is_some(),
                        at: at.clone(),
                        position_m: entry.table().and_then(|s| s.position_m),
                        signal: Some(signal.clone()),
                    };
                    if !self.add_radio(channel_spec, place, station, &config) {
                        break;
                    }
                    let pair = count16(channel_spec.spec.pairs.len());
                    channel_spec.spec.pairs.push(PairSpec {
                        station: RadioId::at(radio),
                        access_point: RadioId::at(ap_index),
                        signal: signal.clone(),
                        motion,
                        roams,
                    });
                    let air = AirSpec { channel, pair, down: false, is_group: false };
                    self.add_air_links(&at, &names[i], station, ap, rate, ends.is_group, air);
                }
            }
            self.wlans.push((channel, start..count(self.links.len())));
        }
        for (i, wlan) in file.wlans.iter().enumerate() {
            let channel = &mut channels[self.wlans[i].0.index()];
            self.hidden(i, wlan, channel);
        }
        if self.errors.is_empty() {
            for channel in &mut channels {
                self.out_of_range(channel);
            }
        }
        self.channels = channels.into_iter().map(|c| c.spec).collect();
    }

    fn wlan_name<'n>(&mut self, seen: &mut BTreeMap<&'n str, usize>, i: usize, name: &'n str) {
        let file = self.file;
        let path = root("wlans").index(i);
        if file.wlans[i].name.is_some() {
            self.check_name(seen, "wlans", i, name);
        } else {
            let first = *seen.entry(name).or_insert(i);
            if first != i {
                self.error(&path.key("name"), format!("missing; wlans[{first}] has its default name, `{name}`"));
            }
        }
        if let Some(link) = file.links.iter().position(|l| l.name() == name) {
            let message = format!("`{name}` is the name of links[{link}]: give one of them another `name`");
            self.error(&path.key("name"), message);
        }
    }

    /// The channel of a WLAN, which may be another's as well.
    fn channel(&mut self, channels: &mut Vec<Channel>, i: usize, names: &[std::borrow::Cow<str>]) -> ChannelId {
        let file = self.file;
        let key = &file.wlans[i].channel;
        if key.as_ref().is_some_and(String::is_empty) {
            self.error(
                &root("wlans").index(i).key("channel"),
                "must not be empty; leave it out for a channel of its own",
            );
        }
        let sharing = file.wlans[..i].iter().position(|other| key.is_some() && other.channel == *key);
        if let Some(other) = sharing {
            return self.wlans[other].0;
        }
        let name = match key {
            // A WLAN without a channel gives its name to the one of its own.
            Some(key) => match file.wlans.iter().zip(names).position(|(w, n)| w.channel.is_none() && n == key) {
                Some(other) => {
                    let message =
                        format!("is the name of wlans[{other}], whose channel is its own: set `channel` there too");
                    self.error(&root("wlans").index(i).key("channel"), message);
                    key.clone()
                }
                None => key.clone(),
            },
            None => names[i].to_string(),
        };
        let (radios, pairs, groups, hidden) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let spec =
            ChannelSpec { name, radios, pairs, groups, hidden, sensing: SENSING, capture_effect: Probability::ZERO };
        channels.push(Channel { spec, placed: Vec::new(), sensing_from: None, capture_effect_from: None });
        ChannelId(count(channels.len()) - 1)
    }

    fn sensing(&mut self, path: &KeyPath, wlan: &Wlan, channel: &mut Channel, i: usize, is_wavelan: bool) {
        if is_wavelan && channel.sensing_from.is_none() {
            channel.spec.sensing = WAVELAN_SENSING;
        }
        let Some(sensing) = wlan.sensing else { return };
        if is_wavelan && sensing > MAX_WAVELAN_SENSING {
            self.error(&path.key("sensing"), format!("must be at most {MAX_WAVELAN_SENSING}"));
        } else if !is_wavelan && sensing > MAX_SENSING {
            self.error(&path.key("sensing"), format!("must be at most {MAX_SENSING}, the longest slot"));
        }
        match channel.sensing_from {
            Some(other) if channel.spec.sensing != sensing => {
                let message = format!("must be as in wlans[{other}], on the same channel ({})", channel.spec.sensing);
                self.error(&path.key("sensing"), message);
            }
            _ => (channel.spec.sensing, channel.sensing_from) = (sensing, Some(i)),
        }
    }

    fn capture_effect(&mut self, path: &KeyPath, wlan: &Wlan, channel: &mut Channel, i: usize) {
        let Some(capture) = wlan.capture_effect else { return };
        match channel.capture_effect_from {
            Some(other) if channel.spec.capture_effect != capture => {
                let set = channel.spec.capture_effect.get();
                self.error(
                    &path.key("capture_effect"),
                    format!("must be as in wlans[{other}], on the same channel ({set})"),
                );
            }
            _ => (channel.spec.capture_effect, channel.capture_effect_from) = (capture, Some(i)),
        }
    }

    fn access_point(&mut self, path: &KeyPath, wlan: &Wlan) -> Option<NodeId> {
        let at = path.key("ap");
        let ends = match self.ends(&wlan.ap) {
            Ok(ends) => ends,
            Err(message) => {
                self.error(&at, message);
                return None;
            }
        };
        if self.groups[ends.group].kind != NodeKind::Router {
            self.error(&at, format!("`{}` is a host: an access point is a router", wlan.ap));
            return None;
        }
        if ends.is_group {
            let message = format!("`{0}` is a group: each WLAN has one access point, such as `{0}[0]`", wlan.ap);
            self.error(&at, message);
            return None;
        }
        Some(ends.member(0))
    }

    /// The hosts that an entry names, each in no other WLAN unless it roams.
    fn stations(
        &mut self,
        at: &KeyPath,
        entry: &StationEntry,
        wlan: usize,
        wlan_of: &mut BTreeMap<NodeId, Vec<usize>>,
    ) -> Option<Members> {
        let node_at = if entry.table().is_some() { at.key("node") } else { at.clone() };
        let node = entry.node();
        let ends = match self.ends(node) {
            Ok(ends) => ends,
            Err(message) => {
                self.error(&node_at, message);
                return None;
            }
        };
        if self.groups[ends.group].kind != NodeKind::Host {
            self.error(&node_at, format!("`{node}` is a router: stations are hosts"));
            return None;
        }
        for k in 0..ends.len {
            let station = ends.member(k);
            let others = wlan_of.entry(station).or_default();
            let other = others.last().copied();
            others.push(wlan);
            let Some(other) = other.filter(|&other| other == wlan || !self.roams.contains_key(&station)) else {
                continue;
            };
            let name = self.node_name(station).to_owned();
            let message = match other == wlan {
                true => format!("{name} is already a station of this WLAN: a host is in one WLAN, once"),
                false => format!(
                    "{name} is already a station of wlans[{other}]: a host is in one WLAN, once, unless it has an entry in `roaming`"
                ),
            };
            self.error(&node_at, message);
            return None;
        }
        Some(ends)
    }

    fn ap_radio(&mut self, path: &KeyPath, wlan: &Wlan) -> Option<Arc<RadioConfig>> {
        let own = written(path.key("ap_radio"), &wlan.ap_radio);
        let layers: Vec<Written> = phy_layer(path, wlan).into_iter().chain(own).collect();
        self.radio(&layers, path)
    }

    fn station_radio(
        &mut self,
        path: &KeyPath,
        wlan: &Wlan,
        at: &KeyPath,
        entry: &StationEntry,
        ends: Members,
    ) -> Option<Arc<RadioConfig>> {
        let mut layers = self.profile_radio(self.profile_name(ends));
        layers.extend(phy_layer(path, wlan));
        layers.extend(written(path.key("station_radio"), &wlan.station_radio));
        layers.extend(entry.table().and_then(|s| written(at.key("radio"), &s.radio)));
        let standard = layers.iter().rev().find_map(|layer| layer.options["phy"]["standard"].as_str());
        if standard == Some(Standard::Wavelan.name()) {
            // The profiles that come with airtcp speak of a host's 802.11 device.
            layers.retain(|layer| layer.at.is_some());
        }
        self.radio(&layers, at)
    }

    /// Options of a host's radio in its profile, base first.
    fn profile_radio(&self, name: &str) -> Vec<Written> {
        let mut layers = Vec::new();
        let mut name = name;
        // A chain that goes round in a circle has been reported.
        for _ in 0..=self.file.profiles.len() {
            let Some(own) = self.file.profiles.get(name) else { break };
            layers.extend(written(root("profiles").key(name).key("wifi"), &own.wifi));
            name = &own.base;
        }
        if let Some(options) = profile::wifi(name) {
            let options = serde_json::to_value(options).expect("a built-in profile has no dates");
            layers.push(Written { at: None, options });
        }
        layers.reverse();
        layers
    }

    /// Reports what is wrong with a profile's radio options whether or not a station uses them.
    pub(super) fn check_profile_radio(&mut self, name: &str) {
        let layers = self.profile_radio(name);
        self.read::<RadioOptions>(Json::Object(Default::default()), &layers, &root("profiles").key(name).key("wifi"));
    }

    fn radio(&mut self, layers: &[Written], entry: &KeyPath) -> Option<Arc<RadioConfig>> {
        let options: RadioOptions = self.read(Json::Object(Default::default()), layers, entry)?;
        let config = options.resolve();
        match config.check() {
            Ok(()) => Some(Arc::new(config)),
            Err(message) => {
                // The key comes first: `rate_control: …`.
                let (key, message) = match message.split_once(": ") {
                    Some((key, rest)) if key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => (Some(key), rest),
                    _ => (None, message.as_str()),
                };
                let steps: Vec<Step> = key.into_iter().map(|k| Step::Key(k.to_owned())).collect();
                let at = self.place(layers, &steps, message, entry);
                self.error(&at, message);
                None
            }
        }
    }

    fn signal(
        &mut self,
        path: &KeyPath,
        wlan: &Wlan,
        at: &KeyPath,
        entry: &StationEntry,
        ends: Members,
    ) -> Option<SignalConfig> {
        let station = entry.table();
        let mut layers = signal_layers(path, wlan, at, entry);
        let walks: Vec<usize> =
            (0..ends.len).filter_map(|k| self.walks.get(&ends.member(k))).map(|&(walk, _)| walk).collect();
        let all_walk = walks.len() == ends.len as usize;
        if let (Some(walk), Some(station)) = (walks.first(), station) {
            let said = if station.position_m.is_some() {
                Some(at.key("position_m"))
            } else {
                let own = station.signal.as_ref().is_some_and(|s| !s.written["distance_m"].is_null());
                own.then(|| at.key("signal").key("distance_m"))
            };
            if let Some(said) = said.filter(|_| all_walk) {
                self.error(&said, format!("walks[{walk}] already sets its position: leave out one of the two"));
                return None;
            }
        }
        if let Some(Station { position_m: Some(position), signal, .. }) = station {
            let place = at.key("position_m");
            let kind = self.read::<SignalConfig>("perfect".into(), &layers, at)?;
            if kind.distance() == Distance::Unused {
                self.error(
                    &place,
                    "must be left out unless the kind of `signal` is \"path_loss\", which depends on the distance",
                );
                return None;
            }
            if signal.as_ref().is_some_and(|s| !s.written["distance_m"].is_null()) {
                self.error(&place, "`signal.distance_m` already sets its distance: leave out one of the two");
                return None;
            }
            let distance = distance_m(*position, wlan.ap_position_m.unwrap_or_default());
            if distance <= 0.0 {
                self.error(&place, "must differ from the position of the access point");
                return None;
            }
            let options = serde_json::json!({ "kind": kind.name(), "distance_m": distance });
            layers.push(Written { at: None, options });
        }
        let signal: SignalConfig = self.read("perfect".into(), &layers, at)?;
        if signal.distance() == Distance::Needed && !all_walk {
            let place = layers.last().and_then(|layer| layer.at.clone()).unwrap_or_else(|| at.clone());
            self.error(
                &place,
                "needs `distance_m` here or in the station's own `signal`, or the station a `position_m` or an entry in `walks`",
            );
            return None;
        }
        Some(signal)
    }

    /// All layers as one value; reports what does not go together.
    fn read<T: DeserializeOwned>(&mut self, base: Json, layers: &[Written], entry: &KeyPath) -> Option<T> {
        let mut merged = base;
        for layer in layers {
            lay(&mut merged, &layer.options);
        }
        match serde_path_to_error::deserialize(merged) {
            Ok(value) => Some(value),
            Err(error) => {
                use serde_path_to_error::Segment;
                let steps = error.path().iter().filter_map(|segment| match segment {
                    Segment::Map { key } => Some(Step::Key(key.clone())),
                    Segment::Seq { index } => Some(Step::Index(*index)),
                    Segment::Enum { .. } | Segment::Unknown => None,
                });
                let steps: Vec<Step> = steps.collect();
                let message = error.inner().to_string();
                let at = self.place(layers, &steps, &message, entry);
                self.error(&at, message);
                None
            }
        }
    }

    /// Where the option at `steps` was written: in the topmost layer that has it, or rather the key
    /// that `message` begins with. If the option is written nowhere, the entry.
    fn place(&self, layers: &[Written], steps: &[Step], message: &str, entry: &KeyPath) -> KeyPath {
        let of = |layer: &Written| Some(KeyPath(layer.at.as_ref()?.0.iter().chain(steps).cloned().collect()));
        let places = || layers.iter().rev().filter_map(of).filter(|path| self.is_written(path));
        let key = message.strip_prefix('`').and_then(|m| m.split_once('`')).map(|(key, _)| key);
        let exact = key.and_then(|key| places().find(|path| self.is_written(&path.key(key))));
        exact.or_else(|| places().next()).unwrap_or_else(|| entry.clone())
    }

    /// The fastest rate that station and access point have in common; reports what keeps them
    /// apart.
    fn common_rate(&mut self, at: &KeyPath, station: &RadioConfig, ap: &RadioConfig) -> Option<DataRate> {
        let earlier = station.phy.earlier_of(&ap.phy);
        let rate = station.phy.modes_with(&ap.phy).into_iter().map(|m| m.rate()).max();
        // At different bands that is what is wrong, and is reported.
        if rate.is_none() && station.phy.band() == ap.phy.band() {
            self.error(at, "has no mode in common with the access point: change `standard` or `g_only` of one of them");
        }
        for (whose, radio) in [("the station's", station), ("the access point's", ap)] {
            let misfit = radio.rate_control.as_ref().and_then(|r| r.check(earlier).err());
            if let Some(message) = misfit.filter(|_| radio.phy != *earlier) {
                let message =
                    format!("{whose} `rate_control` does not go with the earlier standard of the other: {message}");
                self.error(at, message);
                return None;
            }
        }
        rate.or_else(|| station.phy.modes().first().map(|m| m.rate()))
    }

    /// False if it does not go with the radios that the channel has.
    fn add_radio(&mut self, channel: &mut Channel, placed: Placed, node: NodeId, config: &Arc<RadioConfig>) -> bool {
        let band = config.phy.band();
        let radios = &mut channel.spec.radios;
        if let Some(first) = radios.first().filter(|r| r.config.phy.band() != band) {
            let name =
                |band| serde_json::to_value(band).ok().and_then(|b| b.as_str().map(str::to_owned)).unwrap_or_default();
            let message = format!(
                "is at {}, but {} on the same channel at {}: set `band` or `standard` of one of them",
                name(band),
                self.node_name(first.node),
                name(first.config.phy.band())
            );
            self.error(&placed.at, message);
            return false;
        }
        let is_wavelan = |config: &RadioConfig| config.phy.standard == Standard::Wavelan;
        if let Some(first) = radios.first().filter(|r| is_wavelan(&r.config) != is_wavelan(config)) {
            let message = format!(
                "has the standard \"{}\", but {} on the same channel \"{}\": WaveLAN and 802.11 do not understand each other",
                config.phy.standard.name(),
                self.node_name(first.node),
                first.config.phy.standard.name()
            );
            self.error(&placed.at, message);
            return false;
        }
        radios.push(RadioSpec { node, config: config.clone() });
        channel.placed.push(placed);
        true
    }

    #[allow(clippy::too_many_arguments)]
    fn add_air_links(
        &mut self,
        at: &KeyPath,
        group: &str,
        station: NodeId,
        ap: NodeId,
        rate: DataRate,
        is_member_of_group: bool,
        air: AirSpec,
    ) {
        let line = Arc::new(LineSpec { is_member_of_group, ..LineSpec::new(group, rate) });
        for (from, to, down) in [(station, ap, false), (ap, station, true)] {
            let id = LinkId(count(self.links.len()));
            let name = format!("{}->{}", self.node_name(from), self.node_name(to));
            if self.link_by_ends.insert((from, to), id).is_some() {
                self.error(at, format!("there is already a line {name}: packets take one shortest path"));
            }
            self.links.push(LinkSpec {
                name,
                from,
                to,
                delay: Span::ZERO,
                air: Some(AirSpec { down, ..air }),
                line: Arc::clone(&line),
            });
        }
    }

    /// Adds the pairs that the file names.
    fn hidden(&mut self, i: usize, wlan: &Wlan, channel: &mut Channel) {
        let Some(hidden) = &wlan.hidden else { return };
        let path = root("wlans").index(i).key("hidden");
        let mut pairs: BTreeSet<(RadioId, RadioId)> = channel.spec.hidden.iter().copied().collect();
        match hidden {
            Hidden::All(AllHidden::All) => {
                let is_mine = |p: &Placed| p.wlan == i && p.is_station;
                let mine: Vec<RadioId> = (0..)
                    .map(RadioId)
                    .zip(&channel.placed)
                    .filter(|(_, p)| is_mine(p))
                    .map(|(radio, _)| radio)
                    .collect();
                if mine.len() * mine.len() / 2 > MAX_HIDDEN {
                    self.error(
                        &path,
                        format!("{} stations are too many: must be at most {MAX_HIDDEN} pairs", mine.len()),
                    );
                    return;
                }
                for (n, &a) in mine.iter().enumerate() {
                    pairs.extend(mine[n + 1..].iter().map(|&b| (a, b)));
                }
            }
            Hidden::Pairs(named) => {
                for (j, [a, b]) in named.iter().enumerate() {
                    let at = path.index(j);
                    let (left, right) =
                        (self.radios_of(&at.index(0), a, channel), self.radios_of(&at.index(1), b, channel));
                    let (Some(left), Some(right)) = (left, right) else { continue };
                    let own = |a: RadioId, b: RadioId| {
                        channel.spec.pairs.iter().any(|p| (p.station, p.access_point) == (a.max(b), a.min(b)))
                    };
                    if left.iter().any(|&a| right.iter().any(|&b| own(a, b))) {
                        self.error(&at, "a station and its access point always hear each other");
                        continue;
                    }
                    let before = pairs.len();
                    for &a in &left {
                        pairs.extend(right.iter().filter(|&&b| b != a).map(|&b| (a.min(b), a.max(b))));
                    }
                    if pairs.len() == before && left == right && left.len() == 1 {
                        self.error(&at, format!("`{a}` twice: must be two radios"));
                    }
                }
            }
        }
        channel.spec.hidden = pairs.into_iter().collect();
    }

    /// The radios on a channel of the nodes that `name` means.
    fn radios_of(&mut self, at: &KeyPath, name: &str, channel: &Channel) -> Option<Vec<RadioId>> {
        let ends = match self.ends(name) {
            Ok(ends) => ends,
            Err(message) => {
                self.error(at, message);
                return None;
            }
        };
        let nodes = ends.first..ends.first + ends.len;
        let is_meant = |radio: &RadioSpec| nodes.contains(&radio.node.0);
        let found: Vec<RadioId> =
            (0..).map(RadioId).zip(&channel.spec.radios).filter(|(_, r)| is_meant(r)).map(|(i, _)| i).collect();
        // A radio that was refused for an error of its own is not missing.
        if found.is_empty() && self.errors.is_empty() {
            self.error(at, format!("`{name}` has no radio on the channel of this WLAN"));
        }
        Some(found).filter(|f| !f.is_empty())
    }

    /// Adds the pairs that are too far from each other, where a WLAN says at which power a radio is
    /// heard.
    fn out_of_range(&mut self, channel: &mut Channel) {
        let file = self.file;
        let threshold = |p: &Placed| file.wlans[p.wlan].carrier_sense_dbm;
        let mut heard: Vec<Option<Hearing>> = Vec::with_capacity(channel.placed.len());
        let walker = channel.placed.iter().find(|p| p.walks);
        if let (Some(walker), Some(heard)) = (walker, channel.placed.iter().find(|p| threshold(p).is_some())) {
            let at = root("wlans").index(heard.wlan).key("carrier_sense_dbm");
            let message =
                format!("must be left out if a station walks ({}), because its neighbours would change", walker.at);
            self.error(&at, message);
            return;
        }
        for (placed, radio) in channel.placed.iter().zip(&channel.spec.radios) {
            let band = radio.config.phy.band();
            let Some(threshold_dbm) = threshold(placed) else {
                heard.push(None);
                continue;
            };
            // An access point is heard as its stations are.
            let of_wlan = |p: &&Placed| p.wlan == placed.wlan && p.is_station;
            let signal = placed.signal.as_ref().or_else(|| channel.placed.iter().find(of_wlan)?.signal.as_ref());
            let signal = signal.filter(|s| s.mean_received_dbm(1.0, band).is_some());
            let (Some(position_m), Some(signal)) = (placed.position_m, signal) else {
                let message = "`carrier_sense_dbm` needs a `position_m` of each station, and a `signal` that follows from \
                               the distance, as its kind \"path_loss\" does";
                let at = if placed.is_station { placed.at.clone() } else { placed.at.key("carrier_sense_dbm") };
                self.error(&at, message);
                return;
            };
            heard.push(Some(Hearing { threshold_dbm, position_m, signal: signal.clone(), band }));
        }
        let mut pairs: BTreeSet<(RadioId, RadioId)> = channel.spec.hidden.iter().copied().collect();
        let own: BTreeSet<(RadioId, RadioId)> =
            channel.spec.pairs.iter().map(|p| (p.access_point, p.station)).collect();
        for (b, there) in (0..).map(RadioId).zip(&heard) {
            for (a, here) in (0..b.0).map(RadioId).zip(&heard) {
                let (Some(here), Some(there)) = (here, there) else { continue };
                if !(own.contains(&(a, b)) || (here.hears(there) && there.hears(here))) {
                    pairs.insert((a, b));
                }
            }
            if pairs.len() > MAX_HIDDEN {
                let at = root("wlans").index(channel.placed[0].wlan);
                self.error(
                    &at,
                    format!("more than {MAX_HIDDEN} pairs of radios do not hear each other: must be at most that many"),
                );
                return;
            }
        }
        channel.spec.hidden = pairs.into_iter().collect();
    }
}

struct Hearing {
    threshold_dbm: f64,
    position_m: [f64; 2],
    signal: SignalConfig,
    band: Band,
}

impl Hearing {
    fn hears(&self, other: &Hearing) -> bool {
        let distance = distance_m(self.position_m, other.position_m);
        other.signal.mean_received_dbm(distance, other.band).is_some_and(|dbm| dbm >= self.threshold_dbm)
    }
}

fn signal_layers(path: &KeyPath, wlan: &Wlan, at: &KeyPath, entry: &StationEntry) -> Vec<Written> {
    let own = entry.table().and_then(|s| written(at.key("signal"), &s.signal));
    let mut layers: Vec<Written> = written(path.key("signal"), &wlan.signal).into_iter().chain(own).collect();
    // A bare kind is a table of its defaults, which further keys may refine.
    for options in layers.iter_mut().map(|layer| &mut layer.options).filter(|options| options.is_string()) {
        *options = serde_json::json!({ "kind": options.take() });
    }
    layers
}

/// `phy` of a WLAN as radio options.
fn phy_layer(path: &KeyPath, wlan: &Wlan) -> Option<Written> {
    let options = serde_json::json!({ "phy": wlan.phy.as_ref()?.written });
    Some(Written { at: Some(path.clone()), options })
}
