//! airtcp's engine as WebAssembly, for the page `playground/` and for Node. No logic lives here.
//!
//! [`session`] reads a scenario, runs it in slices and hands out what it recorded; [`drawing`]
//! records what a picture needs beside the engine's own tables; [`edit`] changes a value in a file
//! and leaves the rest as it stands. [`abi`] is all of that as a dozen functions of numbers: text
//! and columns are read from memory. With so few there is no generated glue, and no tool whose
//! version has to fit the crate's.

pub mod abi;
mod drawing;
mod edit;
pub mod session;
