"""Captures made by hand, one for each fault that was seen on public ones: the verdict is right, or there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp.analysis.results import Analysis
from airtcp.analysis.show import first_sentences
from airtcp.analysis.verdict import judge
from packets import ACK, FIN, MSS, PSH, RST, SERVER, SYN, Pcap, Tcp, tcp_options


@pytest.fixture
def pcap() -> Pcap:
    return Pcap()


def analysed(pcap: Pcap, folder: Path) -> Analysis:
    return airtcp.analyze(pcap.write(folder / "made.pcap"))


def largest(pcap: Pcap, folder: Path) -> dict[str, Any]:
    return analysed(pcap, folder).largest(1)[0]


def verdict(pcap: Pcap, folder: Path) -> tuple[str, str]:
    found = judge(largest(pcap, folder))
    assert found is not None
    return found.name, str(found)


def close(tcp: Tcp, at: float) -> None:
    """The client closes, a round trip of 40 ms away."""
    tcp.packet(at, "client", FIN | ACK)
    tcp.got["server"] = tcp.sent["client"]
    tcp.packet(at + 1e-4, "server", FIN | ACK)
    tcp.got["client"] = tcp.sent["server"]
    tcp.packet(at + 0.04, "client", ACK)


# --- 1: idle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["client", "server", "keep-alive"])
def test_silence_after_the_last_byte_is_no_outage(pcap: Pcap, tmp_path: Path, end: str) -> None:
    tcp = Tcp(pcap)
    tcp.request(tcp.open())
    at = tcp.answer(0.05, 40)
    if end == "keep-alive":
        for i in range(1, 5):
            tcp.packet(at + 15 * i, "server", ACK, seq=tcp.sent["server"] - 1)
            tcp.packet(at + 15 * i + 0.04, "client", ACK)
    if end == "server":
        tcp.packet(at + 70, "server", FIN | ACK)
        tcp.ack(at + 70.04)
    else:
        close(tcp, at + 70)
    flow = largest(pcap, tmp_path)
    assert flow["limited_outage_s"] == 0
    assert sum(flow[f"limited_{name}_s"] for name in airtcp.analysis.limits.LIMITS) < 1
    assert flow["goodput_bps"] > 1e6, "the rate is that of the transfer, without the wait for its FIN"
    assert "outage" not in verdict(pcap, tmp_path)[1]


def test_silence_while_data_waits_is_one(pcap: Pcap, tmp_path: Path) -> None:
    tcp = Tcp(pcap)
    tcp.request(tcp.open())
    at = tcp.answer(0.05, 40)
    first = tcp.sent["server"]
    for i in range(10):
        tcp.data(at + 1e-5 * i)
    for wait in (0.25, 0.75, 1.75, 3.75):
        tcp.data(at + wait, seq=first)
    tcp.ack(at + 3.8)
    name, says = verdict(pcap, tmp_path)
    assert name == "outage"
    assert "Nothing came through for 3.8 s" in says


def test_a_receiver_that_acknowledges_late_is_no_outage(pcap: Pcap, tmp_path: Path) -> None:
    tcp = Tcp(pcap)
    at = tcp.open()
    for _ in range(20):
        tcp.packet(at, "client", ACK | PSH, 12)
        tcp.got["server"] = tcp.sent["client"]
        tcp.packet(at + 0.015, "server", ACK | PSH, 100)
        # Each answer is acknowledged with the next request only.
        tcp.got["client"] = tcp.sent["server"]
        at += 1.5
    name, _ = verdict(pcap, tmp_path)
    assert name == "not_slow"


# --- 2: failures ----------------------------------------------------------------------------------------------------


def test_connections_that_fail_are_told(pcap: Pcap, tmp_path: Path) -> None:
    for port in range(3):
        silent = Tcp(pcap, ("192.0.2.1", 41_000 + port))
        for wait in (0, 1, 3):
            silent.packet(wait, "client", SYN, options=tcp_options(mss=1460))
    refused = Tcp(pcap, ("192.0.2.1", 42_000), (SERVER, 8080))
    refused.packet(0.5, "client", SYN)
    refused.packet(0.501, "server", RST | ACK)
    cut = Tcp(pcap, ("192.0.2.1", 43_000), (SERVER, 443))
    cut.request(cut.open(4))
    cut.packet(4.2, "server", RST | ACK)
    said = {one["kind"]: one for one in analysed(pcap, tmp_path).totals["findings"]}
    assert {kind: one["count"] for kind, one in said.items()} == {"unanswered": 3, "refused": 1, "reset": 1}
    assert (
        "3 connection attempts got no answer, to 198.51.100.7:80, and 6 SYNs sent again" in said["unanswered"]["says"]
    )
    assert "1 connection was refused, by 198.51.100.7:8080" in said["refused"]["says"]
    assert "broken off by a reset of 198.51.100.7" in said["reset"]["says"]
    first = first_sentences(analysed(pcap, tmp_path))[0]
    assert first.startswith("3 connection attempts"), "failures come first where they are what the capture shows"


def test_a_capture_that_ends_with_a_syn_tells_nothing_of_it(pcap: Pcap, tmp_path: Path) -> None:
    tcp = Tcp(pcap)
    tcp.request(tcp.open())
    at = tcp.answer(0.05, 40)
    Tcp(pcap, ("192.0.2.1", 41_000)).packet(at, "client", SYN)
    assert analysed(pcap, tmp_path).totals["findings"] == []


def test_one_direction_alone_is_no_failure(pcap: Pcap, tmp_path: Path) -> None:
    tcp = Tcp(pcap)
    tcp.packet(0, "client", SYN)
    tcp.packet(0.04, "client", ACK)
    for i in range(40):
        tcp.packet(0.05 + 0.1 * i, "client", ACK, MSS)
    assert analysed(pcap, tmp_path).totals["findings"] == []
    name, says = verdict(pcap, tmp_path)
    assert name == "cannot_tell"
    assert "one direction only" in says


def test_a_reset_after_everything_arrived_is_a_way_to_close(pcap: Pcap, tmp_path: Path) -> None:
    tcp = Tcp(pcap)
    tcp.request(tcp.open())
    at = tcp.answer(0.05, 40)
    tcp.packet(at + 1, "client", RST | ACK)
    seen = analysed(pcap, tmp_path)
    assert seen.totals["findings"] == []
    assert set(seen.flows.collect()["reset_by"]) == {"source", "destination"}


def test_names_without_answer_and_late_ones_are_told(pcap: Pcap, tmp_path: Path) -> None:
    for number in range(1, 11):
        pcap.question(number, number)
        if number > 4:
            pcap.answer(number + (0.02 if number > 6 else 1.5), number, code=2 if number == 10 else 0)
    pcap.question(1.5, 1)
    pcap.question(19, 99)
    pcap.packets.sort()
    tcp = Tcp(pcap)
    tcp.request(tcp.open(20))
    tcp.answer(20.05, 3)
    seen = analysed(pcap, tmp_path)
    names = seen.capture["dns"]
    assert {key: names[key] for key in ("questions", "repeated", "answers", "unanswered", "failed", "slow")} == {
        "questions": 11,
        "repeated": 1,
        "answers": 6,
        "unanswered": 4,
        "failed": 1,
        "slow": 2,
    }
    text = " ".join(first_sentences(seen))
    assert "4 of 11 DNS questions got no answer. Look at the name server 203.0.113.53." in text
    assert "2 DNS answers of 6 came late, 1.5 s at most" in text


# --- 3: closed windows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", ["linux", "windows", "none"])
@pytest.mark.parametrize("opens", [True, False])
def test_a_closed_window_is_the_receivers(pcap: Pcap, tmp_path: Path, probe: str, opens: bool) -> None:
    tcp = Tcp(pcap)
    tcp.request(tcp.open())
    at = tcp.answer(0.05, 40)
    tcp.data(at)
    tcp.ack(at + 0.04, window=0)
    at += 0.04
    before = tcp.sent["server"]
    waits = [0.3, 0.9, 2.1, 4.5, 9.3, 18.9] if probe != "none" else []
    for wait in waits:
        if probe == "linux":
            tcp.packet(at + wait, "server", ACK, seq=before - 1)
        else:
            tcp.packet(at + wait, "server", ACK, 1, seq=before)
        tcp.ack(at + wait + 0.04, window=0, upto=before)
    if opens:
        tcp.ack(at + 22, upto=before)
        for i in range(10):
            tcp.data(at + 22.001 + 1e-5 * i)
        tcp.ack(at + 22.05)
    flow = largest(pcap, tmp_path)
    name, says = verdict(pcap, tmp_path)
    if opens or waits:
        assert name == "receiver_app", says
        assert flow["limited_receiver_app_s"] > 18
        assert "closed the window once" in says
    assert flow["ends_closed"] is not opens
    assert flow["limited_outage_s"] == flow["limited_loss_s"] == 0
    assert flow["window_closed_s"] == pytest.approx(22 if opens else waits[-1] + 0.04 if waits else 0, abs=0.1)


# --- 7: windows and queues ------------------------------------------------------------------------------------------


def test_a_window_is_not_blamed_for_a_queue(pcap: Pcap, tmp_path: Path) -> None:
    """The least round trip is 10 ms, and the queue of a line of 10 Mbit/s makes 300 ms of it."""
    tcp = Tcp(pcap)
    tcp.request(tcp.open(rtt=0.01, scale=0), rtt=0.01)
    tcp.got["server"] = tcp.sent["client"]
    at, line, window = 0.02, 0.02, 65_000
    gone: list[tuple[float, int]] = []
    for i in range(2000):
        tcp.packet(at, "server", ACK, MSS)
        line = max(line, at) + (MSS + 40) * 8 / 10e6
        gone.append((line + 0.01, tcp.sent["server"]))
        if len(gone) * MSS + MSS > window:
            at, upto = gone.pop(0)
            tcp.got["client"] = upto
            tcp.packet(at, "client", ACK, window=window)
            at += 1e-5
        else:
            at += 1e-5 if i > 2 else 0.011
            if i <= 2:
                then, upto = gone.pop(0)
                tcp.got["client"] = upto
                tcp.packet(then, "client", ACK, window=window)
                at = then + 1e-4
    name, says = verdict(pcap, tmp_path)
    assert name == "not_slow", says
    assert "window" not in says.replace("queue", "")


# --- 8: captured twice ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_ms", [0.02, 0.4, 5.0])
def test_packets_captured_twice_count_once(pcap: Pcap, tmp_path: Path, after_ms: float) -> None:
    tcp = Tcp(pcap)
    tcp.request(tcp.open())
    tcp.answer(0.05, 60)
    once = largest(pcap, tmp_path)
    count = len(pcap.packets)
    pcap.twice(after_ms / 1e3)
    seen = analysed(pcap, tmp_path)
    flow = seen.largest(1)[0]
    for key in ("packets", "data_packets", "payload_bytes", "retransmitted_packets", "timeouts", "duplicate_acks"):
        assert flow[key] == once[key], key
    assert seen.capture["copies"] == count
    assert f"{count} packets were captured twice" in " ".join(seen.notes)


def test_ipv6_has_no_identification(pcap: Pcap, tmp_path: Path) -> None:
    tcp = Tcp(pcap, ("2001:db8::1", 40_000), ("2001:db8::2", 80))
    tcp.request(tcp.open())
    tcp.answer(0.05, 60)
    once = largest(pcap, tmp_path)
    pcap.twice(2e-5)
    flow = largest(pcap, tmp_path)
    for key in ("data_packets", "payload_bytes", "retransmitted_packets", "timeouts"):
        assert flow[key] == once[key], key


def test_what_is_sent_again_is_no_copy(pcap: Pcap, tmp_path: Path) -> None:
    tcp = Tcp(pcap)
    tcp.request(tcp.open())
    at = tcp.answer(0.05, 40)
    first = tcp.sent["server"]
    tcp.data(at)
    tcp.data(at + 0.1, seq=first)
    tcp.ack(at + 0.14)
    seen = analysed(pcap, tmp_path)
    assert seen.capture["copies"] == 0
    assert seen.totals["retransmitted_packets"] == 1


# --- 9 and 10: too little -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 9])
def test_few_segments_have_no_cause(pcap: Pcap, tmp_path: Path, segments: int) -> None:
    tcp = Tcp(pcap)
    tcp.request(tcp.open())
    tcp.answer(0.05, segments)
    seen = analysed(pcap, tmp_path)
    (why,) = [row for row in seen.totals["why"] if row["flow"] == seen.largest(1)[0]["flow"]]
    assert why["verdict"] == "cannot_tell"
    assert why["says"] == f"Too little to tell: {segments} segment{'s' if segments > 1 else ''} of data."
    assert why["limits"] == []
    assert why["grade"] is None


def test_a_wait_that_is_seen_is_told_of_short_flows(pcap: Pcap, tmp_path: Path) -> None:
    """The textbook's latencies: the way, the client, the server."""
    slow_way, slow_client, slow_server = Pcap(), Pcap(), Pcap()
    options = tcp_options(mss=1460)
    for made, way, client, server in ((slow_way, 0.9, 0, 0), (slow_client, 0, 1.3, 0), (slow_server, 0, 0, 1.1)):
        tcp = Tcp(made)
        tcp.packet(0, "client", SYN, options=options)
        tcp.packet(0.04 + way, "server", SYN | ACK, options=options)
        tcp.packet(0.041 + way, "client", ACK)
        at = 0.042 + way + client
        tcp.request(at)
        tcp.ack(at + 0.04, "server")
        tcp.got["server"] = tcp.sent["client"]
        tcp.data(at + 0.041 + server, flags=ACK | PSH)
        tcp.ack(at + 0.042 + server)
    found = {}
    for name, made in (("opening", slow_way), ("client", slow_client), ("think", slow_server)):
        folder = tmp_path / name
        folder.mkdir()
        found[name] = verdict(made, folder)
    assert {name: verdict for name, (verdict, _) in found.items()} == {name: name for name in found}
    assert "took 940 ms to open" in found["opening"][1]
    assert "the client sent its first data 1.3 s after" in found["client"][1]
    assert "the server took 1.1" in found["think"][1]


