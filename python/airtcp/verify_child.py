"""The process in which `airtcp verify` reads what a stranger sent: `python -m airtcp.verify_child`, options as JSON.

Its memory and its processor time are bounded. A small file that unfolds to more than the machine has ends this process
and nothing else. It writes what it found to standard output, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from airtcp.errors import DamagedError, FileError, ResultsError, ScenarioError
from airtcp.verified import Limits, Verified, limits

OWN_TIME: Final = 6
"""Times the processor time of a run that planning and drawing may take together."""
LEAST_TIME_S: Final = 600
MORE_BYTES: Final = 64 << 20

_LAST_WORDS: Final = 300

Json = dict[str, Any]


def verify(options: Json, most: Limits, *, quiet: bool) -> Verified:
    """Verifies in a process of its own.

    Args:
        options: `what`, `runs`, `seed`, `jobs`.
        most: memory and time of a run, and memory of that process.
        quiet: tell nothing meanwhile.

    Raises:
        ResultsError: the folder cannot be verified.
    """
    asked = {**options, "memory": most.memory_bytes, "cpu": most.cpu_s, "quiet": quiet, "parent": os.getpid()}
    package = str(Path(__file__).parent.parent)
    paths = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "airtcp.verify_child", json.dumps(asked)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    try:
        told = json.loads(done.stdout)
    except ValueError:
        told = {}
    if "found" in told:
        return Verified.from_dict(told["found"])
    if "error" in told:
        kinds = {"DamagedError": DamagedError, "StudyError": ResultsError}
        raise kinds.get(told["kind"], ResultsError)(told["error"])
    if done.returncode == 130:
        raise KeyboardInterrupt
    found = Verified(options["what"])
    why = told.get("died", f"exit code {done.returncode}")
    found.faults.append(
        f"{options['what']}: to check it takes more than {most.memory_bytes >> 20} MiB (--memory) or "
        f"{_own_time(most.cpu_s)} s of processor time (--time-limit): {why}"
    )
    return found


def _largest(folder: Path) -> int:
    return max((path.lstat().st_size for path in folder.iterdir()), default=0)


def _own_time(cpu_s: int) -> int:
    return max(LEAST_TIME_S, OWN_TIME * cpu_s)


def main() -> int:
    """Does what the options say."""
    from airtcp.executors.worker import die_with

    options: Json = json.loads(sys.argv[1])
    die_with(options["parent"])
    results = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for what, most in (
        (resource.RLIMIT_DATA, options["memory"]),
        (resource.RLIMIT_CPU, _own_time(options["cpu"])),
        (resource.RLIMIT_CORE, 0),
        # A capture that is made again is as large as the one that is there, or another one.
        (resource.RLIMIT_FSIZE, _largest(Path(options["what"])) + MORE_BYTES),
    ):
        hard = resource.getrlimit(what)[1]
        # Only the soft one: worker processes have limits of their own.
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    try:
        told: Json = {"found": _verified(options).to_dict()}
    except (ResultsError, FileError, ScenarioError) as error:
        told = {"error": str(error), "kind": type(error).__name__}
    except MemoryError:
        told = {"died": "out of memory"}
    except KeyboardInterrupt:
        return 130
    except BaseException as error:  # a panic of the engine is no Exception
        told = {"died": f"{type(error).__name__}: {error}"[:_LAST_WORDS]}
    with suppress(OSError):
        results.write(json.dumps(told))
        results.flush()
    return 0


def _verified(options: Json) -> Verified:
    from airtcp import verify as checks
    from airtcp._terminal import say

    tell = (lambda text: None) if options["quiet"] else say
    most = limits(options["memory"], options["cpu"])
    return checks.verify(Path(options["what"]), options["runs"], options["seed"], options["jobs"], tell, most)


if __name__ == "__main__":
    sys.exit(main())
