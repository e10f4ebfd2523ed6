"""Tries every remedy that applies to a network, and ranks them by the rule of the matrices (`airtcp.study.matrix`)."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airtcp import _airtcp, stats
from airtcp.advice.measures import UNITS, RunMeasures, least_delays, sample, table
from airtcp.advice.network import Bottleneck, Network, NotHereError, narrowest, packets, rates
from airtcp.catalogue import Catalogue, Remedy
from airtcp.errors import StudyError
from airtcp.execution import Execution
from airtcp.expressions import nearest
from airtcp.package_data import DATA, SCENES
from airtcp.runner import Job
from airtcp.scenario_json import seconds
from airtcp.study.files import MatrixMeasure, MatrixRow, Rule
from airtcp.study.matrix import FINE, NOTHING, OPEN, REMEDY, Comparison, advised, compared, is_fine
from airtcp.study.samples import Array

if TYPE_CHECKING:
    from airtcp.scenario import Scenario

Json = dict[str, Any]

SEEDS: Final = 5
MOST_SEEDS: Final = 20


@dataclass(frozen=True)
class Tried:
    """A remedy that was tried."""

    remedy: Remedy
    changes: tuple[str, ...]
    """Things that have to be changed for it on this network."""
    values: Mapping[str, Array]
    """Each measure with one value per seed."""
    cell: Comparison | None
    scenario: Json
    """The scenario with the remedy."""
    commands: list[Json]
    """For each kind of machine, the lines to enter."""


@dataclass(frozen=True)
class Advice:
    """The remedy that helps on a network, and by how much."""

    name: str
    """The name of the scenario."""
    description: str
    outcome: str
    """`remedy`; `fine`: none is needed; `nothing` helps; `open`: more seeds would have to decide."""
    advised: tuple[str, ...]
    """Remedies that help, the advised one first; if `open`, those that may help."""
    base: Mapping[str, Array]
    """The network as it is: each measure with one value per seed."""
    tried: Mapping[str, Tried]
    """Every remedy that was tried, by name."""
    left_out: Mapping[str, str]
    """Remedies that were not tried, and why."""
    measures: tuple[MatrixMeasure, ...]
    seeds: tuple[int, ...]
    scenario: Json
    """The network as it was run."""
    twin: Json | None = None
    """The way to the network, if it is the twin of a capture."""

    @property
    def best(self) -> Tried | None:
        """The advised remedy."""
        return self.tried[self.advised[0]] if self.outcome == REMEDY else None

    def gain(self, name: str) -> stats.Estimate:
        """The overall gain of a remedy, as a factor, with its interval."""
        cell = self.tried[name].cell
        assert cell is not None
        score = cell.score({measure.name: measure.weight for measure in self.measures})

        def factor(value: float | None) -> float | None:
            return None if value is None else float(2**value)

        return stats.Estimate(2**score.value, factor(score.low), factor(score.high), score.count)

    def to_dict(self) -> Json:
        """The advice as JSON values."""

        def estimates(values: Mapping[str, Array]) -> Json:
            return {name: {**_estimate(stats.mean(found)), "unit": UNITS[name]} for name, found in values.items()}

        def tried(name: str) -> Json:
            one = self.tried[name]
            return {
                "remedy": name,
                "text": one.remedy.text,
                "who": list(one.changes),
                "gain": None if one.cell is None else _estimate(self.gain(name)),
                "harms": [] if one.cell is None else list(one.cell.harmed),
                "measures": estimates(one.values),
                "how": one.remedy.how,
                "commands": one.commands,
            }

        return {
            "scenario": self.name,
            "outcome": self.outcome,
            "advice": [tried(name) for name in self.advised],
            "as_it_is": estimates(self.base),
            "tried": [tried(name) for name in self.tried if name not in self.advised],
            "not_considered": dict(self.left_out),
            "seeds": list(self.seeds),
            "engine": _airtcp.engine(),
            **({} if self.twin is None else {"twin": self.twin}),
        }


class AdviseError(ValueError):
    """The network has nothing that a remedy could help, or a remedy's name is unknown."""


def scene(name: str) -> Path | None:
    """The file of a built-in scene, by name."""
    return next((path for path in SCENES.glob("*.toml") if path.stem == name), None)


def scenes() -> list[str]:
    """Names of the built-in scenes."""
    return sorted(path.stem for path in SCENES.glob("*.toml"))


def rule() -> Rule:
    """The measures, the margin and the costs that decide."""
    return Rule.load(DATA / "rule.toml")


def catalogue() -> Catalogue:
    """The catalogue of remedies."""
    return Catalogue.load(DATA / "remedies.toml", StudyError)


ROUTER: Final = "router setting"
"""The kind of change of remedies at a wired line."""


