"""Scenarios as Python objects: what a scenario file holds, with completion and types.

Generated from the schema by `make generate`; do not edit. What is left out (`None`) takes its default, and values are
checked when a scenario runs: `airtcp.ScenarioError` then says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from airtcp._part import Part


@dataclass(kw_only=True)
class Buffer(Part):
    """A queue limit by a rule of buffer sizing. The result is rounded down."""

    flows: int | None = None
    """Number of flows N that `bdp_over_sqrt_n` assumes. `bdp` leaves it aside."""

    packet_bytes: int | None = None
    """Size of the packets in which the limit is counted, headers included. Default: the limit is in bytes."""

    rtt: Span
    """Round-trip time of the rule: usually twice the propagation delay from end to end."""

    rule: BufferRule
    """Which rule."""

    scale: float | None = None
    """Factor on the result: 0.25 gives a quarter of the rule's buffer. Default: 1.0."""


@dataclass(kw_only=True)
class Reno(Part):
    """Parameters of Reno."""

    increase: Increase | None = None
    """How congestion avoidance counts. Default: `per_window`."""

    name: Literal["reno"] = field(default="reno", init=False)

    slow_start_exit: SlowStartExit | None = None
    """What may end slow start before a loss does. RFC 5681: nothing. Default: `none`."""


@dataclass(kw_only=True)
class Cubic(Part):
    """Parameters of CUBIC."""

    beta: Probability | None = None
    """What is left of the window after a loss (RFC 9438 section 4.6: 0.7). Default: 0.7."""

    c: Aggressiveness | None = None
    """Aggressiveness C, segments per second cubed (RFC 9438 section 5: 0.4). Default: 0.4."""

    fast_convergence: bool | None = None
    """A flow that meets a loss earlier than last time makes room for newer ones (RFC 9438 section 4.7). Default:
    true.
    """

    first_increase: int | None = None
    """Before the first loss, and after a timeout, the window grows by at least one segment per this many
    acknowledged ones. 0: by the curve alone (RFC 9438). Linux: 20, five percent per round trip. Default: 20.
    """

    name: Literal["cubic"] = field(default="cubic", init=False)

    reno_catch_up: bool | None = None
    """The Reno-friendly estimate grows by a whole segment per round trip once it has reached the window before the
    reduction (RFC 9438 section 4.3). Linux up to 6.x: false. Default: true.
    """

    reno_friendly: bool | None = None
    """Never slower than Reno with the same backoff (RFC 9438 section 4.3). Default: true."""

    slow_start_exit: SlowStartExit | None = None
    """What may end slow start before a loss does. RFC 9438 section 4.10 recommends HyStart++; Linux has HyStart.
    Default: `hystart`.
    """


@dataclass(kw_only=True)
class Vegas(Part):
    """Parameters of Vegas, in segments queued. The papers use 1 and 3 or 2 and 4 for `alpha` and `beta`."""

    alpha: int | None = None
    """With fewer queued the window grows. Linux: 2. Default: 2."""

    beta: int | None = None
    """With more queued the window shrinks. At least `alpha`. Linux: 4. Default: 4."""

    gamma: int | None = None
    """With more queued slow start ends. Linux: 1. Default: 1."""

    name: Literal["vegas"] = field(default="vegas", init=False)


@dataclass(kw_only=True)
class Bbr(Part):
    """Parameters of BBR. Linux has them as constants."""

    ack_aggregation: bool | None = None
    """Add to the window what arrived in bursts beyond the bandwidth (Linux since 5.1; Wi-Fi and cellular need it).
    Default: true.
    """

    bandwidth_window_rounds: int | None = None
    """Rounds over which the bandwidth is the maximum. The draft's BtlBwFilterLen: 10. Default: 10."""

    min_rtt_window: Span | None = None
    """Age at which the smallest round trip is measured anew. The draft's RTpropFilterLen: 10 s. Default: `10s`."""

    name: Literal["bbr"] = field(default="bbr", init=False)

    policer_detection: bool | None = None
    """Estimate the rate of a token-bucket policer from two lossy intervals of equal throughput and keep to it for 48
    rounds (Linux; not in the draft). Default: true.
    """

    probe_rtt_duration: Span | None = None
    """How long `ProbeRtt` keeps four segments in flight, at least. The draft's ProbeRTTDuration: 200 ms. Zero:
    `ProbeRtt` never happens. Default: `200ms`.
    """


