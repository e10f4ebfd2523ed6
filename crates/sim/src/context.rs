//! Context that the network and the hosts work in.

use crate::books::Books;
use crate::engine::Engine;

/// Engine and books: what every call into the network or the hosts may use besides its own.
pub(crate) struct Cx {
    pub engine: Engine,
    pub books: Books,
}
