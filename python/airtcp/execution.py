"""One run in progress: built, advanced, ended. It imports no heavy module, so that short runs start fast."""

from __future__ import annotations

import json
import os
import time

from airtcp import _airtcp
from airtcp.errors import ResultsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    import polars as pl

    from airtcp.results import Folder, Results

SLICE_WALL_S: Final = 0.1
"""Wall time of a slice of a run, seconds. Between slices, progress, Ctrl-C and other Python threads get a turn."""

SNAPLEN: Final = 192
"""Bytes that captures keep of each packet: more than all headers together. 0: the whole packet."""


MANY_FLOWS: Final = 500
"""A run of fewer flows takes one core unless told: 100 took 1.2 times as long on two, 2000 in cells took half."""

AUDIT: Final = "AIRTCP_AUDIT"
"""Environment variable: not empty, every run is audited. So a command tells its worker processes."""


class _Cores:
    """Whether the parts of a run go on side by side or in turn: what was faster.

    Where other programs want the cores as well, parts wait for each other.
    """

    AGAIN: Final = 16
    """Slices until the slower of both is tried again."""

    def __init__(self) -> None:
        self._slices = 0
        self._speed: dict[bool, float] = {}
        self._is_threaded = True

    def choose(self) -> bool:
        """For the next slice."""
        # The first slices warm up, and are too short to tell.
        best = max(self._speed, key=self._speed.__getitem__, default=True)
        self._is_threaded = best != (self._slices % self.AGAIN == self.AGAIN // 2)
        return self._is_threaded

    def note(self, speed: float) -> None:
        """Simulated seconds for each second of wall time in the slice that is over."""
        self._slices += 1
        self._speed[self._is_threaded] = speed


class Execution:
    """One run. Construct it, `advance` it to the wanted time, then take its `summary` or its `results`."""

    def __init__(
        self,
        checked: _airtcp.Checked,
        folder: Folder | None = None,
        snaplen: int = SNAPLEN,
        *,
        audit: bool = False,
        threads: int = 1,
    ) -> None:
        """Builds the network.

        Args:
            checked: the scenario.
            folder: where captures go; without one, nothing is captured.
            snaplen: bytes of each packet that they keep; 0: all.
            audit: at every sample the books of the run are checked. `AUDIT` in the environment does the same.
            threads: most cores that the run takes; 0: as many as pay. The results do not depend on it.
        """
        self.scenario: Final[dict[str, Any]] = json.loads(checked.to_json())
        record = self.scenario["record"]
        wanted = record["capture"] or record["capture_air"]
        self._capture = folder.capture if folder is not None and wanted else None
        self._snaplen = snaplen if self._capture else None
        self._started = time.time()
        self._clock = time.perf_counter()
        try:
            audit = audit or bool(os.environ.get(AUDIT))
            if threads == 0 and checked.counts()[2] < MANY_FLOWS:
                threads = 1
            self._run: Final = _airtcp.Run(checked, (self._capture, snaplen) if self._capture else None, audit, threads)
        except OSError as error:
            raise ResultsError(f"cannot write the capture: {error.strerror or error}") from error
        self.end_s: Final = self._run.end_s
        """Simulated time at the end of the run."""
        # Begins small, because the speed of this network is not known yet.
        self._slice_s = self.end_s / 1000
        self._cores = _Cores() if threads == 0 and self._run.parts > 1 else None
        self._output: _airtcp.Output | None = None
        self._reached_s = 0.0
        self._wall_s = 0.0

    @property
    def now_s(self) -> float:
        """Simulated time so far."""
        return self._run.now_s if self._output is None else self._reached_s

    @property
    def is_over(self) -> bool:
        """True at the end of the run."""
        return self.now_s >= self.end_s

    def advance(self, until_s: float | None = None) -> None:
        """Runs for about `SLICE_WALL_S` of wall time. The cuts between slices do not change the results.

        Args:
            until_s: simulated time that it does not pass; by default the end of the run.
        """
        before_s = self.now_s
        if self._cores is not None:
            self._run.set_threaded(self._cores.choose())
        begin = time.perf_counter()
        self._run.advance(min(before_s + self._slice_s, self.end_s if until_s is None else until_s))
        took = max(time.perf_counter() - begin, 1e-9)
        if self._cores is not None:
            self._cores.note((self.now_s - before_s) / took)
        self._slice_s *= min(max(SLICE_WALL_S / took, 0.1), 4.0)

    def finish(self) -> _airtcp.Output:
        """Ends the run at its present time.

        Raises:
            ResultsError: the capture could not be written.
        """
        if self._output is None:
            self._reached_s = self.now_s
            try:
                self._output = self._run.finish()
            except OSError as error:
                raise ResultsError(f"cannot write the capture: {error.strerror or error}; nothing was kept") from error
            self._wall_s = time.perf_counter() - self._clock
        return self._output

    def _head(self) -> dict[str, Any]:
        return {
            "name": self.scenario["name"],
            "seed": self.scenario["seed"],
            "airtcp_version": _airtcp.__version__,
            "status": "complete" if self.is_over else "interrupted",
            "duration_s": self.end_s,
        }

    def summary(self) -> dict[str, Any]:
        """Ends the run and returns its summary per flow, flow group and link.

        Raises:
            ResultsError: the capture could not be written.
        """
        return {**self._head(), **json.loads(self.finish().summary)}

    def hash(self) -> str:
        """Ends the run and names its summary: the same on every machine, and in the page of `airtcp play`.

        Raises:
            ResultsError: the capture could not be written.
        """
        import hashlib

        return hashlib.sha256(self.finish().summary.encode()).hexdigest()[:16]

    def results(self) -> Results:
        """Ends the run and returns everything it recorded.

        Raises:
            ResultsError: the capture could not be written.
        """
        from airtcp import results  # Polars takes longer to load than a short run takes

        output = self.finish()
        frames = {name: results.frame(columns) for name, columns in output.tables.items()}
        manifest = manifest_of(
            head=self._head(),
            scenario=self.scenario,
            snaplen=self._snaplen,
            simulated_s=self.now_s,
            started=self._started,
            wall_s=self._wall_s,
            counted=output.stats,
            frames=frames,
            meanings=output.meanings,
        )
        return results.Results(manifest, self.summary(), {name: table.lazy() for name, table in frames.items()})


def manifest_of(
    *,
    head: dict[str, Any],
    scenario: dict[str, Any],
    snaplen: int | None,
    simulated_s: float,
    started: float,
    wall_s: float,
    counted: Mapping[str, int],
    frames: Mapping[str, pl.DataFrame],
    meanings: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """The manifest of a run.

    Args:
        head: what summary and manifest begin with.
        scenario: with every default filled in.
        snaplen: bytes of each packet that its capture keeps; `None`: it has none.
        simulated_s: virtual time at its end.
        started: when it began, seconds since 1970.
        wall_s: how long it took.
        counted: counters of the engine.
        frames: its tables.
        meanings: table, column, unit and meaning.
    """
    from airtcp import results

    return {
        "format": results.FORMAT,
        "format_version": results.FORMAT_VERSION,
        **head,
        "engine": _airtcp.engine(),
        "polars_version": results.polars_version(),
        "snaplen": snaplen,
        "simulated_s": simulated_s,
        "host": results.host(),
        "timing": {
            "started": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(started)),
            "wall_s": round(wall_s, 6),
            **counted,
            **{f"{name}_per_s": round(count / wall_s) for name, count in counted.items()},
        },
        "scenario": scenario,
        "tables": {
            name: {"rows": frames[name].height, "columns": {c: _in_tables(m) for c, m in columns.items()}}
            for name, columns in meanings.items()
        },
    }


def _in_tables(meaning: str) -> str:
    # The engine has NaN where the tables have null: see `results.frame`.
    return meaning.replace("NaN", "null")