def advise(
    scenario: Scenario | str | os.PathLike[str] | Mapping[str, Any],
    *,
    set: Mapping[str, object] | None = None,
    present: Sequence[str] = (),
    seeds: int = SEEDS,
    most_seeds: int = MOST_SEEDS,
    research: bool = False,
    only: Sequence[str] | None = None,
    duration: str | None = None,
    is_bursty: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    run: Callable[[Network, int], RunMeasures] | None = None,
) -> Advice:
    """Tries every remedy of the catalogue that applies to a network, and ranks them.

    Args:
        scenario: a scenario file, the name of a built-in scene, a `Scenario`, or a resolved scenario.
        set: values to change, by key.
        present: remedies that the network has already.
        seeds: runs of each remedy, and of the network as it is.
        most_seeds: as many are run of what may help while the first ones do not settle it.
        research: also try remedies that no released system has.
        only: try only these remedies.
        duration: simulated time of each run; by default the scenario's.
        is_bursty: the network is a twin, and its line stands for a radio: remedies of a router before it are left out.
        threads: runs at a time; by default one per core.
        progress: called after each run with the number of finished runs and of all.
        is_stopped: asked after each run; if it says so, what has run is ranked.
        run: carries out a run of a network with a seed; by default the engine does.

    Raises:
        ScenarioError: the scenario is wrong.
        AdviseError: it has no flow to advise on, or a name in `present` is unknown.
    """
    known, decides = catalogue(), rule()
    network = _network(scenario, set or {}, duration)
    line: Bottleneck | None = None
    for name in present:
        if name not in known:
            raise AdviseError(f"no remedy is called {name!r}{nearest(name, known)}")
        try:
            network, _ = network.with_remedy(known, name, line)
        except NotHereError as error:
            raise AdviseError(f"{name}: {error}") from error
    network = network.with_pings()
    if not network.senders and not network.has_probes:
        raise AdviseError(
            f"{network.document['name']}: no flow is TCP, a call or a ping: there is nothing to advise on"
        )
    runs = _NetworkRuns(network, threads, progress, is_stopped, run)
    with runs:
        base = runs.of(None, network, seeds)
        line = narrowest(network, base[0].links, _rtt_ms(base))
        candidates, left_out = _candidates(network, known, line, research=research)
        if is_bursty:
            for name in [name for name in candidates if ROUTER in candidates[name][1]]:
                del candidates[name]
                left_out[name] = "packets come through in bursts, as over a radio: no router has their queue"
        if only is not None:
            candidates = {name: found for name, found in candidates.items() if name in only}
        runs.expect((len(candidates) + 1) * seeds)
        for name, (other, _) in candidates.items():
            runs.of(name, other, seeds)
        count = seeds
        while True:
            advice = _ranked(network, known, candidates, left_out, runs.samples, line, decides)
            if advice.outcome != OPEN or count >= most_seeds:
                return advice
            # Chance alone decides between what may help: these get more seeds.
            count = min(2 * count, most_seeds)
            runs.expect(runs.done + (count - len(base)) * (len(advice.advised) + 1))
            base = runs.of(None, network, count)
            for name in advice.advised:
                runs.of(name, candidates[name][0], count)


class _NetworkRuns:
    """Runs of networks on threads, counted."""

    def __init__(
        self,
        network: Network,
        threads: int | None,
        progress: Callable[[int, int], object] | None,
        is_stopped: Callable[[], bool],
        run: Callable[[Network, int], RunMeasures] | None,
    ) -> None:
        self.network: Final = network
        self.samples: Final[dict[str | None, list[RunMeasures]]] = {}
        """By remedy; `None` is the network as it is."""
        self.done = 0
        self._total = 0
        self._progress = progress
        self._is_stopped = is_stopped
        self._stop: Final = threading.Event()
        self._run: Final = run or (lambda network, seed: _run(network, seed, self._stop))
        self._pool: Final = ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="airtcp")

    def __enter__(self) -> _NetworkRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def expect(self, total: int) -> None:
        """Sets the number of runs that there will be, for the progress."""
        self._total = total

    def of(self, name: str | None, network: Network, count: int) -> list[RunMeasures]:
        """The first `count` seeds of a network; those that have run already are kept."""
        have = self.samples.setdefault(name, [])
        seeds = range(len(have) + 1, count + 1)
        for one in self._pool.map(lambda seed: self._run(network, seed), seeds):
            have.append(one)
            self.done += 1
            if self._progress is not None:
                self._progress(self.done, max(self._total, self.done))
            if self._is_stopped():
                raise KeyboardInterrupt
        return have


