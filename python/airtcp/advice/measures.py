"""Measures of each run, on any network: latency, goodput, fairness, loss and load times.

- *latency*: 95th percentile of the delay of calls, datagram trains and pings, above the least that any run saw; the
  worst flow counts.
- *goodput*: of all bulk TCP flows together.
- *fairness*: Jain's index within a group of bulk flows; the least fair group counts.
- *loss*: part of the packets of calls and trains that never arrived; where there are none, of the pings.
- *pages*: 95th percentile of the time that sized transfers and web objects take; one that is not finished counts with
  the time it has had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from airtcp import stats
from airtcp.advice.network import Network
from airtcp.traffic_kinds import BULK, ONE_WAY_PROBES, TIMED, kind

if TYPE_CHECKING:
    from airtcp.results import Results

UNITS: Final = {"latency": "ms", "goodput": "Mbit/s", "fairness": "", "loss": "%", "pages": "ms"}
"""Measures and their units."""

LATE_S: Final = 2.0
"""Packets that are sent so shortly before the end may still be under way, and do not count as lost."""

LATENCY_QUANTILE: Final = 95
PAGE_QUANTILE: Final = 95


@dataclass(frozen=True)
class RunMeasures:
    """The numbers of one run."""

    delays: Mapping[str, tuple[float, float]]
    """For each flow with probes the least delay and the 95th percentile, ms."""
    values: Mapping[str, float]
    """The measures but latency. Those that the network has nothing for are left out."""
    links: Sequence[Mapping[str, Any]]
    """Rows of the table `links` for wired lines."""
    rtt_ms: float
    """Mean of the least round trips of the TCP flows; NaN without."""


def sample(network: Network, results: Results) -> RunMeasures:
    """The numbers of a run of a network."""
    flows = results.flows.collect()
    kinds = {flow["name"]: kind(flow) for flow in network.document["flows"]}
    warmup_s = float(results.summary["warmup_s"])
    end_s = float(results.manifest["simulated_s"])
    flows = flows.with_columns(traffic=pl.col("group").replace_strict(kinds, default=""))
    values: dict[str, float] = {}
    bulk = flows.filter(pl.col("traffic").is_in(BULK))
    if bulk.height:
        values["goodput"] = float(bulk["goodput_bps"].fill_null(0.0).sum()) / 1e6
        groups = [group["goodput_bps"].fill_null(0.0) for _, group in bulk.group_by("group") if group.height > 1]
        fair = [stats.jain(group.to_numpy()) for group in groups if float(group.sum()) > 0]
        if fair:
            values["fairness"] = min(fair)
    delays, loss = _delays(results, flows, warmup_s, end_s)
    if loss is not None:
        values["loss"] = 100 * loss
    if (pages := _pages(results, flows, warmup_s, end_s)) is not None:
        values["pages"] = pages
    tcp = flows.filter(pl.col("kind") == "tcp")["rtt_min_ms"].drop_nulls().to_numpy()
    air = {wlan["name"] for wlan in network.wlans}
    links = results.links.filter(~pl.col("group").is_in(list(air))).collect().to_dicts()
    return RunMeasures(delays, values, links, float(np.mean(tcp)) if tcp.size else float("nan"))


def _delays(
    results: Results, flows: pl.DataFrame, warmup_s: float, end_s: float
) -> tuple[dict[str, tuple[float, float]], float | None]:
    names = dict(zip(flows["flow"].to_list(), flows["name"].to_list(), strict=True))
    probed = flows.filter(pl.col("traffic").is_in(ONE_WAY_PROBES))["flow"].to_list()
    one_way = (
        results["datagrams"]
        .filter(pl.col("flow").is_in(probed))
        .select("flow", "sent_s", delay_ms=(pl.col("received_s") - pl.col("sent_s")) * 1e3)
        .collect()
    )
    both_ways = results["pings"].select("flow", "sent_s", delay_ms="rtt_ms").collect()
    delays: dict[str, tuple[float, float]] = {}
    loss = None
    for table in (both_ways, one_way):
        table = table.filter(pl.col("sent_s") >= warmup_s)
        due = table.filter(pl.col("sent_s") < end_s - LATE_S)
        if due.height:
            loss = due["delay_ms"].null_count() / due.height
        for (flow,), rows in table.group_by("flow"):
            seen = rows["delay_ms"].drop_nulls().to_numpy()
            if seen.size:
                delays[names[flow]] = (float(seen.min()), stats.percentile(seen, LATENCY_QUANTILE))
    return delays, loss


def _pages(results: Results, flows: pl.DataFrame, warmup_s: float, end_s: float) -> float | None:
    timed = flows.filter(pl.col("traffic").is_in(TIMED))
    if not timed.height:
        return None
    done = (
        results["transfers"]
        .filter(pl.col("flow").is_in(timed["flow"].to_list()) & (pl.col("start_s") >= warmup_s))
        .select("flow", took=(pl.col("end_s").fill_null(end_s) - pl.col("start_s")) * 1e3)
        .collect()
    )
    unfinished = timed.filter((pl.col("traffic") == "transfer") & (pl.col("transfers") == 0))
    waited = (end_s - unfinished["start_s"].to_numpy()) * 1e3
    took = np.concatenate([done["took"].to_numpy(), waited[waited > 0]])
    return stats.percentile(took, PAGE_QUANTILE) if took.size else None


def table(
    samples: Sequence[RunMeasures], least: Mapping[str, float]
) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Each measure with one value per run; `least` is each flow's delay on the empty path."""
    out: dict[str, list[float]] = {}
    for one in samples:
        above = [high - least[name] for name, (_, high) in one.delays.items()]
        values = {**({"latency": max(above)} if above else {}), **one.values}
        for name in UNITS:
            out.setdefault(name, []).append(values.get(name, float("nan")))
    arrays = {name: np.array(values, dtype=np.float64) for name, values in out.items()}
    return {name: values for name, values in arrays.items() if not np.isnan(values).all()}


def least_delays(samples: Sequence[RunMeasures]) -> dict[str, float]:
    """The least delay of each flow over all runs: that of the empty path, as nearly as the runs show it."""
    least: dict[str, float] = {}
    for one in samples:
        for name, (low, _) in one.delays.items():
            least[name] = min(low, least.get(name, low))
    return least
