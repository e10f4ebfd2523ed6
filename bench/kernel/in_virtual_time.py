"""A Linux kernel's TCP in virtual time, where nothing is late, beside airtcp: round trips, window and retransmissions.

Usage: in_virtual_time.py RATE_MBIT RTT_MS BUFFER_PACKETS [--cc NAME] [--loss PART] [--seed N] [--kernel VERSION|FILE]

A program writes as fast as it may for 15 s over one line, and reads TCP_INFO every 10 ms. The kernels of both hosts run
under `airtcp shell --virtual`, so the line keeps time exactly. Figures count from 3 s on. A router stands between the
sender and the line: what the line drops, the sender's own queue does not tell it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cells

from airtcp import _airtcp

Json = dict[str, Any]
AIRTCP = Path(sys.executable).with_name("airtcp")
LAST_S, WARMUP_S = 15, 3

SEND = """import json, select, socket, struct, sys, time
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[2].encode())
s.connect((socket.gethostbyname(sys.argv[1]), 5001))
s.setblocking(False)
zero = due = time.monotonic()
rows, data = [], bytes(65536)
while (now := time.monotonic()) < zero + float(sys.argv[3]):
    if now >= due:
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        at = lambda offset: struct.unpack_from("I", info, offset)[0]
        rows.append((round(now - zero, 4), at(68) / 1e3, at(80), at(100), struct.unpack_from("Q", info, 120)[0]))
        due += 0.01
        continue
    if select.select([], [s], [], max(0, due - now))[1]:
        try:
            s.send(data)
        except BlockingIOError:
            pass
for row in rows:
    print("row", json.dumps(row))
sys.stdout.flush()
"""

RECEIVE = """import socket
c, _ = socket.create_server(("", 5001)).accept()
while c.recv(1 << 20):
    pass
"""

BUFFERS = "sysctl -qw net.ipv4.tcp_wmem='4096 16384 33554432' net.ipv4.tcp_rmem='4096 131072 33554432'"


def scenario(arguments: argparse.Namespace) -> Json:
    host = {"kind": "host", "profile": "linux-6", "receive_offload": "napi"}
    line = {
        "from": "router",
        "to": "server",
        "rate": f"{arguments.rate:g}Mbit/s",
        "delay": f"{arguments.rtt / 2:g}ms",
        "queue": {"name": "fifo", "limit_packets": arguments.buffer},
        "loss": arguments.loss,
        "reverse": {"rate": "100Gbit/s", "queue": {"name": "fifo"}, "loss": 0.0},
    }
    tcp = {"cc": arguments.cc, "send_buffer_max": "32MiB"}
    return {
        "duration": f"{LAST_S}s",
        "warmup": f"{WARMUP_S}s",
        "seed": arguments.seed,
        "nodes": [{"name": "laptop", **host}, {"name": "server", **host}, {"name": "router", "kind": "router"}],
        "links": [line, {"from": "laptop", "to": "router", "rate": "100Gbit/s", "delay": "0s"}],
        "flows": [{"name": "flow", "from": "laptop", "to": "server", "tcp": tcp}],
        "record": {"interval": "10ms"},
    }


def figures(rtts: list[float], windows: list[float], again: float, acked: float, seconds: float) -> Json:
    return {
        "rtt_ms": statistics.fmean(rtts),
        "rtt_p95_ms": cells.quantile(rtts, 0.95),
        "cwnd": statistics.fmean(windows),
        "retransmitted": again,
        "goodput_mbit": acked * 8 / seconds / 1e6,
    }


def real(path: Path, arguments: argparse.Namespace, folder: Path) -> Json:
    (folder / "send.py").write_text(SEND)
    (folder / "receive.py").write_text(RECEIVE)
    send = f"{sys.executable} {folder}/send.py server {arguments.cc} {LAST_S}"
    command: list[str | Path] = [AIRTCP, "shell", path, "--virtual", "--kernel", arguments.kernel]
    command += ["--for", f"{LAST_S + 2}s", "--on", f"server={BUFFERS}; {sys.executable} {folder}/receive.py"]
    command += ["--on", f"laptop={BUFFERS}; sleep 0.001; {send}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [json.loads(line.split("row ", 1)[1]) for line in done.stdout.splitlines() if "row [" in line]
    rows = [row for row in rows if row[0] >= WARMUP_S]
    if done.returncode or not rows:
        raise SystemExit(f"exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    _, rtts, windows, again, acked = zip(*rows, strict=True)
    return figures(list(rtts), list(windows), again[-1] - again[0], acked[-1] - acked[0], rows[-1][0] - rows[0][0])


def simulated(path: Path, folder: Path) -> Json:
    import polars as pl

    out = folder / "out"
    subprocess.run([AIRTCP, "run", path, "--out", out, "-q"], check=True, capture_output=True)
    series = pl.read_parquet(out / "flow_series.parquet").filter(pl.col("time_s") >= WARMUP_S).sort("time_s")
    again, acked, times = (series[name].to_list() for name in ("segments_retransmitted", "bytes_acked", "time_s"))
    rtts, windows = series["srtt_ms"].drop_nulls().to_list(), series["cwnd_segments"].to_list()
    return figures(rtts, windows, again[-1] - again[0], acked[-1] - acked[0], times[-1] - times[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rate", type=float, metavar="RATE_MBIT")
    parser.add_argument("rtt", type=float, metavar="RTT_MS")
    parser.add_argument("buffer", type=int, metavar="BUFFER_PACKETS")
    parser.add_argument("--cc", default="bbr")
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernel", default="6.12", help="version that tools/uml/build.py has built, or a file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "scenario.toml"
        path.write_text(_airtcp.Checked.from_json(json.dumps(scenario(arguments)), "virtual", []).to_toml())
        sides = real(path, arguments, folder), simulated(path, folder)
    for key in sides[0]:
        print(f"{key:14} kernel {sides[0][key]:10.3f}  airtcp {sides[1][key]:10.3f}")


if __name__ == "__main__":
    main()
