"""Completion of the command line: names, keys and values of scenarios, results. Asked by the shell at each Tab.

A completion that fails offers nothing: an error message in the middle of a line helps nobody.
"""

from __future__ import annotations

import argparse
import json

from airtcp._text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

SHELLS: Final = ("bash", "zsh", "fish")

BY_KEY: Final = {"profile": "profiles", "base": "profiles", "qdisc": "queue"}
"""Kinds of names, as `airtcp list` has them, of keys that are not called as their kind."""
UNITS: Final = {
    "duration": ("10s", "30s", "60s"),
    "warmup": ("2s", "5s"),
    "rate": ("10Mbit/s", "100Mbit/s", "1Gbit/s"),
    "delay": ("5ms", "20ms", "100ms"),
    "snr_db": ("10", "20", "30"),
}
"""Values to begin with, for keys whose unit is not plain from their name."""


def script(shell: str) -> str:
    """The shell's code that completes `airtcp`."""
    from argcomplete.shell_integration import shellcode

    return str(shellcode(["airtcp"], shell=shell))


def is_offered(candidate: str, prefix: str) -> bool:
    """Whether the shell is told of a candidate: not if it, such as a file's name, holds what acts on a terminal.

    The shell's code quotes the rest.
    """
    return candidate.startswith(prefix) and "\n" not in candidate and visible(candidate) == candidate


def names(**_: object) -> list[str]:
    """Everything that `airtcp explain` knows."""
    from airtcp import _airtcp

    return sorted({name for entries in _airtcp.names().values() for name in entries})


def radios(**_: object) -> list[str]:
    """Access points by their drivers."""
    from airtcp.access_points import access_points

    return list(access_points())


def kinds(**_: object) -> list[str]:
    """Kinds of names, for `airtcp list`."""
    from airtcp import _airtcp

    return list(_airtcp.names())


def scenarios(prefix: str, **_: object) -> list[str]:
    """Folders and TOML files."""
    return [path for path in _paths(prefix) if path.endswith(("/", ".toml"))]


def results(prefix: str, **_: object) -> list[str]:
    """Folders: those that airtcp wrote come without a slash, since nobody goes on into them."""
    from pathlib import Path

    found = []
    for path in _paths(prefix):
        if path.endswith("/"):
            found.append(path.rstrip("/") if (Path(path) / "airtcp.json").is_file() else path)
    return found


def _paths(prefix: str) -> Iterator[str]:
    from pathlib import Path

    folder, _, begin = prefix.rpartition("/")
    root = Path(folder or ("/" if prefix.startswith("/") else "."))
    try:
        entries = sorted(root.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(begin) and (begin.startswith(".") or not entry.name.startswith(".")):
            text = f"{prefix[: len(prefix) - len(begin)]}{entry.name}"
            yield f"{text}/" if entry.is_dir() else text


def links(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Links of the first run that is named."""
    from airtcp.results import Results

    try:
        return [str(row["name"]) for row in Results.load(parsed_args.folders[0]).summary["links"]]
    except Exception:
        return []


def changes(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """`KEY=` for each key of the scenario, and `KEY=VALUE` once the key is there."""
    try:
        scenario = _scenario(parsed_args)
    except Exception:
        return []
    key, equals, _value = prefix.partition("=")
    found = dict(_flat(scenario))
    if not equals:
        return [f"{name}=" for name in found if name.startswith(prefix)]
    return [f"{key}={value}" for value in _values(key, found.get(key))]


def variations(prefix: str, parsed_args: argparse.Namespace, **more: object) -> list[str]:
    """As `changes`, and further values behind commas."""
    before, comma, _ = prefix.rpartition(",")
    if not comma:
        return changes(prefix, parsed_args, **more)
    key, _, had = before.partition("=")
    asked = changes(f"{key}=", parsed_args)
    return [f"{before},{value}" for one in asked if (value := one.partition("=")[2]) not in had.split(",")]


def remedies(**_: object) -> list[str]:
    """Remedies that a network may have already."""
    from airtcp.advice.ranking import catalogue

    return list(catalogue())


def _scenario(args: argparse.Namespace) -> dict[str, Any]:
    from pathlib import Path

    from airtcp import _airtcp
    from airtcp.advice.ranking import scene

    given = getattr(args, "file", None) or getattr(args, "network", None)
    if given is None:
        given = next((word for word in getattr(args, "changes", []) if word.endswith(".toml")), None)
    if given is None:
        raise FileNotFoundError
    # A built-in scene, in a command that takes one.
    path = given if Path(given).exists() else scene(str(given)) or given
    loaded: dict[str, Any] = json.loads(_airtcp.Checked.load(str(path), []).to_json())
    return loaded


def _flat(value: Any, before: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Keys as `--set` spells them: entries of lists by their names."""
    for key, one in value.items():
        path = f"{before}{key}"
        if isinstance(one, dict):
            yield from _flat(one, f"{path}.")
        elif isinstance(one, list) and one and all(isinstance(entry, dict) and "name" in entry for entry in one):
            for entry in one:
                yield from _flat(entry, f"{path}.{entry['name']}.")
        elif key != "name" or before.count(".") != 2:
            # Names of entries are what the others are found by.
            yield path, one


def _values(key: str, now: object) -> list[str]:
    """The present value first, then others that the key takes."""
    from airtcp import _airtcp

    last = key.rsplit(".", 1)[-1]
    if last in ("name", "kind"):
        last = key.rsplit(".", 2)[-2]
    said = [] if now is None or isinstance(now, dict | list) else [_text(now)]
    if isinstance(now, bool):
        return [*said, _text(not now)]
    # A link's `loss` is a number, a sender's a policy.
    named = [] if isinstance(now, int | float) else _airtcp.names().get(BY_KEY.get(last, last), [])
    more = named or UNITS.get(last, ()) or _words_of_schema(last)
    return list(dict.fromkeys([*said, *more]))


def _words_of_schema(key: str) -> list[str]:
    """Words that a key of that name takes, by the schema of scenarios."""
    from airtcp import _airtcp

    tables = json.loads(_airtcp.schema())["$defs"]
    parts = [table["properties"][key] for table in tables.values() if key in table.get("properties", {})]
    named = [tables[part["$ref"].rsplit("/", 1)[1]] for part in parts if "$ref" in part]
    return [option["const"] for one in named for option in one.get("oneOf", []) if "const" in option]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
