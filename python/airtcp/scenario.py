"""Scenarios as Python objects: what a scenario file holds, with completion and types.

Generated from the schema by `make generate`; do not edit. What is left out (`None`) takes its default, and values are
checked when a scenario runs: `airtcp.ScenarioError` then says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from airtcp._scenario_table import ScenarioTable


@dataclass(kw_only=True)
class Aggregation(ScenarioTable):
    """Limits of an A-MPDU. All of them bind."""

    enabled: bool | None = None
    """Off: frames leave this radio one by one, each with its ACK. Frames that it receives may come in A-MPDUs all
    the same. Default: true.
    """

    formed_ahead: int | None = None
    """A-MPDUs that are formed ahead and wait in the radio's hardware, the one on the air included. ath9k: 2
    (`ATH_AGGR_MIN_QDEPTH`). So failed MPDUs are repeated not in the next A-MPDU but in the one after. And two
    A-MPDUs share the window: 64 hold two of 32. 1: a chip forms the next one when the one before is answered, so
    that an A-MPDU may fill the window. 0: formed at the moment of transmission, as ns-3 does. Default: 1 where
    the driver of `transmit` is `mt76`, whose chip forms them; 2 with other ones.
    """

    max_bytes: int | None = None
    """Most bytes, delimiters and padding included. Default: as the standard of the A-MPDU allows, 65535 for HT and
    1048575 for VHT (IEEE 802.11-2020 9.4.2.55.3, 9.4.2.157.2).
    """

    max_duration: Span | None = None
    """Longest duration on the air at the slowest rate of its series. ath9k: 4 ms. Default: `4ms`."""

    max_frames: int | None = None
    """Most MPDUs. ath9k: 32 (`ATH_AMPDU_SUBFRAME_DEFAULT`); the Block Ack window allows 64. Default: 32."""

    window: int | None = None
    """Block Ack window: an MPDU is sent only within so many sequence numbers of the oldest one not yet acknowledged.
    Default: 64.
    """


@dataclass(kw_only=True)
class Buffer(ScenarioTable):
    """A queue limit by a rule of buffer sizing. The result is rounded down."""

    flows: int | None = None
    """Number of flows N for `bdp_over_sqrt_n`. `bdp` ignores it."""

    packet_bytes: int | None = None
    """Size of the packets in which the limit is counted, headers included. Default: the limit is in bytes."""

    rtt: Span
    """Round-trip time of the rule: usually twice the propagation delay from end to end."""

    rule: BufferRule
    """The rule."""

    scale: float | None = None
    """Factor by which the result is multiplied: 0.25 gives a quarter of the rule's buffer. Default: 1.0."""


@dataclass(kw_only=True)
class BurstConfig(ScenarioTable):
    """Bursts of errors."""

    interval: Span
    """Mean time from the end of a burst to the next. Above zero."""

    length: Span
    """Mean length of a burst. Above zero."""

    rate: Probability
    """Probability that a bit is wrong during a burst."""


@dataclass(kw_only=True)
class Reno(ScenarioTable):
    """Parameters of Reno."""

    increase: Increase | None = None
    """Way in which congestion avoidance counts ACKs. Default: `per_window`."""

    name: Literal["reno"] = field(default="reno", init=False)

    slow_start_exit: SlowStartExit | None = None
    """Rule that ends slow start before a loss does. RFC 5681 has none. Default: `none`."""


@dataclass(kw_only=True)
class Cubic(ScenarioTable):
    """Parameters of CUBIC."""

    beta: Probability | None = None
    """Factor by which a loss multiplies the window (RFC 9438 section 4.6: 0.7). Default: 0.7."""

    c: Aggressiveness | None = None
    """Aggressiveness C, segments per second cubed (RFC 9438 section 5: 0.4). Default: 0.4."""

    fast_convergence: bool | None = None
    """A flow that meets a loss earlier than last time makes room for newer ones (RFC 9438 section 4.7). Default:
    true.
    """

    first_increase: int | None = None
    """Before the first loss, and after a timeout, the window grows by at least one segment per this many
    acknowledged segments. 0: by the curve alone (RFC 9438). Linux: 20, five percent per round trip. Default: 20.
    """

    growth: Growth | None = None
    """How the window follows the curve: as RFC 9438 has it, or as Linux computes it, jiffy by jiffy. Default:
    `rfc9438`.
    """

    name: Literal["cubic"] = field(default="cubic", init=False)

    reno_catch_up: bool | None = None
    """The Reno-friendly estimate grows by a whole segment per round trip once it has reached the window before the
    reduction (RFC 9438 section 4.3). Linux never does, so it has no meaning with `growth = "linux"`. Default:
    true.
    """

    reno_friendly: bool | None = None
    """Never slower than Reno with the same backoff (RFC 9438 section 4.3). Default: true."""

    slow_start_exit: SlowStartExit | None = None
    """Rule that ends slow start before a loss does. RFC 9438 section 4.10 recommends HyStart++; Linux has HyStart.
    Default: `hystart`.
    """


@dataclass(kw_only=True)
class Vegas(ScenarioTable):
    """Parameters of Vegas, in segments queued. The papers use 1 and 3 or 2 and 4 for `alpha` and `beta`."""

    alpha: int | None = None
    """The window grows while fewer segments than this are queued. Linux: 2. Default: 2."""

    beta: int | None = None
    """The window shrinks while more segments than this are queued. At least `alpha`. Linux: 4. Default: 4."""

    gamma: int | None = None
    """Slow start ends when more segments than this are queued. Linux: 1. Default: 1."""

    name: Literal["vegas"] = field(default="vegas", init=False)


@dataclass(kw_only=True)
class Bbr(ScenarioTable):
    """Parameters of BBR. Linux has them as constants."""

    ack_aggregation: bool | None = None
    """Add to the window the data that arrived in bursts beyond the bandwidth (Linux since 5.1; Wi-Fi and cellular
    need it). Default: true.
    """

    bandwidth_window_rounds: int | None = None
    """Rounds over which the bandwidth is the maximum. The draft's BtlBwFilterLen: 10. Default: 10."""

    min_rtt_window: Span | None = None
    """Age at which the smallest round trip is measured anew. The draft's RTpropFilterLen: 10 s. Default: `10s`."""

    name: Literal["bbr"] = field(default="bbr", init=False)

    policer_detection: bool | None = None
    """Estimate the rate of a token-bucket policer from two lossy intervals of equal throughput. The estimate holds
    for 48 rounds (Linux; not in the draft). Default: true.
    """

    probe_rtt_duration: Span | None = None
    """Shortest time for which `ProbeRtt` keeps four segments in flight. The draft's ProbeRTTDuration: 200 ms. Zero:
    `ProbeRtt` never happens. Default: `200ms`.
    """


@dataclass(kw_only=True)
class TcpAv(ScenarioTable):
    """Parameters of TCP-AV."""

    above: Above | None = None
    """Beyond what the full target needs the window stays (`"hold"`) or grows as its base (`"base"`). Default:
    `hold`.
    """

    after_timeout: AfterTimeout | None = None
    """Window that a timeout leaves: as large as after any loss (`"floor"`), or one segment, from which slow start
    leads back (`"one"`). `"new_data"` keeps the same window as `"floor"`, but fills it with new data where the
    timeout sends one segment (`timeout_sends_one`). The command `airtcp host av` does so. Default: `floor`.
    """

    base: CcConfig | None = None
    """The control it extends: `"reno"` (the original), `"cubic"`, or a table with the parameters of one of them. It
    decides the reduction after a loss while the window is larger than the target needs. It also decides the
    growth above a reduced target. Default: `"reno"`.
    """

    fall: Probability | None = None
    """The same part from above; above 0. 1/4 for the same reason. Default: 0.25."""

    floor_rtt: FloorRtt | None = None
    """Round-trip time in the least window after a loss. Default: `smoothed`."""

    name: Literal["tcp_av"] = field(default="tcp_av", init=False)

    recover_step: Probability | None = None
    """Part of the full target that is restored after `severe_rounds` round trips without severe congestion; above 0.
    0.25: by the search. Default: 0.25.
    """

    reduced_to: Probability | None = None
    """Factor by which severe congestion multiplies the target; above 0, below 1. 0.5: as Reno does with its window.
    Default: 0.5.
    """

    rise: Probability | None = None
    """Part of the gap to the target's window that is closed per round trip, from below; above 0. 1/4: nine tenths in
    eight round trips. A loop that sees its effect one to two round trips late does not swing up to about 1/(e d).
    Default: 0.25.
    """

    rtt_min: RttMin | None = None
    """Scope of the smallest round-trip time. Not published for handovers. Default: `connection`."""

    rtt_min_window: Span | None = None
    """With `rtt_min = "window"`: length of the window, between once and twice this. 10s: BBR's window for the same
    quantity. Above zero. Default: `10s`.
    """

    severe_reductions: int | None = None
    """Number of reductions and timeouts within `severe_rounds` that make congestion severe; 0: never. 8, every other
    round trip: by the search. Without any reduction the acceptance is met as well, but there is one in the paper.
    Default: 8.
    """

    severe_rounds: int | None = None
    """Round trips over which severe congestion is judged, 1 to 10000. Default: 16."""

    severe_share: Probability | None = None
    """Congestion is not severe while at least this part of the target is delivered; above 0. Default: 0.9."""

    target: DataRate | None = None
    """Payload rate that the application asks for, 1kbit/s to 100Gbit/s. Left out: 4Mbit/s, video of standard
    definition in MPEG-2. Default: `4Mbit/s`.
    """

    target_min: Probability | None = None
    """Least target, as a part of the full one; above 0. Default: 0.0625."""

    tune_limit: Probability | None = None
    """Largest change of the window by tuning, as a part of the target's window. 0: no tuning. 0.5: by the search.
    Default: 0.5.
    """

    tune_rounds: int | None = None
    """Round trips within which tuning makes up for segments that the connection is behind, 1 to 1000. 32: by the
    search; much slower than the steering, so that the two do not work against each other. Default: 32.
    """


@dataclass(kw_only=True)
class Dctcp(ScenarioTable):
    """Parameters of DCTCP."""

    alpha_bits: int | None = None
    """Bits of `alpha` below one. Linux: 10, too few for an average of rare marks; TCP Prague: 20. 10 to 30. Default:
    10.
    """

    alpha_on_init: int | None = None
    """`alpha` at the beginning, in 1/1024. Linux: 1024, so that the first mark halves the window. At most 1024.
    Default: 1024.
    """

    name: Literal["dctcp"] = field(default="dctcp", init=False)

    shift_g: int | None = None
    """Weight of a window in `alpha`: 1/2^this. RFC 8257: 4. At most 10. Default: 4."""

    slow_start_exit: SlowStartExit | None = None
    """Rule that ends slow start before a loss or a mark does. Linux has none. Default: `none`."""


@dataclass(kw_only=True)
class Prague(ScenarioTable):
    """Parameters of TCP Prague."""

    least_paced_window: int | None = None
    """Segments per round trip at which it paces at least. 2: reference implementation before version 0.7, which
    paces by whole segments. 0: version 0.7, down to 100 kbit/s. Default: 0.
    """

    name: Literal["prague"] = field(default="prague", init=False)

    target_rtt: Span | None = None
    """Round trip below which the share no longer depends on it. The draft: 25 ms. Zero: it always depends on it.
    Default: `25ms`.
    """

    transition_rounds: int | None = None
    """Rounds after slow start until then. The reference implementation: 4. Default: 4."""


@dataclass(kw_only=True)
class Bbr3(ScenarioTable):
    """Parameters of BBR version 3. The draft has them as constants."""

    beta: float | None = None
    """Least part that a round with losses leaves. The draft's `Beta`: 0.7. 0 to 1. Default: 0.7."""

    headroom: float | None = None
    """Part of `inflight_hi` that is left to others. The draft's `Headroom`: 0.15. 0 to 1. Default: 0.15."""

    loss_threshold: float | None = None
    """Part of the segments in flight that may be lost while it probes. The draft's `LossThresh`: 0.02. 0 to 1.
    Default: 0.02.
    """

    name: Literal["bbr3"] = field(default="bbr3", init=False)

    probe_rtt_duration: Span | None = None
    """Shortest time of `ProbeRtt`. The draft: 200 ms. Zero: it never happens. Default: `200ms`."""

    probe_rtt_interval: Span | None = None
    """Time between two `ProbeRtt`. The draft: 5 s. Default: `5s`."""

    reno_rounds: int | None = None
    """Most rounds between probes, so that Reno and CUBIC can grow. The draft: 63. Default: 63."""


@dataclass(kw_only=True)
class Coop(ScenarioTable):
    """Hosts that run the cooperative daemon of the study `coop-cwnd`. Each announces itself by UDP broadcast to the
    others of its WLAN. It caps the windows of the TCP flows that begin at it. The announcements go through the
    simulated air: to the access point like any frame, and from there to all stations at once, without
    acknowledgement.
    """

    ac: Ac | None = None
    """Access category of the announcements in the air."""

    daemon: CoopConfig | None = None
    """Parameters of the daemon."""

    name: str
    """Name by which results and `--set` refer to it: letters, digits, `_` and `-`."""

    nodes: Sequence[str]
    """Stations: names of hosts or groups, members as `sta[0]`. A host runs one daemon and is in one WLAN."""

    start: Span | None = None
    """Time at which the daemons start. Default: `0ns`."""

    stop: Span | None = None
    """Time at which the daemons announce their end and lift their caps. Default: the end of the run."""