def _network(scenario: object, changes: Mapping[str, object], duration: str | None) -> Network:
    if isinstance(scenario, Mapping):
        checked = _airtcp.Checked.from_json(json.dumps(scenario), "scenario", [])
    else:
        known = scene(str(scenario)) if isinstance(scenario, str) else None
        checked = Job(known or scenario, set=changes).check()  # type: ignore[arg-type]
    document = json.loads(checked.to_json())
    if duration is not None:
        _shorten(document, duration)
    document["record"] = {"interval": "1s", "flow_series_max": 0, "links": [], "drops": [], "air_series": []}
    return Network(document)


def _shorten(document: Json, duration: str) -> None:
    """Another duration; what would stop after it stops with it."""
    document["duration"] = duration
    for flow in document["flows"]:
        if "stop" in flow and seconds(flow["stop"]) > seconds(duration):
            flow["stop"] = duration


def _run(network: Network, seed: int, stop: threading.Event) -> RunMeasures:
    text = json.dumps({**network.document, "seed": seed})
    execution = Execution(_airtcp.Checked.from_json(text, network.document["name"], []))
    while not execution.is_over and not stop.is_set():
        execution.advance()
    return sample(network, execution.results())


def _rtt_ms(base: Sequence[RunMeasures]) -> float:
    return float(np.nanmean([one.rtt_ms for one in base])) if any(one.rtt_ms > 0 for one in base) else 50.0


def _candidates(
    network: Network, known: Catalogue, line: Bottleneck | None, *, research: bool
) -> tuple[dict[str, tuple[Network, tuple[str, ...]]], dict[str, str]]:
    candidates: dict[str, tuple[Network, tuple[str, ...]]] = {}
    left_out: dict[str, str] = {}
    for name, remedy in known.items():
        if remedy.without:
            left_out[name] = f"its {' and '.join(remedy.without)} says nothing: it is for streams, not for bulk"
            continue
        if not research and not all(one.is_released for one in known.alone(name)):
            left_out[name] = "in no released system (--research tries it)"
            continue
        try:
            other, changes = network.with_remedy(known, name, line)
            _airtcp.Checked.from_json(json.dumps(other.document), name, [])
        except NotHereError as error:
            left_out[name] = str(error)
            continue
        except _airtcp.ScenarioError as error:
            left_out[name] = f"does not fit here: {str(error).splitlines()[0]}"
            continue
        same = next((one for one, (found, _) in candidates.items() if found.document == other.document), None)
        if same is not None:
            left_out[name] = f"the same as {same} here"
            continue
        candidates[name] = (other, changes)
    return candidates, left_out


def _commands(known: Catalogue, name: str, network: Network, line: Bottleneck | None) -> list[Json]:
    """The commands of a remedy, with the numbers of the line."""
    out = []
    for one in known.alone(name):
        fill: dict[str, object] = {}
        if line is not None:
            own, other = rates(network.document, line)
            share = 1 if one.line is None else one.line.share
            fill = {"up_kbit": round(own * share / 1e3), "down_kbit": round(other * share / 1e3)}
            if (limit := packets(one, line, network.count(network.senders))) is not None:
                fill["packets"] = limit
        for commands in one.commands:
            lines = []
            for text in commands.run:
                filled = text
                for key, value in fill.items():
                    filled = filled.replace(f"{{{key}}}", str(value))
                lines.append(filled)
            out.append({"on": commands.on, "run": lines})
    return out


def _ranked(
    network: Network,
    known: Catalogue,
    candidates: Mapping[str, tuple[Network, tuple[str, ...]]],
    left_out: Mapping[str, str],
    samples: Mapping[str | None, Sequence[RunMeasures]],
    line: Bottleneck | None,
    decides: Rule,
) -> Advice:
    least = least_delays([one for found in samples.values() for one in found])
    base = table(samples[None], least)
    measures = tuple(measure for measure in decides.measures if measure.name in base)
    weights = {measure.name: measure.weight for measure in measures}
    tried: dict[str, Tried] = {}
    for name, (other, changes) in candidates.items():
        values = table(samples[name], least)
        count = len(samples[name])
        cell = compared(
            MatrixRow(variant=name, changes=changes),
            measures,
            values,
            {key: found[:count] for key, found in base.items()},
        )
        commands = _commands(known, name, network, line)
        tried[name] = Tried(known[name], changes, values, cell, other.document, commands)
    cells = [one.cell for one in tried.values() if one.cell is not None]
    outcome, chosen = advised(cells, weights, decides.margin, decides.costs)
    if outcome == NOTHING and is_fine(measures, base):
        outcome = FINE
    return Advice(
        network.document["name"],
        network.document.get("description", ""),
        outcome,
        tuple(cell.row.variant for cell in chosen),
        base,
        tried,
        left_out,
        measures,
        tuple(range(1, len(samples[None]) + 1)),
        network.document,
    )


def _estimate(estimate: stats.Estimate) -> Json:
    def short(value: float | None) -> float | None:
        return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")

    return {"value": short(estimate.value), "lo": short(estimate.low), "hi": short(estimate.high)}
