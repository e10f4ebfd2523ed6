//! Retry-out: the recipient treats an MPDU that keeps arriving corrupt as lost after a number of
//! retries. The access point acts so against upload bufferbloat. Each file is one policy for that
//! number, the **retry-out index**. `tcp` turns it into the rules that the MAC asks.

mod known_by;
mod tcp;

pub use known_by::{TcpKnowledge, TcpKnownBy};
pub use tcp::{TcpEarlyDrop, TcpRetryLimit};

use crate::policy::policies;
use crate::range::within;
use crate::units::{DataRate, Span, Time};

/// Chooses the retry-out index for one sender and TID. The reorder buffer counts receptions and
/// acts; this only decides.
///
/// Any call may be left out by an owner that has nothing to report.
pub trait RetryOut {
    /// An A-MPDU, or an MPDU sent alone, was heard from the sender at `rate` (its MAC data rate),
    /// corrupt or not. The owner reports each once.
    fn on_ampdu(&mut self, _now: Time, _rate: DataRate) {}

    /// A packet of TCP connection `flow` that carries the timestamp `ts_val` went down to the
    /// sender. The owner should report it at the end of its transmission. Otherwise a wait in the
    /// access point counts as one in the station.
    fn on_down(&mut self, _now: Time, _flow: u32, _ts_val: u32) {}

    /// A TCP segment with payload of `flow`, echoing `ts_ecr`, arrived correctly. The owner reports
    /// it when it arrives, not when it is back in order.
    fn on_up(&mut self, _now: Time, _flow: u32, _ts_ecr: u32) {}

    /// Estimated retries at which an MPDU with a TCP segment is given up; 0: at its first corrupt
    /// copy. `None`: none is.
    fn index(&mut self, now: Time) -> Option<u32>;

    /// An MPDU was given up.
    fn on_given_up(&mut self, _now: Time) {}

    /// For a time series: the smoothed MAC data rate, if the policy keeps one.
    fn smoothed_rate(&self) -> Option<DataRate> {
        None
    }

    /// For a time series: the latest delay measured, if the policy measures any.
    fn delay(&self) -> Option<Span> {
        None
    }
}

/// Refuses an index that gives up at the first corrupt copy, or never.
fn check_index(key: &str, index: u32) -> Result<(), String> {
    within(key, index, 1..=255, "estimated retries")
}

policies! {
    /// One of the registered policies for the index.
    AnyRetryOut: RetryOut,
    /// Policy for the retry-out index, with its parameters.
    RetryOutConfig("a way to choose the retry-out index"), built with () {
        stepped => Stepped / SteppedConfig,
        fixed => Fixed / FixedConfig,
        delay => Delay / DelayConfig,
    }
}

impl Default for RetryOutConfig {
    /// The study's table.
    fn default() -> Self {
        RetryOutConfig::Stepped(SteppedConfig::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize, serde::Serialize, PartialEq)]
    struct File {
        retry_out: RetryOutConfig,
    }

    #[test]
    fn every_name_has_defaults_that_survive_a_file() {
        for name in RetryOutConfig::NAMES {
            let by_name: File = toml::from_str(&format!("retry_out = \"{name}\"")).unwrap();
            assert_eq!(by_name.retry_out, RetryOutConfig::by_name(name).unwrap());
            let written = toml::to_string(&by_name).unwrap();
            assert_eq!(toml::from_str::<File>(&written).unwrap(), by_name, "{written}");
        }
    }

    #[test]
    fn bad_parameters_are_refused_by_name() {
        for (table, message) in [
            (r#"name = "fixed", index = 0"#, "`index` = 0: must be from 1 to 255"),
            (r#"name = "fixed", index = 256"#, "`index` = 256: must be from 1 to 255"),
            (r#"name = "fixed", indx = 2"#, "unknown field `indx`"),
            (r#"name = "stepped", smoothing = 0"#, "`smoothing` = 0: must be above 0 and at most 1"),
            (r#"name = "stepped", smoothing = 1.5"#, "`1.5` is not a probability"),
            (r#"name = "stepped", steps = []"#, "`steps` = []: needs at least one"),
            (
                r#"name = "stepped", steps = [{ below = "0bit/s", index = 2 }]"#,
                "`steps[0].below` = 0bit/s: must be above zero",
            ),
            (
                r#"name = "stepped", steps = [{ below = "50Mbit/s", index = 2 }, { below = "50Mbit/s", index = 5 }]"#,
                "`steps[1].below` = 50Mbit/s: must be above that of the step before it (50Mbit/s)",
            ),
            (
                r#"name = "stepped", steps = [{ below = "50Mbit/s", index = 300 }]"#,
                "`steps[0].index` = 300: must be from 1 to 255",
            ),
            (r#"name = "stepped", steps = [{ below = "50Mbit/s" }]"#, "missing field `index`"),
            (r#"name = "delay", target = "0ms""#, "`target` = 0ns: must be above zero and below `interval` (100ms)"),
            (
                r#"name = "delay", target = "100ms""#,
                "`target` = 100ms: must be above zero and below `interval` (100ms)",
            ),
            (r#"name = "delay", index = 256"#, "`index` = 256: must be from 0 to 255"),
            (r#"name = "delay", backlog = 0"#, "`backlog` = 0: must be at least 1"),
            (r#"name = "dealy""#, "unknown variant `dealy`"),
        ] {
            let error = toml::from_str::<File>(&format!("retry_out = {{ {table} }}")).unwrap_err().to_string();
            assert!(error.contains(message), "{table}: {error}");
        }
    }
}
