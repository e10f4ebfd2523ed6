//! The paths of a world's flows, and whether what a run names is there.

use super::World;
use crate::error::BuildError;
use crate::path::Place;
use crate::route::{Routes, check_index};
use crate::spec::RunSpec;

impl World {
    /// The paths of all flows, once what they lead over is known to be there.
    pub(super) fn paths(spec: &RunSpec) -> Result<Routes, BuildError> {
        for link in &spec.links {
            if link.rate.as_bps() == 0 {
                return Err(BuildError::ZeroRate { link: link.name.clone() });
            }
        }
        let record = &spec.record;
        let lists = [
            ("link_series", &record.link_series),
            ("drops", &record.drops),
            ("capture", &record.capture),
            ("air_series", &record.air_series),
        ];
        for (what, ids) in lists {
            for id in ids {
                check_index(|| format!("record.{what}"), "link", id.0, spec.links.len())?;
            }
        }
        for &flow in &record.retransmissions {
            check_index(|| "record.retransmissions".to_owned(), "flow", flow.0, spec.flows.len())?;
        }
        let routes = Routes::new(spec)?;
        if routes.hops.len() >= Place::MAX_COUNT {
            return Err(BuildError::TooManyHops { hops: routes.hops.len() });
        }
        Ok(routes)
    }
}