@dataclass(kw_only=True)
class CoopConfig(ScenarioTable):
    """Parameters of the cooperative daemon. The source gives `bw_max`, `exponent`, `segment_bytes`, `correct_at` and
    `stop_at`; it leaves the others open.
    """

    admit_after: int | None = None
    """Number of the announcement from which on a terminal counts. At least 1. Default: 2."""

    announce_every: Span | None = None
    """Time between a terminal's announcements. Above zero. Default: `1s`."""

    announce_jitter: float | None = None
    """Each interval is drawn from `announce_every` times 1 - jitter to 1 + jitter, so that terminals do not announce
    at one time. 0 to 0.5. Default: 0.1.
    """

    bw_max: BwMax | None = None
    """The best throughput that this WLAN reaches, or "learn". Default: the 19 Mbit/s of the study's 802.11g WLAN."""

    correct_at: float | None = None
    """The cap comes into force when RTT / least RTT reaches this. 6.0 (the source). Above 1. Default: 6.0."""

    correction_exit: float | None = None
    """The cap is lifted when RTT / least RTT has been below this for `correction_hold`. Above 1, at most
    `correct_at`. Default: 2.0.
    """

    correction_hold: Span | None = None
    """See `correction_exit`. It is long because a low RTT is the effect of the cap, not a sign that the cap is no
    longer needed. Default: `30s`.
    """

    count: Count | None = None
    """Quantity that n counts: "terminals" (as the text) or "flows". Default: `terminals`."""

    expire_after: Span | None = None
    """A terminal that was not heard for this long is forgotten. Longer than `announce_every`. Default: `3500ms`."""

    exponent: float | None = None
    """N terminals together reach `bw_max` times n to this power. -0.15 (equation 3). -1 to 0. Default: -0.15."""

    farewells: int | None = None
    """Announcements that a terminal makes after it has stopped sending. Radios do not repeat broadcasts, so one may
    be lost. Default: 2.
    """

    learn_max: DataRate | None = None
    """For `bw_max = "learn"`: largest value that is believed. Above zero. Default: `1Gbit/s`."""

    learn_window: Span | None = None
    """For `bw_max = "learn"`: the greatest of the last half to whole of this counts. Above zero. Default: `5min`."""

    max_flows: int | None = None
    """Most connections that are believed of one terminal. At least 1. Default: 16."""

    max_peers: int | None = None
    """Most terminals that are remembered. At least 1. Default: 64."""

    min_cap: int | None = None
    """Least cap outside stop mode, segments. With 1, a receiver that delays ACKs would delay every one. It also
    limits the harm of forged announcements. At least 1. Default: 2.
    """

    min_rtt_window: Span | None = None
    """The least RTT is that of the last half to whole of this. The source never forgets it; then one from before a
    change of path would keep the terminal in stop mode. 300 s: Linux's `tcp_min_rtt_wlen`. Above zero. Default:
    `5min`.
    """

    phases: Phases | None = None
    """Condition that brings a cap into force: "own" (the source) or "shared". Default: `shared`."""

    relapse_for: Span | None = None
    """For `phases = "shared"`: within this after a cap of its own RTT was lifted it comes back at `shared_at`
    already. As long as `correction_hold`: who was calm that long was so by the cap. "0s": never. Default: `30s`.
    """

    relearn_after: int | None = None
    """After this many stops in a row that `stop_max` ended, the least RTT is measured again. Either the queue is not
    this terminal's, or the path has changed. 0: never. Default: 3.
    """

    rtt_in_cap: CapRtt | None = None
    """The RTT of equation (1): "current" (as the text reads) or "min". Default: `current`."""

    sample_every: Span | None = None
    """Time between readings of the kernel monitor, each of which sets caps. Above zero. Default: `100ms`."""

    segment_bytes: int | None = None
    """Size of a segment in equation (1), bytes. 1500. At least 1. Default: 1500."""

    shared_at: float | None = None
    """For `phases = "shared"`: the RTT / least RTT from which on a cap also comes by the reports of others. It needs
    `shared_peers` terminals that are in correction by their own RTT. 1.5: half a path's worth of packets waits.
    Where all have the caps of equation (1) none do; one alone outside makes it 1.7 to 1.8. Above 1; from
    `correct_at` on it has no effect. Default: 1.5.
    """

    shared_for: Span | None = None
    """Such a cap ends when this has passed since both held: as long a calm as lifts a cap of its own
    (`correction_hold`). Nothing that others announce can make it longer. Above zero. Default: `30s`.
    """

    shared_peers: int | None = None
    """See `shared_at`. 1: often a single one sees `correct_at`. More protect against a terminal that is wrong. They
    do not protect against one that lies, which has as many names as it likes. At least 1. Default: 1.
    """

    stop_at: float | None = None
    """The window becomes `stop_cap` when RTT / least RTT reaches this although the cap is in force. 5.0 (the
    source). Above 1. Default: 5.0.
    """

    stop_cap: int | None = None
    """The window of stop mode, segments. 1 (the source). A receiver that delays ACKs answers a single segment up to
    40 ms late (Linux). On a path of 0.1 ms that starves the connection; with 2 it answers at once. `airtcp host
    coop` has 2. At least 1. Default: 1.
    """

    stop_exit: float | None = None
    """Stop mode ends when RTT / least RTT, newly measured, falls below this. Above 1, at most `stop_at`. Default:
    3.0.
    """

    stop_grace_rtts: float | None = None
    """Number of current RTTs for which a cap must be in force before `stop_at` is checked. Earlier RTTs show the
    queue of windows from before the cap. 0 to 1000. Default: 1.0.
    """

    stop_max: Span | None = None
    """Longest stop mode. With a window of 1 or 2 there are few RTT samples, so their absence must not prolong it.
    Above zero. Default: `3s`.
    """


@dataclass(kw_only=True)
class DelaySpread(ScenarioTable):
    """Delays that differ from member to member; both directions of a member's line have the same."""

    max: Span
    """Longest delay."""

    min: Span
    """Shortest delay."""

    spread: Spread | None = None
    """Distribution of the delays between `min` and `max`. Default: `even`."""


@dataclass(kw_only=True)
class EstimatorConfig(ScenarioTable):
    """Parameters of the estimate from a receiver's log."""

    clock_drift_ppm: int | None = None
    """Largest drift between the clocks of sender and receiver, parts per million. It limits how well the clock
    offset of one train holds for another. 50: two ordinary crystals. Simulated clocks do not drift. Default: 50.
    """

    first_access: Span | None = None
    """Longest time for which the first datagram holds its place at an idle access point. It applies if it exceeds
    two mean transmission times. 500 us: more than a frame of 1500 bytes and its acknowledgement take at 30
    Mbit/s; at lower rates two transmission times are longer. Default: `500us`.
    """

    line_rate: DataRate | None = None
    """Rate of the slowest line between sender and access point, if a datagram takes longer on it than `gap`."""

    sustained_losses: int | None = None
    """Number of missing datagrams among `sustained_within` that shows an overflow. Fewer are losses on the air. 3.
    Default: 3.
    """

    sustained_within: int | None = None
    """See `sustained_losses`. 64: three of them are an overflow where the wire is 1.05 times as fast as the air.
    Default: 64.
    """


@dataclass(kw_only=True)
class Flow(ScenarioTable):
    """A flow, or a group of `count` like it."""

    ac: Ac | None = None
    """Access category of its packets in the air, in both directions. It applies to radios with QoS."""

    count: int | None = None
    """Number of flows, `name[0]`, `name[1]` and so on. Flow i runs from member i to member i. A smaller group starts
    again at its first member. Default: the size of the larger of the two groups.
    """

    from_: str
    """Host or group that sends, or one member as `left[3]`."""

    name: str
    """Name by which results are grouped and `--set` refers to it: letters, digits, `_` and `-`."""

    read_rate: DataRate | None = None
    """Rate at which the receiving application reads. Default: at once."""

    receiver: TcpOptions | None = None
    """Options of the receiving end that differ from its host's profile. The ends agree as real ones do. They use
    timestamps and SACK only if both have them, and the smaller of the two packet sizes. A handshake takes place
    if the sender begins with one.
    """

    start: Start | None = None
    """Start: a time, or a range from which each flow draws its own, by the seed. Default: `0ns`."""

    stop: Span | None = None
    """End of unlimited and repeating traffic. Default: the end of the run."""

    tcp: TcpOptions | None = None
    """Options of the sending end that differ from its host's profile. Those that concern both ends (`packet_bytes`,
    `handshake`, `timestamps`, `recovery`, `ecn`) apply to the receiving end as well, unless `receiver` sets them.
    """

    to: str
    """Host or group that receives, or one member as `right[3]`."""

    traffic: Traffic | None = None
    """Kind of traffic: the name of a kind with its defaults, or a table with `kind` and its parameters."""


@dataclass(kw_only=True)
class FqCodelConfig(ScenarioTable):
    """FqCodelConfig."""

    ce_threshold: Span | None = None
    """Mark ECT packets that waited longer than this, independently of CoDel. Default: off."""

    codel_backlog: CodelBacklog | None = None
    """Queue whose bytes CoDel counts: it drops only while they are more than one packet's. Default: as in Linux,
    `all` on a line and `flow` in the queues of a Wi-Fi station.
    """

    drop_batch: int | None = None
    """Most packets dropped at a time when there is no room. Linux: 64. Default: 64."""

    ecn: bool | None = None
    """Mark ECT packets instead of dropping them by CoDel. On by default, as in Linux. Default: true."""

    flows: int | None = None
    """Number of queues. RFC 8290: 1024. Default: 1024."""

    interval: Span | None = None
    """CoDel's interval. 100 ms. Default: `100ms`."""

    limit_packets: int | None = None
    """Most packets waiting in all queues together. RFC 8290: 10240. Default: 10240."""

    memory_limit: Bytes | None = None
    """Most bytes waiting in all queues together. Unbounded when left out."""

    quantum: int | None = None
    """Bytes a queue may send per round, link headers included. RFC 8290: 1514. Default: 1514."""

    target: Span | None = None
    """CoDel's acceptable standing delay. 5 ms. Above zero, below `interval`. Default: `5ms`."""


@dataclass(kw_only=True)
class HoldRange(ScenarioTable):
    """Durations drawn uniformly from a range, one per packet that is held back."""

    max: Span
    """Longest duration."""

    min: Span
    """Shortest duration."""


@dataclass(kw_only=True)
class Link(ScenarioTable):
    """A line between two nodes, or one for each member of a group.

    A single end and a group: each member gets a line of its own. Two groups of equal size: member by member.
    """

    buffer: Buffer | None = None
    """Limit of the queue by a rule instead of a number. Sets the queue's `limit_packets` or `limit_bytes`."""

    cost: int | None = None
    """Cost of the line for shortest-path routing. Default: 1."""

    delay: Delay
    """Propagation delay, one way: a duration, or a range over the members of a group."""

    from_: str
    """Node or group at one end, or one member as `left[3]`."""

    loss: Probability | None = None
    """Probability with which each packet is lost on the line, after transmission. Default: 0.0."""

    name: str | None = None
    """Name by which `record` and `--set` refer to it: letters, digits, `_` and `-`. Default: both ends, as `r1-r2`,
    or `left3-r1` for a member.
    """

    one_way: bool | None = None
    """Only the direction from `from` to `to` exists. Default: false."""

    queue: QueueConfig | None = None
    """Queue discipline before the line. Default: `fifo` without a limit."""

    rate: DataRate
    """Rate of the line in each direction, in bits of IP packets."""

    rate_trace: RateTrace | None = None
    """Rate of the line over time, in each direction. `rate` is then what queue disciplines and buffer rules
    calculate with. Default: `rate` at all times.
    """

    reorder: Reorder | None = None
    """Holds some packets back on the line, so that those behind overtake them. Default: packets stay in order."""

    reverse: Reverse | None = None
    """Options that differ in the direction from `to` to `from`. Default: none."""

    to: str
    """Node or group at the other end, or one member as `left[3]`."""


@dataclass(kw_only=True)
class DupThresh(ScenarioTable):
    """`name = "dup_thresh"`."""

    lost_retransmissions: bool | None = None
    """A retransmission counts as lost, too, once something sent a quarter of the smallest round trip after it has
    arrived, as in Linux. Off, it takes the retransmission timeout (RFC 6675). Needs SACK. Default: false.
    """

    name: Literal["dup_thresh"] = field(default="dup_thresh", init=False)

    threshold: int | None = None
    """Segments reported above a hole before it counts as lost. RFC 5681: 3. Default: 3."""


@dataclass(kw_only=True)
class Efr(ScenarioTable):
    """`name = "efr"`."""

    least: int | None = None
    """Smallest threshold, in duplicate ACKs. The study's abstract: 1. Its Figure 10 does not exclude 0. Then a
    window of two segments or fewer waits for the timeout, because the count of duplicates never equals 0.
    Default: 1.
    """

    less: int | None = None
    """Segments that are subtracted from the window. The study: 2. Default: 2."""

    lost_retransmissions: bool | None = None
    """As in `dup_thresh`. Needs SACK. Default: false."""

    most: int | None = None
    """Largest threshold, which large windows have. The study: 3. Default: 3."""

    name: Literal["efr"] = field(default="efr", init=False)


@dataclass(kw_only=True)
class EarlyRetransmit(ScenarioTable):
    """`name = "early_retransmit"`."""

    delay: Delay2 | None = None
    """Delay of an early retransmission, for segments that may only be late. Default: `off`."""

    delay_min: Span | None = None
    """Shortest wait of `delay = "quarter_rtt"`. Linux: 2 ms. Default: `2ms`."""

    lost_retransmissions: bool | None = None
    """As in `dup_thresh`. Needs SACK. Default: false."""

    name: Literal["early_retransmit"] = field(default="early_retransmit", init=False)

    threshold: int | None = None
    """Threshold of larger flights. RFC 5681: 3. Default: 3."""

    unit: Unit | None = None
    """Unit in which the outstanding data is counted. Default: `segments`."""


@dataclass(kw_only=True)
class Rack(ScenarioTable):
    """`name = "rack"`."""

    adaptive: bool | None = None
    """The reordering window adapts to DSACKs and to reordering seen. Off (Linux: `TCP_RACK_STATIC_REO_WND`): it
    stays a quarter of the smallest round trip. Default: true.
    """

    dsack_after_reordering: bool | None = None
    """DSACKs count only once reordering has been seen (Linux). The RFC counts all. Default: false."""

    name: Literal["rack"] = field(default="rack", init=False)

    rtt_of_last: bool | None = None
    """`RACK.rtt` is of the delivered segment that the ACK told of last (Linux, `tcp_rack_advance`). The RFC: of the
    one sent last. Default: false.
    """

    threshold: int | None = None
    """Number of reported segments that ends the reordering window, as long as no reordering was seen (RFC 8985:
    DupThresh, 3). 0: never (Linux: `TCP_RACK_NO_DUPTHRESH`). Default: 3.
    """


@dataclass(kw_only=True)
class VegasRetransmit(ScenarioTable):
    """`name = "vegas_retransmit"`."""

    looks: int | None = None
    """ACKs of new data after a retransmission that are looked at as duplicates are, without SACK. The papers: 2.
    With 0 there are none, and each recovery reduces the window. Default: 2.
    """

    name: Literal["vegas_retransmit"] = field(default="vegas_retransmit", init=False)

    threshold: int | None = None
    """Duplicates that show a loss whatever the clock says. The papers: 3, as before. Default: 3."""


@dataclass(kw_only=True)
class Node(ScenarioTable):
    """A host, a router, or a group of `count` like them."""

    attach: bool | None = None
    """Real programs run on it when the scenario runs in real time. Flows between two such hosts are left to them. In
    simulated time nothing takes their place. Hosts only. Default: false.
    """

    count: int | None = None
    """Makes a group: members `name[0]`, `name[1]` and so on, addressed together by `name`. Default: a single node,
    not a group.
    """

    kind: NodeKind
    """`host` or `router`: hosts are ends of flows, routers forward packets."""

    name: str
    """Name by which links and flows refer to it: letters, digits, `_` and `-`."""

    packet_time: Span | None = None
    """Time that its processor needs for each packet it sends or receives, of any size: before the first queue, and
    before receive offload. One processor does all of them one after the other, in the order of coming. Any number
    of packets may wait for it. Senders then count packets as sent that the host's first queue drops. Real
    programs and cooperative daemons take no time. At most 1 s. Hosts only. Default: none.
    """

    profile: str | None = None
    """Host profile: a built-in one or one from `profiles`. It sets every TCP option that a flow does not. Hosts
    only. Default: `linux-6`.
    """

    receive_offload: ReceiveOffloadConfig | None = None
    """How it takes packets from its interface, and which of them it merges on the way up to TCP. Hosts only.
    Default: as its profile has it, for the air if it is a station of a WLAN and for a line otherwise.
    """


@dataclass(kw_only=True)
class PhyConfig(ScenarioTable):
    """PHY configuration of a station or an access point."""

    band: Band | None = None
    """"2.4GHz" or "5GHz". Left out: 2.4 GHz for b and g, 5 GHz for a, n and ac. Only n may choose."""

    basic_rates: Sequence[DataRate] | None = None
    """Basic rate set: the rates that every station of the cell can receive, which responses use. Default: the
    mandatory rates. These are 1, 2, 5.5, 11 Mbit/s (b), 6, 12, 24 Mbit/s (5 GHz, `g_only`), or both (g, and n at
    2.4 GHz).
    """

    g_only: bool | None = None
    """Keep 802.11b stations out: the basic rates are OFDM's only (g, and n at 2.4 GHz). Default: false."""

    protection: Protection | None = None
    """For 802.11b stations near g, or n at 2.4 GHz. Default: `none`."""

    protection_rate: DataRate | None = None
    """Rate of protection frames, of DSSS or CCK. Left out: the highest basic rate of that kind."""

    short_guard_interval: bool | None = None
    """Guard interval of 400 ns beside that of 800 ns (n and ac). Default: false."""

    short_preamble: bool | None = None
    """Short DSSS preamble for 2, 5.5 and 11 Mbit/s (2.4 GHz). 1 Mbit/s always has the long one. Default: false."""

    short_slot: bool | None = None
    """Slot of 9 us in g and in n at 2.4 GHz. An access point turns it off (20 us) when an 802.11b station has
    joined. b always has 20 us, 5 GHz 9 us. Default: true.
    """

    standard: Standard | None = None
    """The standard: its modes, and whether there are A-MPDUs. Default: `n`."""

    streams: int | None = None
    """Most spatial streams, 1 to 4 (n and ac). Default: 1."""

    wavelan: WavelanConfig | None = None
    """Medium access of `standard` = "wavelan"; left out: as published."""

    width_mhz: int | None = None
    """Channel width in MHz: 20; with n also 40; with ac also 40, 80 and 160. Narrower modes stay available. Default:
    20.
    """


