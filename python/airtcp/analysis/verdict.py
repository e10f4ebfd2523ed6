"""The first sentences about a flow, for people: what happened, and what to do about it.

A right "cannot tell" is worth more than a wrong cause. So a flow of few segments has none, and causes that look alike
are all named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from airtcp._text import amount
from airtcp.analysis.limits import Row, brief, extra_ms, grade, is_short, percent, segments, shares, spent

FULL: Final = 0.8
"""A sender that had this part of the line's rate filled the line."""
ALL: Final = 0.93
SAME: Final = 0.15
"""Rates that differ by no more are one."""
PACED_AT: Final = 1.25
"""A paced sender lets a window out faster than once a round trip: Linux 1.2 times (`tcp_pacing_ca_ratio`)."""
LINE_ITSELF: Final = ("trains", "queue")
"""Signs of the line's rate that a sender's own pace does not give."""
NOTABLE_S: Final = 0.5
"""A wait of so many seconds is told, however short the flow is."""
FAULT_S: Final = 1.0
ALSO: Final = 0.2
"""A fault beside the first limit is told from this share or `FAULT_S` on."""
MAIN: Final = 0.35
"""A limit that took less of the time is no cause by itself."""
BRIEF_S: Final = 0.1
"""A transfer that was over sooner was not slow."""
LONGEST_QUEUE_MS: Final = 10_000.0
"""No queue holds data for longer."""
LEAST_RTT_MS: Final = 1.0
"""Shorter round trips explain nothing."""
TOO_FEW_LOSSES: Final = 3.0
"""Losses that permit so many times the rate (Mathis 1997) do not explain it."""
MATHIS: Final = 1.22
RARE: Final = 0.001
"""Losses below this part of the packets do not explain what a queue explains."""

NOT_SLOW: Final = "not_slow"
CANNOT_TELL: Final = "cannot_tell"


@dataclass(frozen=True)
class Verdict:
    """A judgement on one flow."""

    name: str
    """`not_slow`, `cannot_tell`, the name of a limit, or `opening`, `client`: what took the time of a short flow."""
    happened: str
    todo: str = ""

    def __str__(self) -> str:
        return " ".join(f"{part}." for part in (self.happened, self.todo) if part)


def judge(flow: Row) -> Verdict | None:
    """The verdict on a flow; none if it carried no data."""
    if not flow["unique_bytes"]:
        return None
    if flow["one_way"] and not (flow["timeouts"] and flow["limited_outage_s"]):
        return Verdict(
            CANNOT_TELL,
            "Cannot tell: the capture shows one direction only",
            "Capture where both directions pass",
        )
    if is_short(flow):
        return _short(flow)
    rows = shares(spent(flow))
    if not rows:
        return Verdict(CANNOT_TELL, "Cannot tell: no data was acknowledged in the capture")
    first = rows[0]
    found = _BY_LIMIT[first["limit"]](flow, first["seconds"], first["share"])
    if first["share"] < MAIN and found.name != NOT_SLOW:
        return Verdict(CANNOT_TELL, f"No single cause: {brief(rows, 3)} of the time")
    faults = [
        _FAULTS[row["limit"]]
        for row in rows[1:]
        if row["limit"] in _FAULTS
        and row["limit"] != found.name
        and (row["share"] >= ALSO or row["seconds"] >= FAULT_S)
        and row["seconds"] >= BRIEF_S
        if not (row["limit"] == "loss" and found.name == NOT_SLOW and (fills(flow) or first["limit"] == "queue"))
    ]
    if not faults or found.name == CANNOT_TELL:
        return found
    share = percent(next(row["share"] for row in rows[1:] if _FAULTS.get(row["limit"]) == faults[0]))
    return Verdict(found.name, f"{found.happened}. Besides, {faults[0]} took {share} of the time", found.todo)


def why(flow: Row) -> str:
    """The verdict as text; empty for a flow without data."""
    found = judge(flow)
    return "" if found is None else str(found)


def fills(flow: Row) -> bool:
    """Whether the sender filled the line, as far as the line's rate shows."""
    line, path = flow["line_bps"], flow["path_bps"]
    return bool(line and path and path >= FULL * line)


# --- figures --------------------------------------------------------------------------------------------------------


def rate(bits: float | None) -> str:
    """`18.3 Mbit/s`."""
    if bits is None:
        return "an unknown rate"
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bits >= size * 0.9995:
            return f"{bits / size:.3g} {unit}" if bits < size * 999.5 else f"{bits / size:.0f} {unit}"
    return f"{bits:.0f} bit/s"


