"""The kernel's queue disciplines beside airtcp's: goodput, shares, ping and loss of one bottleneck, as a table.

Usage: queues.py [--kernel VERSION|FILE] [--only NAME ...] [--seeds N] [--page]

With --page the figures go to evidence/figures/, and the table to evidence/kernel.md. Each row runs with N seeds (5
unless said). Figures are means with 95 % intervals.

The kernel's side is one Linux kernel in virtual time (tools/uml/build.py makes it). Two hosts, a router and a server
are its network namespaces, and `tc` sets the queue discipline at the router. CAKE shapes by itself. Before the others
stands `tbf` with room for one packet, so that they wait for a line of 20 Mbit/s. ACKs are delayed by 40 ms. Packets
are neither merged nor sent several at a time, so that only the queue discipline can tell the two sides apart. The
router takes packets from their sockets, so TCP small queues see nothing; the simulation has them off.

Flows are CUBIC that writes as fast as it may for 20 s, and a ping goes every 50 ms. Figures count from 5 s on. A seed
decides when each flow starts, within the first second.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import hosts
import page

from airtcp import stats

Json = dict[str, Any]

FIGURES_OF_PAGE = page.DATA / "queues.json"

RATE_BPS, BACK_MS, LAST_S, WARMUP_S, PING_S = 20_000_000, 40, 20.0, 5.0, 0.05

# A line's rate counts IP packets; tbf counts their Ethernet headers, too.
TBF = f"tbf rate {RATE_BPS * 1514 // 1500}bit burst 1514 limit 10000000"

DISCIPLINES: dict[str, tuple[str, Json]] = {
    "fifo": ("pfifo limit 100", {"name": "fifo", "limit_packets": 100}),
    "codel": ("codel", {"name": "codel"}),
    "fq_codel": ("fq_codel", {"name": "fq_codel"}),
    "pie": ("pie", {"name": "pie"}),
    "cake": ("cake besteffort overhead 0", {"name": "cake"}),
}
"""The words for tc, and the queue of a scenario."""

ROWS: dict[str, tuple[str, Json]] = {
    "fifo, 4 flows": ("fifo", {"a": 4}),
    "codel, 4 flows": ("codel", {"a": 4}),
    "codel, 20 flows": ("codel", {"a": 20}),
    "fq_codel, 4 flows": ("fq_codel", {"a": 4}),
    "fq_codel, 20 flows": ("fq_codel", {"a": 20}),
    "pie, 4 flows": ("pie", {"a": 4}),
    "pie, 20 flows": ("pie", {"a": 20}),
    "cake, 4 flows": ("cake", {"a": 4}),
    "cake, 20 flows": ("cake", {"a": 20}),
    "cake, hosts with 1 and 9 flows": ("cake", {"a": 1, "b": 9}),
    "fq_codel, hosts with 1 and 9 flows": ("fq_codel", {"a": 1, "b": 9}),
    "cake, 4 flows and 10 Mbit/s of datagrams": ("cake", {"a": 4, "cbr": 10}),
    "codel, 4 flows and 10 Mbit/s of datagrams": ("codel", {"a": 4, "cbr": 10}),
    "pie, 4 flows and 10 Mbit/s of datagrams": ("pie", {"a": 4, "cbr": 10}),
}
"""Each row's discipline, and its flows by host; `cbr` is the rate of datagrams of host b, in Mbit/s."""

FIGURES = {
    "goodput": ("goodput, Mbit/s", 2),
    "jain": ("Jain", 3),
    "first": ("of host a, Mbit/s", 2),
    "ping": ("ping, ms", 1),
    "loss": ("TCP's loss, %", 2),
}
"""What each is called, and its digits. Loss is of the packets that TCP sent, retransmissions included."""

SENDER = f"""{hosts.SENDING}starts, last, warmup = json.loads(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
zero = time.monotonic()
waiting, socks, before = sorted((s, i) for i, s in enumerate(starts)), {{}}, None
def info(s):
    now = known(s)
    return now["acked"], now["sent"], now["again"]
while (now := time.monotonic() - zero) < last:
    while waiting and waiting[0][0] <= now:
        i = waiting.pop(0)[1]
        s = socket.socket()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        s.connect(("10.9.3.2", 5001))
        s.setblocking(False)
        socks[i] = s
    if before is None and now >= warmup:
        before = {{i: info(s) for i, s in socks.items()}}
    next_at = min([last, *([warmup] if before is None else []), *(s for s, _ in waiting[:1])])
    write(list(socks.values()), zero + next_at)
print(json.dumps([[a - b for a, b in zip(info(socks[i]), before[i])] for i in sorted(socks)]), flush=True)
os._exit(0)
"""

