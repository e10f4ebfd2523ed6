"""The page: one self-contained HTML file, and the figures beside it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape
from polars.exceptions import PolarsError

import airtcp
from airtcp import _csp
from airtcp._files import write_bytes
from airtcp._marker import Batch
from airtcp.errors import DamagedError, ResultsError
from airtcp.figure_style import COLOURS, COLOURS_ON_DARK, SHADES, shaded
from airtcp.report import interactive, matrix, model, network, reruns
from airtcp.report import print as printed
from airtcp.report.model import Experiment, Finding, Matrix, Plot, Study
from airtcp.report.network import Diagram
from airtcp.report.plot_style import (
    SeriesStyle,
    interval_text,
    is_ranking,
    needs_legend,
    number,
    series_styles,
    with_unit,
)
from airtcp.sweeps.results import RUNS

PAGE: Final = "report.html"
FIGURES: Final = "figures"

VERDICTS: Final = {
    "reproduced": "reproduced",
    "mixed": "mixed",
    "not": "not reproduced",
    "open": "open",
    "none": "not measured",
    "calibration": "calibration",
    "identity": "identity",
}
ALWAYS_SHOWN: Final = ("reproduced", "mixed", "not", "open")
"""Verdicts that the page counts even if there are none."""
KINDS: Final = {
    "paper": "Published experiments",
    "sensitivity": "Sensitivity: gaps in the source, varied",
    "beyond": "Beyond the source",
}

_MOST_FILE_NAME: Final = 150
"""Bytes of a figure's name, without its ending; file systems take 255 with all."""

# A minus before a number, not the dash within a word.
_NEGATIVE: Final = re.compile(r"(?<![\w.])-(?=[\d.])")


def write(folder: Path | str, *, out: Path | str | None = None, figures: bool = True) -> Path:
    """Writes the report of a run's, a study's or a sweep's folder, and returns the path of the page.

    Args:
        folder: output folder of `airtcp run`, `airtcp study run` or `airtcp sweep`.
        out: file for the page; by default `report.html` in the folder, or beside the folder of a run, which is never
            changed: `NAME-report.html`.
        figures: whether to write `figures/ID.png` and `figures/ID.svg` into the folder as well. Not for a run: see
            `airtcp plot`.

    Raises:
        ResultsError: the folder holds none of them, or the page cannot be written.
    """
    folder = Path(folder)
    study = load(folder)
    page = Path(out) if out is not None else folder / PAGE
    if study.kind == "run" and out is None:
        page = out = folder.resolve().with_name(f"{folder.resolve().name}-{PAGE}")
    text, drawn = rendered(folder, study)
    try:
        if study.kind != "run":
            with Batch(folder) as batch:
                for name, content in drawn.items() if figures else ():
                    batch.add(name, content)
                if out is None:
                    batch.add(PAGE, text)
                batch.commit()
        if out is not None:
            page.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(page, text)
    except OSError as error:
        raise ResultsError(f"cannot write {error.filename or page}: {error.strerror}") from error
    return page


def rendered(folder: Path, study: Study) -> tuple[bytes, dict[str, bytes]]:
    """The page of a folder, and its figures by the names of their files.

    Raises:
        ResultsError: the folder's tables cannot be read.
    """
    look = series_styles(study)
    drawn = {plot.id: printed.draw(plot, look) for experiment in study.experiments for plot in experiment.plots}
    tables = {
        f"{one.id}-{view}": printed.draw_matrix(one, view) for one in study.matrices for view, _ in matrix.views(one)
    }
    drawn |= {one.id: printed.draw_map(one) for each in study.matrices for one in each.maps}
    static = {name: contents["svg"] for name, contents in drawn.items()}
    text = html(study, look, static, _offers(folder, study), _networks(folder, study)).encode()
    return text, {
        f"{FIGURES}/{file_name(name)}.{ending}": content
        for name, contents in (drawn | tables).items()
        for ending, content in contents.items()
    }


@cache
def made_by() -> str:
    """Names all that decides a page beside its results: this code, and the libraries that draw."""
    digest = sha256()
    for name in ("matplotlib", "numpy", "jinja2", "markupsafe", "plotly", "polars"):
        digest.update(f"{name} {version(name)}\n".encode())
    package = Path(airtcp.__file__).parent
    sources = [path for part in ("report", "plots", "page") for path in sorted((package / part).glob("*.*"))]
    sources.append(Path(_csp.__file__))
    for path in sources:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def load(folder: Path) -> Study:
    """The results in the folder.

    Raises:
        ResultsError: none of a study, a sweep and a run, or damaged.
    """
    try:
        return _load(folder)
    except (LookupError, TypeError, AttributeError, ValueError, PolarsError) as error:
        # Checksums fit whatever somebody has signed anew.
        raise DamagedError(f"{folder}: damaged: not what airtcp writes ({error!r})") from error


