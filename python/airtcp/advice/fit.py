"""The search for a twin, and its proof on the part of the capture that the search did not see.

The estimates of `observed` come first. Simulation on the first half of the capture finds the rest. Each discipline of
the queue is tried with each congestion control. CMA-ES then moves buffer and rate
(N. Hansen, "The CMA evolution strategy: a tutorial", 2016; the library is `cmaes`). The runs are noisy and few, the
parameters are one or two and scaled alike, and no gradient exists: that is what CMA-ES is for.

Random loss is counted, not searched. It is the probability at which the twin sends as many packets again as the capture
does, on average over seeds. A search for the loss that comes nearest in goodput would find the seed, not the path. The
goodput of a few dozen losses is mostly chance, and their number is much less so. Paths with random loss are compared
over more seeds at the end, since the best of many short looks is the luckiest.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from airtcp.advice.observed import LEAST_S, PACKET_BYTES, SHARE, STEP_S, FlowTrace, NoTwinError, Observed
from airtcp.advice.twin import (
    AIR_MS,
    AIR_QUEUES,
    CONTROLS,
    DROP_TAIL,
    QUEUES,
    RADIOS,
    Path,
    distance,
    line_bps,
    rate_of_payload,
    round_trips,
    run,
    scenario,
)

Json = dict[str, Any]

REFINED: Final = 3
"""Pairs of queue and control that the search refines."""
GENERATIONS: Final = 6
POPULATION: Final = 8
SEEDS: Final = 2
"""Runs of a path with random losses or a radio, of which the mean counts."""
LOSS_SEEDS: Final = 8
"""Runs of a path with random losses, to count what it loses and to compare it with others at the end."""
LOSS_ROUNDS: Final = 3
LOSS_STEP: Final = 2.0
"""Most by which a round changes the random loss."""
COMPARED: Final = 12
"""Paths that are compared at the end, where random loss is among the best."""
EQUAL: Final = 1.15
"""Twins whose distance is at most so many times the best one fit about equally."""
SLACK: Final = 0.02
PLAINER: Final = 0.02
"""Distance that an active queue and random loss each have to gain, to be believed."""
PLAIN_SEEDS: Final = 3
"""Runs of the proof."""
PROOF_SEEDS: Final = 8
"""Runs of the proof over a radio."""
LOSS_PROOF_SEEDS: Final = 32
"""Runs of the proof where losses are random: their mean is the prediction, and has an error of its own."""
TWINS: Final = 3
"""Most twins that the intervals rest on."""

GOODPUT_WITHIN: Final = 0.15
RTT_WITHIN: Final = 0.25
MOST_CHANCE: Final = 0.15
"""With random losses the goodput may be off by two standard deviations over the runs, each taken as this at most."""
"""A twin predicts if goodput and the 95th percentile of the round trip are within these of the unseen part."""


@dataclass(frozen=True)
class Proof:
    """The prediction for the part of the capture that the search did not see."""

    goodput_bps: tuple[float, float]
    """Predicted and seen, payload of all flows together."""
    chance: float
    """Standard deviation of the goodput over the runs, relative to its mean: random losses move it."""
    rtt_ms: dict[int, tuple[float, float]]
    """By percentile: predicted and seen smoothed round trip."""
    resent: tuple[float, float]
    """Predicted and seen retransmissions."""

    @property
    def goodput_error(self) -> float:
        """The relative error of the goodput."""
        return _error(*self.goodput_bps)

    @property
    def rtt_error(self) -> float:
        """The relative error of the 95th percentile of the round trip."""
        return _error(*self.rtt_ms[95])

    @property
    def is_chance(self) -> bool:
        """Whether the goodput is off by no more than chance moves it, from run to run."""
        return self.goodput_error > GOODPUT_WITHIN and self.goodput_error <= 2 * min(self.chance, MOST_CHANCE)

    @property
    def holds(self) -> bool:
        """Whether the twin predicts."""
        return (self.goodput_error <= GOODPUT_WITHIN or self.is_chance) and self.rtt_error <= RTT_WITHIN

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        goodput, rtt = _percent(self.goodput_error), _percent(self.rtt_error)
        if self.is_chance:
            goodput += " (chance alone moves it as much: losses are few)"
        told = f"goodput within {goodput}, 95th percentile of the RTT within {rtt}"
        if self.holds:
            return f"This twin predicts the unseen half: {told}."
        return f"No advice: the twin does not predict the unseen half ({told})."

    def to_dict(self) -> Json:
        """The proof as JSON values."""

        def pair(values: tuple[float, float]) -> Json:
            return {"predicted": _finite(values[0]), "seen": _finite(values[1])}

        return {
            "holds": self.holds,
            "goodput_bps": pair(self.goodput_bps),
            "rtt_ms": {f"p{quantile}": pair(values) for quantile, values in self.rtt_ms.items()},
            "retransmissions": pair(self.resent),
            "goodput_error": _finite(round(self.goodput_error, 4)),
            "rtt_p95_error": _finite(round(self.rtt_error, 4)),
        }


@dataclass(frozen=True)
class Twin:
    """A model of the network of a capture."""

    observed: Observed
    path: Path
    equals: tuple[Path, ...]
    """Paths that fit about as well, the best first."""
    distance: float
    control: str
    """Congestion control of the senders; `unknown` if several fit about equally."""
    discipline: str
    """The queue: `fifo`, `AQM` if several active ones fit about equally, or `unknown`."""
    proof: Proof
    runs: int
    """Runs of the search."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Notes on what the twin leaves out."""
        if not self.is_line_for_radio:
            return self.observed.left_out
        return (
            *self.observed.left_out,
            "the radio that packets come through in bursts: it is a line here, so gains are rough",
        )

    @property
    def is_line_for_radio(self) -> bool:
        """Whether a line stands for a radio, because none of those that are known reaches the rate."""
        return self.observed.is_bursty and self.path.radio is None

    def scenario(self, path: Path | None = None) -> Json:
        """The twin as a scenario."""
        return scenario(self.observed, path or self.path)

    @property
    def path_rtt_ms(self) -> float:
        """The round trip of the empty path, without the time of the packet on the bottleneck."""
        packet_ms = PACKET_BYTES * 8e3 / self.path.rate_bps if self.path.radio is None else AIR_MS
        return min(max(0.1, flow.rtt_min_ms + flow.near_ms - packet_ms) for flow in self.observed.flows)

    def between(self, name: str) -> tuple[float, float]:
        """The least and the largest value of a parameter among the twins that fit about equally."""
        values = [float(getattr(path, name)) for path in self.equals]
        return min(values), max(values)

    def to_dict(self) -> Json:
        """The twin and the way to it, as JSON values."""
        return {
            **self.path.to_dict(),
            "congestion_control": self.control,
            "discipline": self.discipline,
            "path_rtt_ms": round(self.path_rtt_ms, 3),
            "rate_bps_between": [round(value) for value in self.between("rate_bps")],
            "buffer_packets_between": (
                [round(value) for value in self.between("buffer_packets")] if self.path.queue in DROP_TAIL else None
            ),
            "flows": len(self.observed.flows),
            "left_out": list(self.left_out),
            "estimates": {
                "rate_bps": round(self.observed.rate_bps),
                "queue_stood": self.observed.is_saturated,
                "buffer_packets": (
                    None if self.observed.buffer_packets is None else round(self.observed.buffer_packets, 1)
                ),
                "random_loss": round(self.observed.loss, 6),
            },
            "distance": round(self.distance, 4),
            "runs": self.runs,
            "proof": self.proof.to_dict(),
            "sentence": self.proof.sentence,
        }


