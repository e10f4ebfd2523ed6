//! Options of a TCP end: as files write them, and as state machines see them.
//!
//! Scenario and profile files write [`TcpOptions`], a flat list of keys. State machines see the
//! resolved [`TcpConfig`], in groups. One declaration makes both: an option that lacks a field, or
//! a field that lacks an option, does not compile.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cc::CcConfig;
use super::loss::LossConfig;
use super::ticks::WHEEL_TICKS;
use crate::packet::Ecn;
use crate::policy::Choice;
use crate::units::{Bytes, Probability, Span};
use crate::wire;

/// How a sender finds its way out of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
// [RFC5681-4.3-1]
pub enum Recovery {
    /// RFC 2581: the first new ACK ends fast recovery.
    Reno,
    /// RFC 6582: partial ACKs retransmit the next hole.
    NewReno,
    /// RFC 2018 and 6675: holes and pipe from the receiver's SACK blocks.
    Sack,
}

/// How segments are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// As acknowledgements allow. A congestion control with a rate of its own (BBR) is paced all
    /// the same.
    Off,
    /// After a segment the next is sent no sooner than srtt / cwnd later (the study
    /// `pacing-buffers`, section 2).
    RttOverCwnd,
    /// At `pacing_slow_start_percent` or `pacing_percent` of cwnd / srtt (Linux since 3.12).
    Linux,
}

/// The round-trip time by which segments are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PacingRtt {
    /// The smoothed round-trip time, measured exactly.
    Exact,
    /// The smoothed round-trip time behind the timeout, in eighths of `rtt_tick`. It is up to 7/8
    /// tick too long, as in stacks with integer estimators (BSD, ns-2). Then less than a window
    /// is in the network.
    Ticks,
}

/// TCP small queues: how much of a connection may wait in its own host below TCP, in the queue
/// discipline and the device. It works where the device reports when packets have left it. A wired
/// line of the simulator takes them at once, and nothing is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tsq {
    /// Without bound.
    Off,
    /// Less than `tsq_limit` before each chunk (Linux 3.6 to 3.11).
    Fixed,
    /// At most `tsq_limit`, or what passes in a second / 2^`tsq_pacing_shift` at the pacing rate
    /// where that is more (Linux 3.13 to 3.18).
    AtLeast,
    /// At most twice the data sent at once (`segments_at_once`), or the data of a second /
    /// 2^`tsq_pacing_shift` at the pacing rate if that is more. It is never above `tsq_limit`
    /// unless segments are paced, and doubled for retransmissions (Linux since 3.19, as of
    /// 6.12).
    AtMost,
}

/// Number of segments that a sender hands to its device at once, if the window allows them. In the
/// network they are packets of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SegmentsAtOnce {
    /// One.
    Single,
    /// The data of a second / 2^`tsq_pacing_shift` at the pacing rate, at least two segments and at
    /// most 64 KB. It is more if the round trip is below a few milliseconds (`tcp_tso_autosize`
    /// of Linux, as of 5.18). Less waits for up to a millisecond for further ACKs
    /// (`tcp_tso_should_defer`). It is paced as one, and its last segment carries PSH.
    Linux,
}

/// Reaction of a sender to a segment that the full first queue of its own host refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LocalDrops {
    /// Nothing: it is lost as anywhere else.
    Lost,
    /// It hears of it. The segment stays unsent, and the window shrinks as after an ECN echo
    /// (Linux).
    Unsent,
}

/// How a receiver echoes congestion marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EcnEcho {
    /// From the first mark until the sender says that it has reduced its window: once per window
    /// (RFC 3168 section 6.1.3).
    Latched,
    /// As it is, packet by packet, so that the sender can count marks. Where it changes, packets
    /// before it are acknowledged at once. So is the packet that changed it (RFC 8257 section
    /// 3.2; Linux since 4.18).
    Each,
    /// Accurate ECN (RFC 9768; Linux since 6.19): every ACK has a count of the packets that came
    /// marked. From the first mark on it has the option with the count of bytes, too. Where one
    /// end does not know it, both fall back to `latched`.
    Accurate,
}

