"""The Debian package under a real systemd: its units start with their few rights, come back, and leave nothing behind.

The systemd is that of a container whose files are this machine's, below a layer that goes with it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from airtcp.cli.commands import host
from test_host_package import package

CAPABILITIES = {"net_admin": 12, "perfmon": 38, "bpf": 39}

# What runs in the container. Each `told` leaves what systemd, the process and the journal say of a unit.
SCRIPT = r"""
until_() {
    for _ in $(seq 150); do eval "$1" >/dev/null 2>&1 && return; sleep 0.2; done
    echo "never: $1" >>/out/never
}
pid_of() { systemctl show -P MainPID "$1"; }
told() {
    systemctl show "$1" -p ActiveState,NRestarts >"/out/$2.state"
    journalctl -u "$1" -o cat --no-pager >"/out/$2.journal"
    cat "/proc/$(pid_of "$1")/status" >"/out/$2.process" 2>/dev/null
}
slain() { pid=$(pid_of "$1"); [ "$pid" != 0 ] && kill -9 "$pid"; until_ "[ \$(systemctl show -P NRestarts $1) = 1 ]"; }
said() { until_ "[ \$(journalctl -u $1 -o cat --no-pager | grep -c '$2') -ge $3 ]"; }
interface() { ip link add wlan0 type veth peer name far; ip link set far up; ip link set wlan0 up; }
controls=/proc/sys/net/ipv4/tcp_available_congestion_control

