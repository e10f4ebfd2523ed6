//! Tables of hosts that move and go from access point to access point.

use airtcp_core::table;

use super::Cow;

table! {
    /// One row per change of access point of a host in `roaming`.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) HandoverRows of HandoverRow as "handovers" {
        time_s: F64(f64) = "s since the start of the run, end of the old association",
        node: Str(Cow<'static, str>) = "name of the station",
        from: Str(Cow<'static, str>) = "WLAN that it left",
        to: Str(Cow<'static, str>) = "WLAN that it went to",
        associated_s: F64(f64) = "s since the start of the run, beginning of the new association, NaN: the run ended before",
        x_m: F64(f64) = "m, where it was when it left, NaN: it has no position",
        y_m: F64(f64) = "m, where it was when it left, NaN: it has no position",
        from_distance_m: F64(f64) = "m to the access point that it left, NaN: not known",
        to_distance_m: F64(f64) = "m to the access point that it went to, NaN: not known",
        from_rssi_dbm: F64(f64) = "dBm, power received from the access point that it left, NaN: its signal has none",
        to_rssi_dbm: F64(f64) = "dBm, power received from the access point that it went to, NaN: its signal has none",
        kept: U64(u64) = "packets that it took along in its queue",
        dropped_station: U64(u64) = "packets of the station that the change lost: from its queue, or held back by the old access point before it had one",
        dropped_ap: U64(u64) = "packets for the station that the change lost: at an access point that it had left, or held back by itself before it had one",
        forwarded: U64(u64) = "packets that an old access point sent on over the wires",
    }
}

table! {
    /// Hosts in `walks` over time, every `record.interval`.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) WalkerRows of WalkerRow as "walkers" {
        time_s: F64(f64) = "s since the start of the run",
        node: Str(Cow<'static, str>) = "name of the host",
        x_m: F64(f64) = "m, position of the host",
        y_m: F64(f64) = "m, position of the host",
        wlan: Str(Cow<'static, str>) = "WLAN that it is associated with, empty: none",
        distance_m: F64(f64) = "m to the access point of that WLAN, NaN: none",
        rssi_dbm: F64(f64) = "dBm, power received from it, NaN: none, or its signal has none",
    }
}
