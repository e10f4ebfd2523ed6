#!/usr/bin/env python3
"""Whether this engine gives the bits of an older one: summaries and all tables of the same scenarios.

    .venv/bin/python bench/bits.py --old COMMIT|PATH [--random N] [--only WORD ...]

It runs the scenarios in examples/ and playground/stories/, dumbbells with each congestion control and each queue, and
N random scenarios as tests/test_random_scenarios.py draws them. Those last longer than --seconds are cut there.
Both engines are compiled as bench/engines.py does it. Each scenario that differs is named, and the exit code is 1.
A scenario that an engine refuses counts as equal if both refuse it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent))

SCENARIOS = ("examples/*.toml", "playground/stories/*.toml")


def digest(checked: Any) -> str:  # noqa: ANN401
    """Of all that a run leaves behind."""
    from airtcp import _airtcp

    run = _airtcp.Run(checked, None, False, 1)
    run.advance(run.end_s)
    output = run.finish()
    told = hashlib.sha256(output.summary.encode())
    for name, columns in output.tables.items():
        for column, data in columns.items():
            told.update(f"{name}.{column} {len(data)} ".encode())
            told.update(repr(data).encode() if isinstance(data, list) else data.tobytes())
    return told.hexdigest()


def answer() -> None:
    """Reads scenarios, a line each, and tells their digests: in a process with the package of one of the engines."""
    from airtcp import _airtcp

    for line in sys.stdin:
        asked = json.loads(line)
        try:
            changes = [_airtcp.parse_set(change) for change in asked["changes"]]
            if "file" in asked:
                checked = _airtcp.Checked.load(asked["file"], changes)
            else:
                checked = _airtcp.Checked.from_json(json.dumps(asked["scenario"]), "random", changes)
            told = digest(checked)
        except (ValueError, RuntimeError):
            told = "refused"
        print(told, flush=True)


def dumbbells() -> Iterator[tuple[str, dict[str, Any]]]:
    """Wired networks with each congestion control and each queue, without and with ways up of their hosts."""
    from airtcp import _airtcp

    names = _airtcp.names()
    wanted = [(cc, "fifo") for cc in names["cc"]] + [("cubic", queue) for queue in names["queue"]]
    for i, (cc, queue) in enumerate(wanted):
        host = {"kind": "host", "count": 12, "receive_offload": names["receive_offload"][i % 4]}
        access = {"rate": "50Mbit/s", "delay": "2ms"}
        yield (
            f"dumbbell {cc} {queue}",
            {
                "name": "dumbbell",
                "duration": "4s",
                "seed": i,
                "nodes": [
                    {"name": "a", **host},
                    {"name": "b", **host},
                    {"name": "p", "kind": "router"},
                    {"name": "q", "kind": "router"},
                ],
                "links": [
                    {"from": "a", "to": "p", **access},
                    {"name": "line", "from": "p", "to": "q", "rate": "12Mbit/s", "delay": "15ms", "queue": queue},
                    {"from": "q", "to": "b", **access},
                ],
                "flows": [{"name": "f", "from": "a", "to": "b", "count": 12, "tcp": {"cc": cc}}],
                "record": {"interval": "100ms", "retransmissions": True},
            },
        )


def scenarios(root: pathlib.Path, seconds: float, drawn: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Their names, and what `answer` is asked."""
    for pattern in SCENARIOS:
        for file in sorted(root.glob(pattern)):
            if not file.name.startswith("sweep-"):
                changes = [f"duration={seconds}s", "warmup=0s"]
                yield str(file.relative_to(root)), {"file": str(file), "changes": changes}
    for name, scenario in dumbbells():
        yield name, {"scenario": scenario, "changes": []}
    sys.path.insert(0, str(root / "tests"))
    from test_random_scenarios import scenario as draw

    for number in range(drawn):
        yield f"random {number}", {"scenario": draw(number), "changes": []}


def main() -> int:
    from airtcp_runs import ROOT, BenchError
    from engines import PYTHON, build, older

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, metavar="COMMIT|PATH", help="the older engine, as of bench/engines.py")
    parser.add_argument("--random", type=int, default=200, metavar="N", help="random scenarios (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4, metavar="S", help="of each file (default: %(default)s)")
    parser.add_argument("--no-build", action="store_true", help="take the packages of both trees as they stand")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="scenarios with such a word in the name")
    args = parser.parse_args()
    try:
        trees = (older(args.old), ROOT)
        if not args.no_build:
            for tree in trees:
                build(tree, bindings=True)
    except (BenchError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    engines = [
        subprocess.Popen(
            [str(PYTHON), __file__, "--answer"],
            env={**os.environ, "PYTHONPATH": str(tree / "python")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for tree in trees
    ]
    equal, refused, different = 0, 0, []
    for name, asked in scenarios(ROOT, args.seconds, args.random):
        if args.only and not any(word in name for word in args.only):
            continue
        told = []
        for engine in engines:
            assert engine.stdin is not None
            engine.stdin.write(json.dumps(asked) + "\n")
            engine.stdin.flush()
        for engine in engines:
            assert engine.stdout is not None
            told.append(engine.stdout.readline().strip())
        if told[0] != told[1] or not told[0]:
            different.append(name)
            print(f"{name}: DIFFERENT", flush=True)
        elif told[0] == "refused":
            refused += 1
        else:
            equal += 1
    for engine in engines:
        assert engine.stdin is not None
        engine.stdin.close()
        engine.wait()
    print(f"{equal} scenarios equal, {len(different)} different, {refused} refused by both")
    return 1 if different or not equal else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--answer"]:
        answer()
    else:
        sys.exit(main())
