//! Throws changed seeds at a reader, for as long as it is told: `long TARGET SECONDS [FIRST]`. It
//! needs no nightly compiler and knows nothing of coverage; cargo-fuzz finds more per execution.
//! Seeds are the examples, the studies, and `corpus/`.
//!
//! Inputs follow from their numbers. A panic names the number and writes the input to `crashes/`.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// All files below a folder whose names end so.
fn files(folder: &Path, end: &str, found: &mut Vec<Vec<u8>>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, end, found);
        } else if path.to_string_lossy().ends_with(end) {
            found.extend(fs::read(path).ok().filter(|bytes| bytes.len() < 16_384));
        }
    }
}

/// Pieces of text that mean something in some file.
const WORDS: &[&str] = &[
    "[[",
    "]]",
    "{",
    "}",
    "=",
    "\"",
    "\n",
    ".",
    ",",
    "-",
    "0",
    "1",
    "255",
    "4294967295",
    "9223372036854775807",
    "1e308",
    "nan",
    "inf",
    "-1",
    "\"0s\"",
    "\"1ns\"",
    "\"720h\"",
    "\"0bit/s\"",
    "\"1000Tbit/s\"",
    "\"1B\"",
    "true",
    "[]",
    "{}",
    "kind",
    "name",
    "base",
    "count",
    "[profiles.x]\nbase = \"x\"\n",
    "[record]\ninterval = \"1ns\"\n",
    "\u{0}",
    "\u{feff}",
    "\u{10ffff}",
];

/// One seed, changed in a few places.
fn input(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let rng = &mut Rng(number);
    let mut bytes = seeds[rng.below(seeds.len())].clone();
    for _ in 0..1 + rng.below(6) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + 1 + rng.below(32)).min(bytes.len());
        match rng.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = rng.next() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => bytes.truncate(at),
            4 => {
                let copy = bytes[at..end].to_vec();
                let to = rng.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            5 => {
                let other = &seeds[rng.below(seeds.len())];
                let from = rng.below(other.len() + 1);
                let until = (from + rng.below(200)).min(other.len());
                bytes.splice(at..at, other[from..until].iter().copied());
            }
            n => {
                let word = WORDS[rng.below(WORDS.len())];
                bytes.splice(at..if n == 6 { at } else { end }, word.bytes());
            }
        }
    }
    bytes
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, target, seconds, rest @ ..] = &args[..] else { panic!("long TARGET SECONDS [FIRST]") };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seeds = Vec::new();
    files(&here.join("corpus").join(target), "", &mut seeds);
    let run: fn(&[u8]) = match target.as_str() {
        "scenario" => {
            files(&here.join("../examples"), ".toml", &mut seeds);
            airtcp_fuzz::scenario
        }
        "document" => {
            files(&here.join("../examples"), ".toml", &mut seeds);
            files(&here.join("../studies"), ".toml", &mut seeds);
            airtcp_fuzz::document
        }
        "analyze" => airtcp_fuzz::analyze,
        "announcement" => {
            seeds.extend([vec![0; 50], (0..=255).collect(), vec![1; 500]]);
            airtcp_fuzz::announcement
        }
        "packet" => {
            let tcp = [
                &[2, 60, 0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..],
                &[7; 12],
                &[0xa0, 0x10],
                &[9; 6],
                &[1, 1, 8, 10],
                &[3; 12],
            ];
            let six = [&[3, 48, 0x60, 2, 0, 0, 0, 8, 17, 64][..], &[1; 32], &[0, 9, 0, 53, 0, 8, 0, 0]];
            seeds.extend([tcp.concat().repeat(5), [tcp.concat(), six.concat()].concat().repeat(3)]);
            airtcp_fuzz::packet
        }
        other => panic!("{other}: must be scenario, document, analyze, announcement or packet"),
    };
    assert!(!seeds.is_empty(), "no seeds: `cargo run --bin seeds` writes them");
    let until = Instant::now() + Duration::from_secs(seconds.parse().expect("seconds"));
    let first: u64 = rest.first().map_or(0, |n| n.parse().expect("a number"));
    let (mut number, mut crashes) = (first, 0);
    let mut slowest = (Duration::ZERO, 0);
    let mut last = Instant::now();
    while last < until {
        let bytes = input(&seeds, number);
        if catch_unwind(|| run(&bytes)).is_err() {
            crashes += 1;
            fs::create_dir_all(here.join("crashes")).expect("a folder for crashes");
            fs::write(here.join(format!("crashes/{target}-{number}")), &bytes).expect("the crash written");
            eprintln!("{target} {number}: panicked");
        }
        let now = Instant::now();
        slowest = slowest.max((now - last, number));
        (last, number) = (now, number + 1);
    }
    println!(
        "{target}: {} executions, {crashes} panics; the slowest, {}, took {:?}",
        number - first,
        slowest.1,
        slowest.0
    );
}
