//! The same bits on every CPU. The test runs itself once more with the C library's variants for FMA
//! and AVX2 switched off: they round `exp`, `log`, `pow` and `sin` differently, so whatever comes
//! from the platform's functions differs.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use airtcp_core::coop::CoopConfig;
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::units::Time;
use airtcp_core::wifi::phy::mobility::distance_m;
use airtcp_core::wifi::phy::{
    Band, Decoding, ErrorConfig, ErrorModel, Mode, PathLossConfig, PhyConfig, Signal, SignalConfig,
};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::World;

/// Tells the second process what it is. Its value is that of glibc's own switch.
const SWITCH: &str = "AIRTCP_TEST_WITHOUT_FMA";
const WITHOUT_FMA: &str = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F,-AVX2_Usable,-FMA_Usable,-FMA4_Usable";

/// FNV-1a: a fingerprint of bytes, whose order and values all count.
struct Fingerprint(u64);

impl Fingerprint {
    fn new() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn of_numbers(numbers: impl IntoIterator<Item = f64>) -> u64 {
    let mut print = Fingerprint::new();
    numbers.into_iter().for_each(|x| print.add(&x.to_bits().to_le_bytes()));
    print.0
}

/// Every table and the summary of an example.
fn of_run(file: &str, sets: &[&str]) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
    let sets: Vec<Override> = sets.iter().map(|set| Override::parse(set).unwrap()).collect();
    let spec = Scenario::load(&path, &sets).and_then(|s| s.to_spec()).unwrap_or_else(|e| panic!("{e}"));
    let mut world = World::build(&spec).unwrap();
    world.run(&mut NoCapture);
    let output = world.finish();
    assert!(output.tables.iter().any(|table| table.len() > 100), "{file}: too little happens");
    let mut print = Fingerprint::new();
    // Rust writes as many digits of a number as it takes to tell it from its neighbours.
    print.add(format!("{:?}", output.tables).as_bytes());
    print.add(serde_json::to_string(&output.summary).unwrap().as_bytes());
    print.0
}

/// Results of the platform's functions, which are banned elsewhere: shows that the switch has an
/// effect here.
#[allow(clippy::disallowed_methods)]
fn of_platform() -> u64 {
    of_numbers((1..20_000).map(f64::from).flat_map(|n| {
        let x = black_box(n / 1000.0);
        [x.exp(), x.ln(), x.powf(-0.7), x.sin(), x.cos()]
    }))
}

fn draws() -> u64 {
    let mut rng = stream(1, 2, Purpose::ThinkTime);
    of_numbers((0..20_000).flat_map(|_| {
        [rng.exponential(), rng.normal(), rng.lognormal(9.357, 1.318), rng.pareto(133_000.0, 1.1), rng.pareto(1.0, 1.5)]
    }))
}

/// Chances that frames arrive, as the channel compares random numbers with them.
fn chances() -> u64 {
    let models = [Decoding::Soft, Decoding::Hard]
        .map(|decoding| ErrorModel::new(&ErrorConfig { decoding, ..ErrorConfig::default() }));
    let snrs = || (-40..400).map(|n| n as f32 / 8.0);
    of_numbers(models.iter().flat_map(|model| {
        Mode::all().flat_map(move |mode| {
            snrs().flat_map(move |snr| {
                [model.event_rate(mode, snr), model.mpdu_success(mode, snr, 1500), model.preamble_success(mode, snr)]
            })
        })
    }))
}

/// Powers and distances, and the signal as it varies.
fn signals() -> u64 {
    let budget = PathLossConfig::default();
    let mean = (1..5000).map(|n| budget.snr_db(f64::from(n) / 50.0, Band::Ghz5));
    let apart = (1..5000).map(|n| distance_m([0.1, f64::from(n)], [f64::from(n).sqrt(), 0.3]));
    let config: SignalConfig =
        serde_json::from_value(serde_json::json!({ "kind": "path_loss", "distance_m": 9.0, "shadowing": {} })).unwrap();
    let phy = PhyConfig::default();
    let mut signal =
        Signal::new(&config, &phy, &ErrorModel::default(), airtcp_core::rng::Stream::new(1, 0, Purpose::Signal));
    let mode = Mode::all().last().unwrap();
    let varying: Vec<f64> = (0..5000)
        .flat_map(|n| {
            let quality = signal.link(Time::from_ns(17_000_000 * n));
            [f64::from(quality.snr_db().unwrap()), signal.header_success_if_corrupt(quality, mode, 36, 1500)]
        })
        .collect();
    let coop = (1..200).map(|n| CoopConfig::default().shrinkage(n));
    of_numbers(mean.chain(apart).chain(varying).chain(coop))
}

fn outcomes() -> String {
    let parts = [
        ("platform", of_platform()),
        ("draws", draws()),
        ("chances", chances()),
        ("signals", signals()),
        ("wired", of_run("web-users.toml", &["duration=6s", "warmup=1s"])),
        ("wireless", of_run("walk.toml", &["duration=8s"])),
    ];
    parts.map(|(name, print)| format!("{name} {print:016x}")).join("\n")
}

#[test]
fn the_same_bits_without_fma_and_avx2() {
    const BEGIN: &str = "-- outcomes --";
    if std::env::var_os(SWITCH).is_some() {
        println!("{BEGIN}\n{}\n{BEGIN}", outcomes());
        return;
    }
    if !cfg!(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")) {
        println!("SKIPPED: only glibc on x86-64 can be told to do without FMA and AVX2");
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "portable::the_same_bits_without_fma_and_avx2", "--nocapture"])
        .env(SWITCH, "1")
        .env("GLIBC_TUNABLES", WITHOUT_FMA)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{printed}{}", String::from_utf8_lossy(&child.stderr));
    let without = printed.split(BEGIN).nth(1).unwrap_or_else(|| panic!("no outcomes in {printed}")).trim();
    let with = outcomes();
    let mut pairs = with.lines().zip(without.lines());
    let (here, there) = pairs.next().unwrap();
    if here == there {
        println!("SKIPPED: switching off FMA and AVX2 changes nothing here, not even the platform's own functions");
        return;
    }
    let differing: Vec<&str> = pairs.filter(|(here, there)| here != there).map(|(here, _)| here).collect();
    assert!(differing.is_empty(), "depends on the CPU: {differing:?}\nwith FMA:\n{with}\nwithout:\n{without}");
}
