//! The configuration of wmediumd (bcopeland/wmediumd, `wmediumd/config.c`), read as a medium of
//! airtcp.
//!
//! **What it says there** is kept: addresses, the SNR or the error rate of each pair, and SNR from
//! positions. **What follows from it** is airtcp's: contention, collisions, aggregation and the
//! errors of a mode at an SNR. A pair has one signal for both directions, so that of two different
//! ones the worse counts, and a note says so. An error rate holds for MPDUs of [`BYTES`] bytes,
//! whatever their rate. With `enable_interference`, radios whose signal is below [`SENSED_DB`] do
//! not sense each other. Without, all do.

use std::sync::Arc;

use airtcp_core::units::{Probability, Span};
use airtcp_core::wifi::phy::{ErrorRateConfig, PhyConfig, SignalConfig, SnrConfig, Standard};
use airtcp_core::wifi::{ChannelConfig, PairConfig, RadioConfig, RadioId, TraceConfig};

use crate::air::Setup;
use crate::frame::Address;
use crate::libconfig::{self, Value};

/// SNR of a pair that the file does not name, dB.
const DEFAULT_DB: f64 = 30.0;
/// A radio does not sense what is weaker, dB: its threshold is -90 dBm, and the noise -91 dBm.
const SENSED_DB: f64 = 1.0;
/// Noise, dBm.
const NOISE_DBM: f64 = -91.0;
/// The frequency of path loss, Hz.
const FREQUENCY: f64 = 2.412e9;
/// Speed of light, m/s.
const LIGHT: f64 = 299_792_458.0;
/// Length of the MPDUs that have the error rate of the file.
pub const BYTES: u32 = 1538;
/// Most radios.
const MOST: usize = 256;
/// Radios nearer than this are taken to be this far apart, m.
const NEAREST: f64 = 0.1;

/// A file that was read.
#[derive(Debug)]
pub struct Wmediumd {
    /// Addresses of the radios, by place.
    pub addresses: Vec<Address>,
    /// The medium.
    pub setup: Setup,
    /// Differences from wmediumd.
    pub notes: Vec<String>,
}

/// Signals of pairs, by place of one and the other.
enum Signals {
    Snr(Vec<Vec<f64>>),
    Errors(Vec<Vec<f64>>),
}

/// Reads a file.
///
/// # Errors
/// A sentence: key, value, and what would be accepted.
pub fn read(text: &str, seed: u64) -> Result<Wmediumd, String> {
    let file = libconfig::read(text)?;
    let addresses = addresses(&file)?;
    let count = addresses.len();
    let mut notes = Vec::new();
    refuse(&file)?;
    let interferes = match file.at("ifaces.enable_interference") {
        None => false,
        Some(Value::Bool(is)) => *is,
        Some(other) => return Err(format!("ifaces.enable_interference is {}: must be true or false", other.kind())),
    };
    let signals = signals(&file, count)?;
    let mut pairs = Vec::new();
    let mut hidden = Vec::new();
    for a in 0..count {
        for b in a + 1..count {
            let radios = (RadioId::at(a), RadioId::at(b));
            let signal = match &signals {
                Signals::Snr(snr) => {
                    let db = snr[a][b].min(snr[b][a]);
                    if (snr[a][b] - snr[b][a]).abs() > 0.05 {
                        notes.push(format!(
                            "radios {a} and {b}: {:.1} dB one way and {:.1} dB the other: a pair has one signal here, {db:.1} dB",
                            snr[a][b], snr[b][a]
                        ));
                    }
                    if db < SENSED_DB {
                        hidden.extend(interferes.then_some(radios));
                        None
                    } else {
                        Some(SignalConfig::Snr(SnrConfig { snr_db: db.min(150.0), shadowing: None }))
                    }
                }
                Signals::Errors(rates) => {
                    let worse = rates[a][b].max(rates[b][a]);
                    if rates[a][b].to_bits() != rates[b][a].to_bits() {
                        notes.push(format!(
                            "radios {a} and {b}: an error rate of {} one way and of {} the other: a pair has one here, {worse}",
                            rates[a][b], rates[b][a]
                        ));
                    }
                    let rate = Some(Probability::new(worse).map_err(|why| format!("model.links: {why}"))?);
                    (worse < 1.0).then_some(SignalConfig::ErrorRate(ErrorRateConfig {
                        rate,
                        rates: None,
                        bytes: BYTES,
                    }))
                }
            };
            pairs.extend(signal.map(|signal| PairConfig::fixed(radios.0, radios.1, signal)));
        }
    }
    let radio = Arc::new(RadioConfig::of(PhyConfig::of(Standard::N)));
    let setup = ChannelConfig {
        radios: vec![radio; count],
        pairs,
        groups: Vec::new(),
        hidden,
        sensing: Span::ZERO,
        capture_effect: Probability::ZERO,
        seed,
        index: 0,
        trace: TraceConfig::default(),
    };
    Ok(Wmediumd { addresses, setup, notes })
}

