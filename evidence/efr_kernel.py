"""EFR inside Linux (kernel/tcp-efr) beside the simulation, in the cases of the study's Figure 9: a table.

Usage: efr_kernel.py --kernel FILE [--page]

    tools/uml/build.py 6.12 --patches kernel/tcp-efr    # prints the kernel's path

Windows of two to six segments over 20 Mbit/s and 20 ms; the first segment is lost. The kernel runs in virtual time
under `airtcp shell --virtual`. Inside, its TCP sends to itself through a TUN device. The program behind the device has
rate and delay, drops that segment, and swaps the addresses, which changes no checksum. So sender and receiver are the
kernel's. The window is the initial one, by the route (`initcwnd`). A single segment goes before: Linux takes the very
first ACK after a SYN for a window update, which is no duplicate without SACK (`tcp_may_update_window` of
net/ipv4/tcp_input.c, 6.12). RACK, the tail loss probe and timestamps are off. The threshold is EFR's (`tcp_recovery`
8), or three duplicates (0).

The simulation has a transfer in its place, over a line that loses at random. Of its seeds the first counts in which
exactly that segment is lost. Both tell how many duplicates came before the segment was sent again, and after how long.

A case *agrees* if both have the same cause (duplicates or timeout) and as many duplicates, and if the times differ by
at most 1 ms, or 8 ms for a timeout: the kernel's clock for those goes in steps of 4 ms.

With --page the figures go to evidence/figures/, and the table to evidence/hosts.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import hosts
import page

import airtcp

Json = dict[str, Any]

WINDOWS, MSS, PORT = range(2, 7), 1460, 5001
RULES = {"efr": 8, "dup_thresh": 0}
"""The threshold's name in scenarios, and `tcp_recovery` of the kernel."""

PAGE, FIGURES_FILE = page.ROOT / "evidence/hosts.md", page.DATA / "efr-kernel.json"

# In the guest: prints one object per case.
GUEST = """import fcntl, heapq, json, os, select, socket, struct, subprocess, threading, time
MSS, PORT = 1460, 5001
def sysctl(name, value):
    with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
        file.write(str(value))
def ip(words):
    subprocess.run(["ip", *words.split()], check=True)
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH", b"air0", 0x1001) + bytes(22))
ip("address add 10.99.0.1/24 dev air0")
ip("link set air0 mtu 1500 up")
for name, value in (("early_retrans", 0), ("timestamps", 0), ("no_metrics_save", 1)):
    sysctl(f"tcp_{name}", value)
log, is_over, lost, count = [], False, -1, 0
def carry():
    global count
    flying, free, number = [], 0, 0
    while not is_over:
        wait = max(flying[0][0] - time.monotonic_ns(), 0) / 1e9 if flying else 0.1
        if select.select([tun], [], [], wait)[0]:
            packet = os.read(tun, 65536)
            if packet[0] >> 4 != 4:
                continue
            now = time.monotonic_ns()
            is_forward = struct.unpack_from(">H", packet, 22)[0] == PORT
            data = len(packet) - 20 - 4 * (packet[32] >> 4)
            log.append((now, is_forward, data, *struct.unpack_from(">II", packet, 24)))
            if is_forward:
                free = max(free, now) + len(packet) * 8 * 50
                count += data > 0
                if data and count == lost + 1:
                    continue
            swapped = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
            heapq.heappush(flying, ((free if is_forward else now) + 10_000_000, number, swapped))
            number += 1
        while flying and flying[0][0] <= time.monotonic_ns():
            os.write(tun, heapq.heappop(flying)[2])
threading.Thread(target=carry, daemon=True).start()
listener = socket.create_server(("10.99.0.1", PORT))
for recovery in ("new_reno", "sack"):
    for rule, value in (("efr", 8), ("dup_thresh", 0)):
        for window in range(2, 7):
            sysctl("tcp_sack", int(recovery == "sack"))
            sysctl("tcp_recovery", value)
            ip(f"route replace 10.99.0.0/24 dev air0 src 10.99.0.1 initcwnd {window}")
            sender = socket.socket()
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
            sender.connect(("10.99.0.2", PORT))
            receiver, _ = listener.accept()
            sender.sendall(bytes(MSS))
            receiver.recv(65536)
            time.sleep(0.1)
            log.clear()
            lost, count = 0, 0
            left = window * MSS
            sender.sendall(bytes(left))
            while left:
                left -= len(receiver.recv(65536))
            time.sleep(0.1)
            data = [row for row in log if row[1] and row[2]]
            acks = [row for row in log if not row[1]]
            first = data[lost]
            again = next(row for row in data[lost + 1:] if row[3] == first[3])
            # An ACK is known at the sender 10 ms after it went in.
            same = [row for row in acks if row[4] == first[3] and row[0] + 10_000_000 <= again[0]]
            waited = (again[0] - first[0]) / 1e6
            print(json.dumps({"recovery": recovery, "rule": rule, "window": window, "waited_ms": waited,
                "duplicates": len(same), "segments": len(data)}), flush=True)
            receiver.close()
            sender.close()
            time.sleep(0.1)
is_over = True
"""


