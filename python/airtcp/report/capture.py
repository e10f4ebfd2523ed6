"""The page of an analysed capture: its connections, with plots of the most interesting flows."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import polars as pl

from airtcp._text import amount
from airtcp.analysis import limits, stations, verdict
from airtcp.analysis.results import POLICIES, Analysis, address, sentence
from airtcp.analysis.show import CLASSES, air_sentence, decimal, first_sentences
from airtcp.figure_style import COLOURS
from airtcp.report import interactive
from airtcp.report.model import Axis, Plot, Series
from airtcp.report.page import PAGE, _json, _resource, filled
from airtcp.report.plot_style import SeriesStyle, number, with_unit

DETAILS: Final = 12
"""Number of flows with plots of their own."""
OVERVIEW_ROWS: Final = 500
POINTS: Final = 4000
"""Most points of each kind in a plot."""
TABLE_ROWS: Final = 2000
"""Most retransmissions of a flow that the page lists. The Parquet file has all."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Sign:
    """Appearance of one kind of point or line: a colour of the page, and the marker's shape or the line's stroke."""

    name: str
    colour: str
    symbol: str = ""
    dash: str = ""
    size: int = 9

    @property
    def marker(self) -> int | None:
        """Index of the symbol among the page's symbols."""
        plain = self.symbol.removesuffix("-open")
        return interactive.SYMBOLS.index(plain) if plain in interactive.SYMBOLS else None


DATA: Final = Sign("data", "0-0", dash="solid")
ACKS: Final = Sign("acknowledged", "2-0", dash="solid")
SACKS: Final = Sign("SACK blocks", "3-0", dash="solid")
DUP_ACKS: Final = Sign("duplicate ACKs", "5-0", "circle", size=4)
WAITS: Final = Sign("wait for the timer", "1-1", dash="2.5px,2.5px")
NEEDLESS: Final = Sign("needless", "3-1", "circle-open", size=16)
RETRANSMISSIONS: Final = {
    "fast": Sign("fast retransmit", "1-0", "triangle-up", size=11),
    "recovery": Sign("in recovery", "1-0", "circle", size=7),
    "timeout": Sign("timeout", "1-1", "x", size=12),
    "repair": Sign("repair after timeout", "1-2", "diamond", size=8),
    "probe": Sign("tail loss probe", "5-1", "triangle-down", size=11),
    "unknown": Sign("unclassified", "4-1", "square", size=8),
}
FLIGHT: Final = Sign("in flight", "0-0", dash="solid")
RECEIVE_WINDOW: Final = Sign("receive window", "2-0", dash="9px,3px")
CWND: Final = Sign("cwnd, estimated", "1-0", dash="2.5px,2.5px")
RTT: Final = Sign("round trip of the sender", "0-0", "circle", size=4)
LEAST_RTT: Final = Sign("its least: above is queue", "1-0", dash="9px,3px")
BANDS: Final = {
    "receive_window": Sign("receive window", "2-0"),
    "receiver_app": Sign("slow receiver", "2-1"),
    "sender_app": Sign("sender's application", "5-0"),
    "think": Sign("think time", "5-1"),
    "idle": Sign("no request", "5-2"),
    "slow_start": Sign("slow start", "4-0"),
    "queue": Sign("queue", "1-0"),
    "loss": Sign("losses", "3-0"),
    "cwnd": Sign("congestion window", "0-1"),
    "outage": Sign("outage", "3-1"),
    "air": Sign("air", "1-1"),
    "paced": Sign("pacing", "0-2"),
    "steady": Sign("steady rate", "4-1"),
}
"""Bands behind the time-sequence plot: what held the sender back."""


