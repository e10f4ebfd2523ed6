"""`airtcp hwsim`: the medium of a kernel's simulated radios.

The kernel is one that tools/uml/build.py --wifi has built, with all radios and programs in it, and the machine's files
to read. Without it the tests of what is said remain.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from airtcp import Results, realtime
from conftest import AIRTCP
from wifi_kernels import missing

EXAMPLE = Path(__file__).parents[1] / "examples" / "lab-upload.toml"

TALK = """
import socket, sys, time
port = 5001
if sys.argv[1] == "sink":
    own, _ = socket.create_server(("", port)).accept()
    begun, total = time.monotonic(), 0
    while data := own.recv(1 << 16):
        total += len(data)
    print(sys.argv[2], total * 8e-6 / (time.monotonic() - begun), flush=True)
else:
    end, is_slow = time.monotonic() + float(sys.argv[3]), sys.argv[1] == "slowly"
    own = socket.create_connection((sys.argv[2], port))
    if is_slow:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    while time.monotonic() < end:
        own.send(bytes(1250 if is_slow else 1 << 16))
        time.sleep(0.01 if is_slow else 0)
"""

REMOVE = """
import socket, struct, sys
own = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
def attribute(number, value):
    return struct.pack("HH", 4 + len(value), number) + value + bytes(-len(value) % 4)
def ask(family, command, attributes):
    body = struct.pack("BBH", command, 1, 0) + attributes
    own.send(struct.pack("IHHII", 16 + len(body), family, 5, 1, 0) + body)
    return own.recv(65536)
answer = ask(16, 3, attribute(2, b"MAC80211_HWSIM\\0"))
at = 20
while True:
    length, number = struct.unpack_from("HH", answer, at)
    if number == 1:
        break
    at += length + -length % 4
own.recv(65536)
family = struct.unpack_from("H", answer, at + 4)[0]
print("removed", struct.unpack_from("i", ask(family, 5, attribute(10, struct.pack("I", int(sys.argv[1])))), 16)[0])
"""

HEAD = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run PYTHONDONTWRITEBYTECODE=1
mount -t proc none /proc; mount -t sysfs none /sys; mount -t tmpfs none /run
mkdir /run/w /run/netns; mount -t hostfs -o {work} none /run/w; cd /run/w
exec > out 2>&1
ip link set lo up
printf '%s\\n' interface=wlan0 driver=nl80211 ssid=air ieee80211n=1 wmm_enabled=1 hw_mode=g channel=1 \\
    'supported_rates=60 90 120 180 240 360 480 540' 'basic_rates=60 120 240' disassoc_low_ack=0 > /run/ap.conf
medium() {{
    ( exec {airtcp} hwsim "$@" > table 2> said ) & M=$!
    for i in $(seq 100); do grep -q 'is there' said && return; sleep 0.1; done
}}
network() {{
    hostapd -B /run/ap.conf
    ip addr add 10.1.0.1/16 dev wlan0
    for n in 1 2; do ip netns add n$n; iw phy phy$n set netns name n$n; ip netns exec n$n ip link set wlan$n up; done
    sleep 0.5
    ip netns exec n1 iw dev wlan1 connect -w air 2412
    ip netns exec n1 ip addr add 10.1.0.2/16 dev wlan1
}}
pings() {{ ip netns exec n1 ping -c 5 -q -i 0.2 10.1.0.1 | sed -n "s/.* \\([0-9]*\\) received.*/$1 \\1/p"; }}
"""


WHY_NOT = missing("hostapd", "iw", "ip", "ping", "setpriv", "python3")
needs_kernel = pytest.mark.skipif(WHY_NOT is not None, reason=f"simulated radios: {WHY_NOT}")


