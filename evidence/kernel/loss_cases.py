"""What losses.py runs: paths with scripted fates, and the settings under which each is run.

Paths are given in milliseconds and packets; scripts as pathemu's script.rs describes them. One segment takes 1.5 ms at
the usual rate: packets never arrive in the same instant, and the kernel's wait of up to 1 ms for a larger offload unit
(tcp_tso_should_defer) never decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Case = dict[str, Any]

SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "no_probe": {"tcp_early_retrans": "0"},
    "no_rack": {"tcp_recovery": "0"},
    "no_sack": {"tcp_sack": "0"},
    "no_timestamps": {"tcp_timestamps": "0"},
    "no_dsack": {"tcp_dsack": "0"},
}
"""What is changed under net.ipv4 in both namespaces."""

CONTROLS = ("reno", "cubic")


def case(
    name: str,
    data: str = "",
    acks: str = "",
    segments: int = 60,
    window: int = 10,
    rtt: float = 100,
    rate: float = 8,
    receive_window: int = 0,
    delayed_acks: bool = False,
    close: bool = False,
    seconds: float = 6,
) -> Case:
    """`window`: initial cwnd; `receive_window`: in segments, 0 for what the receiver chooses; `close` right after the
    write; `seconds`: where the trace is cut if it does not end before."""
    return {
        "name": name, "data": data, "acks": acks, "segments": segments, "window": window, "rtt_ms": rtt,
        "rate_mbit": rate, "receive_window": receive_window, "delayed_acks": delayed_acks, "close": close,
        "seconds": seconds,
    }  # fmt: skip


def small_flights() -> Iterator[Case]:
    """All there is to send is in flight: nothing new can make further duplicate ACKs."""
    yield case("flight_1_all", "0=lose", segments=1, window=1)
    for n in (2, 3, 4, 5, 10):
        lost = {"first": "0", "second": "1", "middle": f"{n // 2}", "last": f"{n - 1}", "last_two": f"{n - 2}-{n - 1}"}
        lost |= {"last_three": f"{n - 3}-{n - 1}", "all": f"0-{n - 1}"}
        seen = set()
        for what, which in lost.items():
            if (n == 2 and what not in ("first", "last", "all")) or (n == 3 and what == "last_three"):
                continue
            if which not in seen:
                seen.add(which)
                yield case(f"flight_{n}_{what}", f"{which}=lose", segments=n, window=n)
    yield case("flight_10_two", "2=lose,5=lose", segments=10)
    yield case("flight_10_first_and_last", "0=lose,9=lose", segments=10)
    yield case("flight_10_alternate", "1=lose,3=lose,5=lose,7=lose,9=lose", segments=10)


def windows() -> Iterator[Case]:
    """More data waits, but the receiver's window holds it back; then without that bound."""
    for n in (2, 3, 4, 5, 10):
        yield case(f"receive_window_{n}", "20=lose", segments=40, window=n, receive_window=n)
    for n in (2, 3, 4, 5):
        yield case(f"cwnd_{n}_first", "0=lose", segments=30, window=n)
    yield case("one", "12=lose")
    yield case("one_rtt_20", "12=lose", rtt=20)
    yield case("one_rtt_300", "12=lose", rtt=300)
    yield case("one_delayed_acks", "12=lose", delayed_acks=True)
    yield case("two", "12=lose,15=lose")
    yield case("two_neighbours", "12-13=lose")
    yield case("five_in_a_row", "12-16=lose")
    yield case("every_second", "12=lose,14=lose,16=lose,18=lose,20=lose")
    yield case("old_and_new", "12=lose,32=lose")
    yield case("two_windows", "12=lose,40=lose")
    yield case("whole_first_flight", "0-9=lose", segments=30)
    yield case("whole_later_flight", "10-29=lose", segments=60)


def lost_again() -> Iterator[Case]:
    yield case("retransmission", "12=lose,12.1=lose")
    yield case("retransmission_twice", "12=lose,12.1=lose,12.2=lose")
    yield case("retransmissions_of_two", "12=lose,14=lose,12.1=lose,14.1=lose")
    yield case("retransmission_small", "0=lose,0.1=lose", segments=5, window=5)
    yield case("probe", "9=lose,9.1=lose", segments=10)
    yield case("probe_and_timeout", "9=lose,9.1=lose,9.2=lose", segments=10)
    yield case("backoff", "9=lose,9.1=lose,9.2=lose,9.3=lose,9.4=lose", segments=10, seconds=9)
    yield case("probe_of_two", "8-9=lose,9.1=lose", segments=10)