PINGER = """import socket, sys, time
from statistics import mean
start, last, warmup, gap = map(float, sys.argv[1:])
zero = time.monotonic()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("10.9.3.2", 5002))
s.settimeout(gap)
sent, rtts, i = {}, [], 0
while (due := start + i * gap) < last:
    left = due - (time.monotonic() - zero)
    if left <= 0:
        sent[i] = time.monotonic()
        s.send(i.to_bytes(4, "big") + bytes(52))
        i += 1
        continue
    s.settimeout(left)
    try:
        n = int.from_bytes(s.recv(100)[:4], "big")
        if sent[n] - zero >= warmup:
            rtts.append(time.monotonic() - sent[n])
    except TimeoutError:
        pass
print(mean(rtts) * 1e3)
"""

ECHO = """import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 5002))
while True:
    data, address = s.recvfrom(100)
    s.sendto(data, address)
"""

SINK = """import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 5003))
while True:
    s.recv(2000)
"""

BLAST = """import socket, sys, time
rate, last = map(float, sys.argv[1:])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("10.9.3.2", 5003))
gap, zero, i = 1500 * 8 / rate, time.monotonic(), 0
while (due := i * gap) < last:
    left = due - (time.monotonic() - zero)
    if left > 0:
        time.sleep(left)
    s.send(bytes(1472))
    i += 1
"""

NETWORK = f"""set -e
for n in a b r s; do ip netns add $n; ip -n $n link set lo up; done
join() {{ # namespace, its address, the router's address, network
  ip link add x0 netns $1 type veth peer name to-$1 netns r
  ip -n $1 addr add $2/24 dev x0
  ip -n r addr add $3/24 dev to-$1
  ip -n $1 link set x0 gso_max_segs 1 up
  ip -n r link set to-$1 gso_max_segs 1 up
  ip -n $1 route add default via $3
}}
join a 10.9.1.2 10.9.1.1
join b 10.9.2.2 10.9.2.1
join s 10.9.3.2 10.9.3.1
ip netns exec r sysctl -qw net.ipv4.ip_forward=1
for n in a b s; do ip netns exec $n sysctl -qw net.ipv4.tcp_no_metrics_save=1; done
tc -n s qdisc add dev x0 root netem delay {BACK_MS}ms limit 100000
"""


def starts(row: str, seed: int) -> dict[str, list[float]]:
    """When each flow of each host begins, in seconds."""
    rng = random.Random(f"{row}/{seed}")
    return {
        host: [round(rng.uniform(0.001, 1), 6) for _ in range(n)] for host, n in ROWS[row][1].items() if host != "cbr"
    }


def cbr_bps(row: str) -> float:
    return ROWS[row][1].get("cbr", 0) * 1e6


def real(row: str, seed: int, kernel: str, folder: Path) -> Json:
    discipline = DISCIPLINES[ROWS[row][0]][0]
    texts = {"send": SENDER, "receive": hosts.SINK, "ping": PINGER, "echo": ECHO, "sink": SINK, "blast": BLAST}
    programs = hosts.programs(folder, **texts)

    def program(host: str, name: str, *arguments: object) -> str:
        return f"ip netns exec {host} {programs[name]} {' '.join(shlex.quote(str(a)) for a in arguments)}"

    script = NETWORK
    if ROWS[row][0] == "cake":
        script += f"tc -n r qdisc add dev to-s root {discipline} bandwidth {RATE_BPS}bit\n"
    else:
        script += (
            f"tc -n r qdisc add dev to-s root handle 1: {TBF}\ntc -n r qdisc add dev to-s parent 1:1 {discipline}\n"
        )
    script += f"{program('s', 'receive')} &\n{program('s', 'echo')} &\n{program('s', 'sink')} &\nsleep 0.5\n"
    script += f"({program('a', 'ping', 0, LAST_S, WARMUP_S, PING_S)} | sed 's/^/ping /') &\n"
    if cbr_bps(row):
        script += f"{program('b', 'blast', cbr_bps(row), LAST_S)} &\n"
    for host, when in starts(row, seed).items():
        script += f"({program(host, 'send', json.dumps(when), LAST_S, WARMUP_S)} | sed 's/^/flows-{host} /') &\n"
    script += f"sleep {LAST_S + 1}\ntc -n r -s qdisc show dev to-s\n"
    (folder / "network.sh").write_text(script)
    ends = [{"name": name, "kind": "host"} for name in ("laptop", "server")]
    line = {"from": "laptop", "to": "server", "rate": "1Gbit/s", "delay": "1ms"}
    path = hosts.toml({"duration": "3s", "seed": seed, "nodes": ends, "links": [line]}, folder, "two")
    words: hosts.Words = [path, "--virtual", "--kernel", kernel, "--for", f"{LAST_S + 4}s"]
    words += hosts.on("laptop", f"sh {shlex.quote(str(folder / 'network.sh'))}")
    words += hosts.on("server", "sleep 1")
    text, _ = hosts.shell(row, words)
    said = dict(
        line.removeprefix("laptop: ").split(" ", 1)
        for line in text.splitlines()
        if "laptop: " in line and " " in line.removeprefix("laptop: ")
    )
    if "ping" not in said or "flows-a" not in said:
        raise SystemExit(f"{row}: its programs said nothing\n{text}")
    flows = {host: json.loads(said[f"flows-{host}"]) for host in starts(row, seed)}
    every = [flow for host in flows.values() for flow in host]
    rates = [8 * acked / (LAST_S - WARMUP_S) / 1e6 for acked, _, _ in every]
    return figures(rates, len(flows["a"]), float(said["ping"]), sum(f[1] for f in every), sum(f[2] for f in every))