def html(analysis: Analysis, details: int = DETAILS) -> str:
    """The page, with plots of the `details` most interesting flows."""
    totals = analysis.totals
    flows = analysis.interesting(max(OVERVIEW_ROWS, details))
    shown = [_detail(analysis, flow) for flow in flows[:details] if flow["data_packets"]]
    held = _held_plot(totals["timeouts_by_duplicate_acks"]) if totals["timeouts"] else None
    air = _air_plot(analysis)
    return filled(
        "capture.html.j2",
        own_css=_resource("capture.css"),
        own_scripts=[_resource("capture.js")],
        has_plots=bool(shown or held or air),
        analysis=analysis,
        capture=analysis.capture,
        link_types=_link_types(analysis.capture["link_types"]),
        started=_moment(analysis.capture["first_s"]),
        totals=totals,
        with_data=analysis.flows.filter(pl.col("data_packets") > 0).select(pl.len()).collect().item(),
        summary=_summary(totals),
        said=first_sentences(analysis),
        where=_where(analysis),
        air=air,
        air_says=air_sentence(analysis),
        air_heads=[" ".join(head) for head in stations.HEADS],
        air_rows=[
            [row["transmitter"] or "not known", row["receiver"], *stations.cells(row)] for row in totals["stations"]
        ],
        classes=_classes(totals["retransmissions_by_class"]),
        flows=[_row(flow) for flow in flows],
        columns=COLUMNS,
        shown=shown,
        detailed={detail["flow"]["flow"] for detail in shown},
        held=held,
        policies=POLICIES,
        limits=limits.LIMITS,
        amount=amount,
    )


def _summary(totals: Json) -> str:
    if not totals["flows"]:
        return "The capture has no TCP flow."
    flows = f"{number(totals['flows'])} flows of {number(totals['connections'])} connections"
    if not totals["retransmitted_packets"]:
        return f"{flows}. Nothing was retransmitted."
    share = totals["retransmitted_packets"] / max(1, totals["data_packets"])
    resent = f"{number(totals['retransmitted_packets'])} of {number(totals['data_packets'])} data packets"
    text = f"{flows}. {resent} ({with_unit(number(100 * share, 3), '%')}) were retransmissions"
    if totals["spurious_retransmissions"]:
        text += f", {number(totals['spurious_retransmissions'])} of them needless"
    held = [row["timeouts"] for row in totals["timeouts_by_duplicate_acks"]]
    return f"{text}; {sentence(totals, held)}."


def _where(analysis: Analysis) -> list[list[str]]:
    """Rows of the table that says where the time went."""
    why = {row["flow"]: row for row in analysis.totals["why"]}
    rows = [
        [
            str(flow["flow"]),
            amount(flow["unique_bytes"]),
            *(decimal(flow[f"path_rtt_{key}_ms"], 1) for key in ("min", "p50", "p95")),
            decimal(why[flow["flow"]]["extra_delay_ms"], 1),
            why[flow["flow"]]["grade"] or "-",
            limits.brief(why[flow["flow"]]["limits"], len(limits.LIMITS)),
            why[flow["flow"]]["says"],
        ]
        for flow in analysis.largest(len(why))
        if why[flow["flow"]]["limits"]
    ]
    if rows:
        brief = limits.brief(analysis.totals["limits"], len(limits.LIMITS))
        rows.append(["all", "", "", "", "", "", "", brief, ""])
    return rows


def _air_plot(analysis: Analysis) -> Json | None:
    """Airtime of the loudest stations over time, in percent."""
    table = analysis.airtime.collect()
    if table.is_empty():
        return None
    loudest = table.group_by("transmitter").agg(pl.col("airtime_s").sum()).sort("airtime_s", descending=True)
    last = float(table["time_s"].max() or 0.0)  # type: ignore[arg-type]
    axis = _linear("time in the capture (s)") | {"range": [0.0, last + float(table["for_s"][0])]}
    drawing = _Drawing("air", axis, _linear("time on the air (%)"))
    steps = pl.DataFrame({"time_s": sorted(table["time_s"].unique())})
    for i, sender in enumerate(loudest["transmitter"].head(len(COLOURS))):
        own = steps.join(table.filter(pl.col("transmitter") == sender), on="time_s", how="left", maintain_order="left")
        share = (100 * own["airtime_s"].fill_null(0.0) / float(table["for_s"][0])).clip(0.0, 100.0)
        drawing.line(Sign(sender or "not known", f"{i}-0", dash="solid"), own["time_s"], share, step=True)
    return drawing.figure("Who used the air", size="wide")