@dataclass(kw_only=True)
class Profile(ScenarioTable):
    """A host profile: a base, and options that differ from it."""

    ack_every: int | None = None
    """Full segments that one ACK covers at most when ACKs are delayed."""

    acks_per_rtt: int | None = None
    """ACKs per least round trip at most while data arrive in order, as TACK's beta (there 4). Needs `timestamps` and
    a `delayed_ack`. 0: no bound.
    """

    base: str | None = None
    """Profile that sets all options that this one does not: a built-in one or another of `profiles`. Default:
    `linux-6`.
    """

    byte_counting: int | None = None
    """RFC 3465 byte counting in slow start: at most this many segments of credit for one ACK. 0: one per ACK,
    however much it covers.
    """

    cc: CcConfig | None = None
    """Congestion control."""

    compressed_sack_delay: Span | None = None
    """With `compressed_sacks`: such an ACK waits for 5 % of the round trip, and at most for this
    (`tcp_comp_sack_delay_ns`).
    """

    compressed_sack_slack: Span | None = None
    """By how much the timer of `compressed_sacks` runs out later than it is set, so that the processor wakes up less
    often (`tcp_comp_sack_slack_ns`).
    """

    compressed_sacks: int | None = None
    """While data lies above a hole: how many segments one ACK may tell of that was put off (Linux since 4.18,
    `tcp_comp_sack_nr`). The first three segments above a hole are acknowledged at once all the same, and so is
    what fills it. Needs SACK. 0: each segment above a hole is acknowledged at once.
    """

    cwnd_slack: int | None = None
    """With `cwnd_validation`: the window counts as used while at most this many segments short of full, in slow
    start too (Linux up to 3.15: 3). 0: once full in a round trip and, in slow start, half full (Linux since).
    """

    cwnd_validation: bool | None = None
    """RFC 7661: the window grows only while it limits the sender. Off: it grows with every ACK of new data, as in
    ns-2 and BSD.
    """

    deflates_above_threshold: bool | None = None
    """With `recovery = "reno"`: the window that duplicates have inflated returns to ssthresh only if more of them
    came than fast retransmit needed. So 4.4BSD compares (`t_dupacks > tcprexmtthresh`). Off: it always returns
    (RFC 5681).
    """

    delayed_ack: Span | None = None
    """Longest wait of an ACK for a second segment (RFC 1122). "0s": every segment is acknowledged at once."""

    delayed_ack_tick: Span | None = None
    """Tick of the clock at which delayed ACKs leave (BSD's fast timeout): a segment waits for the next tick and not
    for `delayed_ack`. "0s": exact.
    """

    delivery_credit: bool | None = None
    """The window's credit is all that an ACK shows to have been delivered. Data that came twice (DSACK) counts once
    more. Once a segment was overtaken by more than three, data above a hole counts like data in order. Linux does
    the same (6.12: `tcp_dsack_seen`, `tcp_may_raise_cwnd`). Needs SACK.
    """

    dsack: bool | None = None
    """The receiver reports data that arrived twice (RFC 2883). The sender takes a reduction back once every
    retransmission since then has been reported. Needs SACK.
    """

    ecn: bool | None = None
    """RFC 3168 explicit congestion notification."""

    ecn_echo: EcnEcho | None = None
    """With `ecn`: how the receiver echoes marks."""

    ect1: bool | None = None
    """With `ecn`: data carries ECT(1) in place of ECT(0), by which networks know flows that need no more than a
    shallow queue (RFC 9331). A control that halves its window at a mark (`reno`, `cubic`) starves with it.
    """

    eifel: bool | None = None
    """Take a reduction back when the echoed timestamp shows that the original had arrived (Eifel, RFC 3522 and
    4015).
    """

    frto: Frto | None = None
    """Finding spurious timeouts without timestamps (F-RTO)."""

    frto_response: FrtoResponse | None = None
    """Window after a timeout that `frto` found to be spurious."""

    handshake: bool | None = None
    """Three-way handshake before data. Off, as in ns-2's one-way agents: data leaves at once."""

    handshake_ack: bool | None = None
    """With `handshake`: an ACK without data ends it, since the application writes once it is connected. Off, as in
    ns-2's FullTcp: the first data ends it, if there is any.
    """

    initial_ssthresh: int | None = None
    """Initial slow-start threshold, segments."""

    initial_window: int | None = None
    """Initial window, segments."""

    invalid_ratelimit: Span | None = None
    """Both ends answer segments without data that are out of window at most once in this time
    (`tcp_invalid_ratelimit`, Linux since 4.0). The answers to ACKs far below what is acknowledged (RFC 5961
    section 5) count with them. "0s": all but such ACKs are answered, each of them.
    """

    limited_transmit: bool | None = None
    """RFC 3042: a new segment for each of the first two duplicate ACKs."""

    limited_transmit_after_timeout: bool | None = None
    """Limited transmit also while a timeout is repaired, where what it sends is the next segment of the repair
    (ns-2's `singledup_`).
    """

    local_drops: LocalDrops | None = None
    """Segments that a `fifo` or `codel` queue of its own host has no room for."""

    loss: LossConfig | None = None
    """Rule by which a missing segment counts as lost."""

    loss_window: int | None = None
    """Window after a retransmission timeout, segments (RFC 5681 section 3.1, loss window: 1). More is what the study
    `tcp-av-handover` suspects of its phones. Such a sender does not wait for the verdict of `frto = "rfc4138"`,
    which sets the window itself. All that the window lets leaves at once where `timeout_sends_one = false`. The
    Linux profiles have it on: there one segment leaves, and the rest after an ACK.
    """

    max_ack_delay: Span | None = None
    """Longest delay of a peer's ACK of a single segment. It is added to the wait for a tail loss probe when one
    segment is in flight. RFC 8985 section 7.2 calls it `TLP.max_ack_delay`; Linux takes the smallest
    retransmission timeout.
    """

    max_cwnd: int | None = None
    """Largest cwnd, segments (ns-2's `window_`)."""

    min_tso_segs: int | None = None
    """With `segments_at_once = "linux"`: segments at once at least (`tcp_min_tso_segs`)."""

    pacing: Pacing | None = None
    """Spacing of segments."""

    pacing_jitter: Probability | None = None
    """Random spacing: each gap is stretched or shrunk by up to this part of it, evenly."""

    pacing_percent: int | None = None
    """With `pacing = "linux"`: percent of cwnd / srtt after it."""

    pacing_rtt: PacingRtt | None = None
    """The round-trip time by which segments are spaced."""

    pacing_slow_start_percent: int | None = None
    """With `pacing = "linux"`: percent of cwnd / srtt in slow start."""

    packet_bytes: int | None = None
    """Bytes of a full segment at the IP layer, headers included."""

    prr: bool | None = None
    """Proportional rate reduction (RFC 6937) while the window shrinks; off: RFC 5681 / RFC 6675 as written."""

    pushed_acks: bool | None = None
    """A segment that ends with PSH, or is less than a full one, waits for no second segment (Linux since 6.6). It is
    acknowledged as soon as the application has read all data at hand.
    """

    quick_acks: int | None = None
    """Segments acknowledged at once at the start of a connection and after a pause (Linux's quick-ACK)."""

    rate_halving: bool | None = None
    """Rate halving of Linux before 3.2 (`tcp_cwnd_down`): the window shrinks by one segment for every second ACK
    until it is `ssthresh`. It is never more than one segment above the flight. It applies if `prr` is off. If
    both are off, the window is `ssthresh` at once.
    """

    receive_buffer: Bytes | None = None
    """Receive buffer: payload bytes, or memory with a `receive_scaling_ratio` below 256."""

    receive_buffer_max: Bytes | None = None
    """Largest size of `receive_buffer` under autotuning, which is on if this is larger."""

    receive_scaling_ratio: int | None = None
    """Payload that fills 256 bytes of the receive buffers, which are in memory (`skb->truesize`, `tcp_rmem`) then,
    as Linux measures it (`scaling_ratio`). 160: 1448 of 2304 bytes. The window is that part of what is free. 256:
    buffers are in payload.
    """

    receive_window_in_steps: bool | None = None
    """The window follows the receive buffer by two segments for each segment that arrives, which is acknowledged at
    once. It begins below 64 KB, and what waits above a hole takes room from it (Linux, `tcp_grow_window`,
    `__tcp_select_window`). Off: it is the buffer.
    """

    recover_guard: bool | None = None
    """Duplicate ACKs for data that was outstanding when the last recovery or timeout began start no fast retransmit
    (RFC 6582 section 3.2, `recover`; ns-2's `bugfix_`). Off, as in older stacks: needless repetitions after a
    timeout can start another one. Without SACK only.
    """

    recovery: Recovery | None = None
    """Algorithm that repairs a loss."""

    restart_after_idle: bool | None = None
    """After an idle time the window decays towards `restart_window`: by half for each retransmission timeout (RFC
    2861).
    """

    restart_window: int | None = None
    """Window after a long idle time, segments. RFC 5681 section 4.1: the initial window."""

    retries: int | None = None
    """Consecutive timeouts of one segment before the connection is given up."""

    rto_granularity: Span | None = None
    """Timeouts are rounded up to a multiple of this."""

    rto_initial: Span | None = None
    """Retransmission timeout before the first measurement (RFC 6298)."""

    rto_max: Span | None = None
    """Largest retransmission timeout."""

    rto_min: Span | None = None
    """Smallest retransmission timeout."""

    rto_ticks_above_rtt: int | None = None
    """With `timer_tick`: the timeout is at least this many ticks above the last round trip counted, which counts
    from 1. FreeBSD and NetBSD: 2, since a timer of n ticks may expire after little more than n - 1. 4.4BSD: 0.
    """

    rto_var_min: Span | None = None
    """Lower bound of the 4 * RTTVAR term. RFC 6298: the clock granularity; Linux: 200 ms."""

    rtt_from_sack: bool | None = None
    """With `rtt_per_segment`: segments that are SACKed give samples too, also beside a repeated one that is
    acknowledged. With neither, a timestamp gives one, for the congestion control as well (Linux since 3.12).
    """

    rtt_per_segment: bool | None = None
    """A round-trip sample from every ACK of new data (Linux); off: one segment is timed at a time, as BSD and ns-2
    do.
    """

    rtt_restart_backoffs: int | None = None
    """Number of backoffs in a row after which the next sample restarts SRTT and RTTVAR. The note in RFC 6298 section
    5 allows it; BSD and ns-2: 4. 0: never.
    """

    rtt_tick: Span | None = None
    """Tick of the clock that measures round trips for the timeout, by the ticks that begin during one. "0s": exact
    (Linux keeps microseconds).
    """

    rttvar_rule: RttvarRule | None = None
    """Rule by which RTTVAR follows the samples."""

    segments_at_once: SegmentsAtOnce | None = None
    """Segments handed to the device at once. `tsq` checks its bound once before each such batch. With `pacing =
    "rtt_over_cwnd"` a batch is one segment.
    """

    send_buffer: Bytes | None = None
    """Most bytes that the sender holds, unacknowledged or unsent."""

    send_buffer_max: Bytes | None = None
    """Largest size of `send_buffer` under autotuning, which is on if this is larger."""

    ssthresh_after_lost_syn: int | None = None
    """Highest ssthresh when the SYN was lost, segments. ns-2: 2, since its timeout halves the window of one whatever
    was lost. RFC 5681 section 3.1 only takes the initial window back to one segment, and Linux forgets what the
    timeout set.
    """

    ssthresh_at_every_timeout: bool | None = None
    """A second timeout of the same segment lowers ssthresh once more, from the window of that time (ns-2). Off:
    ssthresh stays as the first timeout set it (RFC 5681 section 3.1).
    """

    tail_loss_probe: bool | None = None
    """Send a probe after two round trips without an ACK (RFC 8985 section 7). It reveals a loss at the end of a
    flight without a timeout. Needs SACK.
    """

    timeout_sends_one: bool | None = None
    """A timeout sends one segment, and what else the window lets leave waits for an ACK (Linux:
    `tcp_retransmit_timer`, net/ipv4/tcp_timer.c). Off: all that leaves at once. A difference only where a timeout
    leaves more than one segment of the window.
    """

    timer_phase: TimerPhase | None = None
    """When the ticks of these clocks fall: "random", drawn for each host, or the time of the first."""

    timer_slack: Span | None = None
    """Time that is added to shorter waits: for a tail loss probe, and of a loss policy for segments that may only be
    late. They, too, are then rounded up to `rto_granularity`.
    """

    timer_tick: Span | None = None
    """Tick of BSD's slow timeout. Round trips are counted in its ticks, and retransmission timeouts expire at them.
    "0s": timers are exact.
    """

    timer_wheel: bool | None = None
    """Retransmission timeouts, probes and delayed ACKs run out as those of Linux's timer wheel (since 4.8). The
    jiffies are `rto_granularity`. A timer takes up to a jiffy more than it is set to. From 63 jiffies on it takes
    up to eight more, from 504 on up to 64. It counts where `timer_tick` and `delayed_ack_tick` are "0s".
    """

    timestamp_tick: Span | None = None
    """Tick of the timestamp clock."""

    timestamps: bool | None = None
    """RFC 7323 timestamps, 12 bytes in each segment."""

    tso_rtt_log: int | None = None
    """With `segments_at_once = "linux"`: on a near path more leaves at once, 64 KB divided by two for each 2^n
    microseconds of the least round trip (`tcp_tso_rtt_log`). 0: no more.
    """

    tsq: Tsq | None = None
    """Rule that bounds the data waiting below TCP in its own host."""

    tsq_limit: Bytes | None = None
    """Bound of `tsq` (`net.ipv4.tcp_limit_output_bytes`), counted with `tsq_overhead`."""

    tsq_overhead: Bytes | None = None
    """Memory that a segment takes beyond its payload; Linux counts it (`skb->truesize`)."""

    tsq_pacing_shift: int | None = None
    """Time whose worth of data at the pacing rate may wait: a second / 2^n (`sk_pacing_shift`). A device may ask for
    another.
    """

    undo_burst: int | None = None
    """When a reduction is taken back, cwnd returns to at most this many segments above what is in flight (Linux
    before 2.6.39, `tcp_moderate_cwnd`: 3). 0: all of it at once.
    """

    undo_window_after_timeout: bool | None = None
    """A timeout that is taken back returns cwnd as well as ssthresh. Off: ssthresh alone, as with CUBIC in Linux
    before 3.3, which had forgotten the window by then (commit "tcp: fix undo after RTO for CUBIC").
    """

    wifi: RadioOptions | None = None
    """Options of the host's radio if it is a station of a WLAN."""


@dataclass(kw_only=True)
class Fifo(ScenarioTable):
    """`limit_packets` and `limit_bytes` both bind when both are given; with neither the queue is unbounded."""

    limit_bytes: Bytes | None = None
    """Most bytes waiting."""

    limit_packets: int | None = None
    """Most packets waiting, the one being transmitted not counted. At least 1."""

    name: Literal["fifo"] = field(default="fifo", init=False)