/// When the ticks of a host's timers fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TimerPhase {
    #[allow(missing_docs)] // its only value says it
    Random(RandomPhase),
    /// All hosts alike: the first tick that long after the start of the run, counted modulo the
    /// tick.
    At(Span),
}

#[allow(missing_docs)] // its only value says it
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RandomPhase {
    /// Drawn for each host from the seed.
    Random,
}

/// How a sender finds out that a retransmission timeout was spurious, from which data the ACKs
/// after it cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Frto {
    /// Spurious timeouts are not detected.
    Off,
    /// RFC 5682 (Linux since 3.10): the timeout is answered at once. It is taken back once data
    /// that was sent only once proves to have arrived.
    Rfc5682,
    /// RFC 4138 (Linux 2.6.24 to 3.9): the window stays as it is until two ACKs have told. A
    /// timeout that they confirm is answered with two or three segments.
    Rfc4138,
}

/// Window after a timeout that F-RTO found to be spurious.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FrtoResponse {
    /// All of it, and ssthresh as before (Linux since 3.10; `tcp_frto_response` = 2 before).
    Undo,
    /// It shrinks to the reduced ssthresh over a round trip, as after a congestion signal
    /// (`tcp_frto_response` = 0, the default of Linux 2.6.24 to 3.9).
    RateHalving,
    /// The reduced ssthresh at once (`tcp_frto_response` = 1).
    Conservative,
}

/// How the variation of the round trip follows the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RttvarRule {
    /// By a quarter of each error (RFC 6298).
    Rfc6298,
    /// It rises at once to the smoothed deviation. Once per round trip it falls by a quarter of the
    /// way to the largest deviation of that round trip. So many samples per round trip do not
    /// wear it down. A round trip shorter than the mean hardly raises it (Sarolahti and
    /// Kuznetsov, "Congestion Control in Linux TCP", USENIX 2002, section 3.3).
    Linux,
}

/// Written form of an option, and its resolution to a value.
trait Written<T>: Sized {
    /// `self` over what the base says.
    fn over(self, base: Self) -> Self;
    fn settle(self) -> Result<T, String>;
}

impl<T> Written<T> for T {
    fn over(self, _base: T) -> T {
        self
    }
    fn settle(self) -> Result<T, String> {
        Ok(self)
    }
}

/// A policy that the base names as well keeps the base's parameters.
impl<T: DeserializeOwned> Written<T> for Choice<T> {
    fn over(self, base: Choice<T>) -> Choice<T> {
        Choice::over(self, base)
    }
    fn settle(self) -> Result<T, String> {
        self.config().map_err(|e| e.message().to_owned())
    }
}

fn over<T, W: Written<T>>(own: Option<W>, base: Option<W>) -> Option<W> {
    match (own, base) {
        (Some(own), Some(base)) => Some(own.over(base)),
        (own, base) => own.or(base),
    }
}

fn settle<T, W: Written<T>>(name: &'static str, option: Option<W>) -> Result<T, Unresolved> {
    let settled = option.ok_or(Unresolved { option: name, why: None })?.settle();
    settled.map_err(|why| Unresolved { option: name, why: Some(why) })
}

/// Why options do not make a configuration: the first option at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// Its name.
    pub option: &'static str,
    /// The parameters of the option that contradict each other. `None`: the option is not set.
    pub why: Option<String>,
}

