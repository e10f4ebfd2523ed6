"""Builds the wheel and uses it where nothing else of airtcp is: a new environment and an empty folder.

Usage: wheel.py --build           builds the wheel alone, as `make wheel` does
       wheel.py [--wheel FILE]    FILE: a wheel that is there already

Run by `make test-wheel`, with the interpreter of .venv. What pip needs it takes from the index that is configured. With
`uv` on the path, `uv tool install` is tried as well; without it, that is said.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
WHEELS = ROOT / "target/wheels"
OLDEST = (2, 17)
"""manylinux2014. What this machine's C library needs above that is reported, not hidden."""
WITHIN_S = 600


def build() -> Path:
    """Builds the wheel from the working tree."""
    before = {path: path.stat().st_mtime_ns for path in WHEELS.glob("*.whl")}
    command = [str(Path(sys.executable).parent / "maturin"), "build", "--release", "--quiet", "--out", str(WHEELS)]
    subprocess.run([*command, "--interpreter", sys.executable], cwd=ROOT, check=True)
    new = [path for path in WHEELS.glob("*.whl") if before.get(path) != path.stat().st_mtime_ns]
    if len(new) != 1:
        raise SystemExit(f"maturin left {len(new)} new wheels in {WHEELS}: must be 1")
    add_manual(new[0])
    return new[0]


