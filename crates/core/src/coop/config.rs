//! Parameters of the daemon.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::convert::floor32;
use crate::policy::checked;
use crate::range::within;
use crate::units::{DataRate, Span};

/// The environment's best throughput, `BWmax` of equation (2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BwMax {
    /// Known beforehand.
    Given(DataRate),
    /// From what the terminals announce to have delivered.
    Learn,
}

impl Serialize for BwMax {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            BwMax::Given(rate) => rate.serialize(s),
            BwMax::Learn => s.serialize_str("learn"),
        }
    }
}
impl<'de> Deserialize<'de> for BwMax {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl de::Visitor<'_> for V {
            type Value = BwMax;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("\"learn\" or a data rate such as \"19Mbit/s\"")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<BwMax, E> {
                if v == "learn" {
                    return Ok(BwMax::Learn);
                }
                v.parse().map(BwMax::Given).map_err(|e| E::custom(format!("{e}, or \"learn\"")))
            }
        }
        d.deserialize_any(V)
    }
}
impl JsonSchema for BwMax {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BwMax".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let rate = generator.subschema_for::<DataRate>();
        schemars::json_schema!({ "anyOf": [{ "type": "string", "enum": ["learn"] }, rate] })
    }
}

/// The RTT that is put into equation (1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapRtt {
    /// The one just measured, as equation (1) reads beside (4), which has a symbol of its own for
    /// the least RTT. The cap then grows with the queue it is meant against: with n terminals
    /// at it the queue may stand at any length. Only stop mode ends it.
    Current,
    /// The least: all caps together are the bandwidth-delay product of the path without queues.
    Min,
}

/// Quantity that n of equations (1) to (3) counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// Terminals that send (the source). A terminal's share is divided equally among its sending
    /// connections.
    Terminals,
    /// Connections: every one gets the same share. The bandwidth is still that of the number of
    /// terminals.
    Flows,
}

/// Condition that brings a cap into force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phases {
    /// The connection's own RTT (the source). With ten phones, eight or nine come under a cap. The
    /// RTT of the others just misses the ratio, and they take the capacity that the capped ones
    /// leave.
    Own,
    /// Also the reports of others, if the connection's own RTT is long as well.
    Shared,
}