dpkg -i /out/*.deb >/out/install 2>&1 || exit 1
# When systemd began it had no udev, so it would not hear of interfaces.
systemctl daemon-reexec
until_ 'systemctl is-active systemd-udevd'

coop=airtcp-coop@wlan0
systemctl enable $coop
sleep 1
told $coop coop-early
interface
said $coop 'terminal .* on wlan0' 1
told $coop coop
slain $coop
said $coop 'terminal .* on wlan0' 2
told $coop coop-again
ip link delete wlan0
until_ "[ \$(systemctl show -P ActiveState $coop) = inactive ]"
told $coop coop-without
interface
said $coop 'terminal .* on wlan0' 3
told $coop coop-back

systemctl start airtcp-av
until_ "grep -w airtcp_av $controls"
told airtcp-av av
slain airtcp-av
said airtcp-av 'airtcp_av is registered' 2
told airtcp-av av-again
systemctl stop airtcp-av
until_ "! grep -w airtcp_av $controls"

systemctl start airtcp-proxy
until_ 'nft list ruleset | grep "table inet airtcp"'
told airtcp-proxy proxy
nft list ruleset >/out/rules
slain airtcp-proxy
said airtcp-proxy 'listening at' 2
told airtcp-proxy proxy-again

dpkg --purge airtcp-host >/out/purge 2>&1
nft list ruleset >/out/rules-after
cat $controls >/out/controls-after
systemctl list-units --all --plain --no-legend 'airtcp-*' >/out/units-after
pgrep -x airtcp-host >/out/processes-after
touch /out/done
"""
UNIT = """[Unit]
Requires=basic.target dbus.socket systemd-journald.service
After=basic.target dbus.socket systemd-journald.service systemd-udevd.service

[Service]
Type=oneshot
ExecStart=/bin/bash /out/script
ExecStopPost=/bin/systemctl --no-block poweroff
"""


def missing() -> str | None:
    """What this machine lacks for it."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("systemd-nspawn", "dpkg-deb", "nft", "ip"):
        if shutil.which(program) is None:
            return f"{program} is missing"
    if not Path("/lib/systemd/systemd-udevd").exists():
        return "systemd-udevd is missing (package udev)"
    if not host.BUILT.exists():
        return "airtcp-host is missing: make host"
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return f"Linux {platform.release()} has no BTF"
    return None


pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the script saw."""
    folder = tmp_path_factory.mktemp("systemd")
    told, layer = folder / "out", folder / "layer"
    told.mkdir()
    layer.mkdir()
    package(host.BUILT, told)
    (told / "script").write_text(SCRIPT)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", layer], check=True)
    root = layer / "root"
    try:
        for name in ("upper", "work", "root"):
            (layer / name).mkdir(mode=0o755)
        overlay = f"lowerdir=/,upperdir={layer / 'upper'},workdir={layer / 'work'}"
        mounted = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", overlay, root], check=False)
        if mounted.returncode:
            pytest.skip("this kernel has no overlays")
        try:
            unit = root / "etc/systemd/system/airtcp-test.service"
            unit.parent.mkdir(parents=True, exist_ok=True)
            unit.write_text(UNIT)
            yield booted(root, told)
        finally:
            subprocess.run(["umount", "--lazy", root], check=True)
    finally:
        subprocess.run(["umount", "--lazy", layer], check=True)


def booted(root: Path, told: Path) -> Path:
    """Boots the container, and waits until it powers itself off."""
    # Settings of the kernel are the machine's, and so are its devices: neither is touched.
    masked = ("systemd-sysctl", "systemd-udev-trigger", "systemd-modules-load", "systemd-hwdb-update")
    words = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--directory={root}", f"--bind={told}:/out"]
    words += ["--private-network", "--capability=all", "--system-call-filter=bpf perf_event_open", "--boot"]
    words += ["systemd.unit=airtcp-test.service", *(f"systemd.mask={name}.service" for name in masked)]
    done = subprocess.run(
        words,
        env={**os.environ, "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if not (told / "install").exists():
        pytest.skip(f"no container of systemd here: {(done.stdout + done.stderr)[-300:]}")
    assert (told / "done").exists(), f"{(told / 'install').read_text()}{done.stdout[-2000:]}"
    never = told / "never"
    assert not never.exists(), never.read_text()
    return told


def state(out: Path, name: str) -> tuple[str, int]:
    """Of a unit: whether it is active, and how often it was started again."""
    of = dict(line.split("=", 1) for line in (out / f"{name}.state").read_text().splitlines())
    return of["ActiveState"], int(of["NRestarts"])


@pytest.mark.parametrize(
    ("name", "capabilities"),
    [
        ("coop", {"bpf", "perfmon"}),
        ("av", {"bpf", "perfmon", "net_admin"}),
        ("proxy", {"bpf", "perfmon", "net_admin"}),
    ],
)
def test_a_unit_runs_with_its_few_rights(out: Path, name: str, capabilities: set[str]) -> None:
    assert state(out, name) == ("active", 0), (out / f"{name}.journal").read_text()
    of = dict(line.split(":", 1) for line in (out / f"{name}.process").read_text().splitlines())
    wanted = sum(1 << CAPABILITIES[one] for one in capabilities)
    for kind in ("CapEff", "CapBnd", "CapAmb"):
        assert int(of[kind], 16) == wanted, kind
    assert "0" not in of["Uid"].split(), "it has a user of its own"
    assert of["NoNewPrivs"].strip() == "1"
    assert of["Seccomp"].strip() == "2", "its calls are filtered"


@pytest.mark.parametrize("name", ["coop", "av", "proxy"])
def test_a_killed_unit_comes_back(out: Path, name: str) -> None:
    assert state(out, f"{name}-again") == ("active", 1), (out / f"{name}-again.journal").read_text()


def test_the_daemon_follows_its_interface(out: Path) -> None:
    """It ended at once if it was enabled before the interface came, and never started again."""
    assert state(out, "coop-early")[0] == "inactive", "there is no interface yet"
    assert state(out, "coop")[0] == "active"
    assert state(out, "coop-without")[0] == "inactive"
    assert state(out, "coop-back")[0] == "active"


def test_the_package_takes_everything_with_it(out: Path) -> None:
    assert "redirect to :24689" in (out / "rules").read_text()
    assert "airtcp" not in (out / "rules-after").read_text()
    assert "airtcp" not in (out / "controls-after").read_text()
    assert (out / "processes-after").read_text() == ""
    left = [line for line in (out / "units-after").read_text().splitlines() if "inactive" not in line]
    assert [line for line in left if " active " in line] == []
