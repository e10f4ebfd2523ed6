//! Tables of cooperative daemons.

use std::borrow::Cow;

use airtcp_core::table;
use airtcp_core::units::Time;

use super::ratio;
use crate::books::totals::DaemonStats;
use crate::spec::FlowSpec;

table! {
    /// One row per host in `coop`, over the whole run.
    pub(crate) DaemonRows of DaemonRow as "daemons" {
        node: Str(Cow<'static, str>) = "host that it runs on",
        group: Str(Cow<'static, str>) = "entry of the scenario it came from",
        announced: U64(u64) = "announcements sent",
        heard: U64(u64) = "announcements of others that came in, late and refused ones included",
        refused: U64(u64) = "of these, those that were late, malformed, or of a terminal beyond the limit",
        terminals_mean: F64(f64) = "terminals that it counted as sending, itself included, mean over its looks",
        corrected: F64(f64) = "part of its looks at connections that send at which a cap was in force (correction phase)",
        stopped: F64(f64) = "part of these looks at which the window was 1 (stop mode)",
    }
}

impl DaemonRow {
    pub(crate) fn new(spec: &FlowSpec, s: &DaemonStats) -> DaemonRow {
        DaemonRow {
            node: spec.name.clone().into(),
            group: spec.group.clone().into(),
            announced: s.announced,
            heard: s.heard,
            refused: s.refused,
            terminals_mean: ratio(s.terminals as f64, s.samples as f64),
            corrected: ratio(s.corrected as f64, s.looks as f64),
            stopped: ratio(s.stopped as f64, s.looks as f64),
        }
    }
}

table! {
    /// Cooperative daemons over time, every `record.interval`.
    pub(crate) DaemonSeries of DaemonSample as "daemon_series" {
        time_s: F64(f64) = "s since the start of the run",
        node: Str(Cow<'static, str>) = "host that it runs on",
        terminals: U32(u32) = "terminals that it counts as sending, itself included, 0: it does not run",
        free: U32(u32) = "connections of its host that send, without a cap",
        corrected: U32(u32) = "those with a cap (correction phase)",
        stopped: U32(u32) = "those with a window of 1 (stop mode)",
        cap_segments: F64(f64) = "segments, least cap in force, NaN: none",
    }
}

impl DaemonSample {
    pub(crate) fn new(now: Time, spec: &FlowSpec, state: (u32, [u32; 3], Option<u32>)) -> DaemonSample {
        let (terminals, [free, corrected, stopped], cap) = state;
        DaemonSample {
            time_s: now.as_secs_f64(),
            node: spec.name.clone().into(),
            terminals,
            free,
            corrected,
            stopped,
            cap_segments: cap.map_or(f64::NAN, f64::from),
        }
    }
}
