#!/usr/bin/env python3
"""Builds a Linux kernel that runs as a program (User-Mode Linux), for `airtcp shell --virtual` and `airtcp lab`.

The source is Debian's package `linux-source-VERSION`. Kernels are kept in `~/.cache/airtcp/uml` (or `$XDG_CACHE_HOME`),
each under a hash of its source, configuration, patches and compiler: what is there is not built again. The last line
printed is the kernel's path. A build takes about four minutes of two processors, and 2 GB of disk until it ends.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
CONFIG: Final = HERE / "kernel.config"
WIFI: Final = HERE / "wifi.config"
KERNEL: Final = HERE.parents[1] / "kernel"
WIFI_PATCHES: Final = ["mac80211-retry-out", "mac80211-hwsim"]
PATCHES: Final = HERE / "patches"
SOURCES: Final = Path("/usr/src")

NEEDED: Final = {
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "tar": "tar",
    "xz": "xz-utils",
    "patch": "patch",
}
"""Programs, and the Debian packages that have them."""

SAME: Final = {
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01",
    "KBUILD_BUILD_VERSION": "1",
    "KBUILD_BUILD_USER": "airtcp",
    "KBUILD_BUILD_HOST": "airtcp",
    "LC_ALL": "C",
}
"""The kernel's random numbers begin with its banner: two builds of one source must have the same."""

LEFT_OUT: Final = [
    "*/arch/*/boot/dts",
    "*/Documentation/devicetree",
    "*/drivers/gpu/drm/amd/include",
    "*/tools/testing",
]
"""Large parts of the source that no build for UML reads."""


class BuildError(Exception):
    """There is no kernel, and why."""


def cache() -> Path:
    """Where kernels are kept."""
    # As `airtcp.realtime.built`, which does not look beside the files of strangers.
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".cache") / "airtcp" / "uml"


def source_of(version: str, named: Path | None) -> Path:
    """The archive of the source.

    Raises:
        BuildError: it is not there.
    """
    path = named or SOURCES / f"linux-source-{version}.tar.xz"
    if not path.is_file():
        why = f"the source is missing: {path}"
        raise BuildError(why if named else f"{why}\n  Debian: apt install linux-source-{version}")
    return path


def wifi_patches(version: str) -> list[Path]:
    """Folders of `kernel/` for `airtcp lab`: a version may have its own."""
    own = [KERNEL / f"{name}-{version}" for name in WIFI_PATCHES]
    return [folder if folder.is_dir() else KERNEL / name for folder, name in zip(own, WIFI_PATCHES, strict=True)]


def check_programs() -> None:
    """Looks for what a build needs.

    Raises:
        BuildError: something is missing.
    """
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        packages = " ".join(NEEDED[name] for name in missing)
        raise BuildError(f"missing: {', '.join(missing)}\n  Debian: apt install {packages}")


def inputs(folders: list[Path], configs: list[Path]) -> tuple[list[Path], list[Path]]:
    """Patches in the order in which they apply, and parts of the configuration.

    Raises:
        BuildError: one is missing.
    """
    patches = []
    for folder in [PATCHES, *folders]:
        found = sorted(folder.glob("*.patch"))
        if not found:
            raise BuildError(f"no patches (*.patch) in {folder}")
        patches += found
    for config in configs:
        if not config.is_file():
            raise BuildError(f"no configuration at {config}")
    return patches, [CONFIG, *configs]


def key_of(source: Path, patches: list[Path], configs: list[Path]) -> str:
    """A hash of what decides the kernel, but for the version."""
    total = hashlib.sha256()
    with source.open("rb") as file:
        total.update(hashlib.file_digest(file, "sha256").digest())
    for path in [*patches, *configs]:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, check=True).stdout
    total.update(compiler + repr(SAME).encode())
    return total.hexdigest()[:16]