def _moment(unix_s: float | None) -> str | None:
    return None if unix_s is None else datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds")


# The registry of LINKTYPE_ values, https://www.tcpdump.org/linktypes.html
LINK_TYPES: Final = {
    0: "loopback",
    1: "Ethernet",
    9: "PPP",
    101: "raw IP",
    105: "802.11",
    108: "loopback",
    113: "Linux cooked",
    127: "802.11 with radiotap",
    228: "IPv4",
    229: "IPv6",
    276: "Linux cooked v2",
}


def _link_types(numbers: Sequence[int]) -> str:
    return ", ".join(LINK_TYPES.get(number, f"link type {number}") for number in numbers)


def _classes(rows: Sequence[Json]) -> list[Json]:
    known = {row["class"]: row for row in rows}
    names = [*CLASSES, *(name for name in known if name not in CLASSES)]
    return [{"meaning": CLASSES.get(name, ""), "sign": _sign(name), **known[name]} for name in names if name in known]


def _sign(name: str) -> Sign:
    return RETRANSMISSIONS.get(name, RETRANSMISSIONS["unknown"])


# --- the overview ---------------------------------------------------------------------------------------------------

COLUMNS: Final = (
    ("flow", "flow"),
    ("between", "from, to"),
    ("payload_bytes", "data"),
    ("goodput_bps", "goodput, Mbit/s"),
    ("rtt_mean_ms", "RTT, ms"),
    ("retransmitted_packets", "resent packets"),
    ("resent_percent", "resent, %"),
    ("spurious_retransmissions", "needless"),
    ("timeouts", "timeouts"),
    *((f"avoided_{policy}", f"avoided by {name}") for policy, name in POLICIES.items()),
    ("start_s", "start, s"),
    ("vantage", "seen at"),
)


def _row(flow: Json) -> Json:
    """A flow's cells, each with its text and the value that it is sorted by."""
    resent = 100 * flow["retransmitted_packets"] / flow["data_packets"] if flow["data_packets"] else None
    texts = {
        "between": f"{address(flow, 'source')}\n{address(flow, 'destination')}",
        "payload_bytes": amount(flow["payload_bytes"]),
        "goodput_bps": number(None if flow["goodput_bps"] is None else flow["goodput_bps"] / 1e6, 3),
        "rtt_mean_ms": number(flow["rtt_mean_ms"], 3),
        "resent_percent": number(resent, 3),
        "start_s": number(flow["start_s"]),
    }
    values = {**flow, "resent_percent": resent, "between": texts["between"]}
    cells = [
        {"key": key, "label": label, "text": texts.get(key, number(values[key])), "value": _sortable(values[key])}
        for key, label in COLUMNS
    ]
    return {"flow": flow["flow"], "cells": cells}


def _sortable(value: object) -> object:
    return "" if value is None else value


# --- one flow -------------------------------------------------------------------------------------------------------


def _detail(analysis: Analysis, flow: Json) -> Json:
    """The part of the page about one flow."""
    n = flow["flow"]
    resent = analysis.of_flow("retransmissions", n).sort("packet")
    timeouts = analysis.of_flow("timeouts", n).sort("packet")
    figures = [
        _time_sequence(flow, analysis.of_flow("segments", n), resent, timeouts, analysis.of_flow("limits", n)),
        _windows(flow, analysis.of_flow("windows", n)),
        _rtts(flow, analysis.of_flow("rtt_samples", n)),
    ]
    return {
        "flow": flow,
        "title": f"{address(flow, 'source')} to {address(flow, 'destination')}",
        "why": verdict.why(flow),
        "says": sentence(flow) if flow["timeouts"] else None,
        "facts": _facts(flow),
        "figures": [figure for figure in figures if figure is not None],
        "resent": resent.height,
    }


