//! Against the kernel's own code: the channels that `evidence/kernel/minstrel/run.py` sent through
//! Linux's Minstrel-HT, and every decision that it took on them.

use std::fmt::Write;

use serde::Deserialize;

use super::super::{RateControl, RateSeries, TxStatus};
use super::targeted::GROUP_RATES;
use super::{MinstrelHtConfig, Targeted};
use crate::units::{Span, Time};
use crate::wifi::phy::{Format, Mode, PhyConfig, Standard};

#[derive(Deserialize)]
struct Record {
    kernel: String,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    name: String,
    format: String,
    streams: u8,
    width: u16,
    sgi: bool,
    /// Time in ms, and the rate in kbit/s up to which nearly every MPDU arrives from then on.
    limits: Vec<(u64, u64)>,
    seed: u64,
    ms: u64,
    mpdus: u16,
    /// Share of first tries that are lost whole, and of MPDUs that arrive below the limit, in
    /// 1/65536.
    collisions: u64,
    floor: u64,
    max_tries: u8,
    columns: Vec<u8>,
    totals: Totals,
    rates: String,
    rows: Vec<Row>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
struct Totals {
    ppdus: u64,
    samples: u64,
    mpdus_sent: u64,
    mpdus_arrived: u64,
}

/// Time in ms, the series, the mean A-MPDU length in 1/4096, digests of what is known of the rates
/// and of all series so far, samples so far.
type Row = (u64, String, u32, String, String, u64);

/// The record's, as `run.py` says.
struct Random(u64);

impl Random {
    /// splitmix64 (Steele, Lea, Flood 2014), the top sixteen bits.
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) >> 48
    }
}

