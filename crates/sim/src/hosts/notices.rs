//! Notices that senders get at the end of an event: a queue has refused or dropped their packets,
//! or a radio has let go of them.
//!
//! A sender may answer with packets, and these may be dropped in turn. So notices wait until all
//! else of the event is done: refusals first, those of each flow together, then releases. A refusal
//! of what a release has let go waits for the end of the next event.

use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::wifi::Released;

use super::Hosts;
use crate::context::Cx;
use crate::engine::Engine;
use crate::traffic::AnyEnds;

/// Notices of the event under way.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Packets that the first queues of senders' hosts had no room for.
    pub refused: Vec<Packet>,
    /// Flows whose hosts' first queue dropped a packet and has not said which.
    pub congested: Vec<FlowId>,
    /// Packets that hosts no longer hold.
    released: Vec<Released>,
    /// Number of the releases that senders know of.
    notified: usize,
}

impl Hosts {
    /// A radio no longer holds some packets of a host.
    pub(crate) fn on_released(&mut self, released: Released) {
        self.notices.released.push(released);
    }

    /// True if a queue has refused packets of a sender, or dropped some.
    #[inline]
    pub(crate) fn has_refusals(&self) -> bool {
        !self.notices.refused.is_empty() || !self.notices.congested.is_empty()
    }

    /// True if a radio has let go of packets of a sender.
    #[inline]
    pub(crate) fn has_releases(&self) -> bool {
        !self.notices.released.is_empty()
    }

    /// Notifies senders of refusals.
    #[cold]
    pub(crate) fn notify_refused(&mut self, cx: &mut Cx) {
        let now = cx.engine.now;
        let engine = &mut cx.engine;
        for of_flow in self.notices.refused.chunk_by(|a, b| a.flow == b.flow) {
            let flow = of_flow[0].flow;
            let ends = &mut self.flows[flow.0 as usize].ends;
            ends.on_refused(now, of_flow);
            engine.timeline.advance_to(engine.components.source(flow), ends.deadline());
        }
        self.notices.refused.clear();
        for flow in self.notices.congested.drain(..) {
            let ends = &mut self.flows[flow.0 as usize].ends;
            ends.on_congested(now);
            engine.timeline.advance_to(engine.components.source(flow), ends.deadline());
        }
    }

    /// Notifies senders on a station that it has a new path.
    pub(crate) fn notify_new_path(&mut self, engine: &mut Engine, r: usize) {
        for &flow in self.roamers.notified(r) {
            let ends = &mut self.flows[flow.0 as usize].ends;
            ends.on_path_change(engine.now);
            engine.timeline.advance_to(engine.components.source(flow), ends.deadline());
        }
    }

    /// Notifies the next sender of packets that its host no longer holds. Returns its flow, which
    /// may have sent packets.
    pub(crate) fn notify_released(&mut self, cx: &mut Cx) -> Option<FlowId> {
        let now = cx.engine.now;
        while let Some(&released) = self.notices.released.get(self.notices.notified) {
            self.notices.notified += 1;
            let flow = released.flow;
            let ends = &mut self.flows[flow.0 as usize].ends;
            if let AnyEnds::External(_) = ends {
                self.external.released.push_back((flow, released.packets));
                continue;
            }
            ends.on_released(now, released, &mut self.out, &mut cx.books.log);
            let engine = &mut cx.engine;
            engine.timeline.advance_to(engine.components.source(flow), ends.deadline());
            return Some(flow);
        }
        self.notices.released.clear();
        self.notices.notified = 0;
        None
    }
}
