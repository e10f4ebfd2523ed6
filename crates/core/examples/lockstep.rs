//! Replays recorded paths (standard input) against airtcp's TCP: a line of JSON for each, with its
//! first difference. Arguments: fields that are not compared. evidence/lockstep/run.py runs it.

#[path = "../tests/lockstep/compare.rs"]
mod compare;
#[path = "../tests/lockstep/receiving.rs"]
mod receiving;
#[path = "../tests/lockstep/record.rs"]
mod record;
#[path = "../tests/lockstep/sending.rs"]
mod sending;

use std::io::Read;

use serde_json::json;

fn main() -> std::io::Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let ignored: Vec<String> = std::env::args().skip(1).collect();
    for path in &record::paths(&text) {
        let difference = compare::first_difference(path, &ignored).map(|d| {
            json!({
                "step": d.step, "at_us": d.at_us, "event": d.event,
                "field": d.field, "linux": d.linux, "airtcp": d.airtcp,
            })
        });
        let head = &path.head;
        let row = json!({
            "topic": head.topic, "seed": head.seed, "cc": head.text("cc"), "steps": path.steps.len(),
            "difference": difference,
        });
        println!("{row}");
    }
    Ok(())
}
