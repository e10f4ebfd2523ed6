"""Case of bench/run.py: one large capture through `airtcp analyze`, tshark and tcptrace.

Usage alone: analyze.py [--seconds S] [--snaplen B] [--repeat N]    --seconds 90 makes a gigabyte of headers

The peers are optional Debian packages; what is missing is skipped and said.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import statistics
from typing import Any

from airtcp_runs import AIRTCP, BenchError, Measured, airtcp_command, dumbbell_toml, measure

Entry = dict[str, Any]

GOALS = {"packets_per_s": 1e6, "peak_bytes": 512 << 20}
"""On one core, and whatever the length of the file."""

FLOWS = 100
SECONDS = 20
RATE = "800Mbit/s"
SNAPLEN = 96

# The reader alone: what the command does without tables, Parquet and the page.
READER = """
import sys, time
from airtcp import _airtcp
begin = time.perf_counter()
a = _airtcp.Analysis(sys.argv[1])
more = True
while more:
    more = a.advance(100_000)
    a.drain()
a.finish()
a.drain()
print(a.packets(), time.perf_counter() - begin)
"""


def make_capture(work: pathlib.Path, seconds: int, snaplen: int) -> pathlib.Path:
    """Data and ACKs at a bottleneck, some million packets; what its queue drops is not in it, as on a real line."""
    text = dumbbell_toml(
        flows=FLOWS,
        rate=RATE,
        delay="10ms",
        access_rate="10Gbit/s",
        access_delay="1ms",
        limit_packets=800,
        seconds=seconds,
        warmup=0,
        spread=1,
        profile="linux-6",
    )
    scenario = work / "capture.toml"
    scenario.write_text(text + '[record]\ncapture = ["bottleneck"]\n')
    measure([*airtcp_command(scenario, work / "run"), "--snaplen", str(snaplen)])
    capture = work / "run/capture.pcapng"
    if editcap := shutil.which("editcap"):
        # tcptrace does not know pcapng.
        measure([editcap, "-F", "pcap", str(capture), str(work / "capture.pcap")])
        return work / "capture.pcap"
    return capture


def commands(capture: pathlib.Path, work: pathlib.Path) -> dict[str, list[str]]:
    """Name of each contestant and its command."""
    python = str(AIRTCP.parent / "python")
    analyze = [str(AIRTCP), "analyze", str(capture)]
    found = {
        "airtcp, reader alone": [python, "-c", READER, str(capture)],
        "airtcp analyze, tables only": [*analyze, "--no-save"],
        "airtcp analyze, Parquet and page": [*analyze, "--out", str(work / "analysis")],
    }
    if tshark := shutil.which("tshark"):
        found["tshark -q -z conv,tcp"] = [tshark, "-n", "-q", "-z", "conv,tcp", "-r", str(capture)]
        flags = ["-Y", "tcp.analysis.retransmission", "-T", "fields", "-e", "frame.number"]
        found["tshark tcp.analysis"] = [tshark, "-n", "-r", str(capture), *flags]
    if (tcptrace := shutil.which("tcptrace")) and capture.suffix == ".pcap":
        found["tcptrace -l -r -W"] = [tcptrace, "-n", "-l", "-r", "-W", str(capture)]
    return found


def analyze(repeat: int, work: pathlib.Path, *, seconds: int = SECONDS, snaplen: int = SNAPLEN) -> list[Entry]:
    """Packets per second and peak memory on one capture; the contestants take turns."""
    capture = make_capture(work, seconds, snaplen)
    programs = commands(capture, work)
    runs: dict[str, list[Measured]] = {name: [] for name in programs}
    failed: dict[str, str] = {}
    for _ in range(repeat):
        for name, command in programs.items():
            if name in failed:
                continue
            try:
                done = measure(command)
                if name.startswith("tcptrace") and "packets seen" not in done.output:
                    raise BenchError(f"tcptrace did not read the capture: {done.output[:200]}")
                runs[name].append(done)
            except BenchError as error:
                if name.startswith("airtcp"):
                    raise
                failed[name] = str(error).splitlines()[-1][:200]
    first = runs["airtcp, reader alone"]
    packets = int(first[0].output.split()[0])
    entries = []
    whole = statistics.median(run.seconds for run in runs["airtcp analyze, Parquet and page"])
    for name, done in runs.items():
        if name in failed or not done:
            entries.append({"name": f"analyze: {name}", "error": failed.get(name, "no run")})
            continue
        took = statistics.median(run.seconds for run in done)
        if name == "airtcp, reader alone":
            # Without the start of Python.
            took = statistics.median(float(run.output.split()[1]) for run in done)
        peak = max(run.peak_bytes for run in done)
        is_own = name.startswith("airtcp")
        entry: Entry = {
            "name": f"analyze: {name}",
            "airtcp_seconds": round(took, 3) if is_own else round(whole, 3),
            "peer": None if is_own else name,
            "peer_seconds": None if is_own else round(took, 3),
            "ratio": None if is_own else round(took / whole, 1),
            "memory": {"airtcp": peak if is_own else None, "peer": None if is_own else peak},
            "cpu_seconds": round(statistics.median(run.cpu_seconds for run in done), 3),
            "seconds_all": [round(run.seconds, 3) for run in done],
            "packets": packets,
            "capture_bytes": capture.stat().st_size,
            "packets_per_s": round(packets / took),
            "text": f"{packets / took / 1e6:.3f} million packets/s of {packets / 1e6:.2f} million",
        }
        if is_own:
            entry["reaches"] = {
                "packets_per_s": entry["packets_per_s"] >= GOALS["packets_per_s"],
                "memory": peak <= GOALS["peak_bytes"],
            }
        entries.append(entry)
    missing = [name for name in ("tshark", "editcap", "tcptrace") if shutil.which(name) is None]
    if missing:
        entries[0]["skipped"] = f"not installed: {', '.join(missing)} (Debian packages)"
    return entries


def main() -> None:
    """The case alone."""
    import argparse
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="length of the capture (default: %(default)s)")
    parser.add_argument("--snaplen", type=int, default=SNAPLEN, help="bytes kept of a packet (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each program (default: %(default)s)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="airtcp-bench-") as work:
        found = analyze(args.repeat, pathlib.Path(work), seconds=args.seconds, snaplen=args.snaplen)
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
