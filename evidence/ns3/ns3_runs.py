"""ns-3 from the Python registry, and wlan.cc built against it. airtcp itself needs neither.

    .venv/bin/python evidence/ns3/ns3_runs.py          # fetch the wheel into .ns3/ and compile wlan.cc (once)
    .ns3/wlan --help                                # every option of the simulation

The wheel `ns3` brings headers and shared libraries; its Python bindings, which need cppyy, stay out. It is built with
logging and assertions (its own CMake files say so: profile release, NS3_LOG_ENABLE, NS3_ASSERT_ENABLE), and so must
wlan.cc be. Needs g++ with C++20.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WHEEL = "3.44.post0"
PLACE = ROOT / ".ns3"
PACKAGE = PLACE / "wheel" / "ns3"
SOURCE = HERE / "wlan.cc"
BINARY = PLACE / "wlan"
MODULES = (
    *("core", "network", "internet", "internet-apps", "applications", "wifi", "mobility", "propagation"),
    *("point-to-point", "traffic-control", "stats", "spectrum", "antenna", "bridge"),
)


class Ns3Error(Exception):
    """ns-3 is missing, does not build, or a run failed."""


def has_ns3() -> bool:
    """Whether `prepare` has been done, and still holds."""
    return BINARY.exists() and BINARY.stat().st_mtime >= SOURCE.stat().st_mtime


def prepare() -> None:
    """Fetches the wheel (about 75 MB) and compiles wlan.cc, whatever of it is not done yet.

    Raises:
        Ns3Error: no compiler, no wheel for this Python and machine, or the compiler's complaint.
    """
    if shutil.which("g++") is None:
        raise Ns3Error("g++ is not installed")
    if not PACKAGE.exists():
        # Without dependencies: the bindings are not used.
        fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        _run([*fetch, "--only-binary=:all:", "--target", str(PLACE / "wheel"), f"ns3=={WHEEL}"])
    if has_ns3():
        return
    version = ".".join(WHEEL.split(".")[:2])
    libraries = PACKAGE / "lib64"
    places = ["-isystem", str(PACKAGE / "include"), f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    modules = [f"-lns{version}-{module}" for module in MODULES]
    macros = [f"-D{name}" for name in definitions()]
    _run(["g++", "-std=c++20", "-O2", "-Wall", *macros, str(SOURCE), "-o", str(BINARY), *places, *modules])


def definitions() -> list[str]:
    """The macros that the wheel's libraries were compiled with and that its headers look at."""
    text = (PACKAGE / "lib64/cmake/ns3/ns3Targets.cmake").read_text()
    found = re.search(r'INTERFACE_COMPILE_DEFINITIONS "([^"\\]|\\.)*"', text)
    if found is None:
        raise Ns3Error("the wheel's CMake files do not say how it was compiled")
    return re.findall(r"(?<=;)(?:NS3_\w+|__LINUX__)", found.group())


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Ns3Error(f"{' '.join(command[:4])} ... ended with {done.returncode}: {done.stderr.strip()[-2000:]}")


def command(**options: str | float | bool) -> list[str]:
    """wlan with its options; underscores stand for hyphens. ns-3's attributes (`ns3::TcpCubic::HyStart`) work too."""
    words = [str(BINARY)]
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}={int(value) if isinstance(value, bool) else value}")
    return words


def wlan(**options: str | float | bool) -> dict[str, Any]:
    """One run; the object that wlan prints.

    Raises:
        Ns3Error: ns-3 stopped: its message.
    """
    words = command(**options)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Ns3Error(f"{' '.join(words[1:])} ended with {done.returncode}: {done.stderr.strip()[-1000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@dataclasses.dataclass(frozen=True)
class Build:
    """How the wheel was built, in words that can stand beside a figure."""

    version: str
    profile: str
    has_logging: bool
    has_assertions: bool

    def __str__(self) -> str:
        extras = [name for name, on in (("logging", self.has_logging), ("assertions", self.has_assertions)) if on]
        return f"ns-3 {self.version}, profile {self.profile}" + (f" with {' and '.join(extras)}" if extras else "")


def build() -> Build:
    """What the wheel says of itself."""
    names = definitions()
    profile = next((n.removeprefix("NS3_BUILD_PROFILE_").lower() for n in names if "BUILD_PROFILE" in n), "unknown")
    return Build(WHEEL, profile, "NS3_LOG_ENABLE" in names, "NS3_ASSERT_ENABLE" in names)


def main() -> int:
    begin = time.monotonic()
    try:
        prepare()
    except Ns3Error as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{build()}: {BINARY.relative_to(ROOT)} ({time.monotonic() - begin:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
