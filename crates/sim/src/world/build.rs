//! Construction of a world.

use std::sync::Arc;

use airtcp_core::convert::count;
use airtcp_core::packet::FlowId;
use airtcp_core::units::Time;

use super::World;
use crate::books::{Books, Sampler};
use crate::context::Cx;
use crate::engine::{Components, Engine, QueueId};
use crate::error::BuildError;
use crate::hosts::Hosts;
use crate::network::borders::Borders;
use crate::network::route::Routes;
use crate::network::{FlowPath, Network};
use crate::spec::{LinkId, NodeId, RunSpec};

impl World {
    /// A world at its beginning.
    pub fn build(spec: &RunSpec) -> Result<World, BuildError> {
        World::build_shared(&Arc::new(spec.clone()))
    }

    /// As [`Self::build`], without a copy of what may be large.
    pub fn build_shared(spec: &Arc<RunSpec>) -> Result<World, BuildError> {
        let routes = Routes::checked(spec)?;
        let mut world = World::assemble(spec, routes, None)?;
        world.associate_first();
        if cfg!(debug_assertions) {
            world.audit();
        }
        Ok(world)
    }

    /// A world, or one partition of it.
    pub(crate) fn assemble(
        spec: &Arc<RunSpec>,
        routes: Routes,
        borders: Option<Box<Borders>>,
    ) -> Result<World, BuildError> {
        let home = borders.as_ref().map(|borders| borders.home());
        let is_part = home.is_some();
        let is_here = |node: NodeId| home.as_ref().is_none_or(|home| home.has(node));
        let has_link = |link: LinkId| home.as_ref().is_none_or(|home| home.has_link(link));
        let first = |flow: FlowId| routes.hops[routes.start[flow.0 as usize][0].index()].link();
        let hosts = Hosts::new(spec, first, &routes.variants, &routes.onward, is_here)?;
        let paths = (0..).map(FlowId).zip(&spec.flows).map(|(id, flow)| FlowPath {
            start: routes.start[id.0 as usize],
            ac: flow.ac,
            reports_release: Hosts::wants_releases(spec, flow, first(id)),
        });
        let paths = paths.collect();
        let (network, fifos) = Network::new(spec, routes, paths, borders);
        let components = Components::new(
            network.links.queued.len(),
            network.air.channels.len(),
            hosts.interfaces.count(),
            hosts.processors.count(),
            hosts.flows.len(),
            hosts.roamers.count(),
        );
        let mut engine = Engine::new(components, fifos);
        for (q, queued) in (0..).map(QueueId).zip(&network.links.queued) {
            if has_link(queued.link) {
                engine.timeline.set(engine.components.queue(q), queued.deadline(Time::NEVER));
            }
        }
        hosts.set_deadlines(spec, &mut engine, is_here);
        let mut sampler = Sampler::new(spec);
        sampler.keep(|flow| is_here(spec.flows[flow.0 as usize].from), has_link);
        engine.timeline.set(engine.components.sampler(), sampler.next());
        let books = Books::new(spec, sampler, is_part);
        Ok(World { spec: Arc::clone(spec), cx: Cx { engine, books }, network, hosts })
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World at {}, {} packets inside", self.now(), count(self.network.pool.len()))
    }
}