@dataclass(kw_only=True)
class Red(ScenarioTable):
    """Both limits bind when both are given; with neither, ns-2's 50 packets or four times `max_th`, whichever is
    more.
    """

    adaptive: bool | None = None
    """Move `max_p` between 0.01 and 0.5 so that the average stays midway between the thresholds. Default: false."""

    bytes: bool | None = None
    """Average bytes, and give large packets a larger probability, instead of counting packets. Default: false."""

    ecn: bool | None = None
    """Mark ECT packets instead of dropping them early. Default: true."""

    gentle: bool | None = None
    """Above `max_th` let the probability rise to 1 at twice `max_th`, instead of dropping every packet. Default:
    true.
    """

    limit_bytes: Bytes | None = None
    """Most bytes waiting."""

    limit_packets: int | None = None
    """Most packets waiting. At least 1."""

    max_p: Probability | None = None
    """Probability at `max_th`, and the start of `adaptive`. Above zero. Default: 0.1."""

    max_th: float | None = None
    """Average length at which the probability is `max_p`; packets. Above `min_th`. When left out: three times
    `min_th`.
    """

    mean_packet: Bytes | None = None
    """Size of a typical packet. Default: the line's MTU."""

    min_th: float | None = None
    """Average length below which every packet passes; packets, in `bytes` mode of `mean_packet` bytes each. Above
    zero. When left out: a third of `max_th` if that is given, else by `target_delay`, else 5.
    """

    name: Literal["red"] = field(default="red", init=False)

    target_delay: Span | None = None
    """Average delay from which thresholds and weight follow if they are not given. `min_th` is half the packets of
    that delay at the line's rate, at least 5. `w_q` has a time constant of one second. Above zero.
    """

    w_q: Probability | None = None
    """Weight of the present length in the average. Above zero. When left out: by `target_delay`, else 0.002."""

    wait: bool | None = None
    """Let at least `1/p` packets pass between two signals, instead of at least none. Default: true."""


@dataclass(kw_only=True)
class Codel(ScenarioTable):
    """Both limits bind when both are given; with neither, 1000 packets as in Linux."""

    ce_threshold: Span | None = None
    """Mark ECT packets that waited longer than this, independently of the law. Default: off."""

    ecn: bool | None = None
    """Mark ECT packets instead of dropping them. Default: true."""

    interval: Span | None = None
    """Window over which the delay must stay above target; about the largest usual round-trip time. RFC 8289: 100 ms.
    Default: `100ms`.
    """

    limit_bytes: Bytes | None = None
    """Most bytes waiting."""

    limit_packets: int | None = None
    """Most packets waiting. At least 1."""

    name: Literal["codel"] = field(default="codel", init=False)

    target: Span | None = None
    """Acceptable standing delay. RFC 8289: 5 ms. Above zero, below `interval`. Default: `5ms`."""


@dataclass(kw_only=True)
class FqCodel(ScenarioTable):
    """`name = "fq_codel"`."""

    ce_threshold: Span | None = None
    """Mark ECT packets that waited longer than this, independently of CoDel. Default: off."""

    codel_backlog: CodelBacklog | None = None
    """Queue whose bytes CoDel counts: it drops only while they are more than one packet's. Default: as in Linux,
    `all` on a line and `flow` in the queues of a Wi-Fi station.
    """

    drop_batch: int | None = None
    """Most packets dropped at a time when there is no room. Linux: 64. Default: 64."""

    ecn: bool | None = None
    """Mark ECT packets instead of dropping them by CoDel. On by default, as in Linux. Default: true."""

    flows: int | None = None
    """Number of queues. RFC 8290: 1024. Default: 1024."""

    interval: Span | None = None
    """CoDel's interval. 100 ms. Default: `100ms`."""

    limit_packets: int | None = None
    """Most packets waiting in all queues together. RFC 8290: 10240. Default: 10240."""

    memory_limit: Bytes | None = None
    """Most bytes waiting in all queues together. Unbounded when left out."""

    name: Literal["fq_codel"] = field(default="fq_codel", init=False)

    quantum: int | None = None
    """Bytes a queue may send per round, link headers included. RFC 8290: 1514. Default: 1514."""

    target: Span | None = None
    """CoDel's acceptable standing delay. 5 ms. Above zero, below `interval`. Default: `5ms`."""


@dataclass(kw_only=True)
class Pie(ScenarioTable):
    """Both limits bind when both are given; with neither, 1000 packets as in Linux."""

    alpha: float | None = None
    """Weight of the deviation from target, per second of delay. RFC 8033: 0.125. Default: 0.125."""

    beta: float | None = None
    """Weight of the trend, per second of delay. RFC 8033: 1.25. Default: 1.25."""

    cap_drop_adjustment: bool | None = None
    """From a probability of 0.1 on, add no more than 0.02 at a time (RFC 8033 section 5.5). Default: false."""

    delay: DelayEstimate | None = None
    """Way in which PIE learns the queueing delay. Default: `timestamp`."""

    derandomize: bool | None = None
    """Keep random drops from coming too close together or too far apart (RFC 8033 section 5.4). Default: false."""

    ecn: bool | None = None
    """Mark ECT packets instead of dropping them. Default: true."""

    limit_bytes: Bytes | None = None
    """Most bytes waiting."""

    limit_packets: int | None = None
    """Most packets waiting. At least 1."""

    mark_ecnth: Probability | None = None
    """From this probability on, ECT packets are dropped too. RFC 8033: 0.1. Default: 0.1."""

    max_burst: Span | None = None
    """Longest burst after a quiet time that passes without drops. RFC 8033: 150 ms. Default: `150ms`."""

    name: Literal["pie"] = field(default="pie", init=False)

    on_off: bool | None = None
    """Do nothing until the queue is a third of its limit, and again after it has been empty (RFC 8033 section 5.3).
    Default: false.
    """

    t_update: Span | None = None
    """Time between updates of the probability. RFC 8033: 15 ms. Above zero. Default: `15ms`."""

    target: Span | None = None
    """Queueing delay to steer to (`QDELAY_REF`). RFC 8033: 15 ms. Above zero. Default: `15ms`."""


@dataclass(kw_only=True)
class Dualpi2(ScenarioTable):
    """Both limits bind when both are given; with neither, 10 000 packets as in Linux."""

    alpha: float | None = None
    """Weight of the deviation from target in an update, per second of delay. RFC 9332: 0.16 for round trips up to
    100 ms. Default: 0.16.
    """

    beta: float | None = None
    """Weight of the trend in an update, per second of delay. RFC 9332: 3.2 for round trips up to 100 ms. Default:
    3.2.
    """

    classic_protection: int | None = None
    """Part of the line that is kept for the classic queue, percent. Linux: 10. 1 to 99. Default: 10."""

    coupling: float | None = None
    """Coupling of the low-latency queue's marks to the base probability. RFC 9332: 2. At least 1. Default: 2.0."""

    limit_bytes: Bytes | None = None
    """Most bytes waiting, in both queues."""

    limit_packets: int | None = None
    """Most packets waiting, in both queues. At least 1."""

    min_th: Span | None = None
    """Waiting time up to which a low-latency packet is not marked for itself. RFC 9332: 0.8 ms; Linux: 1 ms.
    Default: `800us`.
    """

    name: Literal["dualpi2"] = field(default="dualpi2", init=False)

    range: Span | None = None
    """From `min_th` on, how much longer until every one is marked. RFC 9332: 0.4 ms; Linux: 0 (a step). Default:
    `400us`.
    """

    t_update: Span | None = None
    """Time between updates of the probability. RFC 9332: the lesser of `target` and a third of the longest round
    trip; Linux: 16 ms. Default: `16ms`.
    """

    target: Span | None = None
    """Delay of the classic queue to steer to. RFC 9332: 15 ms. Above zero. Default: `15ms`."""


@dataclass(kw_only=True)
class Cake(ScenarioTable):
    """`name = "cake"`."""

    bandwidth: DataRate | None = None
    """Rate of the shaper. Left out: none (tc's `unlimited`)."""

    framing: CakeFraming | None = None
    """Framing of the line, which changes a packet's length. Default: `none`."""

    ingress: bool | None = None
    """It stands behind the bottleneck: the shaper counts drops too, and the target grows with the number of
    backlogged queues. Default: false.
    """

    isolation: CakeIsolation | None = None
    """Packets that share a queue, and queues that share a host's part. Default: `triple_isolate`."""

    limit_packets: int | None = None
    """Most packets waiting in all queues together. Linux: 10240. Default: 10240."""

    memory_limit: Bytes | None = None
    """Most bytes waiting in all queues together. Left out: with `bandwidth` four intervals of it, at least 4 MiB;
    else no limit.
    """

    mpu: int | None = None
    """Least length of a packet on the line, bytes. 0 to 256. Default: 0."""

    name: Literal["cake"] = field(default="cake", init=False)

    overhead: int | None = None
    """Bytes that the line adds to each packet; counted by shaper and shares. -64 to 256. Default: 0."""

    rtt: Span | None = None
    """Round-trip time that COBALT is for: its interval. Its target is a twentieth, and at least one and a half
    packets at `bandwidth`. Default: `100ms`.
    """


@dataclass(kw_only=True)
class AckFilter(ScenarioTable):
    """`limit_packets` and `limit_bytes` both bind when both are given; with neither the queue is unbounded."""

    limit_bytes: Bytes | None = None
    """Most bytes waiting."""

    limit_packets: int | None = None
    """Most packets waiting, the one being transmitted not counted. At least 1."""

    mode: AckFilterMode | None = None
    """Number of superfluous ACKs that stay beside the newest one. Default: `conservative`."""

    name: Literal["ack_filter"] = field(default="ack_filter", init=False)


@dataclass(kw_only=True)
class RadioOptions(ScenarioTable):
    """The same options, each of them optional."""

    ack: bool | None = None
    """Frames are acknowledged, and sent again if no acknowledgement comes. Off: 802.11's No Ack policy for every
    frame (IEEE 802.11-2020 9.2.4.5.4). A frame that does not arrive is lost, and the sender's contention window
    stays as it is. Off is not possible with A-MPDUs, and needs a fixed rate, because rate control learns nothing.
    Default: on, off for `wavelan`.
    """

    aggregation: Aggregation | None = None
    """Aggregation into A-MPDUs; only with `qos` and standard n or ac."""

    eifs: bool | None = None
    """After a frame that it could not decode, such as a collision, the radio waits EIFS instead of DIFS (IEEE
    802.11-2020 10.3.2.3.7). Off: DIFS, as analytical models assume (Bianchi 2000). Stations that have collided
    then have no advantage over the others. The difference is large if an ACK at the lowest basic rate is long.
    """

    phy: PhyConfig | None = None
    """Standard, band, width, guard interval, streams."""

    qos: bool | None = None
    """802.11e: four access categories with EDCA parameters and Block Ack. Off: one queue under DCF, every frame
    acknowledged by itself. Default: on for n and ac, off for a, b and g.
    """

    rate_control: RateConfig | None = None
    """Rate control. Default: as in Linux, minstrel_ht for n and ac, minstrel for the others."""

    reorder_buffer: ReorderConfig | None = None
    """The recipient's side of Block Ack: reorder buffer and retry-out."""

    retries: Retries | None = None
    """Limits of retransmissions, and the reactions when they are reached."""

    rts_threshold_bytes: int | None = None
    """Frames whose PSDU is larger than this are preceded by RTS and CTS."""

    transmit: TransmitConfig | None = None
    """The queues between the host and the radio."""

    tx_completion: TxCompletion | None = None
    """How late the driver reports that packets have been sent, by which TCP small queues count what waits below TCP."""


@dataclass(kw_only=True)
class FixedRate(ScenarioTable):
    """Parameters of the fixed rate."""

    mcs: int | None = None
    """Modulation and coding scheme of 802.11n (0 to 31) or ac (0 to 9)."""

    name: Literal["fixed"] = field(default="fixed", init=False)

    rate: DataRate | None = None
    """Data rate of the mode, such as "11Mbit/s" in 802.11b; of several such modes the one with the fewest streams."""

    rts: bool | None = None
    """Send RTS before every frame, whatever its length. Default: false."""

    streams: int | None = None
    """Spatial streams, with `mcs`. In 802.11n an `mcs` from 8 on implies them."""

    tries: int | None = None
    """Tries per series. At least 1. 255: the sender's retry limit decides. Default: 255."""


@dataclass(kw_only=True)
class Minstrel(ScenarioTable):
    """Parameters of Minstrel."""

    cw_max: int | None = None
    """Largest contention window, slots, for the airtime estimate. At least `cw_min`. 1023: Linux. Default: 1023."""

    cw_min: int | None = None
    """Contention window of the first try, slots, for the airtime estimate. 15: Linux. Default: 15."""

    ewma_old_weight: Probability | None = None
    """Weight of the old value in the smoothed success probability. Below 1. 0.75: Linux (96/128). Default: 0.75."""

    look_around: Probability | None = None
    """Share of frames that look around. Left out: 0.1, or 0.05 without `multi_rate_retry` (Linux)."""

    max_retry: int | None = None
    """Most tries of one stage. At least 1. 7: Linux where the driver says nothing. Default: 7."""

    max_segment: Span | None = None
    """Most airtime of one stage, backoff included; one try may exceed it. 6 ms: Linux. Default: `6ms`."""

    min_probability: Probability | None = None
    """Below this success probability a rate counts as carrying nothing. 0.1: Linux. Default: 0.1."""

    multi_rate_retry: bool | None = None
    """The hardware takes a series of rates; without it one rate per frame. Default: true."""

    name: Literal["minstrel"] = field(default="minstrel", init=False)

    reference_packet: Bytes | None = None
    """IP packet that airtimes are estimated for. 1B to 2304B. 1200B: Linux, ns-3. Default: `1200B`."""

    reliable: Probability | None = None
    """From this success probability on a rate is as good as any as the reliable stage, and the faster is taken.
    0.95: our choice. Default: 0.95.
    """

    sample_columns: int | None = None
    """Columns of the sample table, each a shuffled list of the rates. At least 1. 10: Linux. Default: 10."""

    update_interval: Span | None = None
    """Time between two evaluations. Above zero. 100 ms: kernels before 2019, and ns-3. Default: `100ms`."""


@dataclass(kw_only=True)
class MinstrelHt(ScenarioTable):
    """Parameters of Minstrel-HT."""

    cw_max: int | None = None
    """Largest contention window, slots, for the airtime estimate. At least `cw_min`. 1023: Linux. Default: 1023."""

    cw_min: int | None = None
    """Contention window of the first try, slots, for the airtime estimate. 15: Linux. Default: 15."""

    ewma_old_weight: Probability | None = None
    """Weight of the old value in the smoothed A-MPDU length; in `table` also in the success probability. Below 1.
    0.75: Linux (96/128). Default: 0.75.
    """

    max_airtime: Span | None = None
    """`table`: most airtime of an A-MPDU in the estimate. 4 ms: ath9k's frame limit. Default: `4ms`."""

    max_probability: Probability | None = None
    """Success probabilities above this count as this. Above zero. 0.9: Linux. Default: 0.9."""

    max_retry: int | None = None
    """Most tries of one stage. At least 1. 7: Linux where the driver says nothing. Default: 7."""

    max_segment: Span | None = None
    """Most airtime of one stage, backoff included; one try may exceed it. 6 ms: Linux. Default: `6ms`."""

    min_probability: Probability | None = None
    """Below this success probability a mode counts as carrying nothing. 0.1: Linux. Default: 0.1."""

    name: Literal["minstrel_ht"] = field(default="minstrel_ht", init=False)

    reference_packet: Bytes | None = None
    """IP packet that airtimes are estimated for. 1B to 2304B. 1200B: Linux, ns-3. Default: `1200B`."""

    reliable: Probability | None = None
    """`table`: modes with at least this success probability count as equally reliable, so the fastest of them
    becomes the reliable stage. Samples leave them alone. Default: 0.95.
    """

    sample_columns: int | None = None
    """Columns of the table of samples, each a shuffled list of a group's modes. At least 1. 10: Linux. Default: 10."""

    sample_interval: Span | None = None
    """`targeted`: least time between two samples. 20 ms: Linux. Default: `20ms`."""

    sample_wait: int | None = None
    """`table`: MPDUs between two samples, to which twice the mean A-MPDU length is added. 16: after Linux until
    2020. Default: 16.
    """

    samples_per_interval: int | None = None
    """`table`: most samples per update interval. 16: after Linux until 2020. Default: 16."""

    sampling: Sampling | None = None
    """Choice of the modes that samples test. Default: `targeted`."""

    slow_after: int | None = None
    """`table`: a mode too slow to win is tested only after so many intervals without use. 20: after Linux until
    2020. Default: 20.
    """

    slow_per_interval: int | None = None
    """`table`: most tests of modes too slow to win per update interval. 2: after Linux until 2020. Default: 2."""

    update_interval: Span | None = None
    """Time between two evaluations. Above zero. 50 ms: Linux (`update_interval`, until 2019 half of 100 ms), ns-3.
    Default: `50ms`.
    """