@dataclass(kw_only=True)
class DelaySpread(Part):
    """Delays that differ from member to member; both directions of a member's line have the same."""

    max: Span
    """Longest delay."""

    min: Span
    """Shortest delay."""

    spread: Spread | None = None
    """How the delays lie between `min` and `max`. Default: `even`."""


@dataclass(kw_only=True)
class Flow(Part):
    """A flow, or a group of `count` like it."""

    count: int | None = None
    """Number of flows, `name[0]`, `name[1]` and so on. Flow i runs from member i to member i; where a group is
    smaller, it starts again at its first member. Default: the size of the larger of the two groups.
    """

    from_: str
    """Host or group that sends, or one member as `left[3]`."""

    name: str
    """Name by which results are grouped and `--set` refers to it: letters, digits, `_` and `-`."""

    read_rate: DataRate | None = None
    """The receiving application reads no faster than this. Default: at once."""

    receiver: TcpOptions | None = None
    """Options of the receiving end that differ from its host's profile. The ends agree as real ones do: timestamps
    and SACK only if both have them, the smaller of the two packet sizes, a handshake if the sender begins with
    one.
    """

    start: Start | None = None
    """When it starts: a time, or a range in which each flow draws its own from the seed. Default: `0ns`."""

    stop: Span | None = None
    """When unlimited and repeating traffic ends. Default: the end of the run."""

    tcp: TcpOptions | None = None
    """Options of the sending end that differ from its host's profile. Those that concern both ends (`packet_bytes`,
    `handshake`, `timestamps`, `recovery`, `ecn`) apply to the receiving end as well, unless `receiver` sets them.
    """

    to: str
    """Host or group that receives, or one member as `right[3]`."""

    traffic: Traffic | None = None
    """What it carries."""


@dataclass(kw_only=True)
class Link(Part):
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
    """Line rate of each direction, counted in bits of IP packets."""

    reverse: Reverse | None = None
    """What differs in the direction from `to` to `from`. Default: nothing."""

    to: str
    """Node or group at the other end, or one member as `left[3]`."""


@dataclass(kw_only=True)
class DupThresh(Part):
    """`name = "dup_thresh"`."""

    lost_retransmissions: bool | None = None
    """A retransmission counts as lost, too, once something sent a quarter of the smallest round trip after it has
    arrived, as in Linux. Off, it takes the retransmission timeout (RFC 6675). Needs SACK. Default: false.
    """

    name: Literal["dup_thresh"] = field(default="dup_thresh", init=False)

    threshold: int | None = None
    """Segments reported above a hole before it counts as lost. RFC 5681: 3. Default: 3."""


@dataclass(kw_only=True)
class Node(Part):
    """A host, a router, or a group of `count` like them."""

    count: int | None = None
    """Makes a group: members `name[0]`, `name[1]` and so on, addressed together by `name`. Default: a single node,
    not a group.
    """

    kind: NodeKind
    """Whether it is an end of flows or forwards packets."""

    name: str
    """Name by which links and flows refer to it: letters, digits, `_` and `-`."""

    profile: str | None = None
    """Host profile: a built-in one or one from `profiles`. It sets every TCP option that a flow does not. Hosts
    only. Default: `linux-6`.
    """


