//! Traffic of the kernels' radios: the table `radios`, and its figures at a glance.

use std::borrow::Cow;

use airtcp_core::table;
use airtcp_core::table::Table;
use airtcp_core::units::Span;
use airtcp_core::wifi::RadioId;
use airtcp_hwsim::{HwsimMac, Traffic};
use serde_json::{Value, json};

table! {
    /// One row per radio and radio to which it has sent, over the whole time of the medium.
    pub(crate) RadioRows of RadioRow as "radios" {
        from: Str(Cow<'static, str>) = "whose radio",
        to: Str(Cow<'static, str>) = "to whom; empty: to all, or to nobody of this network",
        ppdus: U64(u64) = "PPDUs, every try counted",
        unanswered: U64(u64) = "PPDUs that nothing answered",
        collided: U64(u64) = "PPDUs that another transmission hit",
        ampdus: U64(u64) = "PPDUs under Block Ack",
        mpdus: U64(u64) = "MPDUs in them, every try counted",
        mpdus_failed: U64(u64) = "MPDUs in them that were not acknowledged",
        given_up: U64(u64) = "frames given up after the last retry",
        frames: U64(u64) = "frames without Block Ack, every try counted",
        rate_mean_bps: F64(f64) = "bit/s, mean rate of the PPDUs under Block Ack",
        airtime_ratio: F64(f64) = "part of the time taken by its exchanges",
    }
}

/// The rows, in the order of senders and receivers.
pub(crate) struct RadioTable(Vec<RadioRow>);

impl RadioTable {
    /// Table of a medium that ran for this long. `names` by index.
    pub(crate) fn of(mac: &HwsimMac, names: &[&str], lasted: Span) -> RadioTable {
        let name = |radio: RadioId| Cow::from(names.get(radio.index()).copied().unwrap_or_default().to_owned());
        let whole = real(lasted.as_ns());
        let row = |(&(from, to), t): (&(RadioId, RadioId), &Traffic)| {
            let Traffic { ppdus, unanswered, collided, ampdus, mpdus, mpdus_failed, given_up, frames, .. } = *t;
            #[allow(clippy::cast_precision_loss, reason = "a mean")]
            let rate_mean_bps = if ampdus == 0 { f64::NAN } else { t.rate_sum_bps as f64 / real(ampdus) };
            RadioRow {
                from: name(from),
                to: name(to),
                ppdus,
                unanswered,
                collided,
                ampdus,
                mpdus,
                mpdus_failed,
                given_up,
                frames,
                rate_mean_bps,
                airtime_ratio: real(t.airtime_ns) / whole,
            }
        };
        RadioTable(mac.traffic().iter().map(row).collect())
    }

    /// For a run's summary, with the table's names.
    pub(crate) fn summary(&self) -> Value {
        let all = self.0.iter().map(|row| {
            json!({
                "from": row.from,
                "to": row.to,
                "ppdus": row.ppdus,
                "unanswered": row.unanswered,
                "collided": row.collided,
                "ampdus": row.ampdus,
                "mpdus": row.mpdus,
                "mpdus_failed": row.mpdus_failed,
                "given_up": row.given_up,
                "frames": row.frames,
                "rate_mean_bps": figure(row.rate_mean_bps),
                "airtime_ratio": figure(row.airtime_ratio),
            })
        });
        all.collect()
    }

    pub(crate) fn table(self) -> Table {
        let mut rows = RadioRows::default();
        self.0.into_iter().for_each(|row| rows.push(row));
        rows.into_table()
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of a run are exact in a double")]
pub(crate) fn real(n: u64) -> f64 {
    n as f64
}

/// A figure, or nothing.
pub(crate) fn figure(value: f64) -> Value {
    if value.is_finite() { Value::from(value) } else { Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_those_of_the_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results.md");
        let page = std::fs::read_to_string(page).unwrap();
        let table = RadioTable(Vec::new()).table();
        let rows: Vec<String> =
            table.columns.iter().map(|column| format!("| `{}` | {} |", column.name, column.unit_and_meaning)).collect();
        assert!(page.contains(&rows.join("\n")), "docs/results.md must have\n{}", rows.join("\n"));
    }
}