@dataclass(kw_only=True)
class Ideal(ScenarioTable):
    """Parameters of the ideal control."""

    max_airtime: Span | None = None
    """Most airtime of an A-MPDU; one MPDU may exceed it. 4 ms: ath9k's frame limit. Default: `4ms`."""

    max_mpdus: int | None = None
    """Most MPDUs in an A-MPDU. At least 1. 32: ath9k's default. Default: 32."""

    name: Literal["ideal"] = field(default="ideal", init=False)

    reference_packet: Bytes | None = None
    """IP packet in the reference MPDU. 1B to 2304B. 1500B: full TCP segments. Default: `1500B`."""

    tries: int | None = None
    """Tries per series. At least 1. 255: the sender's retry limit decides. Default: 255."""


@dataclass(kw_only=True)
class Arf(ScenarioTable):
    """Parameters of ARF."""

    down_after: int | None = None
    """Tries in a row without an ACK, after which the mode is left for a slower one. 2. At least 1. Default: 2."""

    name: Literal["arf"] = field(default="arf", init=False)

    timer_frames: int | None = None
    """Frames at a mode after which a faster one is tried in any case. 15. 0: never. Default: 15."""

    up_after: int | None = None
    """Frames in a row acknowledged at their first try, after which a faster mode is tried. 10. At least 1. Default:
    10.
    """


@dataclass(kw_only=True)
class Aarf(ScenarioTable):
    """Parameters of AARF."""

    down_after: int | None = None
    """Tries in a row without an ACK, after which the mode is left for a slower one. 2. At least 1. Default: 2."""

    grow: int | None = None
    """Factor by which the run grows. 2: the paper. At least 1. Default: 2."""

    name: Literal["aarf"] = field(default="aarf", init=False)

    timer: bool | None = None
    """A faster mode is also tried after one and a half runs of frames, whatever their outcome. Default: true."""

    up_after: int | None = None
    """Least run of frames acknowledged at their first try, after which a faster mode is tried. 10. At least 1.
    Default: 10.
    """

    up_after_max: int | None = None
    """Longest run. 50: the paper. At least `up_after`. Default: 50."""


@dataclass(kw_only=True)
class Onoe(ScenarioTable):
    """Parameters of Onoe."""

    credits: int | None = None
    """Credits that a step up costs. 10: the driver. At least 1. Default: 10."""

    enough: int | None = None
    """Frames without which a look decides nothing, unless none arrived. 10: the driver. At least 1. Default: 10."""

    interval: Span | None = None
    """Time between two looks. 1 s: the driver. Above zero. Default: `1s`."""

    name: Literal["onoe"] = field(default="onoe", init=False)

    raise_below: Probability | None = None
    """A look earns a credit if the failed tries are fewer than this part of the frames that arrived. 0.1: the
    driver. Default: 0.1.
    """


@dataclass(kw_only=True)
class Fallback(ScenarioTable):
    """Parameters of fallback."""

    name: Literal["fallback"] = field(default="fallback", init=False)

    rate: DataRate | None = None
    """Data rate of the first mode, such as "54Mbit/s". Left out: the fastest."""

    tries: int | None = None
    """Tries in each mode but the last of the chain. 2: as ARF. At least 1. Default: 2."""


@dataclass(kw_only=True)
class RateTrace(ScenarioTable):
    """The rate of a line over time. The line's `rate` stays what queue disciplines and rules of buffer sizing
    calculate with.
    """

    deliveries_ms: Sequence[int] | None = None
    """Instead of points: milliseconds at which 1500 bytes can pass, ascending, one number for each. They are the
    lines of a trace file of mahimahi (`paste -sd,` makes one list of them). The list starts again at its last
    instant.
    """

    points: Sequence[Sequence[float]] | None = None
    """Pairs of time in seconds and rate in Mbit/s, times ascending. A rate holds until the next point; the first
    also before it, and the last after it. A rate of 0 is an outage.
    """

    repeat: bool | None = None
    """Start again with the first point at the time of the last one. The rate of the last point then does not matter.
    Default: false.
    """


@dataclass(kw_only=True)
class Off(ScenarioTable):
    """`name = "off"`."""

    name: Literal["off"] = field(default="off", init=False)


@dataclass(kw_only=True)
class Napi(ScenarioTable):
    """`name = "napi"`."""

    gro: bool | None = None
    """Segments of a poll are merged. Off: each goes up by itself, and the program reads after the poll all the same.
    So does a driver that hands packets up one by one in a tasklet. ath9k is one
    (drivers/net/wireless/ath/ath9k/recv.c, `ath_rx_tasklet`). Default: true.
    """

    gro_flush_timeout: Span | None = None
    """Longest time until the next poll, for which merged packets wait. "0s": they go up with each poll. Default:
    `0ns`.
    """

    interrupt_interval: Span | None = None
    """Least time between interrupts. Default: `0ns`."""

    jiffy: Span | None = None
    """Tick of the kernel's clock: nothing waits in a poll of a later tick (1 / HZ). Default: `4ms`."""

    name: Literal["napi"] = field(default="napi", init=False)

    napi_defer_hard_irqs: int | None = None
    """Polls in a row that find nothing before the device may interrupt again. Until then each comes
    `gro_flush_timeout` after the one before. Default: 0.
    """


@dataclass(kw_only=True)
class E1000e(ScenarioTable):
    """`name = "e1000e"`."""

    bulk: Span | None = None
    """Time between interrupts while much comes or leaves. Default: `250us`."""

    low_latency: Span | None = None
    """Time between interrupts while little comes and leaves. Default: `50us`."""

    name: Literal["e1000e"] = field(default="e1000e", init=False)


@dataclass(kw_only=True)
class Igb(ScenarioTable):
    """`name = "igb"`."""

    name: Literal["igb"] = field(default="igb", init=False)


@dataclass(kw_only=True)
class Record(ScenarioTable):
    """Recordings besides the summaries. Links are named by entry (`bottleneck`: both directions and, for a group,
    every member) or by single direction (`r1->r2`, `left[3]->r1`). The name of a WLAN stands for the lines of all
    its stations.
    """

    air_series: Sequence[str] | None = None
    """Links of WLANs with a time series of rate, airtime, errors and packets held. Default: all of them, if there
    are at most 64.
    """

    capture: Sequence[str] | None = None
    """Links whose packets are captured as they enter the line. `capture_air` captures those of a WLAN."""

    capture_air: Sequence[str] | None = None
    """WLANs whose channels are captured frame by frame, as a monitor beside the receivers would."""

    drops: Sequence[str] | None = None
    """Links whose drops are recorded one by one. Default: the same as `links`."""

    flow_series_max: int | None = None
    """Most TCP flows with a time series. They are spread evenly over all TCP flows. Default: 64."""

    interval: Span | None = None
    """Time between samples of the time series. Default: `duration` / 600, at least 1 ms."""

    links: Sequence[str] | None = None
    """Links with a time series. Default: links that do not belong to a group of nodes."""

    ppdus: Selection | None = None
    """WLANs on whose channels each PPDU is recorded: their names, or true for all."""

    retransmissions: Selection | None = None
    """TCP flows whose retransmissions are recorded one by one, or true for all. They are names of entries (`web`:
    every flow of it) or of single flows (`web[3]`). Each retransmission takes about 100 bytes of memory until the
    end of the run.
    """


@dataclass(kw_only=True)
class Reorder(ScenarioTable):
    """Reordering on a line: each packet that is not lost is held back with `probability` after its transmission, and
    arrives `delay` late. Packets that follow within that time may overtake it.
    """

    delay: Hold
    """Time for which it is held back: a duration, or a range from which each such packet draws its own."""

    probability: Probability
    """Probability with which each packet is held back."""


@dataclass(kw_only=True)
class ReorderConfig(ScenarioTable):
    """Parameters of the recipient's side of Block Ack."""

    hands_up: HandsUp | None = None
    """When the MPDUs of an A-MPDU go up. Default: `at_ppdu_end`."""

    obey_bar: bool | None = None
    """A BAR moves the head (clause 10.25.6.6.3). If off, the hole that the sender announces stays until `timeout` or
    the window's end. Default: true.
    """

    reports_corrupt: Probability | None = None
    """Part of the corrupt MPDUs with an intact header that the chip reports to the driver. Retry-out counts retries
    by them. 1: all, as ath9k does (the study `ap-retry-out`, section 3.3). 0: none, as chips do that drop them.
    Default: 1.0.
    """

    retry_out: RetryOutConfig | None = None
    """Retry-out: gives up MPDUs that keep arriving corrupt. Default: off."""

    tcp_known_by: TcpKnownBy | None = None
    """Evidence by which retry-out takes a corrupt MPDU for one with a TCP segment. Only `payload` needs a network
    without encryption. Default: `payload`.
    """

    timeout: str | None = None
    """Time for which an MPDU is held before the gaps in front of it count as lost, or "never" (as ns-3). mac80211:
    100 ms. Above zero. Default: `100ms`.
    """

    window: int | None = None
    """Numbers that the window spans, as agreed by ADDBA. 802.11n and ac: 64; ax: 256; be: 1024. Default: 64."""


@dataclass(kw_only=True)
class Retries(ScenarioTable):
    """Retry limits."""

    counts: RetryCount | None = None
    """Events that `software` counts. Default: `transmissions`."""

    frame_tries: int | None = None
    """Most tries of a frame without Block Ack, the first included (dot11ShortRetryLimit: 7). Default: 7."""

    hardware_tries: int | None = None
    """Most transmissions of an unanswered PPDU under Block Ack. After them the radio hands its MPDUs back to the
    driver, which forms new A-MPDUs. A rate series may be shorter. ath9k: 13 (`ATH_TXMAXTRY`). 1: the driver has
    each back at once, as in ns-3. Default: 13.
    """

    on_give_up: OnGiveUp | None = None
    """Reaction of the sender when it gives up an MPDU under Block Ack. Default: `bar`."""

    on_missed: OnMissed | None = None
    """Reaction of the radio to an unanswered A-MPDU. Default: `repeat`."""

    software: int | None = None
    """Most retries of an MPDU under Block Ack before the driver gives it up. ath9k: 10 (`ATH_MAX_SW_RETRIES` of
    about 2.6.38), 30 in later trees. Default: 30.
    """

    tcp_limit: RetryOutConfig | None = None
    """Lower limit for MPDUs with TCP segments, by the sender's rate: the index of `stepped` or `fixed`. Source:
    Nomoto, Wu, Ohzahata and Kato, ICN 2017, pages 69-74; the abstract says no more. Default: off.
    """


@dataclass(kw_only=True)
class Stepped(ScenarioTable):
    """Parameters of the steps."""

    name: Literal["stepped"] = field(default="stepped", init=False)

    smoothing: Probability | None = None
    """Weight of the latest A-MPDU's rate in the average. Above zero. The study: 0.25. Default: 0.25."""

    steps: Sequence[RetryOutStep] | None = None
    """Steps by rising bound; at least one. The study: 2 below 25 Mbit/s, 5 below 50, 8 below 100."""


@dataclass(kw_only=True)
class FixedRetryOut(ScenarioTable):
    """Parameters of the fixed index."""

    index: int | None = None
    """Estimated retries at which an MPDU is given up. Default: 2."""

    name: Literal["fixed"] = field(default="fixed", init=False)


@dataclass(kw_only=True)
class DelayRetryOut(ScenarioTable):
    """Parameters of the choice by delay."""

    backlog: int | None = None
    """Segments that must come up between a timestamp and its echo for the delay to count as a queue. At least 1. 4:
    as many as an initial window of old. Default: 4.
    """

    index: int | None = None
    """Estimated retries of an MPDU that may be given up; 0: one corrupt copy is enough. The law sets the pace. So a
    larger index only makes it wait for an MPDU that fails more often. Default: 0.
    """

    interval: Span | None = None
    """Time for which the delay must stay above target before an MPDU is given up. RFC 8289: 100 ms. Default:
    `100ms`.
    """

    name: Literal["delay"] = field(default="delay", init=False)

    target: Span | None = None
    """Acceptable delay from a packet's arrival at the station to that of its echo. Above zero, below `interval`. 50
    ms: the time of about ten aggregates of the longest duration (5.484 ms, IEEE 802.11-2020 table 19-25). So
    aggregation never counts as a queue. The study measured ten times as much. Default: `50ms`.
    """


@dataclass(kw_only=True)
class RetryOutStep(ScenarioTable):
    """While the smoothed rate is below a bound, and not below that of the step before."""

    below: DataRate
    """The bound; the smoothed rate must be less."""

    index: int
    """Estimated retries at which an MPDU is given up."""


@dataclass(kw_only=True)
class Reverse(ScenarioTable):
    """Options that differ in the direction from `to` to `from` of a line."""

    buffer: Buffer | None = None
    """Limit of the queue by a rule. A rule uses the rate of its own direction."""

    cost: int | None = None
    """Cost of the line for shortest-path routing."""

    delay: Delay | None = None
    """Propagation delay."""

    loss: Probability | None = None
    """Probability with which each packet is lost on the line."""

    queue: QueueConfig | None = None
    """Queue discipline. If it is set here, the `buffer` of the other direction does not apply to it."""

    rate: DataRate | None = None
    """Line rate. If it is set here, the `rate_trace` of the other direction does not apply to it."""

    rate_trace: RateTrace | None = None
    """Rate over time."""

    reorder: Reorder | None = None
    """Reordering on the line."""


@dataclass(kw_only=True)
class Roaming(ScenarioTable):
    """A host that is a station of several WLANs, one at a time."""

    ap_queue: ApQueue | None = None
    """Fate of packets for it at the access point that it has left. Default: `drop`."""

    first: str | None = None
    """Name of the WLAN with which it is associated at the start. Default: the one that the rule prefers."""

    gap: Span | None = None
    """Time without an association, from leaving one access point until it can send through the next. Default: 50 ms,
    the aim of IEEE 802.11r. A station that must search for the next access point takes several hundred (Mishra,
    Shin and Arbaugh, SIGCOMM CCR 33(2), 2003).
    """

    node: str
    """Host or group, or one member as `sta[0]`. Each must be listed in the `stations` of two WLANs or more."""

    rule: RoamingRule | None = None
    """Rule by which it changes to another access point: a table with `kind`. Default: as soon as another is nearer."""

    station_queue: StationQueue | None = None
    """Fate of packets in its own queue when it leaves, and of packets that its applications send in the gap.
    Default: `"drop"` for hosts with a profile of Linux or Android, whose queue is reset with the carrier; else
    `"keep"`.
    """

    tells_senders: bool | None = None
    """True: TCP senders on the host learn of each new association. Some congestion controls react to it. Default:
    true.
    """


@dataclass(kw_only=True)
class Nearest(ScenarioTable):
    """When another access point is nearer."""

    hysteresis_m: float | None = None
    """It changes when the other is nearer by more than this, in metres. 0: at the midpoint. Default: 0.0."""

    kind: Literal["nearest"] = field(default="nearest", init=False)


@dataclass(kw_only=True)
class Rssi(ScenarioTable):
    """When the signal is weak and that of another access point better."""

    below_dbm: float | None = None
    """It looks for another access point when the mean of its own is below this, dBm. Default: -65, NetworkManager's
    where several access points serve a network.
    """

    every: Span | None = None
    """Time between measurements. Default: 100 ms, about that of beacons (102.4 ms)."""

    hysteresis_db: float | None = None
    """The mean of the other must be better by at least this, dB. Default: 5, wpa_supplicant's at a good signal."""

    kind: Literal["rssi"] = field(default="rssi", init=False)

    samples: int | None = None
    """Number of measurements in the mean, and the least number between two associations. Default: 10."""


@dataclass(kw_only=True)
class Times(ScenarioTable):
    """At given times."""

    kind: Literal["times"] = field(default="times", init=False)

    switches: Sequence[Switch]
    """The changes, in ascending order of time. A change that is due in a gap follows at its end."""