@dataclass(kw_only=True)
class Profile(Part):
    """A host profile: a base, and options that differ from it."""

    ack_every: int | None = None
    """Full segments that one ACK covers at most when ACKs are delayed."""

    base: str | None = None
    """Profile whose options hold where this one says nothing: a built-in one or another of `profiles`. Default:
    `linux-6`.
    """

    byte_counting: int | None = None
    """RFC 3465 byte counting in slow start: at most this many segments of credit for one ACK. 0: one per ACK,
    however much it covers.
    """

    cc: CcConfig | None = None
    """Congestion control."""

    cwnd_validation: bool | None = None
    """RFC 7661: the window grows only while it is what holds the sender back. Off, every ACK of new data lets it
    grow, as in ns-2 and BSD.
    """

    delayed_ack: Span | None = None
    """Longest wait of an ACK for a second segment (RFC 1122). "0s": every segment is acknowledged at once."""

    ecn: bool | None = None
    """RFC 3168 explicit congestion notification."""

    eifel: bool | None = None
    """Take a reduction back when the echoed timestamp shows that the original had arrived (Eifel, RFC 3522 and
    4015).
    """

    handshake: bool | None = None
    """Three-way handshake before data. Off, as in ns-2's one-way agents: data leaves at once."""

    initial_ssthresh: int | None = None
    """Initial slow-start threshold, segments."""

    initial_window: int | None = None
    """Initial window, segments."""

    limited_transmit: bool | None = None
    """RFC 3042: a new segment for each of the first two duplicate ACKs."""

    limited_transmit_after_timeout: bool | None = None
    """Limited transmit also while a timeout is repaired, where what it sends is the next segment of the repair
    (ns-2's `singledup_`).
    """

    loss: LossConfig | None = None
    """What counts as a loss."""

    max_cwnd: int | None = None
    """Largest cwnd, segments (ns-2's `window_`)."""

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

    quick_acks: int | None = None
    """Segments acknowledged at once at the start of a connection and after a pause (Linux's quick-ACK)."""

    receive_buffer: Bytes | None = None
    """Receive buffer, payload bytes."""

    receive_buffer_max: Bytes | None = None
    """What `receive_buffer` may grow to; autotuning is on where this is larger."""

    recovery: Recovery | None = None
    """How a loss is repaired."""

    restart_after_idle: bool | None = None
    """After an idle time the window decays towards `restart_window`: by half for each retransmission timeout (RFC
    2861).
    """

    restart_window: int | None = None
    """What is left of the window after a long idle time, segments. RFC 5681 section 4.1: the initial window."""

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

    rto_var_min: Span | None = None
    """Lower bound of the 4 * RTTVAR term. RFC 6298: the clock granularity; Linux: 200 ms."""

    rtt_per_segment: bool | None = None
    """A round-trip sample from every ACK of new data (Linux); off: one segment is timed at a time, as BSD and ns-2
    do.
    """

    rtt_restart_backoffs: int | None = None
    """Backoffs in a row after which the next sample starts SRTT and RTTVAR anew (allowed by the note in RFC 6298
    section 5; BSD and ns-2: 4). 0: never.
    """

    rtt_tick: Span | None = None
    """Tick of the clock that measures round trips for the timeout. "0s": exact (Linux keeps microseconds)."""

    send_buffer: Bytes | None = None
    """Most bytes the sender holds unacknowledged or unsent."""

    send_buffer_max: Bytes | None = None
    """What `send_buffer` may grow to; autotuning is on where this is larger."""

    ssthresh_after_lost_syn: int | None = None
    """Highest ssthresh when the SYN was lost, segments. ns-2: 2, since its timeout halves the window of one whatever
    was lost. RFC 5681 section 3.1 only takes the initial window back to one segment, and Linux forgets what the
    timeout set.
    """

    ssthresh_at_every_timeout: bool | None = None
    """A timeout of a segment that a timeout has already sent again lowers ssthresh once more, from the window of
    that time (ns-2). Off: ssthresh stays as the first timeout set it (RFC 5681 section 3.1).
    """

    timestamp_tick: Span | None = None
    """Tick of the timestamp clock."""

    timestamps: bool | None = None
    """RFC 7323 timestamps, 12 bytes in each segment."""


@dataclass(kw_only=True)
class Fifo(Part):
    """`limit_packets` and `limit_bytes` both bind when both are given; with neither the queue is unbounded."""

    limit_bytes: Bytes | None = None
    """Most bytes waiting."""

    limit_packets: int | None = None
    """Most packets waiting, the one being transmitted not counted. At least 1."""

    name: Literal["fifo"] = field(default="fifo", init=False)


