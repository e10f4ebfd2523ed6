//! Stands in for crates/sim/examples/run.rs, for engines before there was one: bench/engines.py
//! puts it there.

use std::path::Path;

use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::World;

fn main() {
    if let Err(message) = run() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: run FILE [--set KEY=VALUE]...")?;
    let mut changes = Vec::new();
    while let Some(option) = arguments.next() {
        match (option.as_str(), arguments.next()) {
            ("--set", Some(change)) => changes.push(Override::parse(&change)?),
            ("--threads", Some(_)) => (),
            _ => return Err(format!("{option}: must be --set KEY=VALUE")),
        }
    }
    let spec = Scenario::load(Path::new(&file), &changes)
        .and_then(|scenario| scenario.to_spec())
        .map_err(|errors| errors.to_string())?;
    let mut world = World::build(&spec).map_err(|error| error.to_string())?;
    world.run(&mut NoCapture);
    let summary = serde_json::to_string_pretty(&world.finish().summary).map_err(|error| error.to_string())?;
    println!("{summary}");
    Ok(())
}
