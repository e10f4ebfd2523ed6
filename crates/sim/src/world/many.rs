//! Many runs on several threads.

use rayon::prelude::*;

use super::{RunOutput, World};
use crate::capture::NoCapture;
use crate::error::BuildError;
use crate::spec::RunSpec;

/// Builds and runs each specification, on up to `threads` threads (0: one per core). Results are in the order of the
/// specifications and do not depend on the number of threads.
pub fn run_many(specs: &[RunSpec], threads: usize) -> Vec<Result<RunOutput, BuildError>> {
    let run = |spec: &RunSpec| {
        let mut world = World::build(spec)?;
        world.run(&mut NoCapture);
        Ok(world.finish())
    };
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(|| specs.par_iter().with_max_len(1).map(run).collect()),
        // No threads to be had: one after the other gives the same.
        Err(_) => specs.iter().map(run).collect(),
    }
}
