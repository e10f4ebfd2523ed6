"""A Linux kernel's TCP in virtual time, where nothing is late, beside airtcp in the cells of one flow.

    in_virtual_time.py one RATE_MBIT RTT_MS BUFFER_PACKETS [--cc NAME] [--loss PART] [--seed N]
    in_virtual_time.py cells [--match TEXT]... [--again]   # the recorded table's, or those whose name has a TEXT
    in_virtual_time.py page                                # writes the tables to evidence/kernel.md

A program writes as fast as it may for 15 s over one line, and reads TCP_INFO every 10 ms. The kernels of both hosts run
under `airtcp shell --virtual`, so the line keeps time exactly. Figures count from 3 s on and are those of
evidence/kernel/run.py. A router stands between the sender and the line: what the line drops, the sender's own queue
does not tell it. Cells are kept in evidence/figures/kernel-virtual.json as they are done. There the kernel is run once,
or `--again`, and airtcp each time. `--kernel` names a version that tools/uml/build.py has built, or a file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cells

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import compare
import page
from airtcp_runs import AIRTCP

from airtcp import _airtcp

Json = dict[str, Any]
LAST_S, WARMUP_S = 15, 3
SPARE_S = 0.5
"""Until samples have been told. The line's figures count these, too, on both sides."""
PORT = 5001

SEND = """import json, select, socket, struct, sys, time
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[2].encode())
s.connect((socket.gethostbyname(sys.argv[1]), int(sys.argv[4])))
s.setblocking(False)
zero = due = time.monotonic()
end = zero + float(sys.argv[3])
rows, data, told = [], bytes(65536), False
while True:
    now = time.monotonic()
    if now >= end and not told:
        told = True
        for row in rows:
            print("row", json.dumps(row))
        sys.stdout.flush()
    if now >= due and not told:
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        at = lambda offset: struct.unpack_from("I", info, offset)[0]
        rows.append((round(now - zero, 4), at(68) / 1e3, at(80), at(100), struct.unpack_from("Q", info, 120)[0]))
        due += 0.01
        continue
    if select.select([], [s], [], max(0, due - now) if not told else 1)[1]:
        try:
            s.send(data)
        except BlockingIOError:
            pass
"""
"""Tells its samples, and writes on until it is ended."""

RECEIVE = """import socket, sys
c, _ = socket.create_server(("", int(sys.argv[1]))).accept()
while c.recv(1 << 20):
    pass
"""

BUFFERS = "sysctl -qw net.ipv4.tcp_wmem='4096 16384 33554432' net.ipv4.tcp_rmem='4096 131072 33554432'"
BY_ONE = "for device in /sys/class/net/e*; do ip link set ${device##*/} gso_max_segs 1; done"
"""As evidence/kernel/run.py has it for cells without segmentation offload."""


def scenario(cell: Json) -> Json:
    host = {"kind": "host", "profile": "linux-6", "receive_offload": "napi"}
    line = {
        "from": "router",
        "to": "server",
        "rate": f"{cell['rate_mbit']:g}Mbit/s",
        "delay": f"{cell['rtt_ms'] / 2:g}ms",
        "queue": {"name": "fifo", "limit_packets": cell["buffer_packets"]},
        "loss": cell["loss"],
        "reverse": {"rate": "100Gbit/s", "queue": {"name": "fifo"}, "loss": 0.0},
    }
    tcp = {"send_buffer_max": "32MiB"}
    if cell["cc"] != "cubic":
        tcp["cc"] = cell["cc"]
    if not cell["send_offload"]:
        tcp["segments_at_once"] = "single"
    return {
        "duration": f"{LAST_S + SPARE_S}s",
        "warmup": f"{WARMUP_S}s",
        "seed": cell["seed"],
        "nodes": [{"name": "laptop", **host}, {"name": "server", **host}, {"name": "router", "kind": "router"}],
        "links": [line, {"from": "laptop", "to": "router", "rate": "100Gbit/s", "delay": "0s"}],
        "flows": [{"name": "flow", "from": "laptop", "to": "server", "tcp": tcp}],
        "record": {"interval": "10ms", "capture": ["server->router"]},
    }