def _load(folder: Path) -> Study:
    if (folder / "study.json").is_file():
        return model.read(folder / "study.json")
    if (folder / "sweep.json").is_file():
        from airtcp.report import sweep

        return sweep.read(folder)
    if (folder / "summary.json").is_file() and (folder / "manifest.json").is_file():
        from airtcp.report import run

        return run.read(folder)
    if not folder.is_dir():
        raise ResultsError(
            f"{folder}: {'is a file: give a folder of results' if folder.exists() else 'no such folder'}"
        )
    raise ResultsError(
        f"{folder}: no summary.json (airtcp run), no study.json (airtcp study run) and no sweep.json (airtcp sweep) "
        "in it"
    )


def _offers(folder: Path, study: Study) -> dict[str, list[reruns.Rerun]]:
    if not reruns.page():
        return {}
    if study.kind == "run":
        return {experiment.id: reruns.of_run(folder) for experiment in study.experiments}
    return reruns.offers(folder, _tables(study))


def _tables(study: Study) -> dict[str, str]:
    """The table with the runs of each experiment of a study or a sweep."""
    return {one.id: one.id if study.kind == "study" else RUNS for one in study.experiments}


def _networks(folder: Path, study: Study) -> dict[str, Diagram]:
    """The network of each experiment, from the scenarios of its runs."""
    if study.kind == "run":
        scenario = reruns.scenario_of_run(folder)
        return {one.id: network.of([scenario]) for one in study.experiments}
    scenarios = reruns.scenarios(folder)
    return {name: network.of(scenarios[table]) for name, table in _tables(study).items() if table in scenarios}


# --- what stands together -------------------------------------------------------------------------------------------


@dataclass
class Group:
    """A figure of the source: its plots, and its findings beside them."""

    figure: str | None
    plots: list[Plot] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_wide(self) -> bool:
        """Several plots stand beside each other, their findings below."""
        return len(self.plots) > 1


def grouped(experiment: Experiment, findings: list[Finding]) -> list[Group]:
    """Groups the plots of an experiment by figure, with the findings of each figure.

    A finding on 8 goes with the plots of 8a and 8b, one on 3b with the plot of 3. A finding without a figure goes with
    the only figure, if there is one. All others stand alone. Plots without findings stand together with their
    neighbours of that kind.
    """
    groups: dict[str | None, Group] = {}
    for plot in experiment.plots:
        groups.setdefault(plot.figure, Group(plot.figure)).plots.append(plot)
    with_plots = list(groups.values())

    def home(finding: Finding) -> Group:
        figure = finding.figure
        if figure in groups:
            return groups[figure]
        if figure is not None:
            for group in with_plots:
                if group.figure is not None and _same_figure(figure, group.figure):
                    return group
        elif len(with_plots) == 1:
            return with_plots[0]
        return groups.setdefault(figure, Group(figure))

    for finding in findings:
        home(finding).findings.append(finding)
    merged: list[Group] = []
    for group in groups.values():
        if merged and not group.findings and not merged[-1].findings:
            before = merged.pop()
            figures = [name for name in (before.figure, group.figure) if name]
            group = Group(", ".join(figures) or None, [*before.plots, *group.plots])
        merged.append(group)
    return merged


def _same_figure(a: str, b: str) -> bool:
    """Whether one figure is a panel of the other."""
    short, long = sorted((a, b), key=len)
    return long.startswith(short) and long[len(short) :].isalpha()


# --- HTML -----------------------------------------------------------------------------------------------------------


