//! Walks and roaming: tracks by host, and the links that a roaming host may use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use airtcp_core::range::from_to;
use airtcp_core::tcp::profile::station_queue;
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::RoamRule;
use airtcp_core::wifi::phy::{Distance, SignalConfig, Track};
use airtcp_core::wifi::roam::StationQueue;

use super::super::file::{NodeKind, Roaming, RoamingRule, Wlan};
use super::super::tree::KeyPath;
use super::{Expander, MAX_DURATION, Members, root};
use crate::spec::{LinkId, NodeId, RoamingSpec};

/// Farther than any radio reaches, in metres.
const MAX_COORDINATE: f64 = 1e6;
/// Three times the speed of sound, in metres per second.
const MAX_SPEED: f64 = 1000.0;
const MAX_GAP: Span = Span::from_secs(3_600);

impl<'a> Expander<'a> {
    pub(super) fn walks(&mut self) {
        let file = self.file;
        for (i, walk) in file.walks.iter().enumerate() {
            let path = root("walks").index(i);
            let before = self.errors.len();
            let ends = self.hosts(&path.key("node"), &walk.node, "stay where they are");
            if walk.waypoints_m.len() < 2 {
                let message =
                    "must have at least two points: a host that stands still has a `position_m` in `stations`";
                self.error(&path.key("waypoints_m"), message);
            }
            for (j, point) in walk.waypoints_m.iter().enumerate() {
                if point.iter().any(|c| c.is_nan() || c.abs() > MAX_COORDINATE) {
                    let range = from_to(&(-MAX_COORDINATE..=MAX_COORDINATE));
                    let message = format!("must be [x, y] in metres, each {range}");
                    self.error(&path.key("waypoints_m").index(j), message);
                }
            }
            let speed = walk.speed_m_per_s;
            if !(speed > 0.0 && speed <= MAX_SPEED) {
                self.error(&path.key("speed_m_per_s"), format!("must be above 0, at most {MAX_SPEED} m/s"));
            }
            if walk.start > MAX_DURATION {
                self.error(&path.key("start"), "must be at most 30 days (720h)");
            }
            let Some(ends) = ends.filter(|_| self.errors.len() == before) else { continue };
            let track = Arc::new(Track::new(&walk.waypoints_m, speed, Time::ZERO + walk.start, walk.there_and_back));
            for k in 0..ends.len {
                let node = ends.member(k);
                if let Some((other, _)) = self.walks.insert(node, (i, track.clone())) {
                    let message = format!("{} already walks in walks[{other}]", self.node_name(node));
                    self.error(&path.key("node"), message);
                    break;
                }
            }
        }
    }

    /// Which hosts roam, before their WLANs are known.
    pub(super) fn who_roams(&mut self) {
        let file = self.file;
        for (i, roaming) in file.roaming.iter().enumerate() {
            let at = root("roaming").index(i).key("node");
            let Some(ends) = self.hosts(&at, &roaming.node, "do not roam") else { continue };
            let of_profile = || station_queue(self.built_in_profile(self.profile_name(ends)));
            let queue = roaming.station_queue.or_else(of_profile).unwrap_or_default();
            for k in 0..ends.len {
                let node = ends.member(k);
                if let Some((other, _)) = self.roams.insert(node, (i, queue)) {
                    let message = format!("{} already has roaming[{other}]", self.node_name(node));
                    self.error(&at, message);
                    break;
                }
            }
        }
    }

    /// The hosts that `name` means.
    fn hosts(&mut self, at: &KeyPath, name: &str, routers: &str) -> Option<Members> {
        match self.ends(name) {
            Ok(ends) if self.groups[ends.group].kind == NodeKind::Host => Some(ends),
            Ok(_) => {
                self.error(at, format!("`{name}` is a router: routers {routers}"));
                None
            }
            Err(message) => {
                self.error(at, message);
                None
            }
        }
    }

    /// The roaming hosts of a file that has shown no error yet.
    pub(super) fn roaming(&mut self) -> Vec<RoamingSpec> {
        let file = self.file;
        let mut specs = Vec::new();
        let roams: Vec<_> = self.roams.iter().map(|(&node, &(i, queue))| (node, i, queue)).collect();
        let mut reported = BTreeSet::new();
        for (node, i, queue) in roams {
            let before = self.errors.len();
            let spec = self.roaming_host(node, queue, &root("roaming").index(i), &file.roaming[i]);
            // An error of a group is reported once.
            if self.errors.len() > before && !reported.insert(i) {
                self.errors.truncate(before);
            }
            specs.extend(spec);
        }
        specs
    }

