//! Cost of one series and its status in each rate control, evaluations of the statistics included.
//!
//! `cargo bench -p airtcp-bench --bench rate`. An item is one A-MPDU (802.11n, two streams, 40 MHz,
//! 64 modes) or, for `minstrel`, one frame (802.11g).

#![allow(clippy::cast_lossless, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of numbers that are known to fit

use std::hint::black_box;

use airtcp_core::rng::{Purpose, Stream};
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::phy::{ErrorModel, PhyConfig, Standard};
use airtcp_core::wifi::rate::{RateConfig, RateContext, TxStatus};
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

const FRAMES: u64 = 10_000;

#[divan::bench(args = RateConfig::NAMES)]
fn choose_and_learn(bencher: divan::Bencher<'_, '_>, name: &str) {
    let config = RateConfig::by_name(name).unwrap();
    let n = PhyConfig { streams: 2, width_mhz: 40, short_guard_interval: true, ..PhyConfig::of(Standard::N) };
    let phy = if config.check(&n).is_ok() { n } else { PhyConfig::of(Standard::G) };
    let ctx = RateContext {
        modes: phy.modes(),
        timing: phy.timing().into(),
        stream: Stream::new(1, 0, Purpose::Queue),
        errors: ErrorModel::default(),
    };
    let mut control = config.build(&ctx);
    let mut now = Time::ZERO;
    bencher.counter(ItemsCount::new(FRAMES)).bench_local(|| {
        for i in 0..FRAMES {
            let series = control.choose(now, i % 8 == 0, Some(25.0));
            let stage = usize::from(i % 16 == 0).min(series.stages().len() - 1);
            let mut tries = [0; 4];
            tries[..=stage].fill(1);
            // Fast modes fail.
            let acked = if series.stages()[stage].mode.rate().as_bps() > 150_000_000 { 0 } else { 24 };
            let (mpdus, acked) = if name == "minstrel" { (1, acked.min(1)) } else { (25, acked) };
            now += Span::from_ms(2);
            let is_ampdu = mpdus > 1;
            control.on_status(now, &TxStatus { series: black_box(&series), tries, mpdus, acked, is_ampdu });
        }
    });
}