def html(
    study: Study,
    look: Mapping[str, SeriesStyle],
    static: Mapping[str, bytes],
    offers: Mapping[str, Sequence[reruns.Rerun]],
    networks: Mapping[str, Diagram],
) -> str:
    """The page as HTML.

    Args:
        study: the results.
        look: of their series.
        static: the SVG of each plot, for print and for browsers without scripts.
        offers: runs of each experiment that the reader can make in the page.
        networks: of each experiment.
    """
    key_plot = _key_plot(study)
    by_id = {finding.id: finding for finding in study.findings}
    sections: list[dict[str, Any]] = []
    claimed: set[str] = set()
    for kind, title in KINDS.items():
        experiments = []
        for experiment in study.experiments:
            if experiment.kind != kind:
                continue
            named = dict.fromkeys(
                [*experiment.findings, *(f.id for f in study.findings if f.experiment == experiment.id)]
            )
            own = [by_id[name] for name in named if name not in claimed]
            claimed.update(named)
            experiments.append({"it": experiment, "groups": grouped(experiment, own)})
        if experiments:
            sections.append({"kind": kind, "title": title, "experiments": experiments})
    counts = {verdict: sum((f.verdict or "none") == verdict for f in study.findings) for verdict in VERDICTS}
    return filled(
        "page.html.j2",
        study=study,
        made_by=made_by(),
        matrices=[_matrix(matrix) for matrix in study.matrices],
        sections=sections,
        overview=[f for s in sections for e in s["experiments"] for g in e["groups"] for f in g.findings]
        + [f for f in study.findings if f.id not in claimed],
        loose=[f for f in study.findings if f.id not in claimed],
        counts=counts,
        answer=[] if study.answer is None else [by_id[name] for name in study.answer.findings if name in by_id],
        key_plot=key_plot,
        network=_drawings(study, networks, key_plot),
        verdicts=VERDICTS,
        always=ALWAYS_SHOWN,
        look=look,
        known={experiment.id: experiment.title for experiment in study.experiments},
        data={
            plot.id: _json(interactive.figure(plot, look) | {"table": table(plot)})
            for experiment in study.experiments
            for plot in experiment.plots
        },
        static={name: Markup(f"data:image/svg+xml;base64,{_base64(svg)}") for name, svg in static.items()},
        runs={
            name: _json([{"text": one.text, "fragment": one.fragment} for one in found])
            for name, found in offers.items()
            if found
        },
        has_simulator=any(offers.values()),
        has_plots=any(experiment.plots for experiment in study.experiments),
    )


def filled(
    template: str,
    *,
    own_css: str = "",
    own_scripts: Sequence[str] = (),
    has_plots: bool = False,
    has_simulator: bool = False,
    **content: object,
) -> str:
    """A page with what all pages have, and with the policy that allows its scripts and styles only.

    Args:
        template: of the page.
        own_css: style of this kind of page.
        own_scripts: scripts of this kind of page.
        has_plots: Plotly is in the page.
        has_simulator: the page of `airtcp play` is in the page.
        content: what the template asks for. Nothing of it is ever a script or a style.
    """
    early, *scripts = map(_resource, ("early.js", "page.js"))
    scripts += own_scripts
    inner = reruns.text() if has_simulator else None

    def policy(style: str) -> Markup:
        allowed = [early, *scripts, *([_plotly_text()] if has_plots else [])]
        # Plotly makes an empty style element and adds its rules one by one. An exponent is a smaller text.
        styles, attributes = ([style, ""], ["font-size:70%"]) if has_plots else ([style], [])
        return Markup(_csp.policy(scripts=allowed, styles=styles, attributes=attributes, inner=inner))

    return (
        _environment()
        .get_template(template)
        .render(
            light=_tones(COLOURS),
            dark=_tones(COLOURS_ON_DARK),
            css=Markup(_resource("page.css")),
            own_css=Markup(own_css),
            early=Markup(early),
            scripts=[Markup(text) for text in scripts],
            plotly=Markup(plotly()) if has_plots else "",
            simulator=Markup(reruns.page()) if has_simulator else "",
            policy=policy,
            version=airtcp.__version__,
            **content,
        )
    )


def _key_plot(study: Study) -> Plot | None:
    plots = (plot for experiment in study.experiments for plot in experiment.plots)
    return next(
        (plot for plot in plots if study.answer is not None and plot.id == study.answer.plot and plot.series), None
    )


def _drawings(study: Study, networks: Mapping[str, Diagram], key_plot: Plot | None) -> dict[str, Any]:
    """Each network once: that of the key plot's experiment, or else of the first one, and those that differ from it.

    Returns:
        `main`: its drawing and its words, or None. `of`: for each experiment the anchor of its network's drawing.
        `own`: the drawings that stand within experiments.
    """
    order = sorted(study.experiments, key=lambda one: key_plot not in one.plots if key_plot is not None else False)
    found: dict[str, Any] = {"main": None, "of": {}, "own": {}}
    seen: list[tuple[Diagram, str]] = []
    for name in [one.id for one in order if one.id in networks]:
        known = next((place for other, place in seen if other == networks[name]), None)
        if known is None:
            known = f"network-{anchor(name)}" if seen else "network"
            seen.append((networks[name], known))
            drawn = {"svg": network.svg(networks[name], known), "words": network.words(networks[name])}
            if known == "network":
                found["main"] = drawn
            else:
                found["own"][name] = drawn
        found["of"][name] = known
    return found