def simulated(recovery: str, rule: str, window: int, folder: Path) -> Json:
    """The case of the first seed in which just that segment is lost."""
    tcp = {"recovery": recovery, "loss": rule, "cc": "reno", "initial_window": window, "max_cwnd": window}
    tcp |= {"timestamps": False, "tail_loss_probe": False}
    one = {"name": "line", "from": "a", "to": "b", "rate": "20Mbit/s", "delay": "10ms", "loss": 0.1}
    traffic = {"kind": "transfer", "bytes": f"{window * MSS}B"}
    scenario = {
        "name": "efr",
        "duration": "3s",
        "nodes": [{"name": name, "kind": "host", "profile": "linux-6"} for name in "ab"],
        "links": [{**one, "reverse": {"loss": 0.0}}],
        "flows": [{"name": "transfer", "from": "a", "to": "b", "traffic": traffic, "tcp": tcp}],
        "record": {"retransmissions": True},
    }
    for seed in range(1, 1000):
        results = airtcp.run(hosts.toml({**scenario, "seed": seed}, folder, "efr"))
        rows = results.retransmissions.collect().to_dicts()
        lost = results.summary["groups"][0]["lost_on_lines"]
        if lost == 1 and rows and rows[0]["seq"] == 1 and rows[0]["size_bytes"] > 0:
            first = rows[0]
            return {"waited_ms": first["waited_ms"], "duplicates": first["dup_acks"], "cause": first["cause"]}
    raise SystemExit(f"{recovery}, {rule}, window {window}: no seed loses that segment alone")


def measured(kernel: str, folder: Path) -> list[Json]:
    """All cases in the kernel."""
    program = hosts.programs(folder, guest=GUEST)["guest"]
    words: hosts.Words = ["--line", "20Mbit/s,10ms", "--virtual", "--kernel", kernel, "--for", "60s"]
    text, found = hosts.shell(kernel, [*words, *hosts.on("laptop", program)], cases=r"\{.*\}")
    if len(found["cases"]) != 20:
        raise SystemExit(f"{kernel}: told {len(found['cases'])} of 20 cases\n{text}")
    return [json.loads(case) for case in found["cases"]]


def agrees(row: Json) -> bool:
    model = row["simulated"]
    is_timeout = model["cause"] == "timeout"
    near = abs(row["waited_ms"] - model["waited_ms"]) <= (8 if is_timeout else 1)
    return near and row["duplicates"] == model["duplicates"]


def cell(duplicates: int, waited: float) -> str:
    what = "timeout" if waited > 100 else str(duplicates)
    return f"{what}, {waited:.1f}"


def table(data: Json) -> str:
    """The table, of its figures."""
    lines = [
        "| | window | EFR: kernel | simulated | three duplicates: kernel | simulated |",
        "|---|---|---|---|---|---|",
    ]
    for recovery, words in (("new_reno", "without SACK"), ("sack", "with SACK")):
        for window in WINDOWS:
            cells = [words, str(window)]
            for rule in RULES:
                row = next(
                    r for r in data["rows"] if (r["recovery"], r["rule"], r["window"]) == (recovery, rule, window)
                )
                told = cell(row["duplicates"], row["waited_ms"])
                cells.append(told if agrees(row) else f"**{told}**")
                cells.append(cell(row["simulated"]["duplicates"], row["simulated"]["waited_ms"]))
            lines.append(f"| {' | '.join(cells)} |")
    good = sum(map(agrees, data["rows"]))
    return "\n".join(
        [*lines, "", f"{good} of {len(data['rows'])} cases agree (Linux {data['kernel']} with the patch)."]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kernel", required=True, metavar="FILE", help="a kernel with the patch, of tools/uml/build.py"
    )
    parser.add_argument("--page", action="store_true", help="put figures and table where the documentation has them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = measured(arguments.kernel, folder)
        for row in rows:
            row["simulated"] = simulated(row["recovery"], row["rule"], row["window"], folder)
    version = subprocess.run([arguments.kernel, "--version"], capture_output=True, text=True, check=True).stdout
    data = {"kernel": version.strip().split("-")[0], "rows": rows}
    text = table(data)
    print(text)
    if arguments.page:
        FIGURES_FILE.write_text(json.dumps(data, indent=1) + "\n")
        PAGE.write_text(page.with_part(PAGE.read_text(), "EFR in the kernel", text))


if __name__ == "__main__":
    main()
