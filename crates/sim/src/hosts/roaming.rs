//! Hosts that go from access point to access point, and what becomes of their packets.
//!
//! At the end of an association the host's own packets take the way through the next one, where
//! they wait for it. To the rest of the network it is where it was until it is associated anew:
//! what is sent to it meanwhile goes to the old access point, as does what is under way. There it
//! is dropped, or kept for forwarding until the station is associated somewhere.

use std::collections::BTreeMap;

use airtcp_core::convert::count;
use airtcp_core::packet::{FlowId, PacketId};
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::phy::{Motion, Track, signal};
use airtcp_core::wifi::{Measured, PairId, Roam};

use crate::books::record::{HandoverRow, HandoverRows, WalkerRow};
use crate::path::{Place, Variants};
use crate::spec::{AirSpec, ChannelId, LinkId, RoamingSpec, RunSpec};

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
    fn new(spec: &RunSpec, up: LinkId) -> Option<Candidate> {
        let link = &spec.links[up.index()];
        let a = link.air?;
        let pair = &spec.channels[a.channel.index()].pairs[usize::from(a.pair)];
        let distance = match (&pair.motion, pair.signal.distance()) {
            (Some(motion), _) => Distance::Walked(motion.clone()),
            (None, signal::Distance::Given(m)) => Distance::Known(m),
            (None, _) => Distance::Known(f64::NAN),
        };
        let is_down = |a: &AirSpec, b: &AirSpec| b.down && !b.is_group && (a.channel, a.pair) == (b.channel, b.pair);
        let down =
            LinkId::all(spec.links.len()).find(|l| spec.links[l.index()].air.is_some_and(|b| is_down(&a, &b)))?;
        Some(Candidate { channel: a.channel, pair: PairId(a.pair), up, down, wlan: link.group.clone(), distance })
    }

    fn distance_m(&self, now: Time) -> f64 {
        match &self.distance {
            Distance::Known(m) => *m,
            Distance::Walked(motion) => motion.distance_m(now),
        }
    }

    /// `received_dbm`: signal of a pair of radios now.
    fn measure(&self, now: Time, mut received_dbm: impl FnMut(ChannelId, PairId) -> f64) -> Measured {
        Measured { distance_m: self.distance_m(now), rssi_dbm: received_dbm(self.channel, self.pair) }
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
    notified: Vec<FlowId>,
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
pub(crate) struct Roamers {
    all: Vec<Roamer>,
    walkers: Vec<Walker>,
    /// By link of the world: the station, and the candidate that it leads to.
    of_link: BTreeMap<LinkId, (usize, usize)>,
    variants: Vec<Variants>,
}

impl Roamers {
    /// `variants`, `onward`: paths of flows with such ends, and paths from access points that a
    /// station has left.
    pub(crate) fn new(spec: &RunSpec, variants: &[Variants], onward: &[Vec<Vec<Place>>]) -> Roamers {
        let mut of_link = BTreeMap::new();
        let all: Vec<Roamer> = spec
            .roaming
            .iter()
            .enumerate()
            .map(|(r, roaming)| {
                let roamer = Roamer::new(spec, variants, onward, r, roaming);
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
                only: up.and_then(|(id, _)| Candidate::new(spec, id)),
            }
        });
        Roamers { all, walkers: walkers.collect(), of_link, variants: variants.to_vec() }
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
    pub(crate) fn sample<'a>(
        &'a self,
        now: Time,
        mut received_dbm: impl FnMut(ChannelId, PairId) -> f64 + 'a,
    ) -> impl Iterator<Item = WalkerRow> + 'a {
        self.walkers.iter().map(move |walker| {
            let at = match walker.roamer.map(|r| &self.all[r]) {
                Some(roamer) => (!roamer.is_away()).then(|| &roamer.candidates[roamer.located]),
                None => walker.only.as_ref(),
            };
            let [x_m, y_m] = walker.track.at(now);
            let measured = at.map(|c| c.measure(now, &mut received_dbm));
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

    /// As [`Self::handovers`], without the last of each host, to whose row something may still be
    /// added.
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
    fn new(
        spec: &RunSpec,
        variants: &[Variants],
        onward: &[Vec<Vec<Place>>],
        r: usize,
        roaming: &RoamingSpec,
    ) -> Roamer {
        let track = spec.walks.iter().position(|w| w.node == roaming.node);
        let moves = match track.map(|t| &spec.walks[t].track) {
            Some(track) => (track.start(), track.arrival()),
            None => (Time::NEVER, Time::NEVER),
        };
        let candidates: Vec<Candidate> = roaming.candidates.iter().filter_map(|&up| Candidate::new(spec, up)).collect();
        let is_here = |v: &Variants| v.ends.contains(&Some(count(r)));
        let flows = (0..).zip(variants).filter(|(_, v)| is_here(v)).map(|(i, _)| i).collect();
        let notified =
            (0..).map(FlowId).zip(&spec.flows).filter(|(_, f)| roaming.tells_senders && f.from == roaming.node);
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
            notified: notified.map(|(flow, _)| flow).collect(),
            onward: onward[r].clone(),
            held: Vec::new(),
            track,
            rows: Vec::new(),
        }
    }
}

impl Roamers {
    /// Packets that access points have handed back for hosts that are between two of them.
    pub(crate) fn held(&self) -> impl Iterator<Item = PacketId> {
        self.all.iter().flat_map(|roamer| &roamer.held).map(|&(_, packet)| packet)
    }
}

/// Radios that a station is associated with, or leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Association {
    pub channel: ChannelId,
    pub pair: PairId,
}

