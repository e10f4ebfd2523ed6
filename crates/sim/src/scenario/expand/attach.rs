//! Hosts of real programs: those that the file names, and those that the driver adds.

use std::collections::BTreeSet;
use std::sync::Arc;

use airtcp_core::units::Time;
use airtcp_core::wifi::Ac;

use super::super::ScenarioError;
use super::super::file::{NodeKind, defaults};
use super::reach::Reach;
use super::{Expander, Group, root};
use crate::spec::{ExternalHost, FlowSpec, NodeId};
use crate::traffic::Traffic;

/// Hosts of real programs. Each pair of them has a flow in either direction.
const MAX_ATTACHED: usize = 256;

impl Expander<'_> {
    pub(super) fn attach(&mut self, hosts: &[String]) {
        let file = self.file;
        for (i, node) in file.nodes.iter().enumerate().filter(|(_, node)| node.attach) {
            let at = root("nodes").index(i).key("attach");
            if node.kind == NodeKind::Router {
                self.error(&at, "only hosts have programs: routers forward packets");
                continue;
            }
            let Group { first, count, .. } = self.groups[i];
            self.attached.extend((first..first.saturating_add(count.unwrap_or(1))).map(NodeId));
            if self.attached.len() > MAX_ATTACHED {
                return self.error(&at, format!("makes {} hosts of real programs: {AT_MOST}", self.attached.len()));
            }
        }
        let mut named = BTreeSet::new();
        for name in hosts {
            let fault = match self.ends(name) {
                Err(message) => message,
                Ok(members) if self.groups[members.group].kind == NodeKind::Router => {
                    "is a router: real programs run on hosts".to_owned()
                }
                Ok(members) => {
                    let nodes = (0..members.len).map(|k| members.member(k));
                    match nodes.clone().find(|&node| !named.insert(node)) {
                        Some(node) => format!("attaches {} a second time: name each host once", self.node_name(node)),
                        None => {
                            self.attached.extend(nodes);
                            match self.attached.len() {
                                ..=MAX_ATTACHED => continue,
                                more => format!("makes {more} hosts of real programs: {AT_MOST}"),
                            }
                        }
                    }
                }
            };
            let file = self.source.file_name().to_owned();
            let (argument, key) = (Some(name.clone()), String::new());
            self.errors.push(ScenarioError { file, line: None, argument, key, value: None, message: fault });
        }
    }

    /// With the options of their profiles.
    pub(super) fn external_hosts(&mut self) -> Vec<ExternalHost> {
        let attached = std::mem::take(&mut self.attached);
        let of_node = |group: &Group, node: NodeId| {
            (group.first..group.first.saturating_add(group.count.unwrap_or(1))).contains(&node.0)
        };
        let mut hosts = Vec::with_capacity(attached.len());
        for node in attached {
            let Some(group) = self.groups.iter().position(|group| of_node(group, node)) else { continue };
            let profile = self.groups[group].profile.unwrap_or(defaults::PROFILE);
            let options = self.profile(profile, &root("nodes").index(group).key("profile"));
            // A profile that is at fault has been reported.
            let Some(Ok(tcp)) = options.map(|options| options.resolve()) else { continue };
            hosts.push(ExternalHost { node, profile: profile.to_owned(), tcp: Arc::new(tcp) });
        }
        hosts
    }

    /// Between each two of them that paths lead between, there and back.
    pub(super) fn external_flows(&self, hosts: &[ExternalHost], flows: &mut Vec<FlowSpec>) {
        if hosts.len() < 2 {
            return;
        }
        let reach = Reach::new(&self.nodes, &self.links);
        let pairs = hosts.iter().flat_map(|from| hosts.iter().map(|to| (from.node, to.node)));
        for (from, to) in pairs.filter(|&(from, to)| from != to && reach.connects(from, to) && reach.connects(to, from))
        {
            flows.push(FlowSpec {
                name: format!("{}->{}", self.node_name(from), self.node_name(to)),
                group: GROUP.to_owned(),
                from,
                to,
                start: Time::ZERO,
                stop: Time::NEVER,
                ac: Ac::default(),
                traffic: Traffic::External,
            });
        }
    }
}

/// No flow of a file has this name, as it has a space.
const GROUP: &str = "real programs";
const AT_MOST: &str = "must be at most 256";