def figures(rates: list[float], first: int, ping_ms: float, sent: float, retransmitted: float) -> Json:
    jain = sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))
    loss = 100 * retransmitted / sent
    return {"goodput": sum(rates), "jain": jain, "first": sum(rates[:first]), "ping": ping_ms, "loss": loss}


def scenario(row: str, seed: int) -> Json:
    host = {"kind": "host", "profile": "linux-6"}
    queue = DISCIPLINES[ROWS[row][0]][1]
    back = {"rate": "1Gbit/s", "delay": f"{BACK_MS}ms", "queue": {"name": "fifo", "limit_packets": 100000}}
    line: Json = {
        "from": "r",
        "to": "server",
        "rate": f"{RATE_BPS}bit/s",
        "delay": "1us",
        "queue": queue,
        "reverse": back,
    }
    if queue["name"] == "cake":
        line |= {"rate": "1Gbit/s", "queue": {**queue, "bandwidth": f"{RATE_BPS}bit/s"}}
    tcp = {"cc": "cubic", "tsq": "off", "segments_at_once": "single"}
    flows: list[Json] = [
        {"name": f"{host}{i}", "from": host, "to": "server", "start": f"{start}s", "tcp": tcp}
        for host, when in starts(row, seed).items()
        for i, start in enumerate(when)
    ]
    ping = {"kind": "ping", "interval": f"{PING_S}s", "packet_bytes": 84}
    flows.append({"name": "ping", "from": "a", "to": "server", "traffic": ping})
    if cbr_bps(row):
        cbr = {"kind": "cbr", "rate": f"{cbr_bps(row):.0f}bit/s", "packet_bytes": 1500}
        flows.append({"name": "cbr", "from": "b", "to": "server", "traffic": cbr})
    return {
        "duration": f"{LAST_S}s",
        "warmup": f"{WARMUP_S}s",
        "seed": seed,
        "nodes": [{"name": name, **host} for name in ("a", "b", "server")] + [{"name": "r", "kind": "router"}],
        "links": [*({"from": h, "to": "r", "rate": "10Gbit/s", "delay": "1us"} for h in ("a", "b")), line],
        "flows": flows,
    }


def simulated(row: str, seed: int, folder: Path) -> Json:
    path = hosts.toml(scenario(row, seed), folder, "simulated")
    done = subprocess.run([hosts.AIRTCP, "run", path, "--json", "-q"], check=True, capture_output=True, text=True)
    groups = {group["group"]: group for group in json.loads(done.stdout)["groups"]}
    tcp = [group for group in groups.values() if group["kind"] == "tcp"]
    rates = [group["goodput_bps"] / 1e6 for group in tcp]
    sent = sum(group["segments_sent"] for group in tcp)
    lost = sum(group["segments_retransmitted"] for group in tcp)
    return figures(rates, ROWS[row][1]["a"], groups["ping"]["rtt_mean_ms"], sent, lost)


def table(data: Json) -> str:
    head = " | ".join(f"{title}: kernel | airtcp" for title, _ in FIGURES.values())
    lines = [f"| discipline and flows | {head} |", "|---" * (1 + 2 * len(FIGURES)) + "|"]
    lines += [table_row(row) for row in data["rows"]]
    counts = sorted({len(row[side]) for row in data["rows"] for side in ("kernel", "airtcp")})
    return "\n".join([*lines, "", f"Linux {data['kernel']}; {' or '.join(map(str, counts))} seeds each."])


def table_row(row: Json) -> str:
    cells = []
    for name, (_, digits) in FIGURES.items():
        for side in ("kernel", "airtcp"):
            mean = stats.mean([run[name] for run in row[side]])
            around = "" if mean.high is None else f" ± {mean.high - mean.value:.{digits}f}"
            cells.append(f"{mean.value:.{digits}f}{around}")
    return f"| {row['row']} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12", help="version that tools/uml/build.py has built, or a file")
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="runs of each row (default: 5)")
    parser.add_argument("--page", action="store_true", help="put figures and table where the documentation has them")
    arguments = parser.parse_args()
    rows: list[Json] = []
    for name in arguments.only or ROWS:
        row: Json = {"row": name, "kernel": [], "airtcp": []}
        for seed in range(1, arguments.seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                row["airtcp"].append(simulated(name, seed, Path(folder)))
                row["kernel"].append(real(name, seed, arguments.kernel, Path(folder)))
        rows.append(row)
        print(table_row(row), flush=True)
    data = {"kernel": arguments.kernel, "rows": rows}
    if arguments.page:
        FIGURES_OF_PAGE.write_text(json.dumps(data, indent=1) + "\n")
        page.KERNEL.write_text(page.with_part(page.KERNEL.read_text(), "queue disciplines", table(data)))


if __name__ == "__main__":
    main()