class _Search:
    """Paths tried so far, each with its distance from the first part of the capture."""

    def __init__(self, observed: Observed, until_s: float, tell: Callable[[int], object] | None) -> None:
        self.observed: Final = observed
        self.until_s: Final = until_s
        self.flows: Final = [flow for flow in observed.flows if flow.start_s < until_s - 1.0]
        self.theirs: Final = [flow.trace for flow in self.flows]
        self.weights: Final = [flow.payload_bytes for flow in self.flows]
        self.tried: Final[dict[Path, float]] = {}
        self.runs = 0
        self._tell = tell
        self._pool: Final = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="airtcp")

    def of(self, paths: Sequence[Path]) -> list[float]:
        """The distances of paths."""
        new = [path for path in dict.fromkeys(paths) if path not in self.tried]
        for path, found in zip(new, self._pool.map(self._distance, new), strict=True):
            self.tried[path] = found
            self.runs += _seeds(path)
            if self._tell is not None:
                self._tell(self.runs)
        return [self.tried[path] for path in paths]

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def compare(self, paths: Sequence[Path]) -> None:
        """Holds paths against the capture over more seeds, and keeps no other."""
        found = list(self._pool.map(lambda path: self._distance(path, LOSS_SEEDS if path.loss > 0 else None), paths))
        self.runs += sum(LOSS_SEEDS for path in paths if path.loss > 0)
        self.tried.clear()
        self.tried.update(zip(paths, found, strict=True))

    def counted(self, path: Path) -> Path:
        """The path with the random loss at which it sends as many packets again as the capture does, over seeds."""
        wanted = self.observed.lost
        for _ in range(LOSS_ROUNDS):
            lost = float(np.mean(list(self._pool.map(lambda seed, path=path: self._lost(path, seed), _LOSS_SEEDS))))
            self.runs += LOSS_SEEDS
            if lost <= 0:
                break
            factor = min(LOSS_STEP, max(1 / LOSS_STEP, wanted / lost))
            path = path.changed(loss=min(0.5, path.loss * factor))
        return path

    def _lost(self, path: Path, seed: int) -> float:
        """Packets sent again per packet that was acknowledged."""
        traces = self._run(path, seed)
        length = sum(self.weights) / max(1, sum(flow.data_packets for flow in self.flows))
        return float(sum(one.resent[-1] for one in traces) / max(1.0, sum(one.acked[-1] for one in traces) / length))

    def _run(self, path: Path, seed: int) -> list[FlowTrace]:
        document = scenario(self.observed, path, until_s=self.until_s)
        names = [flow["name"] for flow in document["flows"]]
        traces = run(document, len(names), seed)
        return [traces[names.index(f"flow-{flow.number}")] for flow in self.flows]

    def _distance(self, path: Path, seeds: int | None = None) -> float:
        found = [
            distance(self._run(path, seed), self.theirs, self.weights, is_at_losses=self.observed.is_at_losses)
            for seed in range(1, (seeds or _seeds(path)) + 1)
        ]
        # Of models that fit alike, the plain one counts.
        return float(np.mean(found)) + PLAINER * ((path.queue not in DROP_TAIL) + (path.loss > 0))


