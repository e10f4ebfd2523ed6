"""Where the time went, in words: the sentences, the shares, and that page, terminal and JSON say the same."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from airtcp.analysis import limits
from airtcp.analysis.json_output import JsonOutput
from airtcp.analysis.limits import LIMITS, grade, in_all, percent, shares, spent
from airtcp.analysis.show import answer, overview
from airtcp.analysis.verdict import judge, why
from airtcp.report.capture import html
from conftest import Command
from sample_capture import analysis, flow

FLOW = {
    **dict.fromkeys((f"limited_{name}_s" for name in LIMITS), 0.0),
    "goodput_bps": 18.3e6,
    "data_packets": 1000,
    "retransmitted_packets": 21,
    "timeouts": 2,
    "zero_windows": 3,
    "path_rtt_min_ms": 20.0,
    "path_rtt_p50_ms": 40.0,
    "path_rtt_p95_ms": 195.0,
    "receive_window_max_bytes": 65_536.0,
    "unique_bytes": 1_448_000,
    "mss_bytes": 1448,
    "spurious_retransmissions": 0,
    "syn_retransmissions": 0,
    "role": "server",
    "opening": "answered",
    "opening_ms": 40.0,
    "asked_after_ms": 1.0,
    "one_way": False,
    "longest_think_s": 1.5,
    "window_closed_s": 0.0,
    "ends_closed": False,
    "line_bps": None,
    "line_by": "",
    "path_bps": 18.3e6,
}


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ({}, "Cannot tell: no data was acknowledged in the capture."),
        (
            {"receive_window": 9, "slow_start": 1},
            "Slow because the receiver let no more be on its way, 90 % of the time: ",
        ),
        ({"receive_window": 9}, "its window of 65.5 kB each 40 ms gives 13.1 Mbit/s at most."),
        ({"receiver_app": 1}, "the receiver's program read too slowly, all the time. It closed the window 3 times."),
        ({"sender_app": 3, "queue": 1}, "the server's program had nothing to send, 75 % of the time."),
        ({"sender_app": 3, "loss": 1}, "75 % of the time. Besides, losses took 25 % of the time."),
        ({"think": 2}, "Not the network: the server took up to 1.5 s to begin an answer, all the time."),
        ({"idle": 2}, "Not slow: nothing was asked for, all the time."),
        (
            {"queue": 2},
            "it got 18.3 Mbit/s. But its queue stretched round trips from 20 ms to 195 ms: bufferbloat, grade C.",
        ),
        ({"loss": 2}, "Slow because of losses, all the time: 2 % was sent again and 2 times a timeout"),
        ({"cwnd": 2}, "with neither queue nor loss: by its congestion window or by pacing, which look alike."),
        ({"outage": 3, "loss": 0.001}, "Nothing came through for 3 s, all the time, while data waited for an answer."),
        ({"slow_start": 2}, "Too short to get fast: it ended while the sender still raised its rate"),
        ({"slow_start": 0.01}, "Not slow: all data arrived within 10 ms."),
        ({"paced": 2}, "pacing, or a shaper before the capture."),
        ({"steady": 2}, "The capture cannot tell which."),
    ],
)
def test_sentences(times: dict[str, float], says: str) -> None:
    row = FLOW | {f"limited_{name}_s": value for name, value in times.items()}
    assert says in why(row)
    assert sum(one["share"] for one in shares(spent(row))) == pytest.approx(1.0 if times else 0.0)


def test_a_short_queue_is_no_fault() -> None:
    row = FLOW | {"limited_queue_s": 3.0, "path_rtt_p95_ms": 24.0, "retransmitted_packets": 0}
    assert why(row) == "Not slow: it got 18.3 Mbit/s."


@pytest.mark.parametrize("limit", ["queue", "loss", "receive_window"])
def test_who_fills_the_line_is_not_slow(limit: str) -> None:
    row = FLOW | {f"limited_{limit}_s": 3.0, "path_rtt_p95_ms": 24.0, "line_bps": 20e6, "line_by": "plateau"}
    found = judge(row)
    assert found is not None
    assert found.name == "not_slow"
    assert "18.3 Mbit/s of a line of about 20 Mbit/s" in found.happened
    assert "(2 %) are how TCP finds the line's rate" in found.happened
    assert judge(row | {"line_bps": 60e6}) != found
    if limit == "loss":
        assert judge(row | {"line_bps": 60e6}).name == "loss"  # type: ignore[union-attr]


def test_losses_that_permit_more_are_no_cause() -> None:
    row = FLOW | {
        "limited_loss_s": 3.0,
        "retransmitted_packets": 1,
        "timeouts": 0,
        "path_bps": 1e6,
        "path_rtt_p50_ms": 2.0,
    }
    found = judge(row)
    assert found is not None
    assert found.name == "cannot_tell"


@pytest.mark.parametrize("by", ["trains", "queue"])
def test_a_sender_without_a_queue_that_has_the_rate_of_the_line_is_not_slow(by: str) -> None:
    row = FLOW | {"limited_cwnd_s": 3.0, "path_rtt_p95_ms": 20.0, "line_bps": 20e6, "line_by": by}
    assert judge(row).name == "not_slow"  # type: ignore[union-attr]
    assert judge(row | {"line_by": "plateau"}).name == "cwnd"  # type: ignore[union-attr]


def test_one_rate_that_the_window_gives_is_not_the_line() -> None:
    row = FLOW | {"limited_receive_window_s": 3.0, "line_bps": 13e6, "line_by": "plateau", "path_bps": 13e6}
    assert judge(row).name == "receive_window"  # type: ignore[union-attr]
    assert judge(row | {"line_bps": 16e6}).name == "receive_window", "paced at 1.2 times the rate"  # type: ignore[union-attr]
    assert judge(row | {"line_by": "trains"}).name == "not_slow"  # type: ignore[union-attr]


def test_rare_losses_beside_a_queue_tell_nothing() -> None:
    row = FLOW | {
        "limited_loss_s": 3.0,
        "limited_queue_s": 2.0,
        "data_packets": 20_000,
        "retransmitted_packets": 10,
        "timeouts": 0,
        "line_bps": 60e6,
        "line_by": "trains",
    }
    assert judge(row).name == "cannot_tell"  # type: ignore[union-attr]
    assert judge(row | {"retransmitted_packets": 200}).name == "loss"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("extra", "mark"), [(0, "A+"), (4.9, "A+"), (5, "A"), (30, "B"), (60, "C"), (200, "D"), (400, "F"), (None, None)]
)
def test_grades(extra: float | None, mark: str | None) -> None:
    high = None if extra is None else 20.0 + extra
    assert grade(FLOW | {"path_rtt_p95_ms": high}) == mark


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100 %"), (0.997, "99.7 %"), (0.5, "50 %"), (0.004, "0.4 %"), (0.000344, "0.03 %")]
)
def test_shares_in_words(share: float, text: str) -> None:
    assert percent(share) == text


def test_small_flows_do_not_count_in_the_sum() -> None:
    large = flow(1, 1000)
    small = flow(2, 5, limited_queue_s=0.0, limited_loss_s=0.0, limited_idle_s=1e6)
    assert {row["limit"]: row["share"] for row in in_all(analysis(large, small).flows)} == {"queue": 0.5, "loss": 0.5}


def test_page_terminal_and_json_say_the_same() -> None:
    seen = analysis(flow(1, 400), flow(2, 90, limited_loss_s=0.0))
    says = answer(seen)
    assert says.startswith("Flow 1, 579 kB from 192.0.2.1:50001 to 198.51.100.7:443. Not slow: it got 3.4 Mbit/s.")
    console = Console(width=80, file=io.StringIO())
    console.print(*overview(seen), sep="\n")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert says in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    document = json.loads("".join(JsonOutput(None, None).as_json(seen)))
    (first, second) = document["totals"]["why"]
    assert says.endswith(first["says"])
    assert second["limits"] == [{"limit": "queue", "seconds": pytest.approx(0.2, abs=0.1), "share": 1.0}]
    page = html(seen)
    for flow_says in (first["says"], second["says"]):
        assert flow_says in page
    brief = limits.brief(document["totals"]["limits"], len(LIMITS))
    assert brief in page
    assert brief in " ".join(text.split())


def test_the_command_answers_first(airtcp: Command) -> None:
    from conftest import ROOT

    done = airtcp("analyze", ROOT / "tests/data/captures/timeout_2_duplicates-sender.pcap", "--no-save")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Flow 0, ")
    assert "timeout" in " ".join(done.stdout.splitlines()[:3])