@dataclass(kw_only=True)
class Red(Part):
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
    """Probability at `max_th`. Above zero. 0.1; where `adaptive` starts. Default: 0.1."""

    max_th: float | None = None
    """Average length at which the probability is `max_p`; packets. Above `min_th`. When left out: three times
    `min_th`.
    """

    mean_packet: Bytes | None = None
    """Size of a typical packet. When left out: the line's MTU."""

    min_th: float | None = None
    """Average length below which every packet passes; packets, in `bytes` mode of `mean_packet` bytes each. Above
    zero. When left out: a third of `max_th` if that is given, else by `target_delay`, else 5.
    """

    name: Literal["red"] = field(default="red", init=False)

    target_delay: Span | None = None
    """Thresholds and weight for this average delay at the line's rate, where not given: `min_th` half that many
    packets but at least 5, `w_q` with a time constant of one second. Above zero.
    """

    w_q: Probability | None = None
    """Weight of the present length in the average. Above zero. When left out: by `target_delay`, else 0.002."""

    wait: bool | None = None
    """Let at least `1/p` packets pass between two signals, instead of at least none. Default: true."""


@dataclass(kw_only=True)
class Codel(Part):
    """Both limits bind when both are given; with neither, 1000 packets as in Linux."""

    ce_threshold: Span | None = None
    """Mark ECT packets that waited longer than this, whatever the law says. Off when left out."""

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
class FqCodel(Part):
    """`name = "fq_codel"`."""

    ce_threshold: Span | None = None
    """Mark ECT packets that waited longer than this, whatever CoDel says. Off when left out."""

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
    """Bytes a queue may send per round. RFC 8290: 1514. Default: 1514."""

    target: Span | None = None
    """CoDel's acceptable standing delay. 5 ms. Above zero, below `interval`. Default: `5ms`."""


@dataclass(kw_only=True)
class Pie(Part):
    """Both limits bind when both are given; with neither, 1000 packets as in Linux."""

    alpha: float | None = None
    """Weight of the deviation from target, per second of delay. RFC 8033: 0.125. Default: 0.125."""

    beta: float | None = None
    """Weight of the trend, per second of delay. RFC 8033: 1.25. Default: 1.25."""

    cap_drop_adjustment: bool | None = None
    """From a probability of 0.1 on, add no more than 0.02 at a time (RFC 8033 section 5.5). Default: false."""

    delay: DelayEstimate | None = None
    """How PIE learns the queueing delay. Default: `timestamp`."""

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
    """A burst this long after a quiet time is let pass. RFC 8033: 150 ms. Default: `150ms`."""

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
class Record(Part):
    """What is recorded besides the summaries. Links are named by entry (`bottleneck`: both directions and, for a
    group, every member) or by single direction (`r1->r2`, `left[3]->r1`).
    """

    capture: Sequence[str] | None = None
    """Links whose packets are captured as they enter the line."""

    drops: Sequence[str] | None = None
    """Links whose drops are recorded one by one. Default: as `links`."""

    flow_series_max: int | None = None
    """At most this many TCP flows have a time series, spread evenly over all. Default: 64."""

    interval: Span | None = None
    """Distance of the samples in the time series. Default: `duration` / 600, at least 1 ms."""

    links: Sequence[str] | None = None
    """Links with a time series. Default: those that do not belong to a group of nodes."""


@dataclass(kw_only=True)
class Reverse(Part):
    """What differs in the direction from `to` to `from` of a line."""

    buffer: Buffer | None = None
    """Limit of the queue by a rule. A rule uses the rate of its own direction."""

    cost: int | None = None
    """Cost of the line for shortest-path routing."""

    delay: Delay | None = None
    """Propagation delay."""

    loss: Probability | None = None
    """Probability with which each packet is lost on the line."""

    queue: QueueConfig | None = None
    """Queue discipline. One that is set here does not take over the `buffer` of the other direction."""

    rate: DataRate | None = None
    """Line rate."""