def add_manual(wheel: Path) -> None:
    """Puts `man airtcp` into a wheel: maturin's own data folder would have to lie in the repository."""
    scripts = Path(sys.executable).parent
    with tempfile.TemporaryDirectory(prefix="airtcp-wheel-") as place:
        subprocess.run([scripts / "wheel", "unpack", "--dest", place, wheel], check=True, stdout=subprocess.DEVNULL)
        (content,) = Path(place).iterdir()
        folder = content / f"{content.name}.data/data/share/man/man1"
        folder.mkdir(parents=True)
        command = [str(scripts / "argparse-manpage"), "--module", "airtcp.cli.parser", "--function", "command_line"]
        command += ["--project-name", "airtcp", "--prog", "airtcp", "--description", "TCP over Wi-Fi: simulate and ask"]
        command += ["--manual-title", "airtcp", "--format", "single-commands-section"]
        columns = os.environ | {"COLUMNS": "78"}
        subprocess.run([*command, "--output", folder / "airtcp.1"], env=columns, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(
            [scripts / "wheel", "pack", "--dest-dir", wheel.parent, content], check=True, stdout=subprocess.DEVNULL
        )


def look_inside(wheel: Path) -> None:
    """Checks files of the package and tells the tag."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for path in (*(ROOT / "examples").glob("*.toml"), *(ROOT / "studies").glob("*/study.toml")):
        if f"airtcp/{path.relative_to(ROOT)}" not in names:
            raise SystemExit(f"{wheel.name}: lacks {path.relative_to(ROOT)}")
    if not any(name.endswith("/man1/airtcp.1") for name in names):
        raise SystemExit(f"{wheel.name}: lacks the manual page")
    if dirty := [name for name in names if "__pycache__" in name or "/runs/" in name]:
        raise SystemExit(f"{wheel.name}: has {dirty[0]}, which must not be in it")
    tag = re.search(r"-manylinux_(\d+)_(\d+)_", wheel.name)
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {size:.1f} MB, {len(names)} files")
    if sys.platform == "linux" and tag is None:
        raise SystemExit(f"{wheel.name}: is no manylinux wheel: pip would refuse it elsewhere")
    if tag is not None and (int(tag[1]), int(tag[2])) > OLDEST:
        print(f"note: it needs glibc {tag[1]}.{tag[2]} or newer, as what was compiled here; an older image gives less")


class Place:
    """An empty folder, and an environment that points nowhere else."""

    def __init__(self, folder: Path, scripts: Path) -> None:
        self.folder = folder / "empty"
        self.folder.mkdir(exist_ok=True)
        keep = {key: os.environ[key] for key in ("LANG", "SSL_CERT_FILE") if key in os.environ}
        self.environment = {**keep, "PATH": f"{scripts}:/usr/bin:/bin", "HOME": str(folder)}

    def run(self, *words: str, says: str = "", code: int = 0) -> None:
        """Runs a command and checks its exit code and what it prints."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        if done.returncode != code or says not in done.stdout + done.stderr:
            print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
            raise SystemExit(f"{' '.join(words)}: exit code {done.returncode} (must be {code}), must say {says!r}")
        print(f"  {' '.join(words)}")


def use(place: Place) -> None:
    """Uses the installed command as a newcomer would, then what needs files of the package."""
    place.run("airtcp", "--version", says="airtcp ")
    place.run("airtcp", "example", says="wifi-upload")
    place.run("airtcp", "example", "wifi-upload", says="written")
    place.run("airtcp", "check", "wifi-upload.toml")
    place.run("airtcp", "run", "wifi-upload.toml", "--duration", "6s", "--out", "up", says="TCP flows by group")
    place.run("airtcp", "report", "up", says="up-report.html")
    place.run("airtcp", "plot", "up", "--out", "up.png")
    place.run("airtcp", "verify", "up")
    place.run("airtcp", "new", "first.toml", says="written")
    place.run("airtcp", "run", "first.toml", "--duration", "3s", "--no-save", "--json", says='"groups"')
    place.run("airtcp", "study", "list", says="remedies")
    place.run("airtcp", "study", "check", "efr")
    place.run("airtcp", "schema", says='"$schema"')
    place.run("airtcp", "schema", "study", says='"properties"')
    place.run("airtcp", "explain", "cubic", says="cubic")
    place.run("airtcp", "explain", "linux-6", says="tsq")
    place.run("airtcp", "advise", "--scenes", says="home")
    page = "--export" if (ROOT / "python/airtcp/page/playground.html").is_file() else ""
    if page:
        place.run("airtcp", "play", "first.toml", page, "page.html")
    else:
        print("skipped: airtcp play: the page is not built (make playground)")
    if sys.platform == "linux":
        place.run("airtcp", "shell", "--help", says="--line")


def in_new_environment(wheel: Path, folder: Path) -> None:
    """`pip install` of the wheel into a new virtual environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    scripts = folder / "env/bin"
    pip = [str(scripts / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", str(wheel)], check=True, timeout=WITHIN_S)
    subprocess.run([*pip, "check", "--quiet"], check=True)
    place = Place(folder, scripts)
    print("pip install:")
    place.run("python", "-c", "import airtcp; assert 'site-packages' in airtcp.__file__, airtcp.__file__")
    use(place)
    if shutil.which("man"):
        place.run("man", "--pager=cat", str(folder / "env/share/man/man1/airtcp.1"), says="airtcp advise")
    emu = next(folder.glob("env/lib/python*/site-packages/airtcp/airtcp-emu"), None)
    print("  airtcp-emu is in it" if emu else "  airtcp-emu is not in it: make build puts it into the package")


def as_tool(wheel: Path, folder: Path) -> None:
    """`uv tool install` of the wheel."""
    uv = shutil.which("uv")
    if uv is None:
        print("skipped: uv tool install: uv is not installed")
        return
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    subprocess.run(
        [uv, "tool", "install", "--quiet", "--python", sys.executable, str(wheel)],
        env=os.environ | places,
        check=True,
        timeout=WITHIN_S,
    )
    print("uv tool install:")
    place = Place(folder, folder / "bin")
    place.run("airtcp", "--version", says="airtcp ")
    place.run("airtcp", "example", "walk", says="written")
    place.run("airtcp", "run", "walk.toml", "--duration", "2s", "--no-save")


def main() -> None:
    """Builds, looks, installs, uses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="use this wheel instead of building one")
    parser.add_argument("--build", action="store_true", help="build the wheel and end")
    args = parser.parse_args()
    if args.build:
        print(f"pip install {build()}")
        return
    wheel = (args.wheel or build()).resolve()
    look_inside(wheel)
    with tempfile.TemporaryDirectory(prefix="airtcp-wheel-") as folder:
        in_new_environment(wheel, Path(folder))
        as_tool(wheel, Path(folder))
    print("the wheel works without the repository")


if __name__ == "__main__":
    main()