/// Declares all options, in groups: `option => field: type`, with the written form of its type
/// where that differs.
macro_rules! options {
    (@written $type:ty, $written:ty) => { $written };
    (@written $type:ty) => { $type };
    // A group without a type is an option by itself.
    (@define [] $($rest:tt)*) => {};
    (@define [$Group:ident] $(#[$about:meta])* { $($(#[$doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Group { $($(#[$doc])* pub $field: $type,)+ }
    };
    (@type [] $type:ty) => { $type };
    (@type [$Group:ident] $($type:ty),+) => { $Group };
    (@value [] { $field:ident: $value:expr }) => { $value };
    (@value [$Group:ident] { $($field:ident: $value:expr),+ }) => { $Group { $($field: $value),+ } };
    ($($(#[$about:meta])* $group:ident $(: $Group:ident)? {
        $($(#[$doc:meta])* $option:ident => $field:ident: $type:ty $(as $written:ty)?,)+
    })+) => {
        $(options! { @define [$($Group)?] $(#[$about])* { $($(#[$doc])* $field: $type,)+ } })+

        /// A TCP end, fully determined: the options in groups.
        #[derive(Debug, Clone, PartialEq)]
        pub struct TcpConfig { $($(#[$about])* pub $group: options!(@type [$($Group)?] $($type),+),)+ }

        /// The same options, each of them optional: what a profile file or a scenario writes.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct TcpOptions { $($($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $option: Option<options!(@written $type $(, $written)?)>,)+)+ }

        impl TcpOptions {
            /// `self` where it says something, `base` elsewhere. A policy that both name keeps the
            /// parameters of `base` where `self` gives none.
            pub fn over(self, base: TcpOptions) -> TcpOptions {
                TcpOptions { $($($option: over::<$type, _>(self.$option, base.$option),)+)+ }
            }
            /// The complete configuration, or the first option that nothing sets.
            pub fn resolve(self) -> Result<TcpConfig, Unresolved> {
                Ok(TcpConfig {
                    $($group: options!(@value [$($Group)?] {
                        $($field: settle::<$type, _>(stringify!($option), self.$option)?),+
                    }),)+
                })
            }
        }
    };
}

options! {
    /// Segments, and how a connection begins.
    connection: ConnectionConfig {
        /// Bytes of a full segment at the IP layer, headers included.
        packet_bytes => packet_bytes: u16,
        /// Three-way handshake before data. Off, as in ns-2's one-way agents: data leaves at once.
        handshake => handshake: bool,
        /// With `handshake`: an ACK without data ends it, since the application writes once it is
        /// connected. Off, as in ns-2's FullTcp: the first data ends it, if there is any.
        handshake_ack => handshake_ack: bool,
    }
    /// Congestion control.
    cc {
        /// Congestion control.
        cc => cc: CcConfig as Choice<CcConfig>,
    }
    /// Detection of losses, and their repair by fast retransmit.
    loss_recovery: LossRecoveryConfig {
        /// Rule by which a missing segment counts as lost.
        loss => loss: LossConfig as Choice<LossConfig>,
        /// Algorithm that repairs a loss.
        recovery => recovery: Recovery,
        /// Proportional rate reduction (RFC 6937) while the window shrinks; off: RFC 5681 / RFC
        /// 6675 as written.
        prr => prr: bool,
        /// Rate halving of Linux before 3.2 (`tcp_cwnd_down`): the window shrinks by one segment
        /// for every second ACK until it is `ssthresh`. It is never more than one segment above the
        /// flight. It applies if `prr` is off. If both are off, the window is `ssthresh` at once.
        rate_halving => rate_halving: bool,
        /// RFC 3042: a new segment for each of the first two duplicate ACKs.
        limited_transmit => limited_transmit: bool,
        /// Send a probe after two round trips without an ACK (RFC 8985 section 7). It reveals a
        /// loss at the end of a flight without a timeout. Needs SACK.
        tail_loss_probe => tail_loss_probe: bool,
        /// Longest delay of a peer's ACK of a single segment. It is added to the wait for a tail
        /// loss probe when one segment is in flight. RFC 8985 section 7.2 calls it
        /// `TLP.max_ack_delay`; Linux takes the smallest retransmission timeout.
        max_ack_delay => max_ack_delay: Span,
        /// The receiver reports data that arrived twice (RFC 2883). The sender takes a reduction
        /// back once every retransmission since then has been reported. Needs SACK.
        dsack => dsack: bool,
        /// Duplicate ACKs for data that was outstanding when the last recovery or timeout began
        /// start no fast retransmit (RFC 6582 section 3.2, `recover`; ns-2's `bugfix_`). Off, as in
        /// older stacks: needless repetitions after a timeout can start another one. Without SACK
        /// only.
        recover_guard => recover_guard: bool,
        /// With `recovery = "reno"`: the window that duplicates have inflated returns to ssthresh
        /// only if more of them came than fast retransmit needed. So 4.4BSD compares (`t_dupacks >
        /// tcprexmtthresh`). Off: it always returns (RFC 5681).
        deflates_above_threshold => deflates_above_threshold: bool,
    }
    /// Repair after a retransmission timeout.
    rto_recovery: RtoRecoveryConfig {
        /// A second timeout of the same segment lowers ssthresh once more, from the window of that
        /// time (ns-2). Off: ssthresh stays as the first timeout set it (RFC 5681 section 3.1).
        ssthresh_at_every_timeout => ssthresh_at_every_timeout: bool,
        /// Limited transmit also while a timeout is repaired, where what it sends is the next
        /// segment of the repair (ns-2's `singledup_`).
        limited_transmit_after_timeout => limited_transmit: bool,
        /// Window after a retransmission timeout, segments (RFC 5681 section 3.1, loss window: 1).
        /// More is what the study `tcp-av-handover` suspects of its phones. Such a sender does not
        /// wait for the verdict of `frto = "rfc4138"`, which sets the window itself. All that the
        /// window lets leaves at once where `timeout_sends_one = false`. The Linux profiles have it
        /// on: there one segment leaves, and the rest after an ACK.
        loss_window => loss_window: u32,
        /// A timeout sends one segment, and what else the window lets leave waits for an ACK
        /// (Linux: `tcp_retransmit_timer`, net/ipv4/tcp_timer.c). Off: all that leaves at once. A
        /// difference only where a timeout leaves more than one segment of the window.
        timeout_sends_one => sends_one: bool,
    }
    /// Reductions that are taken back.
    undo: UndoConfig {
        /// When a reduction is taken back, cwnd returns to at most this many segments above what is
        /// in flight (Linux before 2.6.39, `tcp_moderate_cwnd`: 3). 0: all of it at once.
        undo_burst => burst: u32,
        /// A timeout that is taken back returns cwnd as well as ssthresh. Off: ssthresh alone, as
        /// with CUBIC in Linux before 3.3, which had forgotten the window by then (commit "tcp: fix
        /// undo after RTO for CUBIC").
        undo_window_after_timeout => window_after_timeout: bool,
    }
    /// Congestion window and slow-start threshold.
    cwnd: CwndConfig {
        /// Initial window, segments.
        initial_window => initial: u32,
        /// Initial slow-start threshold, segments.
        initial_ssthresh => initial_ssthresh: u32,
        /// Highest ssthresh when the SYN was lost, segments. ns-2: 2, since its timeout halves the
        /// window of one whatever was lost. RFC 5681 section 3.1 only takes the initial window back
        /// to one segment, and Linux forgets what the timeout set.
        ssthresh_after_lost_syn => ssthresh_after_lost_syn: u32,
        /// Largest cwnd, segments (ns-2's `window_`).
        max_cwnd => max: u32,
        /// RFC 3465 byte counting in slow start: at most this many segments of credit for one ACK.
        /// 0: one per ACK, however much it covers.
        byte_counting => byte_counting: u32,
        /// The window's credit is all that an ACK shows to have been delivered. Data that came
        /// twice (DSACK) counts once more. Once a segment was overtaken by more than three, data
        /// above a hole counts like data in order. Linux does the same (6.12: `tcp_dsack_seen`,
        /// `tcp_may_raise_cwnd`). Needs SACK.
        delivery_credit => delivery_credit: bool,
        /// RFC 7661: the window grows only while it limits the sender. Off: it grows with every ACK
        /// of new data, as in ns-2 and BSD.
        cwnd_validation => validation: bool,
        /// With `cwnd_validation`: the window counts as used while at most this many segments short
        /// of full, in slow start too (Linux up to 3.15: 3). 0: once full in a round trip and, in
        /// slow start, half full (Linux since).
        cwnd_slack => slack: u32,
        /// After an idle time the window decays towards `restart_window`: by half for each
        /// retransmission timeout (RFC 2861).
        restart_after_idle => restart_after_idle: bool,
        /// Window after a long idle time, segments. RFC 5681 section 4.1: the initial window.
        restart_window => restart_window: u32,
    }
    /// Retransmission timeout, and the round trips that it follows.
    rto: RtoConfig {
        /// Retransmission timeout before the first measurement (RFC 6298).
        rto_initial => initial: Span,
        /// Smallest retransmission timeout.
        rto_min => min: Span,
        /// Largest retransmission timeout.
        rto_max => max: Span,
        /// Timeouts are rounded up to a multiple of this.
        rto_granularity => granularity: Span,
        /// Time that is added to shorter waits: for a tail loss probe, and of a loss policy for
        /// segments that may only be late. They, too, are then rounded up to `rto_granularity`.
        timer_slack => timer_slack: Span,
        /// Tick of the clock that measures round trips for the timeout, by the ticks that begin
        /// during one. "0s": exact (Linux keeps microseconds).
        rtt_tick => rtt_tick: Span,
        /// A round-trip sample from every ACK of new data (Linux); off: one segment is timed at a
        /// time, as BSD and ns-2 do.
        rtt_per_segment => rtt_per_segment: bool,
        /// With `rtt_per_segment`: segments that are SACKed give samples too, also beside a
        /// repeated one that is acknowledged. With neither, a timestamp gives one, for the
        /// congestion control as well (Linux since 3.12).
        rtt_from_sack => rtt_from_sack: bool,
        /// Lower bound of the 4 * RTTVAR term. RFC 6298: the clock granularity; Linux: 200 ms.
        rto_var_min => var_min: Span,
        /// Rule by which RTTVAR follows the samples.
        rttvar_rule => rttvar_rule: RttvarRule,
        /// Number of backoffs in a row after which the next sample restarts SRTT and RTTVAR. The
        /// note in RFC 6298 section 5 allows it; BSD and ns-2: 4. 0: never.
        rtt_restart_backoffs => rtt_restart_backoffs: u32,
    }
    /// Ticks of a host's timers, and how often the retransmission timer may run out.
    timers: TimerConfig {
        /// Tick of BSD's slow timeout. Round trips are counted in its ticks, and retransmission
        /// timeouts expire at them. "0s": timers are exact.
        timer_tick => tick: Span,
        /// With `timer_tick`: the timeout is at least this many ticks above the last round trip
        /// counted, which counts from 1. FreeBSD and NetBSD: 2, since a timer of n ticks may expire
        /// after little more than n - 1. 4.4BSD: 0.
        rto_ticks_above_rtt => rto_ticks_above_rtt: u32,
        /// Tick of the clock at which delayed ACKs leave (BSD's fast timeout): a segment waits for
        /// the next tick and not for `delayed_ack`. "0s": exact.
        delayed_ack_tick => delayed_ack_tick: Span,
        /// Retransmission timeouts, probes and delayed ACKs run out as those of Linux's timer wheel
        /// (since 4.8). The jiffies are `rto_granularity`. A timer takes up to a jiffy more than it
        /// is set to. From 63 jiffies on it takes up to eight more, from 504 on up to 64. It counts
        /// where `timer_tick` and `delayed_ack_tick` are "0s".
        timer_wheel => wheel: bool,
        /// When the ticks of these clocks fall: "random", drawn for each host, or the time of the
        /// first.
        timer_phase => phase: TimerPhase,
        /// Consecutive timeouts of one segment before the connection is given up.
        retries => retries: u32,
    }
    /// Detection of spurious timeouts.
    spurious_rto: SpuriousRtoConfig {
        /// Finding spurious timeouts without timestamps (F-RTO).
        frto => frto: Frto,
        /// Window after a timeout that `frto` found to be spurious.
        frto_response => frto_response: FrtoResponse,
        /// Take a reduction back when the echoed timestamp shows that the original had arrived
        /// (Eifel, RFC 3522 and 4015).
        eifel => eifel: bool,
    }
    /// The option of timestamps.
    timestamps: TimestampConfig {
        /// RFC 7323 timestamps, 12 bytes in each segment.
        timestamps => enabled: bool,
        /// Tick of the timestamp clock.
        timestamp_tick => tick: Span,
    }
    /// Acknowledgements and window of a receiver.
    receiver: ReceiverConfig {
        /// Longest wait of an ACK for a second segment (RFC 1122). "0s": every segment is
        /// acknowledged at once.
        delayed_ack => delayed_ack: Span,
        /// Full segments that one ACK covers at most when ACKs are delayed.
        ack_every => ack_every: u32,
        /// ACKs per least round trip at most while data arrive in order, as TACK's beta (there 4).
        /// Needs `timestamps` and a `delayed_ack`. 0: no bound.
        acks_per_rtt => acks_per_rtt: u32,
        /// Segments acknowledged at once at the start of a connection and after a pause (Linux's
        /// quick-ACK).
        quick_acks => quick_acks: u32,
        /// The window follows the receive buffer by two segments for each segment that arrives,
        /// which is acknowledged at once. It begins below 64 KB, and what waits above a hole takes
        /// room from it (Linux, `tcp_grow_window`, `__tcp_select_window`). Off: it is the buffer.
        receive_window_in_steps => window_in_steps: bool,
        /// A segment that ends with PSH, or is less than a full one, waits for no second segment
        /// (Linux since 6.6). It is acknowledged as soon as the application has read all data at
        /// hand.
        pushed_acks => pushed_acks: bool,
        /// While data lies above a hole: how many segments one ACK may tell of that was put off
        /// (Linux since 4.18, `tcp_comp_sack_nr`). The first three segments above a hole are
        /// acknowledged at once all the same, and so is what fills it. Needs SACK. 0: each segment
        /// above a hole is acknowledged at once.
        compressed_sacks => compressed_sacks: u32,
        /// With `compressed_sacks`: such an ACK waits for 5 % of the round trip, and at most for
        /// this (`tcp_comp_sack_delay_ns`).
        compressed_sack_delay => compressed_sack_delay: Span,
        /// By how much the timer of `compressed_sacks` runs out later than it is set, so that the
        /// processor wakes up less often (`tcp_comp_sack_slack_ns`).
        compressed_sack_slack => compressed_sack_slack: Span,
        /// Both ends answer segments without data that are out of window at most once in this time
        /// (`tcp_invalid_ratelimit`, Linux since 4.0). The answers to ACKs far below what is
        /// acknowledged (RFC 5961 section 5) count with them. "0s": all but such ACKs are
        /// answered, each of them.
        invalid_ratelimit => invalid_ratelimit: Span,
    }
    /// Explicit congestion notification.
    ecn: EcnConfig {
        /// RFC 3168 explicit congestion notification.
        ecn => enabled: bool,
        /// With `ecn`: how the receiver echoes marks.
        ecn_echo => echo: EcnEcho,
        /// With `ecn`: data carries ECT(1) in place of ECT(0), by which networks know flows that
        /// need no more than a shallow queue (RFC 9331). A control that halves its window at a mark
        /// (`reno`, `cubic`) starves with it.
        ect1 => ect1: bool,
    }
    /// Buffers of a connection.
    buffers: BufferConfig {
        /// Most bytes that the sender holds, unacknowledged or unsent.
        send_buffer => send: Bytes,
        /// Largest size of `send_buffer` under autotuning, which is on if this is larger.
        send_buffer_max => send_max: Bytes,
        /// Receive buffer: payload bytes, or memory with a `receive_scaling_ratio` below 256.
        receive_buffer => receive: Bytes,
        /// Largest size of `receive_buffer` under autotuning, which is on if this is larger.
        receive_buffer_max => receive_max: Bytes,
        /// Payload that fills 256 bytes of the receive buffers, which are in memory
        /// (`skb->truesize`, `tcp_rmem`) then, as Linux measures it (`scaling_ratio`). 160: 1448
        /// of 2304 bytes. The window is that part of what is free. 256: buffers are in payload.
        receive_scaling_ratio => receive_scaling_ratio: u32,
    }
    /// Pacing of segments.
    pacing: PacingConfig {
        /// Spacing of segments.
        pacing => rule: Pacing,
        /// The round-trip time by which segments are spaced.
        pacing_rtt => rtt: PacingRtt,
        /// With `pacing = "linux"`: percent of cwnd / srtt in slow start.
        pacing_slow_start_percent => slow_start_percent: u32,
        /// With `pacing = "linux"`: percent of cwnd / srtt after it.
        pacing_percent => percent: u32,
        /// Random spacing: each gap is stretched or shrunk by up to this part of it, evenly.
        pacing_jitter => jitter: Probability,
    }
    /// Segments below TCP in its own host.
    host_queue: HostQueueConfig {
        /// Segments that a `fifo` or `codel` queue of its own host has no room for.
        local_drops => local_drops: LocalDrops,
        /// Rule that bounds the data waiting below TCP in its own host.
        tsq => tsq: Tsq,
        /// Bound of `tsq` (`net.ipv4.tcp_limit_output_bytes`), counted with `tsq_overhead`.
        tsq_limit => tsq_limit: Bytes,
        /// Time whose worth of data at the pacing rate may wait: a second / 2^n
        /// (`sk_pacing_shift`). A device may ask for another.
        tsq_pacing_shift => tsq_pacing_shift: u32,
        /// Memory that a segment takes beyond its payload; Linux counts it (`skb->truesize`).
        tsq_overhead => tsq_overhead: Bytes,
        /// Segments handed to the device at once. `tsq` checks its bound once before each such
        /// batch. With `pacing = "rtt_over_cwnd"` a batch is one segment.
        segments_at_once => segments_at_once: SegmentsAtOnce,
        /// With `segments_at_once = "linux"`: segments at once at least (`tcp_min_tso_segs`).
        min_tso_segs => min_tso_segs: u32,
        /// With `segments_at_once = "linux"`: on a near path more leaves at once, 64 KB divided by
        /// two for each 2^n microseconds of the least round trip (`tcp_tso_rtt_log`). 0: no more.
        tso_rtt_log => tso_rtt_log: u32,
    }
}

impl BufferConfig {
    /// Payload that so much of a receive buffer holds.
    pub fn payload(&self, receive: Bytes) -> u64 {
        receive.get().saturating_mul(u64::from(self.receive_scaling_ratio)) / 256
    }
}

impl EcnConfig {
    /// Codepoint of packets that can carry a mark.
    pub fn capable(&self) -> Ecn {
        if self.ect1 { Ecn::Ect1 } else { Ecn::Ect0 }
    }
}

impl TcpConfig {
    /// After this time the ticks of all clocks of a host fall as before.
    pub fn longest_timer_period(&self) -> Span {
        let wheel = if self.timers.wheel { self.rto.granularity.saturating_mul(WHEEL_TICKS) } else { Span::ZERO };
        self.timers.tick.max(self.timers.delayed_ack_tick).max(self.rto.rtt_tick).max(wheel)
    }
    /// TCP and IP headers of a segment without SACK blocks.
    pub fn header_bytes(&self) -> u16 {
        40 + if self.timestamps.enabled { 12 } else { 0 }
    }
    /// Bytes of a SYN. Stacks with neither SACK nor timestamps (ns-2's) send it bare.
    pub fn syn_bytes(&self) -> u16 {
        let options = self.timestamps.enabled || self.loss_recovery.recovery == Recovery::Sack;
        40 + if options {
            wire::syn_option_bytes(self.loss_recovery.recovery == Recovery::Sack, self.timestamps.enabled)
        } else {
            0
        }
    }
    /// Payload bytes of a full segment; at least 1.
    pub fn mss(&self) -> u32 {
        u32::from(self.connection.packet_bytes.saturating_sub(self.header_bytes()).max(1))
    }
}