@dataclass(kw_only=True)
class StartRange(Part):
    """Start times drawn uniformly from a range, one per flow."""

    from_: Span
    """Earliest start."""

    to: Span
    """Latest start."""


@dataclass(kw_only=True)
class TcpOptions(Part):
    """The same options, each of them optional: what a profile file or a scenario writes."""

    ack_every: int | None = None
    """Full segments that one ACK covers at most when ACKs are delayed."""

    byte_counting: int | None = None
    """RFC 3465 byte counting in slow start: at most this many segments of credit for one ACK. 0: one per ACK,
    however much it covers.
    """

    cc: CcConfig | None = None
    """Congestion control."""

    cwnd_validation: bool | None = None
    """RFC 7661: the window grows only while it is what holds the sender back. Off, every ACK of new data lets it
    grow, as in ns-2 and BSD.
    """

    delayed_ack: Span | None = None
    """Longest wait of an ACK for a second segment (RFC 1122). "0s": every segment is acknowledged at once."""

    ecn: bool | None = None
    """RFC 3168 explicit congestion notification."""

    eifel: bool | None = None
    """Take a reduction back when the echoed timestamp shows that the original had arrived (Eifel, RFC 3522 and
    4015).
    """

    handshake: bool | None = None
    """Three-way handshake before data. Off, as in ns-2's one-way agents: data leaves at once."""

    initial_ssthresh: int | None = None
    """Initial slow-start threshold, segments."""

    initial_window: int | None = None
    """Initial window, segments."""

    limited_transmit: bool | None = None
    """RFC 3042: a new segment for each of the first two duplicate ACKs."""

    limited_transmit_after_timeout: bool | None = None
    """Limited transmit also while a timeout is repaired, where what it sends is the next segment of the repair
    (ns-2's `singledup_`).
    """

    loss: LossConfig | None = None
    """What counts as a loss."""

    max_cwnd: int | None = None
    """Largest cwnd, segments (ns-2's `window_`)."""

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

    quick_acks: int | None = None
    """Segments acknowledged at once at the start of a connection and after a pause (Linux's quick-ACK)."""

    receive_buffer: Bytes | None = None
    """Receive buffer, payload bytes."""

    receive_buffer_max: Bytes | None = None
    """What `receive_buffer` may grow to; autotuning is on where this is larger."""

    recovery: Recovery | None = None
    """How a loss is repaired."""

    restart_after_idle: bool | None = None
    """After an idle time the window decays towards `restart_window`: by half for each retransmission timeout (RFC
    2861).
    """

    restart_window: int | None = None
    """What is left of the window after a long idle time, segments. RFC 5681 section 4.1: the initial window."""

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

    rto_var_min: Span | None = None
    """Lower bound of the 4 * RTTVAR term. RFC 6298: the clock granularity; Linux: 200 ms."""

    rtt_per_segment: bool | None = None
    """A round-trip sample from every ACK of new data (Linux); off: one segment is timed at a time, as BSD and ns-2
    do.
    """

    rtt_restart_backoffs: int | None = None
    """Backoffs in a row after which the next sample starts SRTT and RTTVAR anew (allowed by the note in RFC 6298
    section 5; BSD and ns-2: 4). 0: never.
    """

    rtt_tick: Span | None = None
    """Tick of the clock that measures round trips for the timeout. "0s": exact (Linux keeps microseconds)."""

    send_buffer: Bytes | None = None
    """Most bytes the sender holds unacknowledged or unsent."""

    send_buffer_max: Bytes | None = None
    """What `send_buffer` may grow to; autotuning is on where this is larger."""

    ssthresh_after_lost_syn: int | None = None
    """Highest ssthresh when the SYN was lost, segments. ns-2: 2, since its timeout halves the window of one whatever
    was lost. RFC 5681 section 3.1 only takes the initial window back to one segment, and Linux forgets what the
    timeout set.
    """

    ssthresh_at_every_timeout: bool | None = None
    """A timeout of a segment that a timeout has already sent again lowers ssthresh once more, from the window of
    that time (ns-2). Off: ssthresh stays as the first timeout set it (RFC 5681 section 3.1).
    """

    timestamp_tick: Span | None = None
    """Tick of the timestamp clock."""

    timestamps: bool | None = None
    """RFC 7323 timestamps, 12 bytes in each segment."""


