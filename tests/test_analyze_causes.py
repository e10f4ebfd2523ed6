"""What held the kernel's own TCP back: one network for each cause, and `airtcp analyze` names it from every place.

Namespaces and a path in user space, as in `test_analyze_kernel`. The kernel's own account (TCP_INFO's busy time and the
part of it in which the receive window held the sender back) is the truth for the receive window.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import airtcp
import kernel_path
from airtcp.analysis import limits, verdict
from kernel_path import PLACES, Outcome, Spec

WHY_NOT = kernel_path.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=f"the kernel's TCP in namespaces: {WHY_NOT}")

SMALL_WINDOW = {"tcp_rmem": "4096 16384 16384", "tcp_moderate_rcvbuf": "0"}
FIXED_WINDOW = {"tcp_rmem": "4096 131072 131072", "tcp_moderate_rcvbuf": "0"}

CAUSES: dict[str, tuple[str, Spec]] = {
    "receive_window": ("receive_window", Spec([(0, 1000)], one_way_ms=10, sysctls=SMALL_WINDOW)),
    "receiver_app": ("receiver_app", Spec([(0, 500)], one_way_ms=5, read_kb_s=300, sysctls=FIXED_WINDOW)),
    "sender_app": ("sender_app", Spec([(40 * i, 6) for i in range(50)], one_way_ms=5)),
    "think": ("think", Spec([], one_way_ms=5, answers=[(150, 8)] * 10)),
    "queue": ("queue", Spec([(0, 1500)], one_way_ms=5, rate_mbit=10, queue=200)),
    "aqm_sized_queue": ("queue", Spec([(0, 1500)], one_way_ms=20, rate_mbit=10, queue=40)),
    "loss": ("loss", Spec([(0, 1500)], one_way_ms=15, loss=0.03, seed=5)),
    "slow_start": ("slow_start", Spec([(0, 150)], one_way_ms=40)),
    "outage": ("outage", Spec([(0, 600)], one_way_ms=5, rate_mbit=10, outage_ms=(200, 3000))),
    "heavy_loss": ("loss", Spec([(0, 250)], one_way_ms=10, loss=0.1, seed=9, seconds=15)),
}

ATTEMPTS = 3
"""A machine that stalls adds queues and outages of its own."""


def seen(folder: Path, place: str) -> dict[str, Any]:
    (flow,) = airtcp.analyze(folder / f"{place}.pcap").largest(1)
    return flow


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_named_from_every_place(name: str, tmp_path: Path) -> None:
    cause, spec = CAUSES[name]
    found: dict[str, str] = {}
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        truth = kernel_path.run(spec, folder)
        # At the receiver an outage shows no packet, and what repeats looks like new data.
        places = PLACES[:1] if cause == "outage" else PLACES
        flows = {place: seen(folder, place) for place in places}
        rows = {place: limits.shares(limits.spent(flow)) for place, flow in flows.items()}
        ours, kernels = windows(truth, flows["sender"])
        # The kernel counts its ticks of 1 to 10 ms, which are a lot of a transfer that is short.
        agrees = ours >= kernels - 0.1 and (kernels > 0 or ours < 0.1)
        if agrees and all(row[0]["limit"] == cause for row in rows.values()):
            break
        found = {place: limits.brief(row) for place, row in rows.items()}
        found["receive window"] = f"{ours:.2f} of the time, the kernel says {kernels:.2f}"
    else:
        pytest.fail(f"{name}: {found}")
    assert verdict.why(flows["sender"])


def windows(truth: Outcome, flow: dict[str, Any]) -> tuple[float, float]:
    """The analyser's and the kernel's own account of the receive window, as part of the time in which there were data.

    The kernel's is a lower bound: a sender that waits for a larger window before it sends a large segment
    (`tcp_tso_should_defer`) does not count as limited (Linux 6.12, net/ipv4/tcp_output.c).
    """
    spent = limits.spent(flow)
    ours = (spent["receive_window"] + spent["receiver_app"]) / truth.busy_s
    return ours, truth.rwnd_limited_s / truth.busy_s


FULL = {
    "tbf": Spec([(0, 400)], one_way_ms=1, tc="tbf rate 4mbit burst 3200 latency 2000ms"),
    "pacing": Spec([(0, 400)], one_way_ms=1, pacing_mbit=4),
    "pacing, long path": Spec([(0, 400)], one_way_ms=20, pacing_mbit=4),
}
"""A socket that is full all the time, held back on its own host."""


@pytest.mark.parametrize("name", FULL)
def test_a_full_socket_is_no_idle_application(name: str, tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        kernel_path.run(FULL[name], folder)
        flow = seen(folder, "sender")
        found = verdict.judge(flow)
        assert found is not None
        if found.name != "sender_app" and "nothing to send" not in str(found):
            break
    else:
        pytest.fail(f"{name}: {found}, {limits.brief(limits.of_flow(flow))}")
