//! Hosts that go from access point to access point, and what becomes of their packets.
//!
//! At the end of an association the host's own packets take the way through the next one, where they wait for it. To the rest of the
//! network it is where it was until it is associated anew: what is sent to it meanwhile goes to the old access point, as does what
//! is under way. There it is dropped, or kept for forwarding until the station is associated somewhere.

use std::collections::BTreeMap;

use airtcp_core::convert::count;
use airtcp_core::packet::{FlowId, PacketId};
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::phy::{Motion, Track, signal};
use airtcp_core::wifi::{Measured, PairId, Roam};

use super::World;
use crate::air::Air;
use crate::books::record::{HandoverRow, HandoverRows, WalkerRow};
use crate::path::Place;
use crate::route::Routes;
use crate::spec::{ChannelId, LinkId, RoamingSpec, RunSpec};

/// A radio link that a station may use.
#[derive(Debug, Clone)]
struct Candidate {
    channel: ChannelId,
    pair: PairId,
    up: LinkId,
    down: LinkId,
    wlan: String,
    distance: Distance,
}

#[derive(Debug, Clone)]
enum Distance {
    Known(f64),
    Walked(Motion),
}

impl Candidate {
    /// `up`: its link to the access point.
    fn new(spec: &RunSpec, air: &Air, up: LinkId) -> Option<Candidate> {
        let link = &spec.links[up.index()];
        let a = link.air?;
        let pair = &spec.channels[a.channel.index()].pairs[usize::from(a.pair)];
        let distance = match (&pair.motion, pair.signal.distance()) {
            (Some(motion), _) => Distance::Walked(motion.clone()),
            (None, signal::Distance::Given(m)) => Distance::Known(m),
            (None, _) => Distance::Known(f64::NAN),
        };
        let down = air.world_link(a.channel, PairId(a.pair).down());
        Some(Candidate { channel: a.channel, pair: PairId(a.pair), up, down, wlan: link.group.clone(), distance })
    }

    fn distance_m(&self, now: Time) -> f64 {
        match &self.distance {
            Distance::Known(m) => *m,
            Distance::Walked(motion) => motion.distance_m(now),
        }
    }

    fn measure(&self, now: Time, air: &mut Air) -> Measured {
        let rssi_dbm = air.channels[self.channel.index()].received_dbm(self.pair, now);
        Measured { distance_m: self.distance_m(now), rssi_dbm }
    }
}

#[derive(Debug)]
struct Roamer {
    name: String,
    candidates: Vec<Candidate>,
    roam: Roam,
    first: Option<usize>,
    /// Where its own packets go.
    heading: usize,
    /// Where the network believes it to be.
    located: usize,
    /// When it is associated with where it is heading; [`Time::NEVER`]: it is.
    arrives: Time,
    gap: Span,
    /// Places in [`Roamers::variants`] of the flows that end here.
    flows: Vec<usize>,
    /// Flows whose sender is here and wants to know.
    told: Vec<FlowId>,
    /// See [`Routes::onward`].
    onward: Vec<Vec<Place>>,
    /// Candidate that it left and packet: to be forwarded once it is associated.
    held: Vec<(usize, PacketId)>,
    track: Option<usize>,
    rows: Vec<HandoverRow>,
}

impl Roamer {
    fn deadline(&self) -> Time {
        self.roam.deadline().min(self.arrives)
    }
    fn is_away(&self) -> bool {
        !self.arrives.is_never()
    }
}

#[derive(Debug)]
struct Walker {
    name: String,
    track: std::sync::Arc<Track>,
    /// If it roams.
    roamer: Option<usize>,
    /// If it does not.
    only: Option<Candidate>,
}

#[derive(Debug)]
pub(super) struct Roamers {
    all: Vec<Roamer>,
    walkers: Vec<Walker>,
    /// By link of the world: whose it is, and of which candidate.
    of_link: BTreeMap<LinkId, (usize, usize)>,
    variants: Vec<crate::route::Variants>,
}