@dataclass(kw_only=True)
class Unlimited(Part):
    """TCP that never runs out of data."""

    kind: Literal["unlimited"] = field(default="unlimited", init=False)


@dataclass(kw_only=True)
class Transfer(Part):
    """One TCP transfer, then close."""

    bytes: Bytes
    """Payload to transfer, at least one byte."""

    kind: Literal["transfer"] = field(default="transfer", init=False)


@dataclass(kw_only=True)
class Web(Part):
    """A SURGE web user (Barford and Crovella, SIGMETRICS 1998): TCP transfers one after the other, each on a new
    connection.
    """

    body_mu: float | None = None
    """Body: mean of the natural logarithm of the bytes. Default: 9.357."""

    body_sigma: float | None = None
    """Body: standard deviation of the natural logarithm of the bytes. Default: 1.318."""

    gap_alpha: float | None = None
    """Pareto shape of the gaps, above 0. At 1 or below the mean gap is infinite. Default: 1.5."""

    gap_from: GapFrom | None = None
    """What a gap is counted from. Default: `end`."""

    gap_k: Span | None = None
    """Smallest gap. Default: `1s`."""

    kind: Literal["web"] = field(default="web", init=False)

    max_bytes: Bytes | None = None
    """No transfer is larger. Default: `1000000000B`."""

    tail_alpha: float | None = None
    """Tail: Pareto shape, above 0. At 1 or below the mean is infinite, and `max_bytes` decides what is sent.
    Default: 1.1.
    """

    tail_fraction: Probability | None = None
    """Part of the transfers whose size is drawn from the tail. Default: 0.07."""

    tail_k: Bytes | None = None
    """Tail: smallest size. Default: `133000B`."""


@dataclass(kw_only=True)
class Ping(Part):
    """Echo requests at a fixed interval."""

    interval: Span | None = None
    """Distance between requests. Default: `1s`."""

    kind: Literal["ping"] = field(default="ping", init=False)

    packet_bytes: int | None = None
    """Size of request and reply, IP and ICMP headers (28 bytes) included. Default: 84."""


@dataclass(kw_only=True)
class Cbr(Part):
    """UDP datagrams at a constant rate."""

    kind: Literal["cbr"] = field(default="cbr", init=False)

    packet_bytes: int | None = None
    """Size of a datagram, IP and UDP headers (28 bytes) included. Default: 1500."""

    rate: DataRate
    """Rate, IP and UDP headers included."""


@dataclass(kw_only=True)
class Train(Part):
    """Numbered UDP datagrams in trains."""

    count: int
    """Datagrams in a train."""

    every: Span | None = None
    """Distance from the start of a train to the start of the next. Default: one train."""

    gap: Span | None = None
    """Distance between the datagrams of a train. "0s": back to back. Default: `0ns`."""

    kind: Literal["train"] = field(default="train", init=False)

    packet_bytes: int | None = None
    """Size of a datagram, IP and UDP headers (28 bytes) included. Default: 1500."""


@dataclass(kw_only=True)
class Scenario(Part):
    """A scenario: a network, the flows through it and what to record."""

    description: str | None = None
    """What the scenario shows, in a sentence or two."""

    duration: Span
    """Simulated time, up to 30 days."""

    flows: Sequence[Flow] | None = None
    """Connections and packet streams. Without any the network stays silent."""

    links: Sequence[Link]
    """Lines between nodes."""

    name: str | None = None
    """Name of the scenario, used in titles and folder names. Default: the file's name."""

    nodes: Sequence[Node]
    """Hosts and routers."""

    profiles: Mapping[str, Profile] | None = None
    """Host profiles of your own, by name: a base and what differs from it."""

    record: Record | None = None
    """What is recorded besides the summaries."""

    seed: int | None = None
    """Seed of everything random. The same file and seed give the same results to the bit. Default: 1."""

    warmup: Span | None = None
    """Summaries leave out what happens before this. Time series and tables of single events keep it. Default: `0ns`."""


