"""Several seeds of one scenario: the summaries as means with their intervals."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from airtcp import _airtcp, stats
from airtcp.execution import Execution

if TYPE_CHECKING:
    from rich.table import Table

Json = dict[str, Any]

PARTS: Final = {"groups": "group", "links": "name", "air": "name"}
"""Parts of a summary, and the key that names an entry."""


def summaries(
    checked: _airtcp.Checked,
    seeds: Sequence[int],
    *,
    audit: bool = False,
    progress: Callable[[int, int], object] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[Json]:
    """The summaries of runs, side by side on all cores, in their order. If stopped, those that have finished."""
    text = checked.to_json()

    def one(seed: int) -> Json | None:
        if is_stopped():
            return None
        # Made here: a large network for each seed at once would not fit the memory.
        scenario = _airtcp.Checked.from_json(text, "scenario", [("seed", "seed", str(seed))])
        execution = Execution(scenario, audit=audit)
        while not execution.is_over:
            if is_stopped():
                return None
            execution.advance()
        return execution.summary()

    found: list[Json] = []
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="airtcp") as pool:
        for done, summary in enumerate(pool.map(one, seeds), start=1):
            if summary is not None:
                found.append(summary)
            if progress is not None:
                progress(done, len(seeds))
    return found


def means(found: Sequence[Mapping[str, Any]]) -> Json:
    """The summaries as one: each number is `{value, lo, hi}`, a mean with its 95 % interval over the seeds."""
    out: Json = {
        "name": found[0]["name"],
        "seeds": [one["seed"] for one in found],
        "duration_s": found[0]["duration_s"],
    }
    for part, key in PARTS.items():
        out[part] = []
        for entry in found[0].get(part, []):
            same = [other for one in found for other in one.get(part, []) if other[key] == entry[key]]
            row: Json = {key: entry[key]}
            for name, value in entry.items():
                if name == key or isinstance(value, (list, dict)):
                    continue
                values = [other.get(name) for other in same]
                row[name] = _mean(values) if _are_numbers(values) else value
            out[part].append(row)
    return out


def is_certain(found: Sequence[Mapping[str, Any]]) -> bool:
    """Whether chance had no part: every seed has given the same numbers."""
    first, *others = [[one.get(part) for part in PARTS] for one in found]
    return all(other == first for other in others)


def _are_numbers(values: Sequence[object]) -> bool:
    kinds = [value for value in values if value is not None]
    return bool(kinds) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in kinds)


def _mean(values: Sequence[Any]) -> Json:
    estimate = stats.mean([float(value) for value in values if value is not None])
    return {"value": estimate.value, "lo": estimate.low, "hi": estimate.high}


def tables(summary: Json) -> list[Table]:
    """The means for the terminal."""
    from rich import box
    from rich.table import Table

    from airtcp.show import AIR, DATAGRAMS, LINK, TCP, TRANSFERS

    out = []
    for part, title, measures in (
        ("groups", "Flows", (*TCP[1:], *TRANSFERS, *DATAGRAMS[2:])),
        ("links", "Lines", LINK),
        ("air", "Wi-Fi", AIR),
    ):
        rows = summary[part]
        if not rows:
            continue
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("")
        table.add_column("mean of the seeds", justify="right")
        table.add_column("95 % interval", justify="right")
        for row in rows:
            table.add_row(str(row[PARTS[part]]), "", "", style="bold")
            seen = set()
            for measure in measures:
                found = row.get(measure.key)
                if measure.key in seen or not isinstance(found, dict) or found["value"] == 0:
                    continue
                seen.add(measure.key)
                value, lo, hi = (
                    None if found[end] is None else f"{found[end] * measure.scale:,.{max(measure.digits, 1)}f}"
                    for end in ("value", "lo", "hi")
                )
                interval = "-" if lo is None or hi is None else f"[{lo}, {hi}]"
                table.add_row(f"  {measure.title}", f"{value} {measure.unit}".rstrip(), interval)
        out.append(table)
    return out