def tails() -> Iterator[Case]:
    for rtt in (20, 100, 300):
        yield case(f"tail_rtt_{rtt}", "29=lose", segments=30, rtt=rtt)
        yield case(f"tail_three_rtt_{rtt}", "27-29=lose", segments=30, rtt=rtt)
    yield case("tail_one_before", "28=lose", segments=30)
    yield case("tail_two_before", "27=lose", segments=30)
    yield case("tail_delayed_acks", "29=lose", segments=30, delayed_acks=True)
    yield case("tail_close", "29=lose", segments=30, close=True)
    yield case("tail_ack_late", acks="#29=+400", segments=30)
    yield case("tail_ack_lost", acks="#29=lose", segments=30)
    yield case("tail_acks_lost", acks="#20-29=lose", segments=30)


def reordering() -> Iterator[Case]:
    for by in (1, 3, 10):
        yield case(f"reordered_by_{by}", f"20=+{1.5 * by + 0.7:g}")
        yield case(f"reordered_again_by_{by}", f"12=+15.7,40=+{1.5 * by + 0.7:g}", segments=80)
    for rtt in (20, 100, 300):
        for percent in (5, 25, 50, 120):
            late = rtt * percent / 100 + 0.7
            yield case(f"late_{percent}_percent_rtt_{rtt}", f"20=+{late:g}", rtt=rtt)
            if rtt == 100:
                yield case(f"late_again_{percent}_percent", f"12=+15.7,40=+{late:g}", segments=80)
    yield case("late_and_lost", "12=+15.7,40=lose", segments=80)
    yield case("late_thrice", "12=+60.5,40=+60.5,80=+60.5", segments=120)
    yield case("flight_5_first_late", "0=+30.5", segments=5, window=5)
    yield case("flight_3_first_late", "0=+30.5", segments=3, window=3)


def spikes() -> Iterator[Case]:
    yield case("spike_1000", "#20-400=+1000", segments=60)
    yield case("spike_400", "#20-400=+400", segments=60)
    yield case("spike_1000_once", "#20-40=+1000", segments=60)
    yield case("spike_acks_1000", acks="#14-400=+1000", segments=60)
    yield case("spike_small", "#0-1=+1000", segments=2, window=2)


def lost_acks() -> Iterator[Case]:
    yield case("ack_one", acks="#5=lose")
    yield case("acks_five", acks="#15-19=lose")
    yield case("acks_first_flight", acks="#0-9=lose", segments=30)
    yield case("acks_duplicates", "12=lose", acks="#14-16=lose")
    yield case("acks_half", "12=lose", acks=",".join(f"#{n}=lose" for n in range(1, 60, 2)))
    yield case("ack_of_retransmission", "7=lose", acks="#9=lose", segments=10)


def compressed() -> Iterator[Case]:
    """Holes after the quick ACKs of a start, on a line faster than a millisecond a segment: ACKs are compressed.

    `quickack 1` of the other cases keeps the kernel from it (tcp_in_quickack_mode in __tcp_ack_snd_check). On so fast a
    line a quarter of the runs are not the same twice, so these are run only by name.
    """
    for rtt in (20, 100):
        yield case(f"compressed_one_rtt_{rtt}", "80=lose", segments=160, rtt=rtt, rate=40, delayed_acks=True)
    yield case("compressed_two", "80=lose,84=lose", segments=160, rate=40, delayed_acks=True)
    yield case("compressed_in_a_row", "80-84=lose", segments=160, rate=40, delayed_acks=True)
    yield case("compressed_late", "80=+10.7", segments=160, rate=40, delayed_acks=True)


def cases() -> list[Case]:
    groups = (small_flights, windows, lost_again, tails, reordering, spikes, lost_acks)
    return [c for group in groups for c in group()]


CAPTURES = (
    ("tail_probe", "tail_rtt_20", "default/cubic", 128),
    ("probe_then_recovery", "flight_5_last_three", "default/reno", 128),
    ("timeout_no_duplicate", "flight_5_all", "no_probe/reno", 65535),
    ("timeout_1_duplicate", "tail_one_before", "no_sack/reno", 128),
    ("timeout_2_duplicates", "tail_two_before", "no_sack/reno", 128),
    ("two_losses", "two", "default/cubic", 128),
    ("lost_retransmission", "retransmission", "default/cubic", 128),
    ("spurious_fast_retransmit", "late_120_percent_rtt_100", "default/cubic", 128),
    ("reordering", "reordered_by_1", "default/cubic", 128),
    ("spurious_timeout", "spike_1000", "default/reno", 128),
)
"""Kept as test data: name of the files, case, setting/control, bytes kept of each packet. What happens in each is in
tests/data/captures/README.md."""