@dataclass(kw_only=True)
class ShadowingConfig(ScenarioTable):
    """Slow variation of the SNR around its mean."""

    correlation: Span | None = None
    """Time after which the correlation has fallen to 1/e. Above zero. Default: `1s`."""

    sigma_db: float | None = None
    """Standard deviation in dB. 0 to 40. Default: 4.0."""


@dataclass(kw_only=True)
class Perfect(ScenarioTable):
    """Nothing is lost to noise."""

    kind: Literal["perfect"] = field(default="perfect", init=False)


@dataclass(kw_only=True)
class ErrorRate(ScenarioTable):
    """MPDU error rates. At least one of `rate` and `rates`."""

    bytes: int | None = None
    """Length of the MPDUs that have these error rates. Other lengths follow from the bit error rate this implies.
    Default: 1500.
    """

    kind: Literal["error_rate"] = field(default="error_rate", init=False)

    rate: Probability | None = None
    """MPDU error rate of every mode that `rates` does not name. Default: no errors."""

    rates: RateTable | None = None
    """MPDU error rates by mode: a list in the order of the PHY's modes, or a table. Its keys are names of modes or
    their beginnings: `"MCS 7"`, `"MCS 7 40 MHz"`, `"MCS 7 40 MHz SGI"`, with ac `"MCS 7 2SS"`, else `"54Mbit/s"`.
    The longest key that fits counts.
    """


@dataclass(kw_only=True)
class BitErrors(ScenarioTable):
    """A given bit error rate."""

    burst: BurstConfig | None = None
    """Times with another bit error rate. Default: none."""

    kind: Literal["bit_errors"] = field(default="bit_errors", init=False)

    rate: Probability
    """Probability that a bit is wrong; with `burst`: between bursts. 1e-6 loses 1.2 % of frames of 1500 bytes."""


@dataclass(kw_only=True)
class Snr(ScenarioTable):
    """A given mean SNR."""

    kind: Literal["snr"] = field(default="snr", init=False)

    shadowing: ShadowingConfig | None = None
    """Slow variation around the mean. Default: none."""

    snr_db: float
    """Mean SNR in 20 MHz, -50 to 150 dB."""


@dataclass(kw_only=True)
class PathLoss(ScenarioTable):
    """Link budget with log-distance path loss."""

    antenna_gain_db: float | None = None
    """Sum of both antennas' gains. -60 to 60 dB. Default: 0.0."""

    distance_m: float | None = None
    """Distance between the devices, above 0 and at most 1 000 000 m; may be left out where devices have positions."""

    exponent: float | None = None
    """Path loss exponent: 2 in free space, about 3 in offices. 0 to 10. Default: 3.0."""

    frequency_mhz: float | None = None
    """Carrier frequency, 100 to 100 000 MHz. Left out: 2437 or 5180, by the band."""

    kind: Literal["path_loss"] = field(default="path_loss", init=False)

    noise_figure_db: float | None = None
    """Noise figure of the receivers. 0 to 40 dB. Default: 7.0."""

    reference_loss_db: float | None = None
    """Path loss at 1 m, 0 to 200 dB. Left out: free space at `frequency_mhz`."""

    shadowing: ShadowingConfig | None = None
    """Slow variation around the mean. Default: none."""

    tx_power_dbm: float | None = None
    """Transmit power, the same in both directions. -50 to 60 dBm; 15 dBm is a laptop's or a telephone's. Default:
    15.0.
    """


@dataclass(kw_only=True)
class Trace(ScenarioTable):
    """SNR at given times. Before the first point its value holds, after the last that one's, unless repeated."""

    interpolation: Interpolation | None = None
    """The value between two points. Default: `linear`."""

    kind: Literal["trace"] = field(default="trace", init=False)

    points: Sequence[Sequence[float]]
    """Pairs of time in seconds and SNR in dB (in 20 MHz), times ascending."""

    repeat: bool | None = None
    """Start again with the first point at the time of the last one. The last value then only ends the line to it.
    Default: false.
    """


@dataclass(kw_only=True)
class StartRange(ScenarioTable):
    """Start times drawn uniformly from a range, one per flow."""

    from_: Span
    """Earliest start."""

    to: Span
    """Latest start."""


@dataclass(kw_only=True)
class Station(ScenarioTable):
    """A station, or a group of them."""

    node: str
    """Host or group, or one member as `sta[0]`."""

    position_m: Sequence[float] | None = None
    """Position, `[x, y]` in metres. It sets the `distance_m` of a `signal` of kind `path_loss`, as an entry in
    `walks` does.
    """

    radio: RadioOptions | None = None
    """Options of its radio. They replace those of the WLAN's `station_radio` and `phy`."""

    signal: SignalConfig | None = None
    """The radio link between it and the access point. Its keys replace those of the WLAN's `signal`."""


@dataclass(kw_only=True)
class Switch(ScenarioTable):
    """Switch."""

    at: Span
    """Time of the change."""

    to: str
    """Name of the WLAN to which it changes."""


@dataclass(kw_only=True)
class TcpOptions(ScenarioTable):
    """The same options, each of them optional: what a profile file or a scenario writes."""

    ack_every: int | None = None
    """Full segments that one ACK covers at most when ACKs are delayed."""

    acks_per_rtt: int | None = None
    """ACKs per least round trip at most while data arrive in order, as TACK's beta (there 4). Needs `timestamps` and
    a `delayed_ack`. 0: no bound.
    """

    byte_counting: int | None = None
    """RFC 3465 byte counting in slow start: at most this many segments of credit for one ACK. 0: one per ACK,
    however much it covers.
    """

    cc: CcConfig | None = None
    """Congestion control."""

    compressed_sack_delay: Span | None = None
    """With `compressed_sacks`: such an ACK waits for 5 % of the round trip, and at most for this
    (`tcp_comp_sack_delay_ns`).
    """

    compressed_sack_slack: Span | None = None
    """By how much the timer of `compressed_sacks` runs out later than it is set, so that the processor wakes up less
    often (`tcp_comp_sack_slack_ns`).
    """

    compressed_sacks: int | None = None
    """While data lies above a hole: how many segments one ACK may tell of that was put off (Linux since 4.18,
    `tcp_comp_sack_nr`). The first three segments above a hole are acknowledged at once all the same, and so is
    what fills it. Needs SACK. 0: each segment above a hole is acknowledged at once.
    """

    cwnd_slack: int | None = None
    """With `cwnd_validation`: the window counts as used while at most this many segments short of full, in slow
    start too (Linux up to 3.15: 3). 0: once full in a round trip and, in slow start, half full (Linux since).
    """

    cwnd_validation: bool | None = None
    """RFC 7661: the window grows only while it limits the sender. Off: it grows with every ACK of new data, as in
    ns-2 and BSD.
    """

    deflates_above_threshold: bool | None = None
    """With `recovery = "reno"`: the window that duplicates have inflated returns to ssthresh only if more of them
    came than fast retransmit needed. So 4.4BSD compares (`t_dupacks > tcprexmtthresh`). Off: it always returns
    (RFC 5681).
    """

    delayed_ack: Span | None = None
    """Longest wait of an ACK for a second segment (RFC 1122). "0s": every segment is acknowledged at once."""

    delayed_ack_tick: Span | None = None
    """Tick of the clock at which delayed ACKs leave (BSD's fast timeout): a segment waits for the next tick and not
    for `delayed_ack`. "0s": exact.
    """

    delivery_credit: bool | None = None
    """The window's credit is all that an ACK shows to have been delivered. Data that came twice (DSACK) counts once
    more. Once a segment was overtaken by more than three, data above a hole counts like data in order. Linux does
    the same (6.12: `tcp_dsack_seen`, `tcp_may_raise_cwnd`). Needs SACK.
    """

    dsack: bool | None = None
    """The receiver reports data that arrived twice (RFC 2883). The sender takes a reduction back once every
    retransmission since then has been reported. Needs SACK.
    """

    ecn: bool | None = None
    """RFC 3168 explicit congestion notification."""

    ecn_echo: EcnEcho | None = None
    """With `ecn`: how the receiver echoes marks."""

    ect1: bool | None = None
    """With `ecn`: data carries ECT(1) in place of ECT(0), by which networks know flows that need no more than a
    shallow queue (RFC 9331). A control that halves its window at a mark (`reno`, `cubic`) starves with it.
    """

    eifel: bool | None = None
    """Take a reduction back when the echoed timestamp shows that the original had arrived (Eifel, RFC 3522 and
    4015).
    """

    frto: Frto | None = None
    """Finding spurious timeouts without timestamps (F-RTO)."""

    frto_response: FrtoResponse | None = None
    """Window after a timeout that `frto` found to be spurious."""

    handshake: bool | None = None
    """Three-way handshake before data. Off, as in ns-2's one-way agents: data leaves at once."""

    handshake_ack: bool | None = None
    """With `handshake`: an ACK without data ends it, since the application writes once it is connected. Off, as in
    ns-2's FullTcp: the first data ends it, if there is any.
    """

    initial_ssthresh: int | None = None
    """Initial slow-start threshold, segments."""

    initial_window: int | None = None
    """Initial window, segments."""

    invalid_ratelimit: Span | None = None
    """Both ends answer segments without data that are out of window at most once in this time
    (`tcp_invalid_ratelimit`, Linux since 4.0). The answers to ACKs far below what is acknowledged (RFC 5961
    section 5) count with them. "0s": all but such ACKs are answered, each of them.
    """

    limited_transmit: bool | None = None
    """RFC 3042: a new segment for each of the first two duplicate ACKs."""

    limited_transmit_after_timeout: bool | None = None
    """Limited transmit also while a timeout is repaired, where what it sends is the next segment of the repair
    (ns-2's `singledup_`).
    """

    local_drops: LocalDrops | None = None
    """Segments that a `fifo` or `codel` queue of its own host has no room for."""

    loss: LossConfig | None = None
    """Rule by which a missing segment counts as lost."""

    loss_window: int | None = None
    """Window after a retransmission timeout, segments (RFC 5681 section 3.1, loss window: 1). More is what the study
    `tcp-av-handover` suspects of its phones. Such a sender does not wait for the verdict of `frto = "rfc4138"`,
    which sets the window itself. All that the window lets leaves at once where `timeout_sends_one = false`. The
    Linux profiles have it on: there one segment leaves, and the rest after an ACK.
    """

    max_ack_delay: Span | None = None
    """Longest delay of a peer's ACK of a single segment. It is added to the wait for a tail loss probe when one
    segment is in flight. RFC 8985 section 7.2 calls it `TLP.max_ack_delay`; Linux takes the smallest
    retransmission timeout.
    """

    max_cwnd: int | None = None
    """Largest cwnd, segments (ns-2's `window_`)."""

    min_tso_segs: int | None = None
    """With `segments_at_once = "linux"`: segments at once at least (`tcp_min_tso_segs`)."""

    pacing: Pacing | None = None
    """Spacing of segments."""

    pacing_jitter: Probability | None = None
    """Random spacing: each gap is stretched or shrunk by up to this part of it, evenly."""

    pacing_percent: int | None = None
    """With `pacing = "linux"`: percent of cwnd / srtt after it."""

    pacing_rtt: PacingRtt | None = None
    """The round-trip time by which segments are spaced."""

    pacing_slow_start_percent: int | None = None
    """With `pacing = "linux"`: percent of cwnd / srtt in slow start."""

    packet_bytes: int | None = None
    """Bytes of a full segment at the IP layer, headers included."""

    prr: bool | None = None
    """Proportional rate reduction (RFC 6937) while the window shrinks; off: RFC 5681 / RFC 6675 as written."""

    pushed_acks: bool | None = None
    """A segment that ends with PSH, or is less than a full one, waits for no second segment (Linux since 6.6). It is
    acknowledged as soon as the application has read all data at hand.
    """

    quick_acks: int | None = None
    """Segments acknowledged at once at the start of a connection and after a pause (Linux's quick-ACK)."""

    rate_halving: bool | None = None
    """Rate halving of Linux before 3.2 (`tcp_cwnd_down`): the window shrinks by one segment for every second ACK
    until it is `ssthresh`. It is never more than one segment above the flight. It applies if `prr` is off. If
    both are off, the window is `ssthresh` at once.
    """

    receive_buffer: Bytes | None = None
    """Receive buffer: payload bytes, or memory with a `receive_scaling_ratio` below 256."""

    receive_buffer_max: Bytes | None = None
    """Largest size of `receive_buffer` under autotuning, which is on if this is larger."""

    receive_scaling_ratio: int | None = None
    """Payload that fills 256 bytes of the receive buffers, which are in memory (`skb->truesize`, `tcp_rmem`) then,
    as Linux measures it (`scaling_ratio`). 160: 1448 of 2304 bytes. The window is that part of what is free. 256:
    buffers are in payload.
    """

    receive_window_in_steps: bool | None = None
    """The window follows the receive buffer by two segments for each segment that arrives, which is acknowledged at
    once. It begins below 64 KB, and what waits above a hole takes room from it (Linux, `tcp_grow_window`,
    `__tcp_select_window`). Off: it is the buffer.
    """

    recover_guard: bool | None = None
    """Duplicate ACKs for data that was outstanding when the last recovery or timeout began start no fast retransmit
    (RFC 6582 section 3.2, `recover`; ns-2's `bugfix_`). Off, as in older stacks: needless repetitions after a
    timeout can start another one. Without SACK only.
    """

    recovery: Recovery | None = None
    """Algorithm that repairs a loss."""

    restart_after_idle: bool | None = None
    """After an idle time the window decays towards `restart_window`: by half for each retransmission timeout (RFC
    2861).
    """

    restart_window: int | None = None
    """Window after a long idle time, segments. RFC 5681 section 4.1: the initial window."""

    retries: int | None = None
    """Consecutive timeouts of one segment before the connection is given up."""

    rto_granularity: Span | None = None
    """Timeouts are rounded up to a multiple of this."""

    rto_initial: Span | None = None
    """Retransmission timeout before the first measurement (RFC 6298)."""

    rto_max: Span | None = None
    """Largest retransmission timeout."""

    rto_min: Span | None = None
    """Smallest retransmission timeout."""

    rto_ticks_above_rtt: int | None = None
    """With `timer_tick`: the timeout is at least this many ticks above the last round trip counted, which counts
    from 1. FreeBSD and NetBSD: 2, since a timer of n ticks may expire after little more than n - 1. 4.4BSD: 0.
    """

    rto_var_min: Span | None = None
    """Lower bound of the 4 * RTTVAR term. RFC 6298: the clock granularity; Linux: 200 ms."""

    rtt_from_sack: bool | None = None
    """With `rtt_per_segment`: segments that are SACKed give samples too, also beside a repeated one that is
    acknowledged. With neither, a timestamp gives one, for the congestion control as well (Linux since 3.12).
    """

    rtt_per_segment: bool | None = None
    """A round-trip sample from every ACK of new data (Linux); off: one segment is timed at a time, as BSD and ns-2
    do.
    """

    rtt_restart_backoffs: int | None = None
    """Number of backoffs in a row after which the next sample restarts SRTT and RTTVAR. The note in RFC 6298 section
    5 allows it; BSD and ns-2: 4. 0: never.
    """

    rtt_tick: Span | None = None
    """Tick of the clock that measures round trips for the timeout, by the ticks that begin during one. "0s": exact
    (Linux keeps microseconds).
    """

    rttvar_rule: RttvarRule | None = None
    """Rule by which RTTVAR follows the samples."""

    segments_at_once: SegmentsAtOnce | None = None
    """Segments handed to the device at once. `tsq` checks its bound once before each such batch. With `pacing =
    "rtt_over_cwnd"` a batch is one segment.
    """

    send_buffer: Bytes | None = None
    """Most bytes that the sender holds, unacknowledged or unsent."""

    send_buffer_max: Bytes | None = None
    """Largest size of `send_buffer` under autotuning, which is on if this is larger."""

    ssthresh_after_lost_syn: int | None = None
    """Highest ssthresh when the SYN was lost, segments. ns-2: 2, since its timeout halves the window of one whatever
    was lost. RFC 5681 section 3.1 only takes the initial window back to one segment, and Linux forgets what the
    timeout set.
    """

    ssthresh_at_every_timeout: bool | None = None
    """A second timeout of the same segment lowers ssthresh once more, from the window of that time (ns-2). Off:
    ssthresh stays as the first timeout set it (RFC 5681 section 3.1).
    """

    tail_loss_probe: bool | None = None
    """Send a probe after two round trips without an ACK (RFC 8985 section 7). It reveals a loss at the end of a
    flight without a timeout. Needs SACK.
    """

    timeout_sends_one: bool | None = None
    """A timeout sends one segment, and what else the window lets leave waits for an ACK (Linux:
    `tcp_retransmit_timer`, net/ipv4/tcp_timer.c). Off: all that leaves at once. A difference only where a timeout
    leaves more than one segment of the window.
    """

    timer_phase: TimerPhase | None = None
    """When the ticks of these clocks fall: "random", drawn for each host, or the time of the first."""

    timer_slack: Span | None = None
    """Time that is added to shorter waits: for a tail loss probe, and of a loss policy for segments that may only be
    late. They, too, are then rounded up to `rto_granularity`.
    """

    timer_tick: Span | None = None
    """Tick of BSD's slow timeout. Round trips are counted in its ticks, and retransmission timeouts expire at them.
    "0s": timers are exact.
    """

    timer_wheel: bool | None = None
    """Retransmission timeouts, probes and delayed ACKs run out as those of Linux's timer wheel (since 4.8). The
    jiffies are `rto_granularity`. A timer takes up to a jiffy more than it is set to. From 63 jiffies on it takes
    up to eight more, from 504 on up to 64. It counts where `timer_tick` and `delayed_ack_tick` are "0s".
    """

    timestamp_tick: Span | None = None
    """Tick of the timestamp clock."""

    timestamps: bool | None = None
    """RFC 7323 timestamps, 12 bytes in each segment."""

    tso_rtt_log: int | None = None
    """With `segments_at_once = "linux"`: on a near path more leaves at once, 64 KB divided by two for each 2^n
    microseconds of the least round trip (`tcp_tso_rtt_log`). 0: no more.
    """

    tsq: Tsq | None = None
    """Rule that bounds the data waiting below TCP in its own host."""

    tsq_limit: Bytes | None = None
    """Bound of `tsq` (`net.ipv4.tcp_limit_output_bytes`), counted with `tsq_overhead`."""

    tsq_overhead: Bytes | None = None
    """Memory that a segment takes beyond its payload; Linux counts it (`skb->truesize`)."""

    tsq_pacing_shift: int | None = None
    """Time whose worth of data at the pacing rate may wait: a second / 2^n (`sk_pacing_shift`). A device may ask for
    another.
    """

    undo_burst: int | None = None
    """When a reduction is taken back, cwnd returns to at most this many segments above what is in flight (Linux
    before 2.6.39, `tcp_moderate_cwnd`: 3). 0: all of it at once.
    """

    undo_window_after_timeout: bool | None = None
    """A timeout that is taken back returns cwnd as well as ssthresh. Off: ssthresh alone, as with CUBIC in Linux
    before 3.3, which had forgotten the window by then (commit "tcp: fix undo after RTO for CUBIC").
    """