    fn roaming_host(
        &mut self,
        node: NodeId,
        station_queue: StationQueue,
        path: &KeyPath,
        roaming: &Roaming,
    ) -> Option<RoamingSpec> {
        let file = self.file;
        let before = self.errors.len();
        // By WLAN, in the order of the file.
        let mut candidates: Vec<(usize, LinkId)> = Vec::new();
        for (w, (_, links)) in self.wlans.iter().enumerate() {
            let is_mine = |id: &u32| self.links[*id as usize].from == node;
            candidates.extend(links.clone().find(is_mine).map(|id| (w, LinkId(id))));
        }
        if candidates.len() < 2 {
            let name = self.node_name(node).to_owned();
            let message = format!(
                "{name} is a station of {}: a roaming host must be in the `stations` of at least two",
                if candidates.is_empty() { "no WLAN" } else { "one WLAN" }
            );
            self.error(&path.key("node"), message);
            return None;
        }
        let names: Vec<_> = candidates.iter().map(|&(w, _)| file.wlans[w].name()).collect();
        let candidate = |this: &mut Self, at: &KeyPath, name: &str| {
            let found = names.iter().position(|n| n == name);
            if found.is_none() {
                let message = match file.wlans.iter().any(|w| Wlan::name(w) == name) {
                    true => format!(
                        "{} is not a station of it; it is a station of {}",
                        this.node_name(node),
                        names.join(", ")
                    ),
                    false => this.unknown_name("WLAN", name, names.iter().map(AsRef::as_ref)),
                };
                this.error(at, message);
            }
            found
        };
        let first = roaming.first.as_ref().map(|name| candidate(self, &path.key("first"), name));
        if roaming.gap > MAX_GAP {
            self.error(&path.key("gap"), format!("must be at most {MAX_GAP}"));
        }
        let at = path.key("rule");
        let signals: Vec<SignalConfig> = candidates.iter().map(|&(_, up)| self.signal_of(up)).collect();
        let rule = match &roaming.rule {
            RoamingRule::Nearest(rule) => {
                let knows = |s: &SignalConfig| s.distance() != Distance::Unused;
                if !self.walks.contains_key(&node) && !signals.iter().all(knows) {
                    let message = format!(
                        "the position of {} is unknown: give it an entry in `walks`, or use another `kind` of rule",
                        self.node_name(node)
                    );
                    self.error(&at, message);
                }
                RoamRule::Nearest { hysteresis_m: rule.hysteresis_m }
            }
            RoamingRule::Rssi(rule) => {
                if let Some(i) = signals.iter().position(|s| !s.has_snr()) {
                    let message = format!(
                        "the `signal` of {} in the WLAN {} has no received power: must be of kind path_loss, snr or trace",
                        self.node_name(node),
                        names[i]
                    );
                    self.error(&at, message);
                }
                if rule.every.is_zero() {
                    self.error(&at.key("every"), "must be longer than 0s");
                }
                RoamRule::Rssi {
                    every: rule.every,
                    samples: rule.samples,
                    below_dbm: rule.below_dbm,
                    hysteresis_db: rule.hysteresis_db,
                }
            }
            RoamingRule::Times(rule) => {
                let mut times: Vec<(Time, usize)> = Vec::new();
                for (j, switch) in rule.switches.iter().enumerate() {
                    let at = at.key("switches").index(j);
                    let time = Time::ZERO + switch.at;
                    if times.last().is_some_and(|&(before, _)| before >= time) {
                        let before = rule.switches[j - 1].at;
                        self.error(&at.key("at"), format!("must be later than the one before ({before})"));
                    }
                    if let Some(to) = candidate(self, &at.key("to"), &switch.to) {
                        times.push((time, to));
                    }
                }
                RoamRule::Times(times)
            }
        };
        (self.errors.len() == before).then(|| RoamingSpec {
            node,
            rule,
            candidates: candidates.into_iter().map(|(_, up)| up).collect(),
            first: first.flatten(),
            gap: roaming.gap,
            station_queue,
            ap_queue: roaming.ap_queue,
            tells_senders: roaming.tells_senders,
        })
    }

    fn signal_of(&self, up: LinkId) -> SignalConfig {
        let air = self.links[up.0 as usize].air;
        air.map_or(SignalConfig::default(), |a| {
            self.channels[a.channel.index()].pairs[usize::from(a.pair)].signal.clone()
        })
    }
}

/// Hosts that walk, with their entry.
pub(super) type Walks = BTreeMap<NodeId, (usize, Arc<Track>)>;
