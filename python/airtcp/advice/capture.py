"""Advice on the network of a real capture: its twin is found and proven, and every remedy is tried on the twin."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airtcp.advice.fit import Twin, fit
from airtcp.advice.observed import NoTwinError, observe
from airtcp.advice.ranking import MOST_SEEDS, SEEDS, Advice, advise
from airtcp.advice.twin import DROP_TAIL
from airtcp.stats import Estimate
from airtcp.study.files import MatrixMeasure
from airtcp.study.matrix import OPEN

Json = dict[str, Any]

NO_TWIN: Final = "no_twin"
POINTS: Final = 2_000_000
"""Most points of a flow in the tables over time: the estimates need all of them."""
LONGEST_S: Final = 30.0
"""Simulated time of the advice. The proof is over the whole capture."""

MAGIC: Final = (
    *(bytes.fromhex(one) for one in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1")),  # pcap
    bytes.fromhex("0a0d0d0a"),  # pcapng
    *(bytes.fromhex(one) for one in ("a1b2cd34", "34cdb2a1")),  # pcap by Kuznetsov's patch
    b"snoo",
    bytes.fromhex("1f8b"),  # gzip
    bytes.fromhex("28b52ffd"),  # zstd
)


def is_capture(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a capture, by its first bytes."""
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            first = file.read(4)
    except OSError:
        return False
    return first.startswith(MAGIC)