_LOSS_SEEDS: Final = range(1, LOSS_SEEDS + 1)


def _seeds(path: Path) -> int:
    return SEEDS if path.is_chancy else 1


def fit(observed: Observed, tell: Callable[[int], object] | None = None) -> Twin:
    """Finds the twin on the first part of the capture, and proves it on the rest.

    Args:
        observed: traces and estimates.
        tell: called with the number of runs so far.

    Raises:
        NoTwinError: the capture is too short.
    """
    if observed.duration_s < LEAST_S:
        raise NoTwinError(f"its largest transfer has {observed.duration_s:.1f} s: a twin needs {LEAST_S:g} s or more")
    until_s = math.floor(observed.duration_s * SHARE / STEP_S) * STEP_S
    search = _Search(observed, until_s, tell)
    if not search.flows:
        raise NoTwinError("no flow begins in the first half: there is nothing to fit")
    try:
        start = _starts(observed)
        search.of(start)
        best: dict[tuple[object, ...], tuple[Path, float]] = {}
        for path, found in sorted(search.tried.items(), key=lambda pair: pair[1]):
            best.setdefault((path.queue, path.cc, path.loss > 0, path.radio), (path, found))
        for path, _ in list(best.values())[:REFINED]:
            _refine(search, search.counted(path) if path.loss > 0 else path)
        foremost = [path for path, _ in sorted(search.tried.items(), key=lambda pair: pair[1])]
        if any(path.loss > 0 for path in foremost[:COMPARED]):
            search.compare(_foremost(foremost))
    finally:
        search.close()
    ranked = sorted(search.tried.items(), key=lambda pair: pair[1])
    path, found = ranked[0]
    close = [other for other, value in ranked if value <= EQUAL * found + SLACK]
    controls = list(dict.fromkeys(other.cc for other in close))
    control = path.cc if len(controls) == 1 else "unknown"
    queues = {other.queue for other in close}
    discipline = path.queue if len(queues) == 1 else "unknown" if queues & set(DROP_TAIL) else "AQM"
    return Twin(observed, path, _spread(close), found, control, discipline, prove(observed, path, until_s), search.runs)