def _facts(flow: Json) -> list[tuple[str, str]]:
    def ms(key: str) -> str:
        return number(flow[key], 3)

    options = [
        word
        for word, on in (
            ("SACK", flow["sack_permitted"]),
            ("timestamps", flow["timestamps"]),
            (f"window scale {flow['window_scale']}", flow["window_scale"] is not None),
        )
        if on
    ]
    facts = [
        ("Data", f"{amount(flow['payload_bytes'])} in {number(flow['data_packets'])} packets"),
        ("From", with_unit(number(flow["start_s"]), "s") + " to " + with_unit(number(flow["end_s"]), "s")),
        ("Goodput", with_unit(number((flow["goodput_bps"] or 0) / 1e6, 3), "Mbit/s")),
        (
            "RTT",
            f"{ms('rtt_min_ms')} to {with_unit(ms('rtt_max_ms'), 'ms')}, mean {with_unit(ms('rtt_mean_ms'), 'ms')}",
        ),
        ("Retransmissions", number(flow["retransmitted_packets"])),
        ("Duplicate ACKs", number(flow["duplicate_acks"])),
        ("Out of order", number(flow["out_of_order"])),
        ("Largest flight", amount(flow["flight_max_bytes"] or 0)),
        ("First flight", with_unit(number(flow["initial_window_segments"]), "segments")),
        ("MSS", with_unit(number(flow["mss_bytes"]), "B")),
        ("Options", ", ".join(options) or "none seen"),
        ("Seen at", flow["vantage"] or "unknown"),
        ("Complete", "yes" if flow["complete"] else "no: it begins before the capture or ends after it"),
    ]
    if flow["lost_before_capture"]:
        facts.append(("Not captured", with_unit(number(flow["lost_before_capture"]), "holes")))
    if flow["zero_windows"]:
        facts.append(("Zero windows", number(flow["zero_windows"])))
    return facts