Aggressiveness: TypeAlias = "float"
"""Aggressiveness."""

BufferRule: TypeAlias = "Literal['bdp', 'bdp_over_sqrt_n']"
"""BufferRule."""

Bytes: TypeAlias = "str"
"""A size: a number with B, kB, MB, GB, KiB, MiB or GiB, such as "64KiB"."""

CcConfig: TypeAlias = "Literal['reno', 'cubic', 'vegas', 'bbr'] | Reno | Cubic | Vegas | Bbr"
"""CcConfig."""

DataRate: TypeAlias = "str"
"""A data rate: a number with bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s, such as "100Mbit/s"."""

Delay: TypeAlias = "Span | DelaySpread"
"""One delay, or a range over the members of a group."""

DelayEstimate: TypeAlias = "Literal['timestamp', 'departure_rate']"
"""How PIE learns the queueing delay."""

GapFrom: TypeAlias = "Literal['end', 'start']"
"""GapFrom."""

Increase: TypeAlias = "Literal['per_window', 'per_ack']"
"""How congestion avoidance adds a segment per round trip."""

LossConfig: TypeAlias = "Literal['dup_thresh'] | DupThresh"
"""LossConfig."""

NodeKind: TypeAlias = "Literal['host', 'router']"
"""NodeKind."""

Pacing: TypeAlias = "Literal['off', 'rtt_over_cwnd', 'linux']"
"""How segments are spaced."""

PacingRtt: TypeAlias = "Literal['exact', 'ticks']"
"""The round-trip time by which segments are spaced."""

Probability: TypeAlias = "float"
"""Probability."""

QueueConfig: TypeAlias = "Literal['fifo', 'red', 'codel', 'fq_codel', 'pie'] | Fifo | Red | Codel | FqCodel | Pie"
"""QueueConfig."""

Recovery: TypeAlias = "Literal['reno', 'new_reno', 'sack']"
"""How a sender finds its way out of a loss."""

SlowStartExit: TypeAlias = "Literal['none', 'hystart', 'hystart_plus_plus']"
"""What may end slow start before a loss does."""

Span: TypeAlias = "str"
"""A duration: a number with ns, us, ms, s, min or h, such as "90ms"."""

Spread: TypeAlias = "Literal['even', 'random']"
"""Spread."""

Start: TypeAlias = "Span | StartRange"
"""One start time, or a range."""

Traffic: TypeAlias = "TrafficName | TrafficTable"
"""What a flow carries: the name of a kind with its defaults, or a table with `kind` and its parameters."""

TrafficName: TypeAlias = "Literal['unlimited', 'web', 'ping']"
"""The kinds that need no parameters."""

TrafficTable: TypeAlias = "Unlimited | Transfer | Web | Ping | Cbr | Train"
"""TrafficTable."""

__all__ = [
    "Aggressiveness",
    "Bbr",
    "Buffer",
    "BufferRule",
    "Bytes",
    "Cbr",
    "CcConfig",
    "Codel",
    "Cubic",
    "DataRate",
    "Delay",
    "DelayEstimate",
    "DelaySpread",
    "DupThresh",
    "Fifo",
    "Flow",
    "FqCodel",
    "GapFrom",
    "Increase",
    "Link",
    "LossConfig",
    "Node",
    "NodeKind",
    "Pacing",
    "PacingRtt",
    "Pie",
    "Ping",
    "Probability",
    "Profile",
    "QueueConfig",
    "Record",
    "Recovery",
    "Red",
    "Reno",
    "Reverse",
    "Scenario",
    "SlowStartExit",
    "Span",
    "Spread",
    "Start",
    "StartRange",
    "TcpOptions",
    "Traffic",
    "TrafficName",
    "TrafficTable",
    "Train",
    "Transfer",
    "Unlimited",
    "Vegas",
    "Web",
]