def _foremost(paths: Sequence[Path]) -> list[Path]:
    """The best paths, the best of each pair of queue and control first among them."""
    kinds: dict[tuple[object, ...], Path] = {}
    for path in paths:
        kinds.setdefault((path.queue, path.cc, path.loss > 0), path)
    return list(dict.fromkeys([*list(kinds.values())[: COMPARED // 2], *paths]))[:COMPARED]


def _starts(observed: Observed) -> list[Path]:
    product = observed.rate_bps * min(flow.rtt_min_ms for flow in observed.flows) / 1e3 / 8 / PACKET_BYTES
    known = observed.buffer_packets
    least = observed.longest_packets
    buffers = (
        [known, 0.8 * known, 1.25 * known]
        if known is not None
        else [least, 1.5 * least, *(product * k for k in (1, 5))]
    )
    losses = [0.0] + [
        loss for loss in dict.fromkeys([observed.loss, observed.lost]) if loss > 1e-6 and observed.loss > 0
    ]
    # No line lets packets through in bursts: lines are tried only where no radio reaches the rate.
    if radios := _signals(observed) if observed.is_bursty else {}:
        return [
            Path(observed.rate_bps, max(2.0, packets), queue, cc, radio=radio, snr_db=snr_db)
            for radio, snr_db in radios.items()
            for cc in CONTROLS
            for queue in AIR_QUEUES
            for packets in ([k * buffers[0] for k in AIR_BUFFERS] if queue in DROP_TAIL else buffers[:1])
        ]
    return [
        Path(observed.rate_bps, max(2.0, packets), queue, cc, loss)
        for cc in CONTROLS
        for loss in losses
        for queue in (QUEUES if observed.is_saturated or observed.lost > 0 else QUEUES[:1])
        for packets in (buffers if queue == "fifo" else buffers[:1])
    ]


AIR_BUFFERS: Final = (0.5, 0.65, 0.8, 1.0, 1.25)
"""Buffers tried first over a radio, as parts of the estimate: retries and turns of others lengthen waits there."""
MOST_RADIOS: Final = 2
WEAKEST_DB: Final = 0.0
STRONGEST_DB: Final = 45.0
"""Range of the signal of a radio: below nothing comes through, above nothing gets faster."""
HALVINGS: Final = 8
REACHED: Final = 0.95
"""A radio that reaches this part of the rate is tried: the rate is known to a few per cent only."""
SIGNAL_S: Final = 4.0


def _signals(observed: Observed) -> dict[str, float]:
    """Radios that reach the rate, the slowest two, each with the SNR at which a download has that rate."""
    found: dict[str, float] = {}
    for radio in RADIOS:
        if len(found) == MOST_RADIOS:
            break
        top_bps = _rate_at(observed, radio, STRONGEST_DB)
        if top_bps < REACHED * observed.rate_bps:
            continue
        wanted_bps = min(observed.rate_bps, REACHED * top_bps)
        low, high = WEAKEST_DB, STRONGEST_DB
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if _rate_at(observed, radio, middle) < wanted_bps else (low, middle)
        found[radio] = high
    return found


def _rate_at(observed: Observed, radio: str, snr_db: float) -> float:
    """Rate at the IP layer of the flows over a radio with a long queue, from the middle of a short run to its end."""
    path = Path(observed.rate_bps, 1000, "ap_fifo", "cubic", radio=radio, snr_db=snr_db)
    flows = tuple(replace(flow, start_s=0.0, size_bytes=None) for flow in observed.flows)
    traces = run(scenario(replace(observed, flows=flows), path, until_s=SIGNAL_S), len(flows))
    last = traces[0].acked.size - 1
    return line_bps(rate_of_payload(traces, last // 2, last))


SIGNAL_STEP_DB: Final = 0.7
"""One standard deviation of the search in the SNR: a few per cent of the rate."""


def _refine(search: _Search, start: Path) -> None:
    """Searches around a path: its buffer, and its rate or its signal, as logarithms."""
    from cmaes import CMA

    first = "rate_bps" if start.radio is None else "snr_db"
    names = [first, "buffer_packets"] if start.queue in DROP_TAIL else [first]
    # One standard deviation of each: what the estimates are good for.
    scale = {"rate_bps": 0.01 if search.observed.is_saturated else 0.02, "buffer_packets": 0.12}
    scale["snr_db"] = SIGNAL_STEP_DB
    if len(names) == 1:
        steps = np.array([-3, -2, -1, -0.5, 0.5, 1, 2, 3])
        search.of([_moved(start, names, scale, [step]) for step in steps])
        return
    optimiser = CMA(mean=np.zeros(len(names)), sigma=1.0, seed=1, population_size=POPULATION)
    for _ in range(GENERATIONS):
        asked = [optimiser.ask() for _ in range(POPULATION)]
        paths = [_moved(start, names, scale, point) for point in asked]
        optimiser.tell(list(zip(asked, search.of(paths), strict=True)))


def _moved(start: Path, names: Sequence[str], scale: dict[str, float], point: Any) -> Path:  # noqa: ANN401
    moves = {name: scale[name] * float(x) for name, x in zip(names, point, strict=True)}
    values = {name: getattr(start, name) * math.exp(move) for name, move in moves.items()}
    if "snr_db" in moves:
        # A logarithm already.
        values["snr_db"] = start.snr_db + moves["snr_db"]
    if "buffer_packets" in values:
        values["buffer_packets"] = float(max(2, round(values["buffer_packets"])))
    return start.changed(**values)


def _spread(close: Sequence[Path]) -> tuple[Path, ...]:
    """The best path, and those that differ most from it among the paths that fit about equally."""
    first = close[0]

    def differs(path: Path) -> float:
        kinds = (path.queue != first.queue) + (path.cc != first.cc)
        buffers = abs(math.log(path.buffer_packets / first.buffer_packets)) if path.queue in DROP_TAIL else 0.0
        signals = abs(path.snr_db - first.snr_db) / 10 + (path.radio != first.radio)
        return kinds + buffers + signals + abs(math.log(path.rate_bps / first.rate_bps))

    rest = sorted(close[1:], key=differs, reverse=True)
    return (first, *rest[: TWINS - 1])


def prove(observed: Observed, path: Path, until_s: float) -> Proof:
    """Holds a path against the part of the capture from `until_s` on.

    Raises:
        NoTwinError: nothing passes in that part.
    """
    document = scenario(observed, path)
    seen = [flow.trace for flow in observed.flows]
    first = round(until_s / STEP_S) - 1
    last = seen[0].acked.size - 1
    runs = []
    for seed in range(1, (LOSS_PROOF_SEEDS if path.loss > 0 else PROOF_SEEDS if path.is_chancy else PLAIN_SEEDS) + 1):
        traces = run(document, len(seen), seed)
        last = min(last, traces[0].acked.size - 1)
        runs.append(traces)

    def quantiles(traces: Sequence[FlowTrace], *, is_at_losses: bool = False) -> dict[int, float]:
        pooled = np.concatenate([round_trips(trace, first, last + 1, is_at_losses=is_at_losses) for trace in traces])
        return {q: float(np.percentile(pooled, q)) if pooled.size else math.nan for q in (5, 50, 95)}

    def resent(traces: Sequence[FlowTrace]) -> float:
        return float(sum(trace.resent[last] - trace.resent[first] for trace in traces))

    theirs = quantiles(seen)
    if not rate_of_payload(seen, first, last) > 0 or not math.isfinite(theirs[95]):
        raise NoTwinError(
            "in the second half of its largest transfer nothing is acknowledged, so that a twin cannot be held against "
            "it: capture a longer one"
        )
    ours = [quantiles(traces, is_at_losses=observed.is_at_losses) for traces in runs]
    return Proof(
        (
            float(np.mean([8 * rate_of_payload(traces, first, last) for traces in runs])),
            8 * rate_of_payload(seen, first, last),
        ),
        _relative_deviation([rate_of_payload(traces, first, last) for traces in runs]),
        {q: (float(np.mean([one[q] for one in ours])), theirs[q]) for q in theirs},
        (float(np.mean([resent(traces) for traces in runs])), resent(seen)),
    )


def _relative_deviation(values: Sequence[float]) -> float:
    mean = float(np.mean(values))
    return float(np.std(values, ddof=1)) / mean if mean > 0 and len(values) > 1 else 0.0


def _finite(value: float) -> float | None:
    """A value as JSON has it; `None`: there is none."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _error(predicted: float, seen: float) -> float:
    return abs(predicted / seen - 1) if seen else math.inf


def _percent(value: float) -> str:
    return "?" if not math.isfinite(value) else f"{100 * value:.2g} %" if value < 0.1 else f"{100 * value:.0f} %"