def build(source: Path, patches: list[Path], configs: list[Path], work: Path, jobs: int) -> Path:
    """Builds in an empty folder, and returns the kernel.

    Raises:
        BuildError: a step failed.
    """
    log = work.parent / f"{work.name}.log"
    log.unlink(missing_ok=True)

    def step(what: str, argv: list[str], cwd: Path, stdin: Path | None = None) -> None:
        print(what, file=sys.stderr, flush=True)
        with log.open("ab") as out, (stdin or Path(os.devnull)).open("rb") as text:
            done = subprocess.run(
                argv, cwd=cwd, stdin=text, stdout=out, stderr=out, env={**os.environ, **SAME}, check=False
            )
        if done.returncode:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise BuildError(f"{what}: failed, see {log}\n{last}")

    tree, objects = work / "linux", work / "objects"
    for folder in (tree, objects):
        folder.mkdir(parents=True)
    left_out = [f"--exclude={pattern}" for pattern in LEFT_OUT]
    step(f"unpacking {source}", ["tar", "-x", "--strip-components=1", *left_out, "-f", str(source)], tree)
    for patch in patches:
        step(f"applying {patch.name}", ["patch", "-p1", "--forward", "--fuzz=2"], tree, patch)
    wanted = work / "wanted.config"
    wanted.write_text("".join(config.read_text() for config in configs))
    make = ["make", "ARCH=um", f"O={objects}"]
    step("configuring", ["env", f"KCONFIG_ALLCONFIG={wanted}", *make, "allnoconfig"], tree)
    check_config(wanted, objects / ".config")
    step(f"compiling with {jobs} jobs; {log} grows meanwhile", [*make, f"-j{jobs}", "linux"], tree)
    return objects / "linux"


def check_config(wanted: Path, made: Path) -> None:
    """Every option that was asked for is there: some exist in one version only, but none may be lost silently.

    Raises:
        BuildError: virtual time would not work.
    """
    lines = set(made.read_text().splitlines())
    lost = [line for line in wanted.read_text().splitlines() if line.endswith("=y") and line not in lines]
    needed = [line for line in lost if any(word in line for word in ("TIME_TRAVEL", "VIRTIO", "HOSTFS", "HIGH_RES"))]
    if needed:
        raise BuildError(f"this source has no {', '.join(needed)}")
    if lost:
        print(f"this source has no {', '.join(lost)}", file=sys.stderr)


def kernel(version: str, *, source: Path | None, folders: list[Path], configs: list[Path], jobs: int) -> Path:
    """The kernel, built if it is not kept.

    Raises:
        BuildError: there is none.
    """
    check_programs()
    archive = source_of(version, source)
    patches, parts = inputs(folders, configs)
    name = f"{version}-{key_of(archive, patches, parts)}"
    place = cache() / name
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "linux").is_file():
            # Always the same folder: paths are part of the kernel.
            work = place.parent / f"{name}.work"
            shutil.rmtree(work, ignore_errors=True)
            made = build(archive, patches, parts, work, jobs)
            ready = place.parent / f"{name}.ready"
            shutil.rmtree(ready, ignore_errors=True)
            ready.mkdir()
            shutil.copy2(made, ready / "linux")
            shutil.copy2(made.parent / ".config", ready / "config")
            shutil.rmtree(place, ignore_errors=True)
            ready.rename(place)
            shutil.rmtree(work)
    named = {(): version, (*wifi_patches(version), WIFI): f"{version}-wifi"}.get((*folders, *configs))
    if named is not None and source is None:
        # What `--kernel VERSION` means.
        link = place.parent / named
        fresh = place.parent / f".{named}.{os.getpid()}"
        fresh.symlink_to(name)
        fresh.replace(link)
    return place / "linux"


def main() -> int:
    """Builds what the command line asks for."""
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=about, epilog=more)
    parser.add_argument("version", nargs="?", default="6.12", help="of Debian's source package (default: %(default)s)")
    parser.add_argument(
        "--patches", type=Path, action="append", default=[], metavar="DIR", help="apply its *.patch files too, by name"
    )
    parser.add_argument(
        "--config", type=Path, action="append", default=[], metavar="FILE", help="further options of the configuration"
    )
    parser.add_argument(
        "--wifi", action="store_true", help="with the patches of kernel/, for `airtcp lab`: it is called VERSION-wifi"
    )
    parser.add_argument("--source", type=Path, metavar="FILE", help="an archive of another source")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="compile N files at once")
    asked = parser.parse_args()
    if asked.wifi:
        asked.patches, asked.config = [*wifi_patches(asked.version), *asked.patches], [WIFI, *asked.config]
    try:
        path = kernel(
            asked.version, source=asked.source, folders=asked.patches, configs=asked.config, jobs=max(1, asked.jobs)
        )
    except (BuildError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