FORWARD, BACK = "router->server", "server->router"


def of_the_line(out: Path, ack_times: list[float]) -> dict[str, float]:
    """What a run's folder tells of the line, of the simulation's or of the kernels'."""
    links = {link["name"]: link for link in json.loads((out / "summary.json").read_text())["links"]}
    forward, back = links[FORWARD], links[BACK]
    times = [at for at in ack_times if at >= WARMUP_S]
    return {
        "queue_packets": forward["queue_mean_packets"],
        "acks_per_packet": back["arrived_packets"] / max(1, forward["forwarded_packets"] - forward["lost_packets"]),
        "ack_gap_p50_us": cells.quantile([b - a for a, b in itertools.pairwise(times)], 0.5) * 1e6,
    }


def of_the_sender(rows: list[list[float]]) -> dict[str, float]:
    """Rows: seconds, round trip in ms, window, retransmissions, bytes acknowledged."""
    times, rtts, windows, again, acked = zip(*(row for row in rows if WARMUP_S <= row[0] <= LAST_S), strict=True)
    return {
        "goodput_mbit": (acked[-1] - acked[0]) * 8 / (times[-1] - times[0]) / 1e6,
        "rtt_ms": statistics.fmean(rtts),
        "rtt_p95_ms": cells.quantile(rtts, 0.95),
        "cwnd": statistics.fmean(windows),
        "retransmitted": again[-1] - again[0],
    }


def ack_times(capture: Path) -> list[float]:
    """Seconds at which the server sent ACKs: IPv4 without a link's header, from its port."""
    return [
        at
        for interface, at, packet in compare.captured(capture.read_bytes())
        if interface == "server" and packet[9:10] == b"\x06" and packet[20:22] == PORT.to_bytes(2, "big")
    ]


