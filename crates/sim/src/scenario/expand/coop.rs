//! `[[coop]]`: a daemon for each host, and a link from its access point to all stations.

use std::collections::BTreeMap;
use std::sync::Arc;

use airtcp_core::convert::count16;
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::RadioId;

use super::super::file::{Coop, MAX_COUNT, NodeKind};
use super::super::tree::KeyPath;
use super::{Expander, root};
use crate::spec::{AirSpec, ChannelId, FlowSpec, LineSpec, LinkSpec, NodeId, Traffic};

impl Expander<'_> {
    /// `flows`: how many there are already.
    pub(super) fn daemons(&mut self, flows: usize) -> Vec<FlowSpec> {
        let file = self.file;
        let mut specs = Vec::new();
        let mut seen = BTreeMap::new();
        let mut entry_of = BTreeMap::new();
        let places = self.places();
        for (i, coop) in file.coop.iter().enumerate() {
            let path = root("coop").index(i);
            self.check_name(&mut seen, "coop", i, &coop.name);
            self.daemon_times(&path, coop);
            if coop.nodes.is_empty() {
                self.error(&path.key("nodes"), "must name at least one host");
            }
            let config = Arc::new(coop.daemon.clone());
            for (j, name) in coop.nodes.iter().enumerate() {
                let at = path.key("nodes").index(j);
                let ends = match self.ends(name) {
                    Ok(ends) => ends,
                    Err(message) => {
                        self.error(&at, message);
                        continue;
                    }
                };
                if self.groups[ends.group].kind != NodeKind::Host {
                    self.error(&at, format!("`{name}` is a router: the daemon runs on hosts"));
                    continue;
                }
                for k in 0..ends.len {
                    let node = ends.member(k);
                    let host = self.node_name(node).to_owned();
                    if let Some(other) = entry_of.insert(node, i) {
                        self.error(&at, format!("{host} already has the daemon of coop[{other}]: a host runs one"));
                        break;
                    }
                    let access_point = match places.get(&node).map(Vec::as_slice) {
                        // Errors of the WLANs have been reported.
                        None if !self.errors.is_empty() => break,
                        None => {
                            self.error(
                                &at,
                                format!(
                                    "{host} must be a station of a WLAN, because the daemon announces itself there"
                                ),
                            );
                            break;
                        }
                        Some([place]) => self.group_link(*place),
                        Some(_) => {
                            self.error(&at, format!("{host} is a station of several WLANs: must be a station of one"));
                            break;
                        }
                    };
                    if flows + specs.len() >= MAX_COUNT as usize {
                        self.error(&at, format!("flows and daemons together must be at most {MAX_COUNT}"));
                        return specs;
                    }
                    specs.push(FlowSpec {
                        name: host,
                        group: coop.name.clone(),
                        from: node,
                        to: access_point,
                        start: Time::ZERO + coop.start,
                        stop: coop.stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
                        ac: coop.ac,
                        traffic: Traffic::Daemon(config.clone()),
                    });
                }
            }
        }
        specs
    }

    fn daemon_times(&mut self, path: &KeyPath, coop: &Coop) {
        let duration = self.file.duration;
        if !self.has_duration() {
            return;
        }
        if coop.start >= duration {
            self.error(&path.key("start"), format!("must be before the end of the run ({duration})"));
        }
        match coop.stop {
            Some(stop) if stop <= coop.start => {
                self.error(&path.key("stop"), format!("must be after start ({})", coop.start));
            }
            Some(stop) if stop > duration => {
                self.error(&path.key("stop"), format!("must be at most duration ({duration})"));
            }
            _ => {}
        }
    }

    /// For each station the channels it is on, and the radio of its access point there.
    fn places(&self) -> BTreeMap<NodeId, Vec<(ChannelId, RadioId)>> {
        let mut places: BTreeMap<NodeId, Vec<(ChannelId, RadioId)>> = BTreeMap::new();
        for (c, channel) in (0..).map(ChannelId).zip(&self.channels) {
            for pair in &channel.pairs {
                let node = channel.radios[pair.station.index()].node;
                places.entry(node).or_default().push((c, pair.access_point));
            }
        }
        places
    }

    /// The access point, which has a link to all its stations from now on.
    fn group_link(&mut self, (channel, radio): (ChannelId, RadioId)) -> NodeId {
        let spec = &mut self.channels[channel.index()];
        let access_point = spec.radios[radio.index()].node;
        if spec.groups.contains(&radio) {
            return access_point;
        }
        spec.groups.push(radio);
        let group = count16(spec.groups.len() - 1);
        let basic = spec.radios[radio.index()].config.phy.basic_modes();
        let modes = spec.radios[radio.index()].config.phy.modes();
        let mode = basic.first().or(modes.first()).expect("every PHY has modes");
        let (rate, name) = (mode.rate(), format!("{}->*", self.node_name(access_point)));
        self.links.push(LinkSpec {
            line: LineSpec { is_member_of_group: true, ..LineSpec::new(&name, rate) }.into(),
            name,
            from: access_point,
            to: access_point,
            delay: Span::ZERO,
            air: Some(AirSpec { channel, pair: group, down: true, is_group: true }),
        });
        access_point
    }
}