/// Parameters of the cooperative daemon. The source gives `bw_max`, `exponent`, `segment_bytes`,
/// `correct_at` and `stop_at`; it leaves the others open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "CoopConfig")]
pub struct CoopConfig {
    /// The best throughput that this WLAN reaches, or "learn". Default: the 19 Mbit/s of the
    /// study's 802.11g WLAN.
    pub bw_max: BwMax,
    /// n terminals together reach `bw_max` times n to this power. -0.15 (equation 3). -1 to 0.
    #[schemars(range(min = -1, max = 0))]
    pub exponent: f64,
    /// Size of a segment in equation (1), bytes. 1500. At least 1.
    #[schemars(range(min = 1))]
    pub segment_bytes: u32,
    /// The RTT of equation (1): "current" (as the text reads) or "min".
    pub rtt_in_cap: CapRtt,
    /// Quantity that n counts: "terminals" (as the text) or "flows".
    pub count: Count,
    /// The cap comes into force when RTT / least RTT reaches this. 6.0 (the source). Above 1.
    #[schemars(range(min = 1))]
    pub correct_at: f64,
    /// Condition that brings a cap into force: "own" (the source) or "shared".
    pub phases: Phases,
    /// For `phases = "shared"`: the RTT / least RTT from which on a cap also comes by the reports
    /// of others. It needs `shared_peers` terminals that are in correction by their own RTT.
    /// 1.5: half a path's worth of packets waits. Where all have the caps of equation (1) none do;
    /// one alone outside makes it 1.7 to 1.8. Above 1; from `correct_at` on it has no effect.
    #[schemars(range(min = 1))]
    pub shared_at: f64,
    /// See `shared_at`. 1: often a single one sees `correct_at`. More protect against a terminal
    /// that is wrong. They do not protect against one that lies, which has as many names as it
    /// likes. At least 1.
    #[schemars(range(min = 1))]
    pub shared_peers: u16,
    /// Such a cap ends when this has passed since both held: as long a calm as lifts a cap of its
    /// own (`correction_hold`). Nothing that others announce can make it longer. Above zero.
    pub shared_for: Span,
    /// For `phases = "shared"`: within this after a cap of its own RTT was lifted it comes back at
    /// `shared_at` already. As long as `correction_hold`: who was calm that long was so by the
    /// cap. "0s": never.
    pub relapse_for: Span,
    /// The window becomes `stop_cap` when RTT / least RTT reaches this although the cap is in
    /// force. 5.0 (the source). Above 1.
    #[schemars(range(min = 1))]
    pub stop_at: f64,
    /// The window of stop mode, segments. 1 (the source). A receiver that delays ACKs answers a
    /// single segment up to 40 ms late (Linux). On a path of 0.1 ms that starves the
    /// connection; with 2 it answers at once. `airtcp host coop` has 2. At least 1.
    #[schemars(range(min = 1))]
    pub stop_cap: u32,
    /// Number of current RTTs for which a cap must be in force before `stop_at` is checked. Earlier
    /// RTTs show the queue of windows from before the cap. 0 to 1000.
    #[schemars(range(min = 0, max = 1000))]
    pub stop_grace_rtts: f64,
    /// Stop mode ends when RTT / least RTT, newly measured, falls below this. Above 1, at most
    /// `stop_at`.
    #[schemars(range(min = 1))]
    pub stop_exit: f64,
    /// Longest stop mode. With a window of 1 or 2 there are few RTT samples, so their absence must
    /// not prolong it. Above zero.
    pub stop_max: Span,
    /// After this many stops in a row that `stop_max` ended, the least RTT is measured again.
    /// Either the queue is not this terminal's, or the path has changed. 0: never.
    pub relearn_after: u8,
    /// The cap is lifted when RTT / least RTT has been below this for `correction_hold`. Above 1,
    /// at most `correct_at`.
    #[schemars(range(min = 1))]
    pub correction_exit: f64,
    /// See `correction_exit`. It is long because a low RTT is the effect of the cap, not a sign
    /// that the cap is no longer needed.
    pub correction_hold: Span,
    /// Least cap outside stop mode, segments. With 1, a receiver that delays ACKs would delay every
    /// one. It also limits the harm of forged announcements. At least 1.
    #[schemars(range(min = 1))]
    pub min_cap: u32,
    /// The least RTT is that of the last half to whole of this. The source never forgets it; then
    /// one from before a change of path would keep the terminal in stop mode. 300 s: Linux's
    /// `tcp_min_rtt_wlen`. Above zero.
    pub min_rtt_window: Span,
    /// Time between readings of the kernel monitor, each of which sets caps. Above zero.
    pub sample_every: Span,
    /// Time between a terminal's announcements. Above zero.
    pub announce_every: Span,
    /// Each interval is drawn from `announce_every` times 1 - jitter to 1 + jitter, so that
    /// terminals do not announce at one time. 0 to 0.5.
    #[schemars(range(min = 0, max = 0.5))]
    pub announce_jitter: f64,
    /// Announcements that a terminal makes after it has stopped sending. Radios do not repeat
    /// broadcasts, so one may be lost.
    pub farewells: u8,
    /// A terminal that was not heard for this long is forgotten. Longer than `announce_every`.
    pub expire_after: Span,
    /// Number of the announcement from which on a terminal counts. At least 1.
    #[schemars(range(min = 1))]
    pub admit_after: u8,
    /// Most terminals that are remembered. At least 1.
    #[schemars(range(min = 1))]
    pub max_peers: u16,
    /// Most connections that are believed of one terminal. At least 1.
    #[schemars(range(min = 1))]
    pub max_flows: u16,
    /// For `bw_max = "learn"`: the greatest of the last half to whole of this counts. Above zero.
    pub learn_window: Span,
    /// For `bw_max = "learn"`: largest value that is believed. Above zero.
    pub learn_max: DataRate,
}