impl Roamers {
    pub(crate) fn new(spec: &RunSpec, routes: &Routes, air: &Air) -> Roamers {
        let mut of_link = BTreeMap::new();
        let all: Vec<Roamer> = spec
            .roaming
            .iter()
            .enumerate()
            .map(|(r, roaming)| {
                let roamer = Roamer::new(spec, routes, air, r, roaming);
                for (i, c) in roamer.candidates.iter().enumerate() {
                    of_link.insert(c.up, (r, i));
                    of_link.insert(c.down, (r, i));
                }
                roamer
            })
            .collect();
        let walkers = spec.walks.iter().map(|walk| {
            let up =
                (0..).map(LinkId).zip(&spec.links).find(|(_, l)| l.from == walk.node && l.air.is_some_and(|a| !a.down));
            Walker {
                name: spec.nodes[walk.node.index()].name.clone(),
                track: walk.track.clone(),
                roamer: spec.roaming.iter().position(|r| r.node == walk.node),
                only: up.and_then(|(id, _)| Candidate::new(spec, air, id)),
            }
        });
        Roamers { all, walkers: walkers.collect(), of_link, variants: routes.variants.clone() }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// A packet on an air link of a station was lost for want of an association.
    pub(crate) fn count_lost(&mut self, link: LinkId) {
        let Some(&(r, i)) = self.of_link.get(&link) else { return };
        let roamer = &mut self.all[r];
        let is_up = roamer.candidates[i].up == link;
        // At the very beginning there was nothing to hand over.
        if let Some(row) = roamer.rows.last_mut() {
            *(if is_up { &mut row.dropped_station } else { &mut row.dropped_ap }) += 1;
        }
    }

    /// Rows of hosts that walk.
    pub(crate) fn sample<'a>(&'a self, now: Time, air: &'a mut Air) -> impl Iterator<Item = WalkerRow> + 'a {
        self.walkers.iter().map(move |walker| {
            let at = match walker.roamer.map(|r| &self.all[r]) {
                Some(roamer) => (!roamer.is_away()).then(|| &roamer.candidates[roamer.located]),
                None => walker.only.as_ref(),
            };
            let [x_m, y_m] = walker.track.at(now);
            let measured = at.map(|c| c.measure(now, air));
            WalkerRow {
                time_s: now.as_secs_f64(),
                node: walker.name.clone().into(),
                x_m,
                y_m,
                wlan: at.map_or(String::new(), |c| c.wlan.clone()).into(),
                distance_m: measured.map_or(f64::NAN, |m| m.distance_m),
                rssi_dbm: measured.map_or(f64::NAN, |m| m.rssi_dbm),
            }
        })
    }

    /// All of them, in order of time, then of the scenario.
    pub(crate) fn handovers(&mut self) -> HandoverRows {
        self.take_handovers(0)
    }

    /// As [`Self::handovers`], without the last of each host, to whose row something may still be added.
    pub(crate) fn past_handovers(&mut self) -> HandoverRows {
        self.take_handovers(1)
    }

    fn take_handovers(&mut self, but: usize) -> HandoverRows {
        let past = |r: &mut Roamer| r.rows.drain(..r.rows.len().saturating_sub(but)).collect::<Vec<_>>();
        let mut all: Vec<HandoverRow> = self.all.iter_mut().flat_map(past).collect();
        all.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
        let mut rows = HandoverRows::default();
        all.into_iter().for_each(|row| rows.push(row));
        rows
    }
}

impl Roamer {
    fn new(spec: &RunSpec, routes: &Routes, air: &Air, r: usize, roaming: &RoamingSpec) -> Roamer {
        let track = spec.walks.iter().position(|w| w.node == roaming.node);
        let moves = match track.map(|t| &spec.walks[t].track) {
            Some(track) => (track.start(), track.arrival()),
            None => (Time::NEVER, Time::NEVER),
        };
        let candidates: Vec<Candidate> =
            roaming.candidates.iter().filter_map(|&up| Candidate::new(spec, air, up)).collect();
        let is_here = |v: &crate::route::Variants| v.ends.contains(&Some(count(r)));
        let flows = (0..).zip(&routes.variants).filter(|(_, v)| is_here(v)).map(|(i, _)| i).collect();
        let told = (0..).map(FlowId).zip(&spec.flows).filter(|(_, f)| roaming.tells_senders && f.from == roaming.node);
        Roamer {
            name: spec.nodes[roaming.node.index()].name.clone(),
            roam: Roam::new(roaming.rule.clone(), candidates.len(), moves),
            candidates,
            first: roaming.first,
            heading: 0,
            located: 0,
            arrives: Time::NEVER,
            gap: roaming.gap,
            flows,
            told: told.map(|(flow, _)| flow).collect(),
            onward: routes.onward[r].clone(),
            held: Vec::new(),
            track,
            rows: Vec::new(),
        }
    }
}

impl Roamers {
    /// Packets that access points have handed back for hosts that are between two of them.
    pub(super) fn held(&self) -> impl Iterator<Item = PacketId> {
        self.all.iter().flat_map(|roamer| &roamer.held).map(|&(_, packet)| packet)
    }
}

impl World {
    /// Every station that roams is associated from the start of the run.
    pub(super) fn associate_first(&mut self) {
        for r in 0..self.roamers.all.len() {
            let measured = self.measured(r);
            let roamer = &mut self.roamers.all[r];
            let first = roamer.first.unwrap_or_else(|| roamer.roam.preferred(&measured));
            roamer.heading = first;
            self.on_association(r);
        }
    }

    /// A station has something to decide, or is associated anew.
    #[cold]
    pub(super) fn on_roamer(&mut self, r: usize) {
        let now = self.cx.engine.now;
        if self.roamers.all[r].arrives <= now {
            self.on_association(r);
        } else if self.roamers.all[r].roam.deadline() <= now {
            let measured = self.measured(r);
            if let Some(to) = self.roamers.all[r].roam.on_deadline(now, &measured) {
                self.leave(r, to, &measured);
            }
        }
        self.cx.engine.timeline.set(self.cx.engine.components.roamer(r), self.roamers.all[r].deadline());
    }

