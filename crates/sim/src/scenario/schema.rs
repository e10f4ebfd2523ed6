//! The JSON Schema of a scenario file, from the same types that parse it.

use std::sync::LazyLock;

use serde_json::Value as Json;

#[cfg(not(target_arch = "wasm32"))]
mod derived;

/// JSON Schema, draft 2020-12. Every key has a description, every table refuses unknown keys. A
/// constant, but for its size: made once per process, since every scenario is held against it.
pub fn schema() -> &'static Json {
    static SCHEMA: LazyLock<Json> = LazyLock::new(made);
    &SCHEMA
}

#[cfg(not(target_arch = "wasm32"))]
use derived::schema as made;

/// As `make generate` wrote it: the code that derives it is a seventh of the engine for pages.
#[cfg(target_arch = "wasm32")]
fn made() -> Json {
    serde_json::from_str(include_str!("../../schema.json")).expect("JSON that `make generate` wrote")
}