def _matrix(it: Matrix) -> dict[str, Any]:
    """A matrix with its words and shades."""
    labels = {measure.name: measure.label for measure in it.measures}
    return {
        "it": it,
        "said": [[matrix.said(it, group, i) for group in it.groups] for i in range(len(it.scenes))],
        "rule": matrix.rule(it),
        "maps": [
            {"it": one, "tables": [(group.title, *matrix.lines(one, group)) for group in one.groups]} for one in it.maps
        ],
        "views": [
            {
                "name": name,
                "title": title,
                "label": labels.get(name, "doublings better than the base of the block, all measures together"),
                "groups": [
                    {
                        "title": group.title,
                        "text": group.text,
                        "rows": [
                            {
                                "title": row.title,
                                "text": row.text,
                                "cells": [matrix.shown(it, group, r, i, name) for i in range(len(it.scenes))],
                            }
                            for r, row in enumerate(group.rows)
                        ],
                    }
                    for group in it.groups
                ],
            }
            for name, title in matrix.views(it)
        ],
    }


def _tones(colours: Sequence[str]) -> dict[str, str]:
    """Every shade of the colours, by the name `interactive.tone` gives it."""
    return {f"{i}-{shade}": shaded(colour, shade) for i, colour in enumerate(colours) for shade in range(SHADES)}


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_resource),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "anchor": anchor,
        "duration": duration,
        "is_ranking": is_ranking,
        "height_rem": interactive.height_rem,
        "host": host_text,
        "inline": inline,
        "interval": interval_text,
        "measured": measured,
        "moment": moment,
        "needs_legend": needs_legend,
        "number": number,
        "paragraphs": paragraphs,
        "tone": interactive.tone,
        "value": value_text,
    }
    return environment


def _resource(name: str) -> str:
    return files("airtcp.report").joinpath(name).read_text(encoding="utf-8")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


@cache
def plotly() -> str:
    """Plotly's script, compressed to a third of its size. The page unpacks it when a plot comes into view."""
    return _base64(gzip.compress(_plotly_text().encode(), compresslevel=9, mtime=0))


def _plotly_text() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _json(value: object) -> Markup:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def anchor(name: str) -> str:
    """A name as part of an id: letters, digits, dots, dashes and underscores stay, others are coded."""
    return re.sub(r"[^\w.-]", lambda match: "".join(f"~{byte:02x}" for byte in match[0].encode()), name)


def file_name(name: str) -> str:
    """A file name that is valid on every system and cannot leave its folder."""
    text = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "figure"
    if len(text.encode()) <= _MOST_FILE_NAME:
        return text
    return f"{text.encode()[: _MOST_FILE_NAME - 17].decode(errors='ignore')}-{sha256(name.encode()).hexdigest()[:16]}"


def inline(text: object) -> Markup:
    """One line of text; `code` between backticks."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def paragraphs(text: str) -> Markup:
    """Text with empty lines between its paragraphs."""
    parts = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return Markup("").join(Markup("<p>{}</p>").format(inline(" ".join(part.split()))) for part in parts)


def duration(seconds: float) -> str:
    """A duration in words."""
    if seconds < 60:
        return with_unit(number(round(seconds, 1)), "s")
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def measured(finding: Finding) -> list[str]:
    """The measured values, one text for each part. A study's own text includes its intervals."""
    if finding.measured_text:
        return [_NEGATIVE.sub("\N{MINUS SIGN}", part) for part in finding.measured_text.split("; ")]
    return [number(None) if finding.measured is None else with_unit(number(finding.measured), finding.unit)]


def table(plot: Plot) -> dict[str, Any] | None:
    """The numbers of a plot as a table of texts; none for clouds, which have too many points to read."""
    if plot.kind == "scatter" or not plot.series:
        return None
    rows = [
        [
            series.name,
            number(x),
            number(series.y[i]),
            interval_text(series.interval(i)) or number(None),
            number(series.n[i] if series.n else None),
        ]
        for series in plot.series
        for i, x in enumerate(series.x)
    ]
    return {"head": ["Series", plot.x.title, plot.y.title, "95 % interval", "Seeds"], "rows": rows}


def host_text(host: Mapping[str, Any]) -> str:
    """The machine in one line."""
    words = {"cpus": "{} CPUs", "python": "Python {}"}
    return ", ".join(words.get(key, "{}").format(value_text(value)) for key, value in host.items() if value is not None)


def moment(text: str) -> str:
    """A time in ISO 8601, to the minute."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = time.tzname() if time.tzinfo else ""
    return f"{time:%Y-%m-%d %H:%M} {zone}".strip()


def value_text(value: object) -> str:
    """A value of any type as text."""
    if isinstance(value, dict):
        return ", ".join(f"{key} = {value_text(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(value_text, value))
    return number(value)
