//! Links, channels and nodes to record: their names become indices.

use std::collections::BTreeSet;

use airtcp_core::packet::FlowId;

use super::super::file::{Link, Selection, Wlan};
use super::super::tree::KeyPath;
use super::{Expander, root};
use crate::spec::{ChannelId, FlowSpec, LinkId, RecordSpec, Traffic};

/// Samples over all series: some GiB of results.
const MAX_SAMPLES: u64 = 50_000_000;
/// Links of WLANs beyond which they have no time series unless named.
const MAX_AIR_SERIES: usize = 64;

/// Which links a list may name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkKind {
    Any,
    Wire,
    Air,
}

impl Expander<'_> {
    pub(super) fn record(&mut self, flows: &[FlowSpec], daemons: usize, links_are_good: bool) -> RecordSpec {
        let record = &self.file.record;
        let path = root("record");
        let interval = record.interval_of(self.file.duration);
        let default = LinkId::all(self.links.len()).zip(&self.links).filter(|(_, l)| !l.is_member_of_group);
        let default: Vec<LinkId> = default.map(|(id, _)| id).collect();
        let mut selected = |key: &str, names: &[String], kind: LinkKind| {
            let mut ids = BTreeSet::new();
            for (i, name) in names.iter().enumerate() {
                match self.select(name, kind) {
                    Ok(found) => ids.extend(found),
                    // A line that was not built for a fault of its own is not missing.
                    Err(_) if !links_are_good && name.contains("->") => {}
                    Err(message) => self.error(&path.key(key).index(i), message),
                }
            }
            ids.into_iter().collect::<Vec<LinkId>>()
        };
        let link_series = record.links.as_ref().map_or(default, |names| selected("links", names, LinkKind::Any));
        let drops = match &record.drops {
            Some(names) => selected("drops", names, LinkKind::Any),
            None => link_series.clone(),
        };
        let capture = selected("capture", &record.capture, LinkKind::Wire);
        let air_series = match &record.air_series {
            Some(names) => selected("air_series", names, LinkKind::Air),
            None => {
                let is_air = |id: &LinkId| self.links[id.index()].air.is_some();
                let all: Vec<_> = LinkId::all(self.links.len()).filter(is_air).collect();
                if all.len() <= MAX_AIR_SERIES { all } else { Vec::new() }
            }
        };
        let retransmissions = match &record.retransmissions {
            None | Some(Selection::All(false)) => Vec::new(),
            Some(Selection::All(true)) => {
                (0..).map(FlowId).zip(flows).filter(|(_, flow)| is_tcp(flow)).map(|(id, _)| id).collect()
            }
            Some(Selection::Names(names)) => self.tcp_flows_of(&path.key("retransmissions"), names, flows),
        };
        let ppdus = match &record.ppdus {
            None | Some(Selection::All(false)) => Vec::new(),
            Some(Selection::All(true)) => (0..).map(ChannelId).zip(&self.channels).map(|(id, _)| id).collect(),
            Some(Selection::Names(names)) => self.channels_of(&path.key("ppdus"), names),
        };
        let capture_air = self.channels_of(&path.key("capture_air"), &record.capture_air);

        let interval_at = path.key("interval");
        if !self.has_duration() {
            // Reported.
        } else if interval.is_zero() || interval > self.file.duration {
            self.error(&interval_at, format!("must be longer than 0s and at most duration ({})", self.file.duration));
        } else {
            let tcp_flows = flows.iter().filter(|f| is_tcp(f)).count() as u64;
            let flow_series = tcp_flows.min(u64::from(record.flow_series_max));
            let samples = self.file.duration.as_ns() / interval.as_ns();
            let links = link_series.len() + air_series.len();
            let others = (self.walks.len() + daemons) as u64;
            let series = links as u64 + flow_series + others;
            if samples.saturating_mul(series) > MAX_SAMPLES {
                let message = format!(
                    "{samples} samples of each of {series} series ({links} links, {flow_series} flows, {others} others) are more than \
                     {MAX_SAMPLES}: raise record.interval, lower record.flow_series_max or name fewer record.links"
                );
                self.error(&interval_at, message);
            }
        }
        let flow_series_max = record.flow_series_max;
        RecordSpec {
            interval,
            flow_series_max,
            link_series,
            drops,
            retransmissions,
            capture,
            air_series,
            ppdus,
            capture_air,
        }
    }

    /// TCP flows by the names of their entries or their own.
    fn tcp_flows_of(&mut self, at: &KeyPath, names: &[String], flows: &[FlowSpec]) -> Vec<FlowId> {
        let file = self.file;
        let mut selected = BTreeSet::new();
        for (i, name) in names.iter().enumerate() {
            let named = || (0..).map(FlowId).zip(flows).filter(|(_, f)| f.group == *name || f.name == *name);
            if named().next().is_some() {
                if named().all(|(_, f)| !is_tcp(f)) {
                    self.error(&at.index(i), "is not TCP: must be a TCP flow");
                }
                selected.extend(named().filter(|(_, f)| is_tcp(f)).map(|(flow, _)| flow));
                continue;
            }
            let plain = name.split_once('[').map_or(name.as_str(), |(plain, _)| plain);
            // A flow that was not built for a fault of its own is not missing.
            if flows.iter().any(|f| f.group == plain) {
                let count = flows.iter().filter(|f| f.group == plain).count();
                let message = match count {
                    1 => format!("`{plain}` is a single flow: write `{plain}`"),
                    _ => format!("the flows of `{plain}` are {plain}[0] to {plain}[{}]", count - 1),
                };
                self.error(&at.index(i), message);
            } else if !file.flows.iter().any(|f| f.name == plain) {
                let known: Vec<&str> = file.flows.iter().map(|f| f.name.as_str()).collect();
                let message = self.unknown_name("flow", name, known.iter().copied());
                self.error(&at.index(i), message);
            }
        }
        selected.into_iter().collect()
    }

    /// Links of a kind by the name of their entry, or one direction by its ends.
    fn select(&self, name: &str, kind: LinkKind) -> Result<Vec<LinkId>, String> {
        let is_wlan = |w: &Wlan| w.name() == name;
        let ids = if let Some(entry) = self.file.links.iter().position(|l| l.name() == name) {
            self.entry_links.get(entry).cloned().unwrap_or_default().map(LinkId).collect()
        } else if let Some(entry) = self.file.wlans.iter().position(is_wlan) {
            self.wlans.get(entry).map(|(_, links)| links.clone()).unwrap_or_default().map(LinkId).collect()
        } else if let Some((from, to)) = name.split_once("->") {
            let (from, to) = (self.ends(from.trim())?, self.ends(to.trim())?);
            let id = self.link_by_ends.get(&(from.member(0), to.member(0)));
            match id {
                Some(id) if !from.is_group && !to.is_group => vec![*id],
                _ => return Err("there is no such line".to_owned()),
            }
        } else {
            let links = self.file.links.iter().map(Link::name);
            let names: Vec<_> = links.chain(self.file.wlans.iter().map(Wlan::name)).collect();
            return Err(self.unknown_name("link", name, names.iter().map(AsRef::as_ref)));
        };
        let is_air = |id: &LinkId| self.links[id.index()].air.is_some();
        match (kind, ids.iter().any(is_air)) {
            (LinkKind::Wire, true) => Err("is a link of a WLAN: name the WLAN in `record.capture_air`".to_owned()),
            (LinkKind::Air, false) if !ids.is_empty() => {
                Err("is a wire: must be a link of a WLAN; `record.links` takes all links".to_owned())
            }
            _ => Ok(ids),
        }
    }

    /// Channels of WLANs by the names of these.
    fn channels_of(&mut self, at: &KeyPath, names: &[String]) -> Vec<ChannelId> {
        let file = self.file;
        let mut channels = BTreeSet::new();
        for (i, name) in names.iter().enumerate() {
            match file.wlans.iter().position(|w| w.name() == name.as_str()) {
                Some(entry) => channels.extend(self.wlans.get(entry).map(|&(channel, _)| channel)),
                None => {
                    let known: Vec<_> = file.wlans.iter().map(Wlan::name).collect();
                    let message = self.unknown_name("WLAN", name, known.iter().map(AsRef::as_ref));
                    self.error(&at.index(i), message);
                }
            }
        }
        channels.into_iter().collect()
    }
}

fn is_tcp(flow: &FlowSpec) -> bool {
    matches!(flow.traffic, Traffic::Tcp { .. })
}