/// Path of a packet that a radio has not sent before the end of its association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reroute {
    /// It begins its path anew: it is with its sender.
    FromStart,
    /// It goes on from here.
    From(Place),
    /// It waits until the station is associated again, or is of no station that roams.
    Waits,
}

impl Roamers {
    /// Signals of a station's candidates. `received_dbm`: of a pair of radios now.
    pub(crate) fn measure(
        &self,
        r: usize,
        now: Time,
        mut received_dbm: impl FnMut(ChannelId, PairId) -> f64,
    ) -> Vec<Measured> {
        self.all[r].candidates.iter().map(|c| c.measure(now, &mut received_dbm)).collect()
    }

    /// Deadline of a station.
    pub(crate) fn deadline(&self, r: usize) -> Time {
        self.all[r].deadline()
    }

    /// Heads for the first candidate of the run.
    pub(crate) fn head_for_first(&mut self, r: usize, measured: &[Measured]) {
        let roamer = &mut self.all[r];
        roamer.heading = roamer.first.unwrap_or_else(|| roamer.roam.preferred(measured));
    }

    /// True if a station's next association begins by `now`.
    pub(crate) fn arrives_by(&self, r: usize, now: Time) -> bool {
        self.all[r].arrives <= now
    }

    /// True if a station has something to decide by `now`.
    pub(crate) fn decides_by(&self, r: usize, now: Time) -> bool {
        self.all[r].roam.deadline() <= now
    }

    /// Candidate that a station leaves its own for, if it does.
    pub(crate) fn decide(&mut self, r: usize, now: Time, measured: &[Measured]) -> Option<usize> {
        self.all[r].roam.on_deadline(now, measured)
    }

    /// Begins a handover to a candidate. Returns the association that ends.
    pub(crate) fn leave(
        &mut self,
        r: usize,
        to: usize,
        now: Time,
        measured: &[Measured],
        spec: &RunSpec,
    ) -> Association {
        let roamer = &mut self.all[r];
        let from = roamer.located;
        roamer.heading = to;
        roamer.arrives = now + roamer.gap;
        let [x_m, y_m] = match roamer.track {
            Some(t) => spec.walks[t].track.at(now),
            None => [f64::NAN; 2],
        };
        roamer.rows.push(HandoverRow {
            time_s: now.as_secs_f64(),
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
        Association { channel, pair }
    }

    /// Ends a handover. Returns the association that begins, and true if it is the first of the
    /// run.
    pub(crate) fn arrive(&mut self, r: usize, now: Time) -> (Association, bool) {
        let roamer = &mut self.all[r];
        roamer.located = roamer.heading;
        roamer.arrives = Time::NEVER;
        roamer.roam.on_associated(now, roamer.located);
        let is_first = roamer.rows.is_empty();
        if let Some(row) = roamer.rows.last_mut() {
            row.associated_s = now.as_secs_f64();
        }
        let Candidate { channel, pair, .. } = roamer.candidates[roamer.located];
        (Association { channel, pair }, is_first)
    }

    /// Packets that wait for a station to be associated again, each with the candidate that it
    /// left.
    pub(crate) fn take_held(&mut self, r: usize) -> Vec<(usize, PacketId)> {
        std::mem::take(&mut self.all[r].held)
    }

    /// Flows whose sender is on a station and hears of its new path.
    pub(crate) fn notified(&self, r: usize) -> &[FlowId] {
        &self.all[r].notified
    }

    /// Places where the paths of a station's flows begin, forward and reverse, by its associations.
    pub(crate) fn paths(&self, r: usize) -> impl Iterator<Item = (FlowId, [Place; 2])> + '_ {
        let all = &self.all;
        all[r].flows.iter().map(|&v| {
            let variants = &self.variants[v];
            let at = |end: Option<u32>| end.map_or((0, 0), |e| (all[e as usize].heading, all[e as usize].located));
            let [(from_heading, from_located), (to_heading, to_located)] = variants.ends.map(at);
            let start = &variants.start;
            (variants.flow, [start[from_heading][to_located][0], start[from_located][to_heading][1]])
        })
    }

    /// Path of a packet that the radio of `link` has handed back; `None`: it is of no station that
    /// roams.
    pub(crate) fn reroute(&mut self, link: LinkId, packet: PacketId) -> Reroute {
        let Some(&(r, i)) = self.of_link.get(&link) else { return Reroute::Waits };
        let roamer = &mut self.all[r];
        if roamer.candidates[i].up == link {
            if let Some(row) = roamer.rows.last_mut() {
                row.kept += 1;
            }
            Reroute::FromStart
        } else if roamer.is_away() {
            roamer.held.push((i, packet));
            Reroute::Waits
        } else {
            Reroute::From(self.send_on(r, i))
        }
    }

    /// Place where the path begins from an access point that a station has left to the station,
    /// wherever it is associated.
    pub(crate) fn send_on(&mut self, r: usize, left: usize) -> Place {
        let roamer = &mut self.all[r];
        if left != roamer.located {
            if let Some(row) = roamer.rows.last_mut() {
                row.forwarded += 1;
            }
        }
        roamer.onward[left][roamer.located]
    }
}
