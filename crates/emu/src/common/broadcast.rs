//! Who hears a broadcast: of a station the other real hosts behind its access points.
//!
//! A broadcast travels as one packet, to one of them: up to the access point and down again, as in
//! a WLAN. When it arrives, all others hear it too. The world has group-addressed frames for its
//! own daemons alone. So the frame down goes at the rate of a station, and is repeated.

use std::net::IpAddr;

use airtcp_core::packet::PacketId;
use airtcp_core::wifi::RadioId;
use airtcp_sim::spec::{NodeId, RunSpec};

/// The real stations of each cell, and the broadcasts on their way.
#[derive(Debug, Default)]
pub(crate) struct BroadcastCells {
    /// By index of a real host: the others of its cells, the one behind it in the scenario first.
    others: Vec<Vec<usize>>,
    /// By index: which of the others is sent to next, so that no station's signal decides alone.
    next: Vec<usize>,
    /// By packet number: it is a broadcast.
    is_broadcast: Vec<bool>,
}

/// To all of the hosts' network: 255.255.255.255, 10.255.255.255 and ff02::1.
pub(crate) fn is_to_all(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.octets() == [10, 255, 255, 255],
        IpAddr::V6(v6) => v6.segments() == [0xff02, 0, 0, 0, 0, 0, 0, 1],
    }
}

fn index(id: PacketId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

impl BroadcastCells {
    /// Cells of the real hosts at `nodes`. A station that roams is in the cells of all its access
    /// points.
    pub(crate) fn new(spec: &RunSpec, nodes: &[NodeId]) -> BroadcastCells {
        let access_points: Vec<Vec<NodeId>> = nodes.iter().map(|&host| access_points_of(spec, host)).collect();
        let share = |a: usize, b: usize| access_points[a].iter().any(|ap| access_points[b].contains(ap));
        let hosts = nodes.len();
        let others_of = |own: usize| -> Vec<usize> {
            let behind = (1..hosts).map(|further| (own + further) % hosts);
            behind.filter(|&other| share(own, other)).collect()
        };
        BroadcastCells { others: (0..hosts).map(others_of).collect(), next: vec![0; hosts], is_broadcast: Vec::new() }
    }

    /// The host to which the next broadcast of `from` travels; `None`: no real host is in its cell.
    pub(crate) fn carrier(&mut self, from: usize) -> Option<usize> {
        let (others, next) = (self.others.get(from)?, self.next.get_mut(from)?);
        let carrier = *others.get(*next)?;
        *next = (*next + 1) % others.len();
        Some(carrier)
    }

    /// A packet has got this number, in place of an earlier one.
    pub(crate) fn entered(&mut self, id: PacketId, is_broadcast: bool) {
        let slot = index(id);
        if slot >= self.is_broadcast.len() {
            if !is_broadcast {
                return;
            }
            self.is_broadcast.resize(slot + 1, false);
        }
        self.is_broadcast[slot] = is_broadcast;
    }

    /// Hosts that hear the packet of this number when it arrives, if it is a broadcast of `from`.
    pub(crate) fn hearers(&self, id: PacketId, from: usize) -> Option<&[usize]> {
        let is_broadcast = self.is_broadcast.get(index(id)).copied().unwrap_or(false);
        self.others.get(from).filter(|_| is_broadcast).map(Vec::as_slice)
    }
}

fn access_points_of(spec: &RunSpec, host: NodeId) -> Vec<NodeId> {
    let of_channel = spec.channels.iter().flat_map(|channel| {
        let node = |radio: RadioId| channel.radios[radio.index()].node;
        let own = channel.pairs.iter().filter(move |pair| node(pair.station) == host);
        own.map(move |pair| node(pair.access_point))
    });
    of_channel.collect()
}