def _thin(table: pl.DataFrame) -> pl.DataFrame:
    table = table.sort("time_s")
    return table if table.height <= POINTS else table.gather_every(-(-table.height // POINTS))


def _scale(largest: float) -> tuple[float, str]:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if largest >= 2 * size:
            return size, unit
    return 1.0, "B"


def _time_sequence(
    flow: Json, segments: pl.DataFrame, resent: pl.DataFrame, timeouts: pl.DataFrame, held: pl.DataFrame
) -> Json | None:
    if segments.is_empty() and resent.is_empty():
        return None
    ends = [v for v in (segments["seq_to"].max(), resent["seq"].max()) if isinstance(v, (int, float))]
    size, unit = _scale(float(max(ends, default=1)))
    drawing = _Drawing(f"sequence-{flow['flow']}", _x_linear(flow), _linear(f"sequence number ({unit})"))

    def of(kind: str) -> pl.DataFrame:
        return _thin(segments.filter(pl.col("kind") == kind))

    for sign, table in ((DATA, of("data")), (SACKS, of("sack"))):
        drawing.strokes(sign, table["time_s"], table["seq_from"] / size, None, table["seq_to"] / size)
    # Use both for the line: where ACKs are thinned, duplicates show its height, too.
    acked = segments.filter(pl.col("kind").is_in(["ack", "dup_ack"]))
    acks = _thin(acked)
    drawing.line(ACKS, acks["time_s"], acks["seq_to"] / size, step=True)
    dup = of("dup_ack")
    drawing.strokes(DUP_ACKS, dup["time_s"], dup["seq_to"] / size)
    waits = timeouts.join(resent.select("packet", "seq"), on="packet", how="inner", maintain_order="left").drop_nulls(
        ["waited_s", "seq"]
    )
    gap = pl.Series([None], dtype=pl.Float64)
    x, y = [], []
    for row in waits.iter_rows(named=True):
        x += [row["time_s"] - row["waited_s"], row["time_s"], None]
        y += [row["seq"] / size, row["seq"] / size, None]
    drawing.line(WAITS, pl.Series(x, dtype=pl.Float64) if x else gap.clear(), pl.Series(y, dtype=pl.Float64), wait=True)
    for name in [*RETRANSMISSIONS, *(set(resent["class"]) - set(RETRANSMISSIONS))]:
        here = resent.filter(pl.col("class") == name).head(POINTS)
        drawing.marks(_sign(name), here["time_s"], here["seq"] / size, [_hover(row) for row in here.to_dicts()])
    needless = resent.filter(pl.col("spurious")).head(POINTS)
    drawing.marks(NEEDLESS, needless["time_s"], needless["seq"] / size, None)
    drawing.bands(held)
    return drawing.figure("Time and sequence", size="wide", table=_table(resent))


def _hover(row: Json) -> str:
    waited = "" if row["waited_s"] is None else f", {number(row['waited_s'] * 1e3)} ms after the previous transmission"
    lines = [
        f"packet {number(row['packet'])} at {number(row['time_s'], 7)} s: {row['class']}",
        f"{number(row['bytes'])} B from {number(row['seq'])}{waited}",
        f"duplicate ACKs received: {number(row['dup_acks'])}; in flight: {number(row['flight_segments'])} segments",
        row["reason"],
    ]
    return "<br>".join(interactive.escape(line) for line in lines if line)


def _table(resent: pl.DataFrame) -> Json | None:
    if resent.is_empty():
        return None
    head = ["Packet", "Time, s", "Class", "Why", "Sequence", "Bytes", "Waited, ms", "Dup ACKs", "Flight", "Needless"]
    rows = [
        [
            number(row["packet"]),
            "" if row["time_s"] is None else f"{row['time_s']:.6f}",
            row["class"],
            row["reason"],
            number(row["seq"]),
            number(row["bytes"]),
            number(None if row["waited_s"] is None else row["waited_s"] * 1e3),
            number(row["dup_acks"]),
            number(row["flight_segments"]),
            "yes" if row["spurious"] else "",
        ]
        for row in resent.head(TABLE_ROWS).to_dicts()
    ]
    return {"head": head, "rows": rows}


def _windows(flow: Json, windows: pl.DataFrame) -> Json | None:
    if windows.is_empty():
        return None
    windows = _thin(windows)
    own = [windows[column].max() for column in ("flight_bytes", "cwnd_estimate_bytes")]
    top = max((float(value) for value in own if isinstance(value, (int, float))), default=0.0)
    least = windows["receive_window_bytes"].min()
    limit = windows["receive_window_bytes"].max()
    caption = None
    top = max(top, 1.0)
    if isinstance(limit, (int, float)) and isinstance(least, (int, float)):
        if least <= 2 * top:
            top = max(top, min(float(limit), 3 * top))
        else:
            caption = f"The receive window lies above: {amount(float(least))} or more. A double click shows it."
    size, unit = _scale(top)
    drawing = _Drawing(
        f"windows-{flow['flow']}", _x_linear(flow), _linear(f"window ({unit})") | {"range": [0, 1.06 * top / size]}
    )
    for sign, column in (
        (RECEIVE_WINDOW, "receive_window_bytes"),
        (CWND, "cwnd_estimate_bytes"),
        (FLIGHT, "flight_bytes"),
    ):
        drawing.line(sign, windows["time_s"], windows[column] / size, step=True)
    return drawing.figure("Windows", caption=caption)


def _rtts(flow: Json, samples: pl.DataFrame) -> Json | None:
    if samples.is_empty():
        return None
    samples = _thin(samples)
    top = samples["path_rtt_ms"].max()
    high = 1.06 * float(top) if isinstance(top, (int, float)) and top > 0 else 1.0
    drawing = _Drawing(f"rtt-{flow['flow']}", _x_linear(flow), _linear("RTT (ms)") | {"range": [0, high]})
    drawing.strokes(RTT, samples["time_s"], samples["path_rtt_ms"])
    least = samples["path_rtt_ms"].min()
    ends = pl.Series([flow["start_s"], flow["end_s"]], dtype=pl.Float64)
    drawing.line(LEAST_RTT, ends, pl.Series([least, least], dtype=pl.Float64))
    return drawing.figure("Round-trip time, and the queue in it")


def _x_linear(flow: Json) -> Json:
    start, end = flow["start_s"], flow["end_s"]
    margin = 0.02 * max(end - start, 1e-3)
    return _linear("time in the capture (s)") | {"range": [start - margin, end + margin]}


def _linear(title: str) -> Json:
    return {**interactive.axis_of(title), "type": "linear"}


class _Drawing:
    """Builds a figure of the page. Kinds without points are left out, and so are their names."""

    def __init__(self, name: str, x: Json, y: Json) -> None:
        self.id = name
        self.signs: list[Sign] = []
        self._data: list[Json] = []
        self._clouds: list[Json] = []
        self._axes = x, y
        self._low, self._high = np.inf, -np.inf

    def _meta(self, sign: Sign, *values: pl.Series) -> Json:
        for series in values:
            finite = series.drop_nulls()
            if len(finite):
                self._low = min(self._low, float(finite.min()))  # type: ignore[arg-type]
                self._high = max(self._high, float(finite.max()))  # type: ignore[arg-type]
        self.signs.append(sign)
        return {"colour": sign.colour, "series": len(self.signs) - 1}

    def strokes(
        self, sign: Sign, x: pl.Series, y: pl.Series, x2: pl.Series | None = None, y2: pl.Series | None = None
    ) -> None:
        """A dot at each point, or a stroke from it to a second point. All are one path."""
        if not len(x):
            return
        cloud: Json = {
            "meta": self._meta(sign, y, *([y2] if y2 is not None else [])),
            "width": 1.8 if y2 is not None else sign.size * 0.75,
        }
        for axis, values, other in (("x", x, x2), ("y", y, y2)):
            # Single precision counts from the first value, so that points stay in place when a reader zooms in.
            origin = float(values[0] or 0.0)
            cloud |= {axis: _packed(values, origin), f"{axis}0": origin}
            if other is not None:
                cloud[f"{axis}2"] = _packed(other, origin)
        self._clouds.append(cloud)

    def line(self, sign: Sign, x: pl.Series, y: pl.Series, *, step: bool = False, wait: bool = False) -> None:
        """A line through the points. `step`: it holds each value until the next point."""
        if not len(x):
            return
        self._data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": interactive.escape(sign.name),
                "showlegend": False,
                "x": _typed(x, "<f8"),
                "y": _typed(y, "<f4"),
                "line": {"dash": sign.dash, "width": 2 if wait else 1.6, "shape": "hv" if step else "linear"},
                "hovertemplate": "%{y:.6~g} at %{x:.6~f} s<extra>%{fullData.name}</extra>",
                "meta": self._meta(sign, y),
            }
        )
        if wait:
            self._data[-1] |= {"hoverinfo": "skip"}
            del self._data[-1]["hovertemplate"]

    def marks(self, sign: Sign, x: pl.Series, y: pl.Series, text: list[str] | None) -> None:
        """A marker at each point, with a text about it."""
        if not len(x):
            return
        hover = {"text": text, "hovertemplate": "%{text}<extra></extra>"} if text else {"hoverinfo": "skip"}
        self._data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": interactive.escape(sign.name),
                "showlegend": False,
                "x": x.to_list(),
                "y": y.to_list(),
                "marker": {"symbol": sign.symbol, "size": sign.size, "line": {"width": 2 if text is None else 0}},
                "meta": self._meta(sign, y),
                **hover,
            }
        )

    def bands(self, held: pl.DataFrame) -> None:
        """Areas over the whole height: from when to when which limit held the sender back."""
        if not self._low < self._high:
            return
        low, high = self._low, self._high
        for name, sign in BANDS.items():
            times = held.filter(pl.col("limit") == name)
            if times.is_empty():
                continue
            x: list[float | None] = []
            y: list[float | None] = []
            for begin, end in times.select("from_s", "to_s").iter_rows():
                x += [begin, begin, end, end, None]
                y += [low, high, high, low, None]
            self._data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": interactive.escape(sign.name),
                    "showlegend": False,
                    "x": _typed(pl.Series(x, dtype=pl.Float64), "<f8"),
                    "y": _typed(pl.Series(y, dtype=pl.Float64), "<f4"),
                    "fill": "toself",
                    "line": {"width": 0},
                    "hoverinfo": "skip",
                    "meta": self._meta(sign) | {"band": True},
                }
            )

    def figure(self, title: str, *, size: str = "", caption: str | None = None, table: Json | None = None) -> Json:
        """Data for the template."""
        x, y = self._axes
        if "range" not in y and self._low <= self._high:
            margin = 0.04 * max(self._high - self._low, 1e-9)
            y["range"] = [self._low - margin, self._high + margin]
        layout = {
            "xaxis": x,
            "yaxis": y,
            "margin": {"l": 8, "r": 14, "t": 10, "b": 8},
            "hovermode": "closest",
            "showlegend": False,
            "dragmode": "zoom",
            "uirevision": self.id,
            "font": {"size": 13},
            "separators": ".\N{NARROW NO-BREAK SPACE}",
        }
        return {
            "id": self.id,
            "title": title,
            "size": size,
            "caption": caption,
            "signs": self.signs,
            "table": table,
            "about": f"{title}: {y['title']['text']} over {x['title']['text']}",
            "json": _json({"data": self._data, "layout": layout, "clouds": self._clouds, "table": table}),
        }