def real(path: Path, cell: Json, kernel: str, folder: Path) -> dict[str, float]:
    (folder / "send.py").write_text(SEND)
    (folder / "receive.py").write_text(RECEIVE)
    send = f"{sys.executable} {folder}/send.py server {cell['cc']} {LAST_S} {PORT}"
    before = BUFFERS if cell["send_offload"] else f"{BUFFERS}; {BY_ONE}"
    out = folder / "kernels"
    receive = f"{BUFFERS}; {sys.executable} {folder}/receive.py {PORT}"
    command: list[str | Path] = [AIRTCP, "shell", path, "--virtual", "--kernel", kernel, "--out", out]
    command += ["--snaplen", "96", "--for", f"{LAST_S + SPARE_S}s", "--on", f"server={receive}"]
    command += ["--on", f"laptop={before}; sleep 0.001; {send}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [json.loads(line.split("row ", 1)[1]) for line in done.stdout.splitlines() if "row [" in line]
    if not rows or rows[-1][0] < LAST_S - 0.1:
        raise RuntimeError(f"exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return of_the_sender(rows) | of_the_line(out, ack_times(out / "capture.pcapng"))


def simulated(path: Path, folder: Path) -> dict[str, float]:
    import polars as pl

    out = folder / "simulated"
    subprocess.run([AIRTCP, "run", path, "--out", out, "-q"], check=True, capture_output=True)
    series = pl.read_parquet(out / "flow_series.parquet").sort("time_s").drop_nulls("srtt_ms")
    columns = ("time_s", "srtt_ms", "cwnd_segments", "segments_retransmitted", "bytes_acked")
    rows = list(zip(*(series[name].to_list() for name in columns), strict=True))
    return of_the_sender(rows) | of_the_line(out, compare.capture_times((out / "capture.pcapng").read_bytes()))


def both(cell: Json, kernel: str, known: dict[str, float] | None = None) -> tuple[dict[str, float], dict[str, float]]:
    """airtcp's figures and the kernel's, which are not run again where they are known."""
    with tempfile.TemporaryDirectory(prefix="airtcp-virtual-") as name:
        folder = Path(name)
        path = folder / "scenario.toml"
        path.write_text(_airtcp.Checked.from_json(json.dumps(scenario(cell)), "virtual", []).to_toml())
        return simulated(path, folder), known or real(path, cell, kernel, folder)


def possible() -> Iterator[Json]:
    """Of the table's cells those of one flow whose receiver takes packets as they come."""
    return (cell for cell in cells.cells() if cell["flows"] == 1 and not cell["gro_flush_us"])


def row_of(cell: Json, own: dict[str, float], kernel: dict[str, float]) -> Json:
    off_by = compare.differences(own, kernel)
    row = {"cell": cells.name(cell), "send_offload": cell["send_offload"]}
    return row | {k: compare.rounded(v) for k, v in (("airtcp", own), ("kernel", kernel), ("off_by", off_by))}


def tables(data: Json) -> str:
    """What the page says of the cells that were run."""
    rows = data["rows"]
    parts = compare.by_offload("airtcp and the kernel in virtual time", rows)
    number = len(list(possible()))
    parts.append(f"{data['peer']}, one run of each. {len(rows)} of the {number} cells of one flow were run: these.")
    lines = ["| cell | inside 5 % | outside: airtcp, kernel |", "|---|---|---|"]
    for row in rows:
        outside = [f for f in cells.FIGURES if row["off_by"][f.key] > compare.BOUNDS[0]]
        told = (f"{f.words}: {row['airtcp'][f.key]:{f.form}}, {row['kernel'][f.key]:{f.form}}" for f in outside)
        lines.append(
            f"| {row['cell']} | {len(cells.FIGURES) - len(outside)} of {len(cells.FIGURES)} | {'; '.join(told)} |"
        )
    parts.append("\n".join(lines))
    return "\n\n".join(parts)


def run_cells(arguments: argparse.Namespace) -> None:
    """Runs the kernel where it was not run yet and airtcp in all cells, and keeps each cell as soon as it is done."""
    out: Path = arguments.out
    done = {row["cell"]: row for row in json.loads(out.read_text())["rows"]} if out.exists() else {}
    order = [cells.name(cell) for cell in possible()]
    wanted = [name for name in order if not arguments.match or any(text in name for text in arguments.match)]
    if not wanted:
        raise SystemExit(f"no cell of one flow has {' or '.join(map(repr, arguments.match))} in its name")
    for cell in possible():
        name = cells.name(cell)
        if name not in wanted:
            continue
        known = None if arguments.again else done.get(name, {}).get("kernel")
        own, kernel = both(cell, arguments.kernel, known)
        done[name] = row_of(cell, own, kernel)
        print(compare.line(cell, own, kernel, done[name]["off_by"]), flush=True)
        rows = [done[name] for name in order if name in done]
        out.write_text(json.dumps({"peer": f"Linux {arguments.kernel}", "rows": rows}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12", help="version that tools/uml/build.py has built, or a file")
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("one")
    one.add_argument("rate", type=float, metavar="RATE_MBIT")
    one.add_argument("rtt", type=float, metavar="RTT_MS")
    one.add_argument("buffer", type=int, metavar="BUFFER_PACKETS")
    one.add_argument("--cc", default="bbr")
    one.add_argument("--loss", type=float, default=0.0)
    one.add_argument("--seed", type=int, default=1)
    some = kinds.add_parser("cells")
    some.add_argument("--match", action="append", help="only cells whose name contains this; can be repeated")
    some.add_argument("--again", action="store_true", help="run the kernel where it was run before, too")
    some.add_argument("--out", type=Path, default=page.VIRTUAL)
    kinds.add_parser("page")
    arguments = parser.parse_args()
    if arguments.kind == "cells":
        run_cells(arguments)
    elif arguments.kind == "page":
        data = json.loads(page.VIRTUAL.read_text())
        page.write(page.VIRTUAL, data, {"virtual": (page.KERNEL, tables(data))})
    else:
        a = arguments
        cell = cells.make(a.cc, a.rate, a.rtt, 1.0, a.loss, seed=a.seed) | {"buffer_packets": a.buffer}
        own, kernel = both(cell, a.kernel)
        for key in kernel:
            print(f"{key:16} kernel {kernel[key]:10.3f}  airtcp {own[key]:10.3f}")


if __name__ == "__main__":
    main()