@dataclass(kw_only=True)
class Unlimited(ScenarioTable):
    """TCP that never runs out of data."""

    kind: Literal["unlimited"] = field(default="unlimited", init=False)


@dataclass(kw_only=True)
class Transfer(ScenarioTable):
    """One TCP transfer, then close."""

    bytes: Bytes
    """Payload to transfer, at least one byte."""

    kind: Literal["transfer"] = field(default="transfer", init=False)


@dataclass(kw_only=True)
class Web(ScenarioTable):
    """A SURGE web user (Barford and Crovella, SIGMETRICS 1998): TCP transfers one after the other, each on a new
    connection. Sizes come from a lognormal body with a Pareto tail, gaps from a Pareto distribution. The defaults
    are those of the study `pacing-buffers`, its body and tail split 93 % to 7 % as in Barford and Crovella.
    """

    body_mu: float | None = None
    """Body: mean of the natural logarithm of the bytes. Default: 9.357."""

    body_sigma: float | None = None
    """Body: standard deviation of the natural logarithm of the bytes. Default: 1.318."""

    gap_alpha: float | None = None
    """Pareto shape of the gaps, above 0. At 1 or below the mean gap is infinite. Default: 1.5."""

    gap_from: GapFrom | None = None
    """Event from which a gap is counted. Default: `end`."""

    gap_k: Span | None = None
    """Smallest gap. Default: `1s`."""

    kind: Literal["web"] = field(default="web", init=False)

    max_bytes: Bytes | None = None
    """Largest size of a transfer. Default: `1000000000B`."""

    tail_alpha: float | None = None
    """Tail: Pareto shape, above 0. At 1 or below the mean is infinite, and `max_bytes` decides what is sent.
    Default: 1.1.
    """

    tail_fraction: Probability | None = None
    """Part of the transfers whose size is drawn from the tail. Default: 0.07."""

    tail_k: Bytes | None = None
    """Tail: smallest size. Default: `133000B`."""


@dataclass(kw_only=True)
class Stream(ScenarioTable):
    """Live video over TCP: data of a constant rate that are written as they come into being. Data that the
    connection does not carry in time wait.
    """

    every: Span | None = None
    """Time between two writes. Default: 40ms, a picture at 25 per second."""

    kind: Literal["stream"] = field(default="stream", init=False)

    rate: DataRate
    """Rate of the payload."""


@dataclass(kw_only=True)
class Ping(ScenarioTable):
    """Echo requests at a fixed interval."""

    interval: Span | None = None
    """Time between requests. Default: `1s`."""

    kind: Literal["ping"] = field(default="ping", init=False)

    packet_bytes: int | None = None
    """Size of request and reply, IP and ICMP headers (28 bytes) included. Default: 84."""


@dataclass(kw_only=True)
class Cbr(ScenarioTable):
    """UDP datagrams at a constant rate."""

    kind: Literal["cbr"] = field(default="cbr", init=False)

    packet_bytes: int | None = None
    """Size of a datagram, IP and UDP headers (28 bytes) included. Default: 1500."""

    rate: DataRate
    """Rate, IP and UDP headers included."""


@dataclass(kw_only=True)
class Train(ScenarioTable):
    """Numbered UDP datagrams in trains."""

    count: int
    """Datagrams in a train."""

    every: Span | None = None
    """Time from the start of a train to the start of the next. Default: one train."""

    gap: Span | None = None
    """Time between the datagrams of a train. "0s": back to back. Default: `0ns`."""

    kind: Literal["train"] = field(default="train", init=False)

    packet_bytes: int | None = None
    """Size of a datagram, IP and UDP headers (28 bytes) included. Default: 1500."""


@dataclass(kw_only=True)
class Call(ScenarioTable):
    """Frames of video, at a fixed rate or at one that adapts."""

    adaptive: bool | None = None
    """The rate adapts to the path by NADA. Off: it is `rate_max` throughout. Default: true."""

    frames_per_s: int | None = None
    """Frames per second, 1 to 240. Default: 30."""

    kind: Literal["call"] = field(default="call", init=False)

    packet_bytes: int | None = None
    """Largest packet, IP and UDP headers (28 bytes) included. Default: 1200."""

    rate_max: DataRate | None = None
    """Highest rate. Default: `1500kbit/s`."""

    rate_min: DataRate | None = None
    """Lowest rate, at which an adaptive call begins. It counts packets at the IP layer. Default: `150kbit/s`."""


@dataclass(kw_only=True)
class BufferProbe(ScenarioTable):
    """Numbered UDP datagrams in trains faster than the air carries them: how many fit into the access point's
    buffer.

    The procedure and its errors: docs/probe.md.
    """

    count: int | None = None
    """Datagrams in a train. It must be well above the buffer, and above the raw estimate. Default: 1000."""

    estimator: EstimatorConfig | None = None
    """Parameters of the estimate from the receiver's log."""

    every: Span | None = None
    """Time from the start of a train to the start of the next. It must be long enough for the buffer to drain.
    Default: `2s`.
    """

    gap: Span | None = None
    """Time between the datagrams of a train: shorter than the air needs for one, and no shorter than the wire needs.
    Default: 96 Mbit/s, just below Fast Ethernet.
    """

    kind: Literal["buffer_probe"] = field(default="buffer_probe", init=False)

    packet_bytes: int | None = None
    """Size of a datagram, IP and UDP headers (28 bytes) included. Default: 1500."""

    runs: int | None = None
    """Trains. Default: 10."""


@dataclass(kw_only=True)
class Qdisc(ScenarioTable):
    """A queue discipline for each access category before a driver queue of frames, as Linux had it until 4.10."""

    driver_frames: int | None = None
    """Frames per access category that the driver takes from it. ath9k: 123 (`ATH_MAX_QDEPTH`). Default: 123."""

    name: Literal["qdisc"] = field(default="qdisc", init=False)

    orphans: bool | None = None
    """True if the driver releases a frame from its socket when it takes the frame (`skb_orphan`). Frames in the
    driver do not count for TCP small queues then. ath9k does not. There mac80211 releases frames in
    `ieee80211_tx_status`, after the transmission (net/mac80211/status.c, Linux 3.13). Default: false.
    """

    qdisc: QueueConfig | None = None
    """Queue discipline. Default: 1000 packets drop-tail, as pfifo_fast with `txqueuelen` 1000."""


@dataclass(kw_only=True)
class Mac80211(ScenarioTable):
    """FQ-CoDel for each station and access category, airtime fairness and AQL, as mac80211 has it since 5.5."""

    airtime_fairness: bool | None = None
    """Stations are served by airtime rather than in turn. Default: true."""

    airtime_quantum: Span | None = None
    """Airtime a station may use before the next one's turn (its weight, 256 us). Default: `256us`."""

    airtime_received: bool | None = None
    """Frames that a station sends to this radio count as its airtime as well (`AIRTIME_USE_RX`), if the driver
    reports it, as ath9k does. A station that uploads much waits longer for its downloads. Default: true.
    """

    aql: bool | None = None
    """Bound on the frames below the queues by their airtime. Default: as the driver announces it, on for `mt76`
    (drivers/net/wireless/mediatek/mt76/mac80211.c), not there in `ath9k` (drivers/net/wireless/ath/ath9k/init.c).
    """

    aql_high: Span | None = None
    """The same while it is below. Default: `12ms`."""

    aql_low: Span | None = None
    """Airtime that may be pending for one station and access category while the radio as a whole is above
    `aql_threshold`. Default: `5ms`.
    """

    aql_threshold: Span | None = None
    """Pending airtime of the whole radio above which `aql_low` holds. Default: `24ms`."""

    driver: Driver | None = None
    """How the driver takes frames out of the queues. Default: `ath9k`."""

    driver_frames: int | None = None
    """Frames per access category that the driver or chip takes ahead. Without AQL this is the only bound. `ath9k`
    takes none. Default: 512.
    """

    fq_codel: FqCodelConfig | None = None
    """The queues of one station and access category. Defaults: target 20 ms, interval 100 ms, quantum 300 bytes,
    8192 packets, 4 MiB, 32 packets dropped at a time, ECN on. Each has 64 flow queues; the kernel has 4096 for
    all stations together.
    """

    name: Literal["mac80211"] = field(default="mac80211", init=False)

    tsq_pacing_shift: int | None = None
    """Pacing shift `n` that the radio sets for TCP small queues. A connection may have the data of 1 s / 2^n at its
    pacing rate waiting below it. Default: 7, about 8 ms.
    """


@dataclass(kw_only=True)
class TxCompletion(ScenarioTable):
    """How long a driver takes to report that packets have been sent (`ieee80211_tx_status`)."""

    batch: Span | None = None
    """Reports are gathered for this long, from the first on, before `delay` begins for all of them. Default: `0ns`."""

    delay: Span | None = None
    """From the end of the PPDU's exchange until the host's sockets have their room back. Default: `0ns`."""


@dataclass(kw_only=True)
class Walk(ScenarioTable):
    """The path of a host: straight lines at one speed. It stands at the first point before `start` and at the last
    after its arrival. A `signal` of kind `path_loss` follows its distance from the access point. The other kinds
    ignore its position.
    """

    node: str
    """Host or group, or one member as `sta[0]`. All members of a group walk alike."""

    speed_m_per_s: float
    """Speed in metres per second, above 0. People walk at 1 to 1.5."""

    start: Span | None = None
    """Time at which it starts to walk. Default: `0ns`."""

    there_and_back: bool | None = None
    """True: it turns at the last point and walks to and fro until the end of the run. Default: false."""

    waypoints_m: Sequence[Sequence[float]]
    """Points of the path, `[[x, y], [x, y]]` in metres: at least two."""


@dataclass(kw_only=True)
class WavelanConfig(ScenarioTable):
    """Medium access of WaveLAN. See the module for the sources."""

    attempts: int | None = None
    """Times that a frame finds the medium busy before it is dropped. 15 (Kunz; driver). 0: never. Default: 15."""

    backoff: Backoff | None = None
    """State of a backoff while another radio transmits. `"resense"` (Kunz). Default: `resense`."""

    cw_max: int | None = None
    """Largest backoff after doubling. 255 (Kunz). Default: 255."""

    cw_min: int | None = None
    """Largest backoff, in slots, of a frame that finds the medium busy. 31 (Kunz; driver). Default: 31."""

    cw_next: int | None = None
    """Largest backoff after a frame of the radio's own, if another one waits. 15 (Kunz). Default: 15."""

    interframe_space: Span | None = None
    """Time from the end of a transmission until the next one, or a backoff, may begin. 60 us (Kunz). Default:
    `60us`.
    """

    preamble: Span | None = None
    """Duration of training and network number ahead of the Ethernet frame. Not published. 96 us: the duration of
    802.11b's short preamble with the same modulation, DQPSK over an 11-chip code at 1 Mbaud (IEEE 802.11-2020
    16.2.2.3). An assumption (INFERENCE): vary it. Default: `96us`.
    """

    slot: Span | None = None
    """Backoff slot. 23 us (Kunz). Default: `23us`."""


@dataclass(kw_only=True)
class Wlan(ScenarioTable):
    """A wireless LAN: an access point and its stations. Each station has a line to the access point and one back,
    named by their ends (`sta[0]->ap`, `ap->sta[0]`).

    Layers of radio options are combined key by key. A station's entry wins over `station_radio`, that over `phy`,
    that over the `wifi` table of the host's profile, and that over the defaults. A table of another `name`,
    `kind` or `standard` replaces the one below it as a whole, and so does a `rate_control` with parameters.
    """

    ap: str
    """The access point: a router, or one member of a group as `ap[1]`."""

    ap_position_m: Sequence[float] | None = None
    """Position of the access point, `[x, y]` in metres. Default: `[0, 0]`."""

    ap_radio: RadioOptions | None = None
    """Options of the access point's radio."""

    capture_effect: Probability | None = None
    """Probability that one of two colliding transmissions is strong enough at a receiver to be received. Each of the
    two has half of it; the later one only if it begins within the preamble of the earlier. WLANs on one channel
    have the same value. Default: 0, both are lost.
    """

    carrier_sense_dbm: float | None = None
    """Power in dBm at which a radio hears another and keeps silent. Who hears whom then follows from the positions
    and the path loss, without shadowing; a station and its access point always hear each other. Needs a `signal`
    of kind `path_loss` and `position_m` of every station. Default: all radios hear each other except `hidden`
    ones.
    """

    channel: str | None = None
    """Frequency: WLANs that name the same channel share the air. Captures show it if it is a channel number of the
    band (`"36"`). Default: a channel of its own.
    """

    hidden: Hidden | None = None
    """Pairs of radios that do not hear each other: `[["near", "far"]]`. A group stands for each of its members.
    `"all"`: no two stations of this WLAN hear each other. Default: all radios on a channel hear each other.
    """

    name: str | None = None
    """Name by which `record` and `--set` refer to it: letters, digits, `_` and `-`. Default: that of the access
    point.
    """

    phy: PhyConfig | None = None
    """Standard, band, width, guard interval and streams of all radios. Default: 802.11n, 20 MHz, one stream."""

    sensing: Span | None = None
    """Time for which a transmission goes unnoticed: a radio whose turn comes within it transmits as well. WLANs on
    one channel have the same value. Default: `4us`, the longest that 802.11 allows OFDM receivers (IEEE
    802.11-2020 17.3.10.6). With the standard `wavelan` it is `16us`, the least slot of its controllers, which
    must cover it. At most `20us`, with `wavelan` `1ms`.
    """

    signal: SignalConfig | None = None
    """The radio link between each station and the access point, in both directions alike: `"perfect"`, or a table
    with `kind`. Default: `"perfect"`, only collisions lose frames.
    """

    station_radio: RadioOptions | None = None
    """Options of the stations' radios."""

    stations: Sequence[StationEntry]
    """Hosts that are associated with the access point: names of hosts or groups, members as `sta[0]`, or tables with
    `node` and its own options. A host is in one WLAN only, unless it has an entry in `roaming`.
    """