def _packed(values: pl.Series, origin: float) -> str:
    return _base64((values.cast(pl.Float64).to_numpy() - origin).astype("<f4"))


def _typed(values: pl.Series, dtype: str) -> Json:
    """An array as Plotly reads it without parsing numbers; null becomes a gap."""
    return {"dtype": dtype.removeprefix("<"), "bdata": _base64(values.cast(pl.Float64).to_numpy().astype(dtype))}


def _base64(values: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


# --- duplicate ACKs received ----------------------------------------------------------------------------------------


def _held_plot(rows: Sequence[Mapping[str, int]]) -> Json:
    """Bars of timeouts by duplicate ACKs received, and of those that each policy would have avoided."""
    x = [str(row["duplicate_acks"]) if row["duplicate_acks"] < 3 else "3 or more" for row in rows]
    names = {
        "timeouts": "all timeouts",
        **{f"avoided_{policy}": f"avoided by {name}" for policy, name in POLICIES.items()},
    }
    plot = Plot(
        id="held",
        title="Duplicate ACKs received when the timer fired",
        x=Axis(label="duplicate ACKs received"),
        y=Axis(label="timeouts"),
        kind="bar",
        series=[Series(name=name, x=list(x), y=[float(row[key]) for row in rows]) for key, name in names.items()],
    )
    looks = {name: SeriesStyle(i, 0, 0, i, i) for i, name in enumerate(names.values())}
    table = {
        "head": ["", *x, "all"],
        "rows": [
            [name, *(number(row[key]) for row in rows), number(sum(row[key] for row in rows))]
            for key, name in names.items()
        ],
    }
    return {
        "id": plot.id,
        "title": plot.title,
        "size": "",
        "caption": None,
        "about": f"{plot.title}: timeouts and those that each policy would have avoided",
        "signs": [Sign(name, f"{i}-0") for i, name in enumerate(names.values())],
        "table": table,
        "json": _json(interactive.figure(plot, looks) | {"table": None}),
    }


__all__ = ["DETAILS", "PAGE", "html"]