def _s(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _ms(value: float | None) -> str:
    return "an unknown time" if value is None else _s(value / 1e3)


def _of_time(share: float) -> str:
    return "all the time" if share >= 0.995 else f"{percent(share)} of the time"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _sender(flow: Row) -> str:
    return {"client": "the client", "server": "the server"}.get(flow["role"], "the sender")


# --- short flows ----------------------------------------------------------------------------------------------------


def _short(flow: Row) -> Verdict:
    """The longest wait of a flow that is too short for more."""
    waits = [
        (float(flow["limited_outage_s"] or 0.0) if flow["timeouts"] else 0.0, _outage),
        (float(flow["window_closed_s"] or 0.0), _closed),
        (float(flow["longest_think_s"] or 0.0) if flow["role"] == "server" else 0.0, _answer),
        ((flow["opening_ms"] or 0.0) / 1e3 if flow["opening"] == "answered" else 0.0, _opening),
        ((flow["asked_after_ms"] or 0.0) / 1e3, _asked),
    ]
    seconds, told = max(waits, key=lambda wait: wait[0])
    if seconds >= NOTABLE_S:
        return told(flow, seconds, 0.0)
    n = segments(flow)
    closed = flow["zero_windows"]
    text = f". Its receiver closed the window {_times(closed)}, for {_s(flow['window_closed_s'])}" if closed else ""
    return Verdict(CANNOT_TELL, f"Too little to tell: {n} segment{'' if n == 1 else 's'} of data{text}")


def _closed(flow: Row, seconds: float, share: float) -> Verdict:
    opened = ", and did not open it again" if flow["ends_closed"] else ""
    times = f" {_times(flow['zero_windows'])}" if flow["zero_windows"] else ""
    return Verdict(
        "receiver_app",
        f"The receiver closed its window{times}, for {_s(seconds)}{opened}: its program did not read",
        "Look at the program that receives",
    )


def _opening(flow: Row, seconds: float, share: float) -> Verdict:
    lost = flow["syn_retransmissions"]
    how = f", after {lost} repeated SYN{'' if lost == 1 else 's'}" if lost else ""
    return Verdict(
        "opening",
        f"The connection took {_s(seconds)} to open{how}; the network or the peer's host answered late",
        "Look at losses and delays on the way to the peer",
    )


def _asked(flow: Row, seconds: float, share: float) -> Verdict:
    return Verdict(
        "client",
        f"Not the network: the client sent its first data {_s(seconds)} after the connection was open",
        "Look at the client's program",
    )


def _answer(flow: Row, seconds: float, share: float) -> Verdict:
    return Verdict(
        "think",
        f"Not the network: {_sender(flow)} took {_s(seconds)} to begin its answer",
        "Look at the program that answers",
    )


# --- by limit -------------------------------------------------------------------------------------------------------


def _receive_window(flow: Row, seconds: float, share: float) -> Verdict:
    if fills(flow) and not _is_of_window(flow):
        return _full(flow)
    window, rtt = flow["receive_window_max_bytes"], flow["path_rtt_p50_ms"]
    text = f"Slow because the receiver let no more be on its way, {_of_time(share)}"
    if window and rtt and rtt >= LEAST_RTT_MS:
        text += f": its window of {amount(window)} each {_ms(rtt)} gives {rate(8e3 * window / rtt)} at most"
    return Verdict("receive_window", text, "Larger receive buffers at the receiver help")


def _is_of_window(flow: Row) -> bool:
    """Whether the one rate is that of the window itself: a paced sender with a full window has no other."""
    window, rtt = flow["receive_window_max_bytes"], flow["path_rtt_p50_ms"]
    if flow["line_by"] != "plateau" or not window or not rtt:
        return False
    return bool(1 - SAME <= flow["line_bps"] * rtt / (8e3 * window) <= PACED_AT)


def _receiver_app(flow: Row, seconds: float, share: float) -> Verdict:
    closed = f". It closed the window {_times(flow['zero_windows'])}" if flow["zero_windows"] else ""
    if closed and flow["window_closed_s"] >= BRIEF_S:
        closed += f", for {_s(flow['window_closed_s'])} in all"
    if flow["ends_closed"]:
        closed += ", and did not open it again"
    return Verdict(
        "receiver_app",
        f"Slow because the receiver's program read too slowly, {_of_time(share)}{closed}",
        "Look at the program that receives, and at its disk",
    )


def _sender_app(flow: Row, seconds: float, share: float) -> Verdict:
    return Verdict(
        "sender_app",
        f"Not the network: {_sender(flow)}'s program had nothing to send, {_of_time(share)}",
        "Look at the program that sends",
    )


def _think(flow: Row, seconds: float, share: float) -> Verdict:
    longest = float(flow["longest_think_s"] or 0.0)
    if flow["role"] == "client":
        return Verdict(
            NOT_SLOW,
            f"Not slow: the client waited before its next request, {_of_time(share)} and {_s(longest)} at most",
        )
    if longest < NOTABLE_S:
        return Verdict(NOT_SLOW, f"Not slow: {_sender(flow)} answered within {_s(longest)}")
    if not flow["role"]:
        text = f"Not the network: the sender waited up to {_s(longest)} before it answered or asked again"
        return Verdict(NOT_SLOW, f"{text}, {_of_time(share)}")
    return Verdict(
        "think",
        f"Not the network: {_sender(flow)} took up to {_s(longest)} to begin an answer, {_of_time(share)}",
        "Look at the program that answers",
    )


def _idle(flow: Row, seconds: float, share: float) -> Verdict:
    if flow["role"] == "client":
        return Verdict(NOT_SLOW, f"Not slow: all that the client sent had arrived, {_of_time(share)}")
    return Verdict(NOT_SLOW, f"Not slow: nothing was asked for, {_of_time(share)}")


def _over(flow: Row) -> float:
    return sum(spent(flow).values())


def _slow_start(flow: Row, seconds: float, share: float) -> Verdict:
    rtt = flow["path_rtt_p50_ms"]
    if _over(flow) < BRIEF_S or rtt is None or rtt < LEAST_RTT_MS:
        return Verdict(NOT_SLOW, f"Not slow: all data arrived within {_s(_over(flow))}")
    return Verdict(
        "slow_start",
        f"Too short to get fast: it ended while the sender still raised its rate, once each round trip of {_ms(rtt)}",
        "A nearer server, or fewer connections that last longer, help",
    )


def _full(flow: Row) -> Verdict:
    """The line is full: with a queue or without."""
    line = flow["line_bps"]
    got = rate(flow["path_bps"] or flow["goodput_bps"])
    of = ""
    if line and fills(flow):
        # Two rates that agree are one.
        of = ", all that the line gives" if flow["path_bps"] >= ALL * line else f" of a line of about {rate(line)}"
    lost = flow["retransmitted_packets"] / (flow["data_packets"] or 1)
    losses = f". Its losses ({percent(lost)}) are how TCP finds the line's rate" if lost > 0 else ""
    mark = grade(flow)
    if mark in (None, "A+", "A", "B"):
        return Verdict(NOT_SLOW, f"Not slow: it got {got}{of}{losses}")
    return Verdict(
        NOT_SLOW,
        f"Not slow: it got {got}{of}. But its queue stretched round trips from {_ms(flow['path_rtt_min_ms'])} to "
        f"{_ms(flow['path_rtt_p95_ms'])}: bufferbloat, grade {mark}",
        "A queue discipline that keeps queues short (fq_codel, CAKE) at the slow line helps calls and games",
    )


def _queue(flow: Row, seconds: float, share: float) -> Verdict:
    line, path = flow["line_bps"], flow["path_bps"]
    if (extra_ms(flow) or 0.0) > LONGEST_QUEUE_MS:
        return Verdict(
            CANNOT_TELL,
            f"Cannot tell: round trips of {_ms(flow['path_rtt_min_ms'])} to {_ms(flow['path_rtt_p95_ms'])} are no "
            "queue's; acknowledgements came late, or are missing in the capture",
        )
    if path and flow["goodput_bps"] and path < flow["goodput_bps"] / 2:
        return Verdict(
            CANNOT_TELL,
            f"Cannot tell: round trips grew from {_ms(flow['path_rtt_min_ms'])} to "
            f"{_ms(flow['path_rtt_p95_ms'])}, and little was sent, so that the queue was not this flow's",
        )
    if line and path and flow["line_by"] == "trains" and path < line / 2:
        return Verdict(
            "queue",
            f"Slow because others filled the queue, or the line changed its rate: it got {rate(path)} of about "
            f"{rate(line)}, with round trips of {_ms(flow['path_rtt_min_ms'])} to {_ms(flow['path_rtt_p95_ms'])}",
            "See who else uses the line",
        )
    return _full(flow)


def _loss(flow: Row, seconds: float, share: float) -> Verdict:
    if fills(flow):
        return _full(flow)
    sent = flow["data_packets"] or 1
    lost = max(0, flow["retransmitted_packets"] - flow["spurious_retransmissions"]) / sent
    permits = _permitted(flow, lost)
    if (
        permits is not None
        and flow["path_bps"]
        and permits > TOO_FEW_LOSSES * flow["path_bps"]
        and not flow["timeouts"]
    ):
        return Verdict(
            CANNOT_TELL,
            f"Cannot tell: the sender held back, {_of_time(share)}, without a queue; {percent(lost)} of losses would "
            f"have permitted more than its {rate(flow['path_bps'])}",
        )
    queue = spent(flow)["queue"] / _over(flow)
    if lost < RARE and queue >= ALSO and not flow["timeouts"]:
        return Verdict(
            CANNOT_TELL,
            f"Cannot tell: losses were rare ({percent(lost)}), and a queue stood {_of_time(queue)}; the line may have "
            "been full in between, too",
            "Capture at the slow line, or test it without other traffic",
        )
    waits = f" and {_times(flow['timeouts'])} a timeout" if flow["timeouts"] else ""
    again = percent(flow["retransmitted_packets"] / sent)
    return Verdict(
        "loss",
        f"Slow because of losses, {_of_time(share)}: {again} was sent again{waits}, and no queue stood on the path",
        "Look for a weak radio link, a bad cable or a policer",
    )


def _permitted(flow: Row, lost: float) -> float | None:
    """Rate that so many losses permit a sender of Reno (Mathis, Semke, Mahdavi and Ott 1997)."""
    rtt = flow["path_rtt_p50_ms"]
    if not rtt or lost <= 0:
        return None
    return MATHIS * 8e3 * float(flow["mss_bytes"]) / (float(rtt) * math.sqrt(lost))


def _cwnd(flow: Row, seconds: float, share: float) -> Verdict:
    if _over(flow) < BRIEF_S:
        return Verdict(NOT_SLOW, f"Not slow: all data arrived within {_s(_over(flow))}")
    if fills(flow) and flow["line_by"] in LINE_ITSELF:
        return _full(flow)
    return Verdict(
        "cwnd",
        f"The sender held back, {_of_time(share)}, with neither queue nor loss: by its congestion window or by pacing, "
        "which look alike",
        "Look at the sender's congestion control and rate limits",
    )


def _outage(flow: Row, seconds: float, share: float) -> Verdict:
    part = f", {_of_time(share)}" if share else ""
    return Verdict(
        "outage",
        f"Nothing came through for {_s(seconds)}{part}, while data waited for an answer",
        "Look for a link that broke, such as Wi-Fi out of reach, or for a host that stopped",
    )


def _air(flow: Row, seconds: float, share: float) -> Verdict:
    return Verdict(
        "air",
        f"Slow because the air was taken, {_of_time(share)}: it gave {rate(flow['goodput_bps'])}, and round trips up "
        f"to {_ms(flow['path_rtt_p95_ms'])}",
        "Another channel, or less traffic on this one, helps",
    )


def _paced(flow: Row, seconds: float, share: float) -> Verdict:
    if fills(flow) and flow["line_by"] in LINE_ITSELF:
        return _full(flow)
    return Verdict(
        "paced",
        f"The sender had more data, {_of_time(share)}, and let it out at {rate(flow['goodput_bps'])}: pacing, or a "
        "shaper before the capture",
        "Look at rate limits (tc, fq, a router's shaper) on the sender's side",
    )


def _steady(flow: Row, seconds: float, share: float) -> Verdict:
    return Verdict(
        "steady",
        f"The data came at a steady {rate(flow['goodput_bps'])}, {_of_time(share)}: either the sending program writes "
        "at that rate, or pacing or a shaper sets it. The capture cannot tell which",
        "Look at the sending program, and at rate limits on its side",
    )


_FAULTS: Final = {
    "loss": "losses",
    "outage": "an outage",
    "receiver_app": "a receiver that did not read",
    "receive_window": "a full receive window",
}
_BY_LIMIT: Final = {
    "receive_window": _receive_window,
    "receiver_app": _receiver_app,
    "sender_app": _sender_app,
    "think": _think,
    "idle": _idle,
    "slow_start": _slow_start,
    "queue": _queue,
    "loss": _loss,
    "cwnd": _cwnd,
    "outage": _outage,
    "air": _air,
    "paced": _paced,
    "steady": _steady,
}