def hwsim(*more: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(AIRTCP), "hwsim", *map(str, more)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def boot(work: Path, script: str, radios: int = 3) -> str:
    """Runs a script as the first process of a kernel with radios, in virtual time, and returns what it wrote."""
    (work / "talk.py").write_text(TALK)
    (work / "remove.py").write_text(REMOVE)
    init = work / "init"
    init.write_text(HEAD.format(work=work, airtcp=AIRTCP) + script + "\necho o > /proc/sysrq-trigger\nsleep 60\n")
    init.chmod(0o755)
    (work / "said").touch()
    words = (
        f"mem=512M root=/dev/root rootfstype=hostfs hostfs=/ ro init={init} time-travel=inf-cpu con=null "
        f"con0=null,fd:1 panic=-1 loglevel=4 mac80211_hwsim.radios={radios} uml_dir={work}/ umid=guest"
    )
    kernel = realtime.kernel(realtime.WIFI).kernel
    done = subprocess.run(
        [kernel, *words.split()], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300
    )
    out = work / "out"
    assert out.exists(), done.stdout.decode(errors="replace")[-2000:]
    return out.read_text()


def found(out: str, what: str) -> float:
    """The figure behind a word at the beginning of a line."""
    line = re.search(rf"^{what} ([0-9.]+)$", out, re.MULTILINE)
    assert line is not None, out
    return float(line[1])


@pytest.mark.skipif(Path("/sys/module/mac80211_hwsim").exists(), reason="this kernel has simulated radios")
def test_a_kernel_without_the_module_is_said() -> None:
    done = hwsim(EXAMPLE)
    assert (done.returncode, "the module mac80211_hwsim is not loaded" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs a scenario file or --wmediumd FILE"),
        ([EXAMPLE, "--radio", "ap"], "--radio ap: must be NAME=ADDRESS"),
        ([EXAMPLE, "--radio", "router=02:00:00:00:00:00"], "no such radio; there are ap, sta[0]"),
        ([EXAMPLE, "--radio", "ap=02:00"], "must be six numbers of two hexadecimal digits"),
        ([EXAMPLE, "--radio", "ap=02:00:00:00:01:00"], "ap and sta[0] have the address 02:00:00:00:01:00"),
        ([EXAMPLE, "--for", "soon"], "--for soon: must be a time"),
        ([EXAMPLE.with_name("coop-phones.toml")], "airtcp hwsim runs 802.11n and 802.11ac"),
        ([EXAMPLE.with_name("backbone.toml")], "airtcp hwsim needs [[wlans]]"),
        ([EXAMPLE.with_name("walk.toml")], "airtcp hwsim runs"),
        (["--wmediumd", "/nowhere.cfg"], "/nowhere.cfg: No such file or directory"),
        (["--wmediumd", EXAMPLE], 'line 6: "[": expected the name of a setting'),
        (["--wmediumd", EXAMPLE, "--set", "seed=1"], "--set goes with a scenario"),
    ],
)
def test_mistakes_are_said(arguments: list[str | Path], message: str) -> None:
    done = hwsim(*arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


STAND_IN = """#!{python}
import json, os, sys
plan = json.load(os.fdopen(int(sys.argv[2])))
if plan["record"]:
    texts = [json.dumps(["sta[0]"]).encode(), json.dumps(["ap"]).encode()]
    numbers = [(7).to_bytes(8, sys.byteorder)] * 2
    at, columns = 0, []
    kinds = zip(("from", "to", "ppdus", "mpdus"), ("str", "str", "u8", "u8"), texts + numbers)
    with open(plan["record"] + "/columns.bin", "wb") as out:
        for name, kind, data in kinds:
            out.write(data)
            columns.append({{"name": name, "kind": kind, "at": at, "bytes": len(data)}})
            at += len(data)
    with open(plan["record"] + "/lots.jsonl", "w") as out:
        print(json.dumps({{"table": "radios", "rows": 1, "columns": columns}}), file=out)
    row = {{"from": "sta[0]", "to": "ap", "ppdus": 7, "mpdus": 7, "mpdus_failed": 0, "ampdus": 7, "given_up": 0}}
    summary = {{"seed": 5, "end_s": 2.0, "warmup_s": 0.0, "groups": [], "links": [], "air": []}}
    summary["radios"] = [{{**row, "rate_mean_bps": 13e6, "airtime_ratio": 0.5}}]
    meanings = {{"radios": {{"about": "", "columns": {{column["name"]: "of it" for column in columns}}}}}}
    emu = {{"validity": "valid", "driver": {{"wall_s": 2.0}}, "hosts": {{"ap": {{}}, "sta[0]": {{}}}}}}
    output = {{"summary": summary, "events": 1, "packets_delivered": 1, "simulated_s": 2.0, "meanings": meanings}}
    json.dump({{**output, "emu": emu}}, open(plan["record"] + "/output.json", "w"))
sys.exit({code})
"""
"""In place of the program: what it leaves, and its exit code."""


@pytest.mark.parametrize(("source", "code"), [("scenario", 0), ("scenario", 1), ("wmediumd", 0)])
def test_what_was_sent_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, code: int) -> None:
    program = tmp_path / "stand-in"
    program.write_text(STAND_IN.format(python=sys.executable, code=code))
    program.chmod(0o755)
    monkeypatch.setenv("AIRTCP_EMU", str(program))
    (tmp_path / "two.cfg").write_text('ifaces : { ids = [ "02:00:00:00:00:00", "02:00:00:00:01:00" ]; };\n')
    air = [EXAMPLE] if source == "scenario" else ["--wmediumd", tmp_path / "two.cfg"]
    done = hwsim(*air, "--out", tmp_path / "run")
    assert (done.returncode, f"results in {tmp_path / 'run'}" in done.stderr) == (code, True), done.stderr
    kept = Results.load(tmp_path / "run")
    assert kept["radios"].collect().to_dicts() == [{"from": "sta[0]", "to": "ap", "ppdus": 7, "mpdus": 7}]
    assert kept.manifest["scenario"]["name"] == ("lab-upload" if source == "scenario" else "two")
    assert kept.manifest["real_time"] == {"validity": "valid", "hosts": ["ap", "sta[0]"]}
    assert pd.read_parquet(tmp_path / "run" / "radios.parquet")["ppdus"].tolist() == [7]
    for folders in ([tmp_path / "run"], [tmp_path / "run", tmp_path / "run"]):
        shown = subprocess.run([AIRTCP, "compare", *folders], capture_output=True, text=True, check=True).stdout
        assert "sta[0] to ap" in shown
        assert "13.0" in shown
    assert subprocess.run([AIRTCP, "verify", tmp_path / "run"], capture_output=True, check=False).returncode == 3
    plot = ["plot", "--out", tmp_path / "plot.png"]
    for others in (["report"], plot, [*plot, tmp_path / "run"]):
        done = subprocess.run([AIRTCP, *others, tmp_path / "run"], capture_output=True, text=True, check=False)
        assert (done.returncode, "left no table 'flows'; `airtcp compare`" in done.stderr) == (2, True), done.stderr


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "stand-in"
    program.write_text(STAND_IN.format(python=sys.executable, code=0))
    program.chmod(0o755)
    monkeypatch.setenv("AIRTCP_EMU", str(program))
    assert hwsim(EXAMPLE).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["stand-in"]


