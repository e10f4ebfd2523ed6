//! Replays recorded paths against airtcp's TCP and prints the first difference of each.

#[path = "../tests/lockstep/compare.rs"]
mod compare;
#[path = "../tests/lockstep/receiving.rs"]
mod receiving;
#[path = "../tests/lockstep/record.rs"]
mod record;
#[path = "../tests/lockstep/sending.rs"]
mod sending;

use std::io::Read;

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("records on standard input");
    let ignored: Vec<String> = std::env::args().skip(1).collect();
    let paths = record::paths(&text);
    let mut equal = 0;
    for path in &paths {
        let head = &path.head;
        match compare::first_difference(path, &ignored) {
            None => equal += 1,
            Some(d) => println!(
                "{} {} {} step {} of {} at {} us after {}: {}: Linux {}, airtcp {}",
                head.topic,
                head.seed,
                head.text("cc"),
                d.step,
                path.steps.len(),
                d.at_us,
                d.event,
                d.field,
                d.linux,
                d.airtcp
            ),
        }
    }
    println!("{equal} of {} equal", paths.len());
}
