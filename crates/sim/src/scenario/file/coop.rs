//! `[[coop]]`: who runs the cooperative daemon.

use airtcp_core::coop::CoopConfig;
use airtcp_core::units::Span;
use airtcp_core::wifi::Ac;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;

/// Hosts that run the cooperative daemon of the study `coop-cwnd`. Each announces itself by UDP
/// broadcast to the others of its WLAN. It caps the windows of the TCP flows that begin at it. The
/// announcements go through the simulated air: to the access point like any frame, and from there
/// to all stations at once, without acknowledgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coop {
    /// Name by which results and `--set` refer to it: letters, digits, `_` and `-`.
    pub name: String,
    /// Stations: names of hosts or groups, members as `sta[0]`. A host runs one daemon and is in
    /// one WLAN.
    pub nodes: Vec<String>,
    /// Time at which the daemons start.
    #[serde(default)]
    pub start: Span,
    /// Time at which the daemons announce their end and lift their caps. Default: the end of the
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// Access category of the announcements in the air.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ac: Ac,
    /// Parameters of the daemon.
    #[serde(default, skip_serializing_if = "is_default")]
    pub daemon: CoopConfig,
}