@needs_kernel
def test_a_scenario_is_the_medium_of_real_radios(tmp_path: Path) -> None:
    """TCP over 13 Mbit/s with three in ten MPDUs damaged. `airtcp lab`, a kernel for each radio, has 7.1 Mbit/s."""
    script = f"""
medium {EXAMPLE} --out kept
network
ip netns exec n1 iw dev wlan1 set bitrates ht-mcs-2.4 1 lgi-2.4
iw dev wlan0 set bitrates ht-mcs-2.4 1 lgi-2.4
python3 talk.py sink goodput & sleep 0.3
ip netns exec n1 python3 talk.py send 10.1.0.1 5
sleep 1
kill -INT $M; wait $M; echo ended $?
"""
    out = boot(tmp_path, script)
    assert 6.5 < found(out, "goodput") < 8
    assert found(out, "ended") == 0
    said = (tmp_path / "said").read_text()
    assert "ap is 02:00:00:00:00:00, phy0" in said
    assert "sta[0] is 02:00:00:00:01:00, phy1" in said
    # The third radio is none of the scenario's: it scans for nobody.
    assert "could not be read" not in said
    (row,) = [line.split() for line in (tmp_path / "table").read_text().splitlines() if line.startswith("sta[0]  ")][:1]
    ppdus, mpdus, failed = map(int, row[2:5])
    assert mpdus / ppdus > 2
    # Beside errors there are collisions with acknowledgements of TCP.
    assert 0.28 < failed / mpdus < 0.4
    kept = pl.read_parquet(tmp_path / "kept" / "radios.parquet")
    (own,) = kept.filter(pl.col("from") == "sta[0]", pl.col("to") == "ap").iter_rows(named=True)
    assert (own["ppdus"], own["mpdus"] + own["frames"], own["mpdus_failed"]) == (ppdus, mpdus, failed)
    about = json.loads((tmp_path / "kept" / "emu.json").read_text())
    assert about["hosts"]["sta[0]"] == {"address": "02:00:00:00:01:00", "phy": "phy1", "vanished_s": None}
    assert (about["has_patches"], about["messages"]["malformed"]) == (True, 0)
    shown = subprocess.run([AIRTCP, "compare", tmp_path / "kept"], capture_output=True, text=True, check=True).stdout
    assert "sta[0] to ap" in shown