/// FNV-1a of lines.
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
    fn add(&mut self, line: &str) {
        for byte in line.bytes().chain([b'\n']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The kernel's number of a mode: 16 times the group and the place in it.
fn code(mode: Mode) -> u16 {
    let (first, place) = match mode.format() {
        Format::Vht => (18, u16::from(mode.mcs().unwrap())),
        _ => (0, u16::from(mode.mcs().unwrap()) % 8),
    };
    let group = first + 8 * mode.width() as u16 + 4 * u16::from(mode.is_short_gi()) + u16::from(mode.streams()) - 1;
    16 * group + place
}

/// Data bits of a symbol, in whole bits of each stream.
fn bits(mode: Mode) -> u64 {
    u64::from(mode.bits_per_symbol() / u32::from(mode.streams()) * u32::from(mode.streams()))
}

/// As `driver.c` prints what a driver is given, stage by stage.
fn line(minstrel: &Targeted, series: &RateSeries) -> String {
    let mut line = String::from(if series.is_sample() { "S" } else { "-" });
    for (n, stage) in minstrel.stages.iter().enumerate() {
        let stage = if n == 0 && series.is_sample() { series.first() } else { *stage };
        write!(line, " {}:{}:{}", code(stage.mode), stage.tries, u8::from(stage.rts)).unwrap();
    }
    line
}

fn dump(minstrel: &Targeted) -> String {
    let most_reliable = minstrel.rates[usize::from(minstrel.most_reliable)].mode;
    let mut line = format!("{} {}", minstrel.mean_ampdu_len, code(most_reliable));
    for (i, rate) in minstrel.rates.iter().enumerate() {
        write!(line, " {}:{}:{}", code(rate.mode), rate.probability, minstrel.throughput(i as u16)).unwrap();
    }
    line
}

impl Run {
    fn minstrel(&self) -> Targeted {
        let standard = if self.format == "vht" { Standard::Ac } else { Standard::N };
        let phy = PhyConfig {
            streams: self.streams,
            width_mhz: self.width,
            short_guard_interval: self.sgi,
            ..PhyConfig::of(standard)
        };
        let config = MinstrelHtConfig { max_retry: self.max_tries, ..MinstrelHtConfig::default() };
        let columns = self.columns.chunks(GROUP_RATES).map(|c| c.try_into().unwrap()).collect();
        Targeted::with_columns(&config, &phy.modes(), columns)
    }

    fn arrives(&self, mode: Mode, ms: u64) -> u64 {
        let kbps = bits(mode) * 1_000_000 / mode.symbol().as_ns();
        let limit = self.limits.iter().rev().find(|l| ms >= l.0).unwrap().1;
        if kbps <= limit {
            return self.floor;
        }
        (self.floor * (3 * limit).saturating_sub(2 * kbps)).checked_div(limit).unwrap_or(0)
    }

    /// Sends the channel through airtcp's Minstrel-HT; tells where it first decides differently.
    fn replay(&self) -> Result<Totals, String> {
        let mut minstrel = self.minstrel();
        let mut random = Random(self.seed + 1000);
        let mut chosen = Digest::new();
        let mut totals = Totals::default();
        let (mut now_ns, mut again) = (0, false);
        let mut rows = self.rows.iter();
        let at = |ns: u64| Time::ZERO + Span::from_ms(ns / 1_000_000);
        while now_ns < self.ms * 1_000_000 {
            let series = minstrel.choose(at(now_ns), again, None);
            chosen.add(&line(&minstrel, &series));
            let mpdus = if series.is_sample() { 1 } else { self.mpdus };
            let (mut tries, mut acked) = ([0; 4], 0);
            for n in 0..series.total_tries() {
                let stage = series.stage_of_try(n).unwrap();
                let mode = series.stages()[stage].mode;
                tries[stage] += 1;
                totals.mpdus_sent += u64::from(mpdus);
                now_ns += 150_000 + u64::from(mpdus) * 12_000 * mode.symbol().as_ns() / bits(mode);
                let collided = n == 0 && random.draw() < self.collisions;
                if !collided {
                    let p = self.arrives(mode, now_ns / 1_000_000);
                    acked = (0..mpdus).filter(|_| random.draw() < p).count() as u16;
                }
                if acked > 0 {
                    break;
                }
            }
            let before = minstrel.evaluated;
            let status = TxStatus { series: &series, tries, mpdus, acked, is_ampdu: mpdus > 1 };
            minstrel.on_status(at(now_ns), &status);
            totals.ppdus += 1;
            totals.samples += u64::from(series.is_sample());
            totals.mpdus_arrived += u64::from(acked);
            again = acked == 0;
            if minstrel.evaluated != before {
                let known = dump(&minstrel);
                let mut digest = Digest::new();
                digest.add(&known);
                let series = minstrel.choose(at(now_ns), true, None);
                let chain = line(&minstrel, &series);
                let own = (
                    now_ns / 1_000_000,
                    chain[2..].to_owned(),
                    minstrel.mean_ampdu_len,
                    digest.text(),
                    chosen.text(),
                    totals.samples,
                );
                let kernel = rows.next();
                if kernel != Some(&own) {
                    return Err(format!("{}: kernel {kernel:?}\nairtcp {own:?}\nknown: {known}", self.name));
                }
            }
        }
        if dump(&minstrel) != self.rates {
            return Err(format!("{}: kernel {}\nairtcp {}", self.name, self.rates, dump(&minstrel)));
        }
        Ok(totals)
    }
}

fn record() -> Record {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../evidence/figures/kernel/minstrel_ht.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Twenty-two channels of 802.11n and ac, one to four streams, 20 to 80 MHz: errors by rate,
/// collisions, steps of the signal. Each of 1200 evaluations and 47 000 series is the kernel's own,
/// sample by sample.
#[test]
fn every_decision_is_the_kernels_own() {
    let record = record();
    assert!(record.kernel.starts_with("6.12."), "{}", record.kernel);
    assert!(record.runs.len() >= 20, "{}", record.runs.len());
    for run in &record.runs {
        assert!(run.rows.len() > 10, "{}: {} evaluations", run.name, run.rows.len());
        match run.replay() {
            Ok(totals) => assert_eq!(totals, run.totals, "{}", run.name),
            Err(difference) => panic!("Linux {}, {difference}", record.kernel),
        }
    }
}
