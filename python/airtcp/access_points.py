"""Access points by the driver of their radio, as data: `access_points.toml`."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from airtcp import _airtcp

FILE: Final = "access_points.toml"

Json = dict[str, Any]


class UnknownAccessPointError(ValueError):
    """No access point has this name; the message has the nearest one."""


@cache
def _all() -> dict[str, Json]:
    return tomllib.loads(files("airtcp").joinpath(FILE).read_text(encoding="utf-8"))


def access_points() -> dict[str, str]:
    """Names, and what each is."""
    return {name: str(entry["text"]) for name, entry in _all().items()}


def access_point(name: str) -> Json:
    """Options of `ap_radio`: `airtcp.Wlan(ap_radio=airtcp.access_point("mt76"), ...)`.

    Raises:
        UnknownAccessPointError: there is none of this name.
    """
    if name not in _all():
        from airtcp.expressions import nearest

        raise UnknownAccessPointError(f"no access point is called {name!r}{nearest(name, _all())}")
    return copy.deepcopy(dict(_all()[name]["radio"]))


def changes(name: str, scenario: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Changes of a scenario that give each of its access points this radio: how to call it, key, and value as TOML.

    Raises:
        UnknownAccessPointError: there is none of this name.
    """
    radio = access_point(name)
    return [
        (f"--ap {name}", f"wlans.{wlan['name']}.ap_radio.{key}", _toml(value))
        for wlan in scenario.get("wlans", [])
        for key, value in radio.items()
    ]


def with_radio(name: str, file: str | Path, arguments: Sequence[str]) -> list[str]:
    """Arguments of `--set` with those of `--ap NAME` before them, so that they can change single options of it.

    Raises:
        ScenarioError: the file is wrong.
        UnknownAccessPointError: there is none of this name, or no WLAN in the file.
    """
    radios = changes(name, json.loads(_airtcp.Checked.load(file, []).to_json()))
    if not radios:
        raise UnknownAccessPointError(f"{name}: {file} has no WLAN whose access point could be that")
    return [*(f"{key}={value}" for _, key, value in radios), *arguments]


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