impl Default for CoopConfig {
    fn default() -> Self {
        CoopConfig {
            bw_max: BwMax::Given(DataRate::from_mbps(19)),
            exponent: -0.15,
            segment_bytes: 1500,
            rtt_in_cap: CapRtt::Current,
            count: Count::Terminals,
            correct_at: 6.0,
            phases: Phases::Shared,
            shared_at: 1.5,
            shared_peers: 1,
            shared_for: Span::from_secs(30),
            relapse_for: Span::from_secs(30),
            stop_at: 5.0,
            stop_cap: 1,
            stop_grace_rtts: 1.0,
            stop_exit: 3.0,
            stop_max: Span::from_secs(3),
            relearn_after: 3,
            correction_exit: 2.0,
            correction_hold: Span::from_secs(30),
            min_cap: 2,
            min_rtt_window: Span::from_secs(300),
            sample_every: Span::from_ms(100),
            announce_every: Span::from_secs(1),
            announce_jitter: 0.1,
            farewells: 2,
            expire_after: Span::from_ms(3500),
            admit_after: 2,
            max_peers: 64,
            max_flows: 16,
            learn_window: Span::from_secs(300),
            learn_max: DataRate::from_mbps(1000),
        }
    }
}

impl CoopConfig {
    /// Checks that the daemon can work with these. The error names the key, its value and the
    /// accepted values.
    pub fn check(&self) -> Result<(), String> {
        let ratio = |key: &str, value: f64, most: f64, other: &str| {
            if value > 1.0 && value <= most {
                return Ok(());
            }
            let most = if other.is_empty() { format!("at most {most}") } else { format!("at most `{other}` ({most})") };
            Err(format!("`{key}` = {value}: must be a number above 1 and {most}"))
        };
        within("exponent", self.exponent, -1.0..=0.0, "")?;
        within("stop_grace_rtts", self.stop_grace_rtts, 0.0..=1000.0, "")?;
        within("announce_jitter", self.announce_jitter, 0.0..=0.5, "")?;
        ratio("correct_at", self.correct_at, 1e6, "")?;
        ratio("shared_at", self.shared_at, 1e6, "")?;
        ratio("stop_at", self.stop_at, 1e6, "")?;
        ratio("stop_exit", self.stop_exit, self.stop_at, "stop_at")?;
        ratio("correction_exit", self.correction_exit, self.correct_at, "correct_at")?;
        for (key, value) in [
            ("segment_bytes", self.segment_bytes),
            ("shared_peers", self.shared_peers.into()),
            ("stop_cap", self.stop_cap),
            ("min_cap", self.min_cap),
            ("admit_after", self.admit_after.into()),
            ("max_peers", self.max_peers.into()),
            ("max_flows", self.max_flows.into()),
        ] {
            if value == 0 {
                return Err(format!("`{key}` = 0: must be at least 1"));
            }
        }
        for (key, value) in [
            ("shared_for", self.shared_for),
            ("stop_max", self.stop_max),
            ("min_rtt_window", self.min_rtt_window),
            ("sample_every", self.sample_every),
            ("announce_every", self.announce_every),
            ("learn_window", self.learn_window),
        ] {
            if value.is_zero() {
                return Err(format!("`{key}` = 0ns: must be above zero, such as \"1s\""));
            }
        }
        for (key, value) in [("sample_every", self.sample_every), ("announce_every", self.announce_every)] {
            if value < Span::from_us(1) {
                return Err(format!("`{key}` = {value}: must be at least 1us, such as \"1s\""));
            }
        }
        if self.expire_after <= self.announce_every {
            let (expire, every) = (self.expire_after, self.announce_every);
            return Err(format!("`expire_after` = {expire}: must be longer than `announce_every` ({every})"));
        }
        if self.bw_max == BwMax::Given(DataRate::from_bps(0)) {
            return Err("`bw_max` = 0bit/s: must be above zero, or \"learn\"".into());
        }
        if self.learn_max.as_bps() == 0 {
            return Err("`learn_max` = 0bit/s: must be above zero".into());
        }
        Ok(())
    }

    /// Equation (2): what n terminals reach together where one reaches `bw_max`.
    pub fn bandwidth(&self, bw_max: DataRate, n: u32) -> f64 {
        bw_max.as_bps() as f64 * self.shrinkage(n)
    }
    /// Equation (3).
    pub fn shrinkage(&self, n: u32) -> f64 {
        libm::pow(f64::from(n.max(1)), self.exponent)
    }
    /// Equation (1): segments, rounded down, of each of `shares` equal shares of what `n` terminals
    /// reach together.
    pub fn ideal_cwnd(&self, bw_max: DataRate, rtt: Span, n: u32, shares: u32) -> u32 {
        let segment_bits = f64::from(self.segment_bytes) * 8.0;
        floor32(self.bandwidth(bw_max, n) * rtt.as_secs_f64() / (segment_bits * f64::from(shares.max(1))))
    }
}
checked!(CoopConfig);
