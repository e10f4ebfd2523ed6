//! Prints the JSON Schema of a scenario file, with its descriptions. `make playground` makes the
//! types of the page and of its package for Node from it.

#![expect(clippy::print_stdout, reason = "the schema is this program's output")]

fn main() {
    println!("{:#}", airtcp_sim::scenario::schema());
}