def test_figures_that_say_nothing_are_not_said(pcap: Pcap, tmp_path: Path) -> None:
    """Beside the receiver, without the SYN, a round trip is 10 microseconds."""
    tcp = Tcp(pcap)
    for i in range(40):
        tcp.data(0.001 * i)
        tcp.ack(0.001 * i + 1e-5)
    says = verdict(pcap, tmp_path)[1]
    assert "0.0" not in says
    assert "step" not in says


# --- 5: pacing ------------------------------------------------------------------------------------------------------


def steady(pcap: Pcap, push: bool, uneven: bool = False) -> None:
    """A full segment each 12 ms over a path of 2 ms."""
    tcp = Tcp(pcap)
    tcp.request(tcp.open(rtt=0.002), rtt=0.002)
    tcp.got["server"] = tcp.sent["client"]
    at = 0.01
    for i in range(200):
        tcp.data(at, flags=ACK | (PSH if push or i % 40 == 39 else 0))
        tcp.ack(at + 0.002)
        at += 0.012 * (1 + (i * 7 % 5 if uneven else 0))


def test_a_full_socket_behind_a_shaper_is_not_an_empty_one(pcap: Pcap, tmp_path: Path) -> None:
    steady(pcap, push=False)
    name, says = verdict(pcap, tmp_path)
    assert name == "paced"
    assert "pacing, or a shaper before the capture" in says
    assert "nothing to send" not in says


def test_where_both_look_alike_both_are_said(pcap: Pcap, tmp_path: Path) -> None:
    steady(pcap, push=True)
    name, says = verdict(pcap, tmp_path)
    assert name == "steady"
    for word in ("program", "pacing", "shaper", "cannot tell which"):
        assert word in says


def test_uneven_writes_are_an_applications(pcap: Pcap, tmp_path: Path) -> None:
    steady(pcap, push=True, uneven=True)
    assert verdict(pcap, tmp_path)[0] == "sender_app"