@dataclass(kw_only=True)
class Scenario(ScenarioTable):
    """A scenario: a network, the flows through it and what to record."""

    coop: Sequence[Coop] | None = None
    """Hosts that run the cooperative daemon."""

    description: str | None = None
    """Purpose of the scenario, in a sentence or two."""

    duration: Span
    """Simulated time, at most 30 days."""

    flows: Sequence[Flow] | None = None
    """Connections and packet streams. Without flows the network stays silent."""

    links: Sequence[Link] | None = None
    """Lines between nodes."""

    name: str | None = None
    """Name of the scenario, used in titles and folder names. Default: the file's name."""

    nodes: Sequence[Node]
    """Hosts and routers."""

    profiles: Mapping[str, Profile] | None = None
    """Host profiles of your own, by name: a base, and options that differ from it."""

    record: Record | None = None
    """Recordings besides the summaries."""

    roaming: Sequence[Roaming] | None = None
    """Hosts that change their access point, with the rules for it."""

    seed: int | None = None
    """Seed of everything random. The same file and seed give the same results to the bit. Default: 1."""

    walks: Sequence[Walk] | None = None
    """Paths of hosts that move."""

    warmup: Span | None = None
    """Summaries leave out the time before this. Time series and tables of single events include it. Default: `0ns`."""

    wlans: Sequence[Wlan] | None = None
    """Wireless LANs: stations and their access points."""


Above: TypeAlias = "Literal['hold', 'base']"
"""Growth of the window beyond the size that the full target needs."""

Ac: TypeAlias = "Literal['bk', 'be', 'vi', 'vo']"
"""Access categories, lowest priority first (IEEE 802.11-2020 10.2.4.2)."""

AckFilterMode: TypeAlias = "Literal['conservative', 'aggressive']"
"""Number of superfluous ACKs that stay."""

AfterTimeout: TypeAlias = "Literal['one', 'floor', 'new_data']"
"""Window that a timeout leaves."""

Aggressiveness: TypeAlias = "float"
"""Aggressiveness."""

AllHidden: TypeAlias = "Literal['all']"
"""AllHidden."""

ApQueue: TypeAlias = "Literal['drop', 'forward']"
"""Treatment of packets for a station that has left, at the access point that it left."""

Backoff: TypeAlias = "Literal['resense', 'freeze']"
"""Behaviour of a backoff while another radio transmits."""

Band: TypeAlias = "Literal['2.4GHz', '5GHz']"
"""Where in the spectrum a channel lies."""

BufferRule: TypeAlias = "Literal['bdp', 'bdp_over_sqrt_n']"
"""BufferRule."""

BwMax: TypeAlias = "Literal['learn']"
"""BwMax."""

Bytes: TypeAlias = "str"
"""A size: a number with B, kB, MB, GB, KiB, MiB or GiB, such as "64KiB"."""

CakeFraming: TypeAlias = "Literal['none', 'atm', 'ptm']"
"""Framing of the line, which changes a packet's length."""

CakeIsolation: TypeAlias = (
    "Literal['flowblind', 'srchost', 'dsthost', 'hosts', 'flows', 'dual_srchost', 'dual_dsthost', 'triple_isolate']"
)
"""Packets that share a queue, and hosts that share the line alike."""

CapRtt: TypeAlias = "Literal['current', 'min']"
"""The RTT that is put into equation (1)."""

CcConfig: TypeAlias = (
    "Literal['reno', 'cubic', 'vegas', 'bbr', 'tcp_av', 'dctcp', 'prague', 'bbr3']"
    " | Reno | Cubic | Vegas | Bbr | TcpAv | Dctcp | Prague | Bbr3"
)
"""CcConfig."""

CodelBacklog: TypeAlias = "Literal['all', 'flow']"
"""Queue whose bytes CoDel counts: it drops only while they are more than one packet's."""

Count: TypeAlias = "Literal['terminals', 'flows']"
"""Quantity that n of equations (1) to (3) counts."""

DataRate: TypeAlias = "str"
"""A data rate: a number with bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s, such as "100Mbit/s"."""

Delay: TypeAlias = "Span | DelaySpread"
"""One delay, or a range over the members of a group."""

Delay2: TypeAlias = "Literal['off', 'quarter_rtt']"
"""Delay2."""

DelayEstimate: TypeAlias = "Literal['timestamp', 'departure_rate']"
"""Way in which PIE learns the queueing delay."""

Driver: TypeAlias = "Literal['ath9k', 'mt76']"
"""How a driver takes frames out of mac80211's queues."""

EcnEcho: TypeAlias = "Literal['latched', 'each', 'accurate']"
"""How a receiver echoes congestion marks."""

FloorRtt: TypeAlias = "Literal['min', 'smoothed']"
"""Round-trip time in the least window after a loss."""

Frto: TypeAlias = "Literal['off', 'rfc5682', 'rfc4138']"
"""How a sender finds out that a retransmission timeout was spurious, from which data the ACKs after it cover."""

FrtoResponse: TypeAlias = "Literal['undo', 'rate_halving', 'conservative']"
"""Window after a timeout that F-RTO found to be spurious."""

GapFrom: TypeAlias = "Literal['end', 'start']"
"""Event from which a gap between two transfers is counted."""

Growth: TypeAlias = "Literal['rfc9438', 'linux']"
"""How the window follows the curve."""

HandsUp: TypeAlias = "Literal['at_ppdu_end', 'at_last_bit']"
"""When the MPDUs of an A-MPDU leave the receiving radio."""

Hidden: TypeAlias = "AllHidden | Sequence[Sequence[str]]"
"""Radios that do not hear each other."""

Hold: TypeAlias = "Span | HoldRange"
"""One duration, or a range."""

Increase: TypeAlias = "Literal['per_window', 'per_ack']"
"""How congestion avoidance adds a segment per round trip."""

Interpolation: TypeAlias = "Literal['step', 'linear']"
"""SNR between the points of a trace."""

LocalDrops: TypeAlias = "Literal['lost', 'unsent']"
"""Reaction of a sender to a segment that the full first queue of its own host refuses."""

LossConfig: TypeAlias = (
    "Literal['dup_thresh', 'efr', 'early_retransmit', 'rack', 'vegas_retransmit']"
    " | DupThresh | Efr | EarlyRetransmit | Rack | VegasRetransmit"
)
"""LossConfig."""

NodeKind: TypeAlias = "Literal['host', 'router']"
"""NodeKind."""

OnGiveUp: TypeAlias = "Literal['bar', 'silence']"
"""Reaction of an originator to the hole that an MPDU leaves when it gives it up."""

OnMissed: TypeAlias = "Literal['repeat', 'bar']"
"""Reaction of an originator to an unanswered A-MPDU (IEEE 802.11-2020 10.25.6.7 allows either)."""

Pacing: TypeAlias = "Literal['off', 'rtt_over_cwnd', 'linux']"
"""How segments are spaced."""

PacingRtt: TypeAlias = "Literal['exact', 'ticks']"
"""The round-trip time by which segments are spaced."""

Phases: TypeAlias = "Literal['own', 'shared']"
"""Condition that brings a cap into force."""

Probability: TypeAlias = "float"
"""Probability."""

Protection: TypeAlias = "Literal['none', 'cts_to_self', 'rts_cts']"
"""Frames ahead of an OFDM, HT or VHT frame, in DSSS or CCK, which silence stations that know no other modes."""

QueueConfig: TypeAlias = (
    "Literal['fifo', 'red', 'codel', 'fq_codel', 'pie', 'dualpi2', 'cake', 'ack_filter']"
    " | Fifo | Red | Codel | FqCodel | Pie | Dualpi2 | Cake | AckFilter"
)
"""QueueConfig."""

RandomPhase: TypeAlias = "Literal['random']"
"""RandomPhase."""

RateConfig: TypeAlias = (
    "Literal['fixed', 'minstrel', 'minstrel_ht', 'ideal', 'arf', 'aarf', 'onoe', 'fallback']"
    " | FixedRate | Minstrel | MinstrelHt | Ideal | Arf | Aarf | Onoe | Fallback"
)
"""RateConfig."""

RateTable: TypeAlias = "Mapping[str, Probability] | Sequence[Probability]"
"""Error rates by (the beginning of) a mode's name, or in the order of the PHY's modes."""

ReceiveOffloadConfig: TypeAlias = "Literal['off', 'napi', 'e1000e', 'igb'] | Off | Napi | E1000e | Igb"
"""ReceiveOffloadConfig."""

Recovery: TypeAlias = "Literal['reno', 'new_reno', 'sack']"
"""How a sender finds its way out of a loss."""

RetryCount: TypeAlias = "Literal['handings', 'transmissions']"
"""Events that the retry limit under Block Ack counts."""

RetryOutConfig: TypeAlias = "Literal['stepped', 'fixed', 'delay'] | Stepped | FixedRetryOut | DelayRetryOut"
"""RetryOutConfig."""

RoamingRule: TypeAlias = "Nearest | Rssi | Times"
"""Rule by which a station changes to another access point."""

RttMin: TypeAlias = "Literal['connection', 'path', 'window']"
"""Which round-trip time counts as the smallest."""

RttvarRule: TypeAlias = "Literal['rfc6298', 'linux']"
"""How the variation of the round trip follows the samples."""

Sampling: TypeAlias = "Literal['table', 'targeted']"
"""Choice of the modes that samples test."""

SegmentsAtOnce: TypeAlias = "Literal['single', 'linux']"
"""Number of segments that a sender hands to its device at once, if the window allows them. In the network they
are packets of their own.
"""

Selection: TypeAlias = "bool | Sequence[str]"
"""All, none, or the named ones."""

SignalConfig: TypeAlias = "Literal['perfect', 'path_loss'] | Perfect | ErrorRate | BitErrors | Snr | PathLoss | Trace"
"""SignalConfig."""

SlowStartExit: TypeAlias = "Literal['none', 'hystart', 'hystart_plus_plus']"
"""Rule that may end slow start before a loss does."""

Span: TypeAlias = "str"
"""A duration: a number with ns, us, ms, s, min or h, such as "90ms"."""

Spread: TypeAlias = "Literal['even', 'random']"
"""Spread."""

Standard: TypeAlias = "Literal['b', 'a', 'g', 'n', 'ac', 'wavelan']"
"""The amendment of IEEE 802.11 that a radio follows, or WaveLAN before it."""

Start: TypeAlias = "Span | StartRange"
"""One start time, or a range."""

StationEntry: TypeAlias = "str | Station"
"""A host by its name, or with its own options."""

StationQueue: TypeAlias = "Literal['keep', 'drop']"
"""Treatment of packets that wait in a station's own queue when it leaves, and of those that come while it is
away.
"""

TcpKnownBy: TypeAlias = "Literal['payload', 'length', 'last_good', 'all_tcp', 'same_length']"
"""Evidence by which retry-out takes a corrupt MPDU for one with a TCP segment."""

TimerPhase: TypeAlias = "RandomPhase | Span"
"""When the ticks of a host's timers fall."""

Traffic: TypeAlias = (
    "Literal['unlimited', 'web', 'ping', 'call']"
    " | Unlimited | Transfer | Web | Stream | Ping | Cbr | Train | Call | BufferProbe"
)
"""What a flow carries: the name of a kind with its defaults, or a table with `kind` and its parameters."""

TransmitConfig: TypeAlias = "Literal['qdisc', 'mac80211'] | Qdisc | Mac80211"
"""TransmitConfig."""

Tsq: TypeAlias = "Literal['off', 'fixed', 'at_least', 'at_most']"
"""TCP small queues: how much of a connection may wait in its own host below TCP, in the queue discipline and the
device. It works where the device reports when packets have left it. A wired line of the simulator takes them
at once, and nothing is held back.
"""

Unit: TypeAlias = "Literal['segments', 'bytes']"
"""Unit in which the outstanding data is counted."""

__all__ = [
    "Aarf",
    "Above",
    "Ac",
    "AckFilter",
    "AckFilterMode",
    "AfterTimeout",
    "Aggregation",
    "Aggressiveness",
    "AllHidden",
    "ApQueue",
    "Arf",
    "Backoff",
    "Band",
    "Bbr",
    "Bbr3",
    "BitErrors",
    "Buffer",
    "BufferProbe",
    "BufferRule",
    "BurstConfig",
    "BwMax",
    "Bytes",
    "Cake",
    "CakeFraming",
    "CakeIsolation",
    "Call",
    "CapRtt",
    "Cbr",
    "CcConfig",
    "Codel",
    "CodelBacklog",
    "Coop",
    "CoopConfig",
    "Count",
    "Cubic",
    "DataRate",
    "Dctcp",
    "Delay",
    "Delay2",
    "DelayEstimate",
    "DelayRetryOut",
    "DelaySpread",
    "Driver",
    "Dualpi2",
    "DupThresh",
    "E1000e",
    "EarlyRetransmit",
    "EcnEcho",
    "Efr",
    "ErrorRate",
    "EstimatorConfig",
    "Fallback",
    "Fifo",
    "FixedRate",
    "FixedRetryOut",
    "FloorRtt",
    "Flow",
    "FqCodel",
    "FqCodelConfig",
    "Frto",
    "FrtoResponse",
    "GapFrom",
    "Growth",
    "HandsUp",
    "Hidden",
    "Hold",
    "HoldRange",
    "Ideal",
    "Igb",
    "Increase",
    "Interpolation",
    "Link",
    "LocalDrops",
    "LossConfig",
    "Mac80211",
    "Minstrel",
    "MinstrelHt",
    "Napi",
    "Nearest",
    "Node",
    "NodeKind",
    "Off",
    "OnGiveUp",
    "OnMissed",
    "Onoe",
    "Pacing",
    "PacingRtt",
    "PathLoss",
    "Perfect",
    "Phases",
    "PhyConfig",
    "Pie",
    "Ping",
    "Prague",
    "Probability",
    "Profile",
    "Protection",
    "Qdisc",
    "QueueConfig",
    "Rack",
    "RadioOptions",
    "RandomPhase",
    "RateConfig",
    "RateTable",
    "RateTrace",
    "ReceiveOffloadConfig",
    "Record",
    "Recovery",
    "Red",
    "Reno",
    "Reorder",
    "ReorderConfig",
    "Retries",
    "RetryCount",
    "RetryOutConfig",
    "RetryOutStep",
    "Reverse",
    "Roaming",
    "RoamingRule",
    "Rssi",
    "RttMin",
    "RttvarRule",
    "Sampling",
    "Scenario",
    "SegmentsAtOnce",
    "Selection",
    "ShadowingConfig",
    "SignalConfig",
    "SlowStartExit",
    "Snr",
    "Span",
    "Spread",
    "Standard",
    "Start",
    "StartRange",
    "Station",
    "StationEntry",
    "StationQueue",
    "Stepped",
    "Stream",
    "Switch",
    "TcpAv",
    "TcpKnownBy",
    "TcpOptions",
    "TimerPhase",
    "Times",
    "Trace",
    "Traffic",
    "Train",
    "Transfer",
    "TransmitConfig",
    "Tsq",
    "TxCompletion",
    "Unit",
    "Unlimited",
    "Vegas",
    "VegasRetransmit",
    "Walk",
    "WavelanConfig",
    "Web",
    "Wlan",
]