def advise_capture(
    path: str | os.PathLike[str],
    *,
    seeds: int = SEEDS,
    most_seeds: int = MOST_SEEDS,
    research: bool = False,
    flows: Sequence[int] = (),
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    tell: Callable[[str], object] = lambda message: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Advice:
    """Finds the twin of a capture's network, proves it, and tries every remedy on it.

    Args:
        path: a capture, taken at either end of its connections or between.
        seeds: runs of each remedy.
        most_seeds: as many are run of what may help while the first ones do not settle it.
        research: also try remedies that no released system has.
        flows: only flows of these numbers; by default all.
        threads: runs at a time.
        progress: called after each run of the advice with the number of finished runs and of all.
        tell: called with what has been found.
        is_stopped: asked after each run.

    Raises:
        OSError: the capture cannot be opened.
        CaptureError: the file is not a capture.
        NoTwinError: the capture does not show enough.
    """
    from airtcp.analysis.reading import Keep, Reading

    analysis = Reading(path, keep=Keep(flows), points=POINTS).read_all()
    if flows and not analysis.totals["flows"]:
        numbers = ", ".join(map(str, flows))
        raise NoTwinError(f"no flow has the number {numbers}: airtcp analyze shows the numbers")
    damage = "" if analysis.damage is None else analysis.damage.removeprefix(f"{os.fspath(path)}: ")
    if damage:
        tell(f"{os.fspath(path)}: {damage}; what comes before it is used")
    try:
        twin = fit(observe(analysis))
    except NoTwinError as error:
        raise NoTwinError(f"{error}; {damage}" if damage else str(error)) from error
    name = _name(path)
    tell(f"{os.fspath(path)}: {twin.runs} runs for the twin")
    found: Json = {"capture": os.fspath(path), **twin.to_dict(), "summary": summary(twin)}
    if not twin.proof.holds:
        return Advice(name, "", NO_TWIN, (), {}, {}, {}, (), (), twin.scenario() | {"name": name}, found)
    advice = advise_twin(
        twin,
        name,
        seeds=seeds,
        most_seeds=most_seeds,
        research=research,
        threads=threads,
        progress=progress,
        is_stopped=is_stopped,
    )
    return replace(advice, twin=found | (advice.twin or {}))


def advise_twin(
    twin: Twin,
    name: str,
    *,
    seeds: int = SEEDS,
    most_seeds: int = MOST_SEEDS,
    research: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Advice:
    """Tries every remedy on a twin, and the advised one on the twins that fit about equally as well.

    The arguments are those of `advise_capture`. The advice's `twin` has the promise only: `gain_over_twins`.
    """
    advice = advise(
        _short(twin, 0, name),
        seeds=seeds,
        most_seeds=most_seeds,
        research=research,
        is_bursty=twin.is_line_for_radio,
        threads=threads,
        progress=progress,
        is_stopped=is_stopped,
    )
    if advice.best is None:
        return advice
    promise = _promise(twin, advice, _over_twins(twin, advice, name, threads))
    # A remedy that is none on a network which fits as well is not advised.
    outcome = advice.outcome if promise["lo"] > 1 else OPEN
    return replace(advice, outcome=outcome, twin={"gain_over_twins": promise})


def _short(twin: Twin, index: int, name: str) -> Mapping[str, Any]:
    """A twin as a scenario of at most `LONGEST_S`."""
    from airtcp.advice.twin import scenario

    until_s = min(LONGEST_S, twin.observed.duration_s)
    return scenario(twin.observed, twin.equals[index], until_s=until_s, name=name)


def _over_twins(twin: Twin, advice: Advice, name: str, threads: int | None) -> list[Estimate]:
    """The advised remedy's gain on each of the twins that fit about equally, the best first."""
    best = advice.advised[0]
    gains = [advice.gain(best)]
    for index in range(1, len(twin.equals)):
        other = advise(_short(twin, index, name), seeds=SEEDS, most_seeds=SEEDS, only=[best], threads=threads)
        applies = best in other.tried and other.tried[best].cell is not None
        gains.append(other.gain(best) if applies else _NO_GAIN)
    return gains


_NO_GAIN: Final = Estimate(1.0, 1.0, 1.0, 0)
"""The gain of a remedy that has nothing to act on."""


def _promise(twin: Twin, advice: Advice, gains: Sequence[Estimate]) -> Json:
    """The gain to expect on the real network: over seeds, over twins, and with the twin's own error.

    Seeds alone give almost no interval on a line without random losses: every run is the same there. What the twin
    got wrong in the unseen half, it may get wrong in the gain.
    """
    off = 2.0 ** sum(measure.weight * _doublings_off(twin, measure) for measure in advice.measures)
    low = min(gain.value if gain.low is None else gain.low for gain in gains)
    high = max(gain.value if gain.high is None else gain.high for gain in gains)
    return {
        "twins": len(gains),
        "value": round(gains[0].value, 4),
        "lo": round(low / off, 4),
        "hi": round(high * off, 4),
    }


def _doublings_off(twin: Twin, measure: MatrixMeasure) -> float:
    """By how many doublings of a measure the twin missed the unseen half."""
    if measure.name == "goodput":
        predicted, seen = twin.proof.goodput_bps
    elif measure.name == "latency":
        # The measure is the time above that of the empty path.
        predicted, seen = (value - twin.path_rtt_ms for value in twin.proof.rtt_ms[95])
        predicted, seen = max(predicted, measure.enough or 0.0), max(seen, measure.enough or 0.0)
    else:
        return 0.0
    return abs(math.log2(predicted / seen)) if predicted > 0 and seen > 0 else 0.0


def summary(twin: Twin) -> str:
    """The twin in one line."""
    path = twin.path
    rate = f"{path.rate_bps / 1e6:.3g} Mbit/s"
    if path.radio is None:
        low, high = (f"{value / 1e6:.3g}" for value in twin.between("rate_bps"))
        rate += f" [{low}, {high}]" if low != high else ""
    else:
        low, high = (f"{value:.0f}" for value in twin.between("snr_db"))
        rate += f" of Wi-Fi ({path.radio}, {path.snr_db:.0f} dB{f' [{low}, {high}]' if low != high else ''})"
    if path.queue in DROP_TAIL:
        queue = f"a queue of {path.buffer_packets:.0f} packets"
        least, most = twin.between("buffer_packets")
        if round(least) != round(most):
            queue += f" [{least:.0f}, {most:.0f}]"
    else:
        queue = {"AQM": "an active queue"}.get(twin.discipline, path.queue)
    if twin.discipline == "unknown":
        queue += " (or an active one: the capture does not tell)"
    loss = f", {100 * path.loss:.2g} % random loss" if path.loss > 0 else ""
    control = "an unknown congestion control" if twin.control == "unknown" else twin.control
    count = len(twin.observed.flows)
    return (
        f"{count} flow{'' if count == 1 else 's'} over {rate}, {twin.path_rtt_ms:.3g} ms of round trip, {queue}"
        f"{loss}; {control}"
    )


def _name(path: str | os.PathLike[str]) -> str:
    import re

    name = re.sub(r"(\.(pcapng|pcap|cap|dmp))?(\.gz)?$", "", Path(path).name)
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "capture"