@needs_kernel
def test_radios_that_vanish_are_said(tmp_path: Path) -> None:
    ids = ", ".join(f'"02:00:00:00:0{n}:00"' for n in range(2))
    (tmp_path / "air.cfg").write_text(f"ifaces : {{ ids = [ {ids} ]; }};\n")
    script = """
medium --wmediumd air.cfg --out kept
network
pings before
python3 remove.py 0
sleep 1
grep -c vanished said
pings after
kill -0 $M && echo lives 1
ip netns del n1; sleep 0.5
python3 remove.py 1
wait $M; echo ended $?
"""
    out = boot(tmp_path, script)
    assert re.findall(r"^removed (-?\d+)$", out, re.MULTILINE) == ["0", "0"], out
    assert [found(out, what) for what in ("before", "after", "lives", "ended")] == [5, 0, 1, 1]
    said = (tmp_path / "said").read_text()
    assert "airtcp: the radio of 02:00:00:00:00:00 has vanished" in said
    assert "error: all radios of this medium have vanished" in said
    assert "could not be read" not in said
    hosts = json.loads((tmp_path / "kept" / "emu.json").read_text())["hosts"]
    assert 0 < hosts["02:00:00:00:00:00"]["vanished_s"] < hosts["02:00:00:00:01:00"]["vanished_s"]
    assert json.loads((tmp_path / "kept" / "manifest.json").read_text())["scenario"]["name"] == "air"


@needs_kernel
def test_a_file_of_wmediumd_is_the_medium(tmp_path: Path) -> None:
    ids = ", ".join(f'"02:00:00:00:0{n}:00"' for n in range(3))
    (tmp_path / "far.cfg").write_text(
        f'ifaces : {{ ids = [ {ids} ]; }};\nmodel : {{ type = "prob"; default_prob = 1.0; links = ((0, 1, 0.1)); }};\n'
    )
    script = f"""
setpriv --bounding-set=-net_admin {AIRTCP} hwsim --wmediumd far.cfg
echo without $?
medium --wmediumd far.cfg
{AIRTCP} hwsim --wmediumd far.cfg
echo second $?
network
for n in 1 2; do echo radio$n $(ip netns exec n$n iw dev wlan$n scan freq 2412 | grep -c 'SSID: air$'); done
pings before
kill -9 $M; wait $M; sleep 0.2
pings killed
cp said before
medium --wmediumd far.cfg
pings again
kill -TERM $M; wait $M; echo ended $?
"""
    out = boot(tmp_path, script)
    assert (found(out, "without"), found(out, "second")) == (2, 2)
    assert "registering with mac80211_hwsim needs root" in out
    assert "mac80211_hwsim has a medium already" in out
    # Radio 2 is out of everybody's reach.
    assert (found(out, "radio1"), found(out, "radio2")) == (1, 0)
    # Whatever becomes of the medium, the network goes on: without one the module delivers all frames itself.
    assert [found(out, when) for when in ("before", "killed", "again", "ended")] == [5, 5, 5, 0]
    assert "could not be read" not in (tmp_path / "said").read_text()