fn addresses(file: &Value) -> Result<Vec<Address>, String> {
    let Some(Value::List(ids)) = file.at("ifaces.ids") else {
        return Err("ifaces.ids is missing: a list of addresses such as \"02:00:00:00:00:00\"".to_owned());
    };
    if !(2..=MOST).contains(&ids.len()) {
        return Err(format!("ifaces.ids has {} addresses: must be from 2 to {MOST}", ids.len()));
    }
    if let Some(Value::Number(count)) = file.at("ifaces.count") {
        let is = u32::try_from(ids.len()).map_or(f64::NAN, f64::from);
        if (*count - is).abs() > 0.0 {
            return Err(format!("ifaces.count = {count}: ifaces.ids has {is} addresses"));
        }
    }
    let mut addresses: Vec<Address> = Vec::new();
    for (place, id) in ids.iter().enumerate() {
        let Value::Text(text) = id else {
            return Err(format!("ifaces.ids[{place}] is {}: must be an address in quotes", id.kind()));
        };
        let address = address(text).map_err(|why| format!("ifaces.ids[{place}] = {text:?}: {why}"))?;
        if addresses.contains(&address) {
            return Err(format!("ifaces.ids[{place}] = {text:?}: another radio has this address"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// Reads an address as the module gives it to a radio, or with the bit by which the kernel names
/// radios.
///
/// # Errors
/// The message says what would be accepted.
pub fn address(text: &str) -> Result<Address, String> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()));
        let read = part.and_then(|part| u8::from_str_radix(part, 16).ok());
        *byte =
            read.ok_or("must be six numbers of two hexadecimal digits with colons between, such as 02:00:00:00:00:00")?;
    }
    if parts.next().is_some() || bytes[0] & 1 != 0 {
        return Err("must be the address of one radio, such as 02:00:00:00:00:00".to_owned());
    }
    bytes[0] &= !crate::frame::NAME;
    Ok(bytes)
}

/// Refuses options that would change results and that this medium does not have.
fn refuse(file: &Value) -> Result<(), String> {
    if let Some(Value::Number(fading)) = file.at("model.fading_coefficient") {
        if *fading > 0.0 {
            return Err(format!("model.fading_coefficient = {fading}: signals do not fade here; must be 0"));
        }
    }
    if let Some(Value::List(directions)) = file.at("model.directions") {
        let moves = |value: &Value| !matches!(value, Value::List(of) if of.iter().all(|n| *n == Value::Number(0.0)));
        if directions.iter().any(moves) {
            return Err("model.directions: radios stay where they are here; all must be (0.0, 0.0)".to_owned());
        }
    }
    Ok(())
}

fn signals(file: &Value, count: usize) -> Result<Signals, String> {
    if let Some(links) = file.at("ifaces.links") {
        return Ok(Signals::Snr(links_of(links, "ifaces.links", count, DEFAULT_DB, -50.0..=150.0)?));
    }
    let kind = match file.at("model.type") {
        None => return Ok(Signals::Snr(vec![vec![DEFAULT_DB; count]; count])),
        Some(Value::Text(kind)) => kind.as_str(),
        Some(other) => {
            return Err(format!("model.type is {}: must be \"snr\", \"prob\" or \"path_loss\"", other.kind()));
        }
    };
    let none = Value::List(Vec::new());
    let links = file.at("model.links").unwrap_or(&none);
    match kind {
        "snr" => Ok(Signals::Snr(links_of(links, "model.links", count, DEFAULT_DB, -50.0..=150.0)?)),
        "prob" => {
            let rest = match file.at("model.default_prob") {
                None => 0.0,
                Some(Value::Number(rate)) if (0.0..=1.0).contains(rate) => *rate,
                Some(Value::Number(rate)) => return Err(format!("model.default_prob = {rate}: must be from 0 to 1")),
                Some(other) => return Err(format!("model.default_prob is {}: must be from 0 to 1", other.kind())),
            };
            Ok(Signals::Errors(links_of(links, "model.links", count, rest, 0.0..=1.0)?))
        }
        "path_loss" => Ok(Signals::Snr(path_loss(file, count)?)),
        other => Err(format!("model.type = {other:?}: must be \"snr\", \"prob\" or \"path_loss\"")),
    }
}

/// A figure for each pair; one that is named in one direction holds for both.
fn links_of(
    links: &Value,
    key: &str,
    count: usize,
    rest: f64,
    within: std::ops::RangeInclusive<f64>,
) -> Result<Vec<Vec<f64>>, String> {
    let Value::List(links) = links else { return Err(format!("{key} is {}: must be a list", links.kind())) };
    let mut found: Vec<Vec<Option<f64>>> = vec![vec![None; count]; count];
    for (n, link) in links.iter().enumerate() {
        let wanted = || format!("{key}[{n}]: must be (radio, radio, figure), with radios from 0 to {}", count - 1);
        let Value::List(parts) = link else { return Err(wanted()) };
        let [Value::Number(a), Value::Number(b), Value::Number(figure)] = parts[..] else { return Err(wanted()) };
        let place = |number: f64| {
            (0..count).find(|&n| u32::try_from(n).is_ok_and(|n| f64::from(n).to_bits() == number.to_bits()))
        };
        let (Some(a), Some(b)) = (place(a), place(b)) else { return Err(wanted()) };
        if !within.contains(&figure) {
            return Err(format!("{key}[{n}]: {figure}: must be from {} to {}", within.start(), within.end()));
        }
        found[a][b] = Some(figure);
    }
    let of = |a: usize, b: usize| found[a][b].or(found[b][a]).unwrap_or(rest);
    Ok((0..count).map(|a| (0..count).map(|b| of(a, b)).collect()).collect())
}

/// SNR from positions.
fn path_loss(file: &Value, count: usize) -> Result<Vec<Vec<f64>>, String> {
    let numbers = |key: &str, each: usize| -> Result<Vec<Vec<f64>>, String> {
        let wanted = || {
            let what = if each == 1 { "numbers" } else { "pairs of numbers" };
            format!("{key}: must be a list of {count} {what}, one for each radio")
        };
        let Some(Value::List(values)) = file.at(key) else { return Err(wanted()) };
        let of = |value: &Value| match value {
            Value::Number(number) if each == 1 => Some(vec![*number]),
            Value::List(parts) if parts.len() == each => {
                parts.iter().map(|part| if let Value::Number(n) = part { Some(*n) } else { None }).collect()
            }
            _ => None,
        };
        let all: Option<Vec<Vec<f64>>> = values.iter().map(of).collect();
        all.filter(|all| all.len() == count).ok_or_else(wanted)
    };
    let number = |key: &str| match file.at(key) {
        Some(Value::Number(number)) => Ok(*number),
        Some(other) => Err(format!("{key} is {}: must be a number", other.kind())),
        None => Err(format!("{key} is missing: a number")),
    };
    let (positions, powers) = (numbers("model.positions", 2)?, numbers("model.tx_powers", 1)?);
    let wavelength = LIGHT / FREQUENCY;
    // Free space, over so many metres.
    let free = |m: f64| 20.0 * libm::log10(4.0 * std::f64::consts::PI * m / wavelength);
    let loss: Box<dyn Fn(f64) -> f64> = match file.at("model.model_name") {
        Some(Value::Text(name)) if name == "free_space" => Box::new(free),
        Some(Value::Text(name)) if name == "log_distance" => {
            let (exponent, more) = (number("model.path_loss_exp")?, number("model.xg")?);
            Box::new(move |m| free(1.0) + 10.0 * exponent * libm::log10(m) + more)
        }
        Some(Value::Text(name)) if name == "itu" => {
            let floors = number("model.nFLOORS")? * number("model.LF")?;
            Box::new(move |m| {
                let exponent = if m > 16.0 { 38.0 } else { 28.0 };
                20.0 * libm::log10(FREQUENCY) + exponent * libm::log10(m) + floors - 28.0
            })
        }
        _ => return Err("model.model_name: must be \"log_distance\", \"free_space\" or \"itu\"".to_owned()),
    };
    let snr = |a: usize, b: usize| {
        let (dx, dy) = (positions[a][0] - positions[b][0], positions[a][1] - positions[b][1]);
        let distance = (dx * dx + dy * dy).sqrt().max(NEAREST);
        powers[a][0] - loss(distance) - NOISE_DBM
    };
    Ok((0..count).map(|a| (0..count).map(|b| snr(a, b)).collect()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDS: &str = "ifaces : { ids = [\"02:00:00:00:00:00\", \"02:00:00:00:01:00\", \"42:00:00:00:02:00\"]; __ };\n";

    fn with(ifaces: &str, model: &str) -> String {
        IDS.replace("__", ifaces) + model
    }

    /// The SNR or error rate of each pair, and whether it is an SNR.
    fn pairs(read: &Wmediumd) -> Vec<(u16, u16, f64)> {
        let of = |pair: &PairConfig| match &pair.signal {
            SignalConfig::Snr(snr) => snr.snr_db,
            SignalConfig::ErrorRate(errors) => {
                assert_eq!(errors.bytes, BYTES);
                errors.rate.unwrap().get()
            }
            other => panic!("{other:?}"),
        };
        read.setup.pairs.iter().map(|pair| (pair.station.0, pair.access_point.0, of(pair))).collect()
    }

    #[test]
    fn a_file_without_a_model_has_good_signals() {
        let read = read(&with("", ""), 7).unwrap();
        assert_eq!(read.addresses, [[2, 0, 0, 0, 0, 0], [2, 0, 0, 0, 1, 0], [2, 0, 0, 0, 2, 0]]);
        assert_eq!(pairs(&read), [(0, 1, 30.0), (0, 2, 30.0), (1, 2, 30.0)]);
        assert_eq!((read.notes.len(), read.setup.hidden.len(), read.setup.seed), (0, 0, 7));
    }

    #[test]
    fn links_have_their_snr_and_the_worse_of_two_directions_counts() {
        let links = "links = ((0, 1, 25), (0, 2, 12), (2, 0, 20), (1, 2, 0))";
        for (ifaces, model) in [(links, String::new()), ("", format!("model : {{ type = \"snr\"; {links}; }};"))] {
            let read = read(&with(ifaces, &model), 1).unwrap();
            // No signal at 0 dB, but both sense each other without `enable_interference`.
            assert_eq!((pairs(&read), read.setup.hidden.len()), (vec![(0, 1, 25.0), (0, 2, 12.0)], 0));
            assert_eq!(
                read.notes,
                ["radios 0 and 2: 12.0 dB one way and 20.0 dB the other: a pair has one signal here, 12.0 dB"]
            );
        }
        let read = read(&with(&format!("enable_interference = true; {links}"), ""), 1).unwrap();
        assert_eq!(read.setup.hidden, [(RadioId(1), RadioId(2))]);
    }

    #[test]
    fn error_rates_are_those_of_the_file() {
        let model = "model: { type = \"prob\"; default_prob = 1.0; links = ((0, 2, 0.0), (1, 2, 0.25)); };";
        let read = read(&with("", model), 1).unwrap();
        assert_eq!(pairs(&read), [(0, 2, 0.0), (1, 2, 0.25)]);
        assert!(read.setup.hidden.is_empty());
    }

    #[test]
    fn positions_give_snr_as_in_wmediumd() {
        let model = "model: { type = \"path_loss\"; positions = ((0.0, 0.0), (10.0, 0.0), (0.0, 100.0)); \
            directions = ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)); tx_powers = (15.0, 15.0, 15.0); \
            model_name = \"log_distance\"; path_loss_exp = 3.5; xg = 0.0; };";
        let read = read(&with("enable_interference = true;", model), 1).unwrap();
        // 40.1 dB over the first metre at 2412 MHz, and 35 dB for each ten times.
        let first = 15.0 + 91.0 - (20.0 * libm::log10(4.0 * std::f64::consts::PI * 2.412e9 / 299_792_458.0));
        let found = pairs(&read);
        assert_eq!((found.len(), (found[0].0, found[0].1)), (1, (0, 1)));
        assert!((found[0].2 - (first - 35.0)).abs() < 1e-9, "{found:?}");
        // 100 m are too far to sense.
        assert_eq!(read.setup.hidden, [(RadioId(0), RadioId(2)), (RadioId(1), RadioId(2))]);
    }

    #[test]
    fn what_cannot_be_is_said_with_its_key() {
        for (ifaces, model, message) in [
            ("count = 4", "", "ifaces.count = 4: ifaces.ids has 3 addresses"),
            ("links = ((0, 3, 1))", "", "ifaces.links[0]: must be (radio, radio, figure), with radios from 0 to 2"),
            ("links = ((0, 1, 500))", "", "ifaces.links[0]: 500: must be from -50 to 150"),
            ("links = 3", "", "ifaces.links is a number: must be a list"),
            ("", "model : { type = \"x\" }", "model.type = \"x\": must be \"snr\", \"prob\" or \"path_loss\""),
            ("", "model : { type = \"prob\"; default_prob = 2 }", "model.default_prob = 2: must be from 0 to 1"),
            (
                "",
                "model : { type = \"path_loss\"; positions = ((0, 0)) }",
                "model.positions: must be a list of 3 pairs of numbers, one for each radio",
            ),
            (
                "",
                "model : { type = \"snr\"; fading_coefficient = 2 }",
                "model.fading_coefficient = 2: signals do not fade here; must be 0",
            ),
            (
                "",
                "model : { directions = ((0, 1), (0, 0), (0, 0)) }",
                "model.directions: radios stay where they are here; all must be (0.0, 0.0)",
            ),
        ] {
            assert_eq!(read(&with(ifaces, model), 1).unwrap_err(), message);
        }
        assert!(read("", 1).unwrap_err().starts_with("ifaces.ids is missing"));
        for (id, message) in [
            ("2:0:0:0:0", "must be six numbers of two hexadecimal digits"),
            ("02:00:00:00:00:00:00", "must be the address of one radio"),
            ("03:00:00:00:00:00", "must be the address of one radio"),
        ] {
            let error = read(&format!("ifaces = {{ ids = [\"{id}\", \"02:00:00:00:01:00\"] }}"), 1).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let twice = "ifaces = { ids = [\"02:00:00:00:01:00\", \"42:00:00:00:01:00\"] }";
        assert!(read(twice, 1).unwrap_err().contains("another radio has this address"));
    }

    proptest! {
        #[test]
        fn changed_files_are_read_or_refused(at in 0usize..400, with_text in "[a-z0-9{}()=;\",. -]{0,6}") {
            let model = "model: { type = \"path_loss\"; positions = ((0.0, 0.0), (10.0, 0.0), (0.0, 100.0)); \
                tx_powers = (15.0, 15.0, 15.0); model_name = \"itu\"; nFLOORS = 1; LF = 2; };";
            let mut text = with("", model);
            text.insert_str(at.min(text.len()), &with_text);
            let _ = read(&text, 1);
        }
    }
}
