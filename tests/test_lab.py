"""`airtcp lab`: real Wi-Fi stacks on the simulated air. Skipped where tools/uml/build.py --wifi has built no kernel."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from airtcp import realtime
from airtcp.errors import RunError
from conftest import AIRTCP
from wifi_kernels import missing

EXAMPLE = Path(__file__).parents[1] / "examples" / "lab-upload.toml"
SHORT = ["--set", "duration=1.5s", "--set", "warmup=500ms", "--set", "flows.ping.start=500ms"]


WHY_NOT = missing("hostapd", "iw", "ip", "tc")
needs_kernel = pytest.mark.skipif(WHY_NOT is not None, reason=f"laboratory: {WHY_NOT}")


def lab(*more: str | Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    command = [str(AIRTCP), "lab", *map(str, more)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)


def sums(folder: Path) -> dict[str, str]:
    tables = sorted(folder.glob("*.parquet"))
    assert tables
    return {table.name: hashlib.sha256(table.read_bytes()).hexdigest() for table in tables}


def test_a_kernel_that_is_not_built_is_named() -> None:
    with pytest.raises(RunError, match=r"no kernel 0\.99-wifi is built yet: tools/uml/build\.py 0\.99 --wifi"):
        realtime.kernel("0.99-wifi")
    done = lab(EXAMPLE, "--kernel", "0.99-wifi")
    assert (done.returncode, "no kernel 0.99-wifi is built yet" in done.stderr) == (2, True), done.stderr


@needs_kernel
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('wlans.wlan.phy={ standard = "ac", width_mhz = 80 }', "40 MHz"),
        ("wlans.wlan.station_radio.rate_control=arf", "kernels have"),
        ("flows.upload.traffic=web", "airtcp lab runs"),
        ('wlans.wlan.ap_radio.reorder_buffer={ retry_out = "delay" }', "stepped"),
    ],
)
def test_what_the_laboratory_cannot_do_is_said(change: str, message: str) -> None:
    done = lab(EXAMPLE, "--set", change)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


@needs_kernel
def test_a_scenario_without_radios_is_refused() -> None:
    done = lab(EXAMPLE.with_name("backbone.toml"))
    assert (done.returncode, "has no WLAN" in done.stderr) == (2, True), done.stderr


@needs_kernel
def test_two_runs_are_equal_bit_for_bit(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        done = lab(EXAMPLE, *SHORT, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        found.append(sums(tmp_path / name))
    assert found[0] == found[1]
    flows = {row["group"]: row for row in pl.read_parquet(tmp_path / "one" / "flows.parquet").iter_rows(named=True)}
    # MCS 1 carries 13 Mbit/s, and three frames in ten are damaged.
    assert 5e6 < flows["upload"]["goodput_bps"] < 9e6
    assert flows["ping"]["received"] >= 5
    radios = pl.read_parquet(tmp_path / "one" / "radios.parquet").filter(
        pl.col("from") == "sta[0]", pl.col("to") == "ap"
    )
    (radio,) = radios.iter_rows(named=True)
    # A few frames go before the rate is fixed: those with which the station finds the access point.
    assert 12.5e6 < radio["rate_mean_bps"] <= 13e6
    # Errors hit those that no acknowledgement of the access point has collided with.
    failed = 1 - 0.7 * (1 - radio["collided"] / radio["ppdus"])
    assert radio["mpdus_failed"] / radio["mpdus"] == pytest.approx(failed, abs=0.05)
    about = json.loads((tmp_path / "one" / "emu.json").read_text())
    assert (about["validity"], about["wpa2"]) == ("virtual", False)


@needs_kernel
def test_networks_with_wpa3(tmp_path: Path) -> None:
    if shutil.which("wpa_supplicant", path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
        pytest.skip("laboratory: no wpa_supplicant")
    done = lab(EXAMPLE, *SHORT, "--wpa3", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    flows = {row["group"]: row for row in pl.read_parquet(tmp_path / "run" / "flows.parquet").iter_rows(named=True)}
    assert 5e6 < flows["upload"]["goodput_bps"] < 9e6
    assert json.loads((tmp_path / "run" / "emu.json").read_text())["security"] == "wpa3"


@needs_kernel
def test_two_access_points_share_a_channel(tmp_path: Path) -> None:
    done = lab(
        EXAMPLE.with_name("lab-neighbours.toml"), *SHORT, "--set", "flows.ping2.start=500ms", "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    flows = {row["group"]: row for row in pl.read_parquet(tmp_path / "run" / "flows.parquet").iter_rows(named=True)}
    both = [flows[name]["goodput_bps"] for name in ("upload", "upload2")]
    # Together as much as one station alone has, and neither nothing.
    assert 5e6 < sum(both) < 8e6
    assert min(both) > 1e6


@needs_kernel
@pytest.mark.parametrize("tries", [1, 2])
def test_datagrams_are_lost_as_the_law_says(tmp_path: Path, tries: int) -> None:
    """Of datagrams that go one by one, and are tried k times, p^k are lost."""
    text = EXAMPLE.read_text()
    upload = 'traffic = { kind = "cbr", rate = "3Mbit/s", packet_bytes = 1500 }'
    assert text.count('tcp = { cc = "cubic" }') == 1
    scenario = tmp_path / "datagrams.toml"
    scenario.write_text(text.replace('tcp = { cc = "cubic" }', upload))
    radio = f"retries={{ software = {tries}, hardware_tries = 1 }}"
    sets = ["duration=10s", "warmup=500ms", f"wlans.wlan.station_radio.{radio}"]
    done = lab(scenario, *(part for change in sets for part in ("--set", change)), "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    flows = {row["group"]: row for row in pl.read_parquet(tmp_path / "run" / "flows.parquet").iter_rows(named=True)}
    sent, received = flows["upload"]["segments_sent"], flows["upload"]["received"]
    expected = 0.3 ** (tries + 1)
    # Three standard deviations of a binomial distribution, and a twentieth: some go in pairs, which are repeated whole.
    spread = 3 * (expected * (1 - expected) / sent) ** 0.5
    assert abs(1 - received / sent - expected) < spread + 0.05 * expected


@needs_kernel
def test_the_remedy_gives_up_in_the_kernel(tmp_path: Path) -> None:
    remedy = 'wlans.wlan.ap_radio.reorder_buffer={ retry_out = "stepped" }'
    done = lab(EXAMPLE, *SHORT, "--set", remedy, "--out", tmp_path / "on")
    assert done.returncode == 0, done.stderr
    counters = json.loads((tmp_path / "on" / "emu.json").read_text())["retry_out"]
    assert counters["seen"] > 100
    assert counters["given_up"] > 0


@needs_kernel
def test_kill_leaves_nothing() -> None:
    running = begun()
    own = kernels_of(running.pid)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert nothing_is_left(own)


@needs_kernel
def test_a_kernel_that_ends_is_named(tmp_path: Path) -> None:
    running = begun("--out", tmp_path / "run")
    deadline = time.monotonic() + 120
    # A kernel that has used so much is under way.
    while used_s(station := kernels_of(running.pid, b"/1.time")) < 0.5 and time.monotonic() < deadline:
        time.sleep(0.05)
    own = kernels_of(running.pid)
    for pid in station:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 1, said
    assert "'sta[0]': its kernel has ended" in said.replace('"', "'"), said
    assert nothing_is_left(own)
    assert not (tmp_path / "run").exists()


@needs_kernel
def test_an_access_point_that_never_answers_is_said() -> None:
    done = lab(EXAMPLE, *SHORT, "--set", 'wlans.wlan.signal={ kind = "snr", snr_db = -10 }')
    assert (done.returncode, "'sta[0]'" in done.stderr.replace('"', "'")) == (1, True), done.stderr
    assert "the access point does not answer" in done.stderr, done.stderr


@needs_kernel
@pytest.mark.parametrize("options", [[], ["--wpa2"], ["--wpa3"]])
def test_a_station_that_does_not_find_its_access_point_looks_again(tmp_path: Path, options: list[str]) -> None:
    if options and shutil.which("wpa_supplicant", path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
        pytest.skip("laboratory: no wpa_supplicant")
    # Out of range for the first second, in which a station looks first.
    points = 'points = [[0, -10], [1, 40]], interpolation = "step"'
    found = f'wlans.wlan.signal={{ kind = "trace", {points} }}'
    done = lab(EXAMPLE, *SHORT, "--set", found, *options, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    flows = {row["group"]: row for row in pl.read_parquet(tmp_path / "run" / "flows.parquet").iter_rows(named=True)}
    assert flows["upload"]["goodput_bps"] > 5e6


@needs_kernel
def test_two_laboratories_at_once(tmp_path: Path) -> None:
    both = [begun(*SHORT, "--out", tmp_path / name) for name in ("one", "two")]
    said = [running.communicate(timeout=300)[1] for running in both]
    assert [running.returncode for running in both] == [0, 0], said
    assert sums(tmp_path / "one") == sums(tmp_path / "two")


def begun(*more: str | Path) -> subprocess.Popen[str]:
    """A laboratory whose kernels are under way."""
    command = [str(AIRTCP), "lab", str(EXAMPLE), *map(str, more)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(kernels_of(running.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    return running


def used_s(pids: set[int]) -> float:
    """Processor time of these processes."""
    found = 0.0
    for pid in pids:
        with suppress(OSError):
            words = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
            found += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return found


def kernels_of(pid: int, words_have: bytes = b"") -> set[int]:
    """Processes of the laboratory's kernel that stem from a process: others may run beside it."""
    program = str(realtime.kernel(realtime.WIFI).kernel)
    parents: dict[int, int] = {}
    kernels: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if words.split(b"\0")[0].decode(errors="replace") == program and words_have in words:
            kernels.add(int(entry.name))

    def stems(own: int) -> bool:
        return own == pid or (own in parents and stems(parents[own]))

    return {own for own in kernels if stems(own)}


def nothing_is_left(own: set[int]) -> bool:
    """Whether these processes are gone, at the latest in a minute."""
    assert own
    deadline = time.monotonic() + 60
    while any((Path("/proc") / str(pid)).exists() for pid in own) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any((Path("/proc") / str(pid)).exists() for pid in own)