DISBELIEVED = [
    "stranger",
    "for_others",
    "no_session",
    "behind",
    "beyond",
    "fragment",
    "downward",
    "four_addresses",
]


@needs_kernel
def test_forged_frames_are_disbelieved_and_what_is_believed_has_a_limit(tmp_path: Path) -> None:
    """Retry-out in the access point, and a radio that sends corrupt frames with the station's address."""
    ids = ", ".join(f'"02:00:00:00:0{n}:00"' for n in range(3))
    # Of the long frames of radio 2 hardly one arrives whole, and most of their headers are legible.
    (tmp_path / "air.cfg").write_text(
        f"ifaces : {{ ids = [ {ids} ]; }};\n"
        'model : { type = "prob"; links = ((0, 1, 0.0), (0, 2, 0.999), (1, 2, 1.0)); };\n'
    )
    forge = f"python3 {Path(__file__).with_name('forged_frames.py')}"
    script = f"""
mount -t debugfs none /sys/kernel/debug
R=/sys/kernel/debug/ieee80211/phy0/retry_out
[ -e $R/limited ] || {{ echo no limit; echo o > /proc/sysrq-trigger; sleep 60; }}
segments() {{ ip netns exec n1 awk '/^Tcp: [0-9]/ {{ print $12 }}' /proc/net/snmp; }}
counts() {{ echo $1 $(cat $R/seen $R/disbelieved $R/given_up $R/limited) $(segments); }}
medium --wmediumd air.cfg
network
ip netns exec n1 iw dev wlan1 set bitrates ht-mcs-2.4 1 lgi-2.4
ip netns exec n2 ip link set wlan2 down; ip netns exec n2 iw phy phy2 set netns 1
iw phy phy2 interface add mon0 type monitor; ip link set mon0 up; iw dev mon0 set freq 2412
iw phy phy0 interface add mon1 type monitor; ip link set mon1 up
echo 1 > $R/enabled
ip netns exec n1 ping -q -i 0.1 10.1.0.1 > /dev/null & P=$!
python3 talk.py sink goodput & sleep 0.3
ip netns exec n1 python3 talk.py send 10.1.0.1 1
sleep 0.5
counts none
for case in {" ".join(DISBELIEVED)} right; do {forge} $case; sleep 0.1; counts $case; done
kill $P
for on in 0 1; do
    echo $on > $R/enabled
    python3 talk.py sink slowly$on & sleep 0.3
    counts before$on
    ip netns exec n1 python3 talk.py slowly 10.1.0.1 6 & sleep 0.5
    {forge} flood 5
    sleep 3
    counts after$on
done
kill -INT $M; wait $M
"""
    out = boot(tmp_path, script)
    if "no limit" in out:
        pytest.skip("simulated radios: the kernel is older than the patches; tools/uml/build.py 6.12 --wifi makes one")
    said = {
        name: [int(n) for n in rest.split()] for name, rest in re.findall(r"^(\w+) (\d+ \d+ \d+ \d+ \d+)$", out, re.M)
    }
    before = said["none"]
    for case in DISBELIEVED:
        seen, disbelieved, given_up, *_ = (now - old for now, old in zip(said[case], before, strict=True))
        # 40 were sent. Those whose header is damaged as well do not arrive.
        assert 25 <= seen <= 40, case
        assert (disbelieved, given_up) == (seen, 0), case
        before = said[case]
    seen, disbelieved, given_up, *_ = (now - old for now, old in zip(said["right"], before, strict=True))
    assert seen > disbelieved, "a frame with the right header is believed"
    assert given_up == 1
    *_, given_up, limited, segments = (now - old for now, old in zip(said["after1"], said["before1"], strict=True))
    assert limited > 0
    # One in sixteen of what arrived whole, and eight at once. Of the forged ones a few did, too.
    assert given_up <= segments / 16 + 8 + 1, out
    # Without retry-out the forged frames take only time on the air. By PFTK's formula 118 segments a second get through
    # a loss of one in sixteen, with 10 ms and timeouts of 200 ms, and 100 are sent.
    assert found(out, "slowly1") > found(out, "slowly0") / 2