    fn measured(&mut self, r: usize) -> Vec<Measured> {
        self.roamers.all[r].candidates.iter().map(|c| c.measure(self.cx.engine.now, &mut self.air)).collect()
    }

    fn leave(&mut self, r: usize, to: usize, measured: &[Measured]) {
        let roamer = &mut self.roamers.all[r];
        let from = roamer.located;
        roamer.heading = to;
        roamer.arrives = self.cx.engine.now + roamer.gap;
        let [x_m, y_m] = match roamer.track {
            Some(t) => self.spec.walks[t].track.at(self.cx.engine.now),
            None => [f64::NAN; 2],
        };
        roamer.rows.push(HandoverRow {
            time_s: self.cx.engine.now.as_secs_f64(),
            node: roamer.name.clone().into(),
            from: roamer.candidates[from].wlan.clone().into(),
            to: roamer.candidates[to].wlan.clone().into(),
            associated_s: f64::NAN,
            x_m,
            y_m,
            from_distance_m: measured[from].distance_m,
            to_distance_m: measured[to].distance_m,
            from_rssi_dbm: measured[from].rssi_dbm,
            to_rssi_dbm: measured[to].rssi_dbm,
            kept: 0,
            dropped_station: 0,
            dropped_ap: 0,
            forwarded: 0,
        });
        let Candidate { channel, pair, .. } = roamer.candidates[from];
        self.repath(r);
        self.air.channels[channel.index()].disassociate(self.cx.engine.now, pair, &mut self.pool, &mut self.air.out);
        self.after_change(channel);
        if self.roamers.all[r].arrives == self.cx.engine.now {
            self.on_association(r);
        }
    }

    fn on_association(&mut self, r: usize) {
        let now = self.cx.engine.now;
        let roamer = &mut self.roamers.all[r];
        roamer.located = roamer.heading;
        roamer.arrives = Time::NEVER;
        roamer.roam.on_associated(now, roamer.located);
        let is_first = roamer.rows.is_empty();
        if let Some(row) = roamer.rows.last_mut() {
            row.associated_s = now.as_secs_f64();
        }
        let Candidate { channel, pair, .. } = roamer.candidates[roamer.located];
        let deadline = roamer.deadline();
        self.cx.engine.timeline.set(self.cx.engine.components.roamer(r), deadline);
        self.repath(r);
        self.air.channels[channel.index()].associate(now, pair, &mut self.pool, &mut self.air.out);
        self.after_change(channel);
        let held = std::mem::take(&mut self.roamers.all[r].held);
        for (left, packet) in held {
            self.send_on(r, left, packet);
        }
        if is_first {
            return;
        }
        for i in 0..self.roamers.all[r].told.len() {
            let flow = self.roamers.all[r].told[i];
            let ends = &mut self.flows[flow.0 as usize].ends;
            ends.on_path_change(now);
            self.cx.engine.timeline.advance_to(self.cx.engine.components.source(flow), ends.deadline());
        }
    }

    fn after_change(&mut self, channel: ChannelId) {
        let deadline = self.air.channels[channel.index()].deadline();
        self.cx.engine.timeline.set_brief(self.cx.engine.components.channel(channel), deadline);
        if !self.air.out.is_empty() {
            self.take_from_air(channel);
        }
    }

    /// The flows of a station take the paths of its associations.
    fn repath(&mut self, r: usize) {
        let all = &self.roamers.all;
        for &v in &all[r].flows {
            let variants = &self.roamers.variants[v];
            let at = |end: Option<u32>| end.map_or((0, 0), |e| (all[e as usize].heading, all[e as usize].located));
            let [(from_heading, from_located), (to_heading, to_located)] = variants.ends.map(at);
            let path_start = &mut self.flows[variants.flow.0 as usize].path_start;
            path_start[0] = variants.start[from_heading][to_located][0];
            path_start[1] = variants.start[from_located][to_heading][1];
        }
    }

    /// A packet that a radio has not sent before the end of its association.
    pub(super) fn find_another_way(&mut self, link: LinkId, packet: PacketId) {
        let Some(&(r, i)) = self.roamers.of_link.get(&link) else { return };
        let roamer = &mut self.roamers.all[r];
        if roamer.candidates[i].up == link {
            if let Some(row) = roamer.rows.last_mut() {
                row.kept += 1;
            }
            let p = &self.pool[packet];
            let size = p.size;
            let place = self.flows[p.flow.0 as usize].path_start[usize::from(p.is_reverse())];
            self.forward(self.hops[place.index()].link(), packet, place, size);
        } else if roamer.is_away() {
            roamer.held.push((i, packet));
        } else {
            self.send_on(r, i, packet);
        }
    }

    /// From an access point to the station, wherever it is associated.
    fn send_on(&mut self, r: usize, left: usize, packet: PacketId) {
        let roamer = &mut self.roamers.all[r];
        let place = roamer.onward[left][roamer.located];
        if left != roamer.located {
            if let Some(row) = roamer.rows.last_mut() {
                row.forwarded += 1;
            }
        }
        let size = self.pool[packet].size;
        self.forward(self.hops[place.index()].link(), packet, place, size);
    }
}
