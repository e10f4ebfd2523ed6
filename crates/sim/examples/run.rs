//! A scenario file run without Python: its summary as JSON. `cargo run --example run -- FILE
//! [--threads N] [--set KEY=VALUE]...`
//!
//! It prints the output of `airtcp run --json`, for those who work on the engine and for the test
//! of CONTRIBUTING's worked examples.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::{Threads, Worlds};

fn main() {
    if let Err(message) = run() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: run FILE [--threads N] [--set KEY=VALUE]...")?;
    let (mut changes, mut threads) = (Vec::new(), Threads::Most(NonZeroUsize::MIN));
    while let Some(option) = arguments.next() {
        match (option.as_str(), arguments.next()) {
            ("--set", Some(change)) => changes.push(Override::parse(&change)?),
            ("--threads", Some(number)) if number == "auto" => threads = Threads::Auto,
            ("--threads", Some(number)) => {
                threads = Threads::Most(number.parse().map_err(|error| format!("--threads {number}: {error}"))?);
            }
            _ => return Err(format!("{option}: must be --set KEY=VALUE or --threads N")),
        }
    }
    let spec = Scenario::load(Path::new(&file), &changes)
        .and_then(|scenario| scenario.to_spec())
        .map_err(|errors| errors.to_string())?;
    let mut world = Worlds::build(&Arc::new(spec), threads).map_err(|error| error.to_string())?;
    world.run(&mut NoCapture);
    let summary = serde_json::to_string_pretty(&world.finish().summary).map_err(|error| error.to_string())?;
    println!("{summary}");
    Ok(())
}
