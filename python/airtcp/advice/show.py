"""Advice in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table
from rich.text import Text

from airtcp import stats
from airtcp.advice.measures import UNITS
from airtcp.study.matrix import FINE, OPEN, REMEDY

if TYPE_CHECKING:
    from airtcp.advice.ranking import Advice, Tried

DIGITS: Final = 3
TITLES: Final = {"pages": "load times"}


def headline(advice: Advice) -> str:
    """The advice in one sentence."""
    match advice.outcome:
        case "remedy":
            best = advice.best
            assert best is not None
            return f"{best.remedy.name}: {gains(advice, best)}."
        case "fine":
            return "Nothing needs mending: no remedy gains a quarter overall, and all is good enough as it is."
        case "no_twin":
            assert advice.twin is not None
            return str(advice.twin["sentence"])
        case "open" if advice.twin is not None and "gain_over_twins" in advice.twin:
            over = advice.twin["gain_over_twins"]
            twins = f"{over['twins']} twins that fit the capture about equally" if over["twins"] > 1 else "the twin"
            by = f"{over['lo']:.2f} to {over['hi']:.2f} times on {twins}"
            return f"Not settled: {advice.advised[0]} may help, by {by}. A longer capture may decide."
        case "open":
            names = ", ".join(advice.advised[:3])
            return f"Not settled by {len(advice.seeds)} seeds: {names} may help. More seeds decide (--seeds)."
    usable = [name for name, one in advice.tried.items() if one.cell is not None and not one.cell.harmed]
    nearest = max(usable, key=lambda name: advice.gain(name).value, default=None)
    if nearest is None:
        return "No remedy helps here."
    return f"No remedy gains a quarter overall. {nearest} comes nearest: {factor(advice.gain(nearest))}."


def gains(advice: Advice, tried: Tried) -> str:
    """The change of each measure by a remedy: `latency 169 to 62 ms [58, 70]`."""
    parts = []
    for measure in advice.measures:
        if measure.name in tried.values:
            before, after = (stats.mean(values[measure.name]) for values in (advice.base, tried.values))
            if number(before.value) != number(after.value):
                name = TITLES.get(measure.name, measure.name)
                parts.append(f"{name} {number(before.value)} to {value(after, UNITS[measure.name])}")
    return ", ".join(parts) or "no measure changes"


def overview(advice: Advice) -> list[Table | Text]:
    """The advice, with who must change what, the commands, and what else was tried."""
    parts: list[Table | Text] = []
    if advice.twin is not None:
        parts.append(Text(f"Twin: {advice.twin['summary']}."))
        parts += [Text(f"Not in the twin: {one}.") for one in advice.twin["left_out"]]
    if not advice.measures:
        return [*parts, Text(headline(advice), style="bold")]
    if advice.twin is not None:
        parts.append(Text(str(advice.twin["sentence"])))
    as_it_is = ", ".join(
        f"{TITLES.get(measure.name, measure.name)} {value(stats.mean(advice.base[measure.name]), UNITS[measure.name])}"
        for measure in advice.measures
    )
    if advice.description:
        parts.append(Text(" ".join(advice.description.split())))
    parts += [Text(f"As it is: {as_it_is}."), Text("")]
    parts.append(Text(headline(advice), style="bold"))
    if (best := advice.best) is not None:
        parts.append(Text(f"Who changes what: {who(best)}. Gain overall: {factor(advice.gain(best.remedy.name))}."))
        if told := promise(advice):
            parts.append(Text(told))
        parts += [Text(line) for line in commands(best)]
    if advice.tried:
        parts += [Text(""), _tried(advice)]
        if unchanged := idle(advice):
            parts.append(Text(f"Tried, and without effect here: {', '.join(unchanged)}."))
    if advice.left_out:
        parts.append(Text("Not considered", style="bold"))
        parts += [Text(f"{reason}: {'; '.join(names)}") for reason, names in reasons(advice.left_out)]
    return parts


def promise(advice: Advice) -> str | None:
    """The gain to expect on the real network of a capture, in a sentence."""
    if advice.twin is None or "gain_over_twins" not in advice.twin:
        return None
    over = advice.twin["gain_over_twins"]
    twins = "this twin" if over["twins"] == 1 else f"{over['twins']} twins that fit about equally"
    told = f"{over['lo']:.2f} to {over['hi']:.2f} times"
    return f"To expect on the real network: {told} (over {twins}, with its error in the proof)."


def who(tried: Tried) -> str:
    """Things that have to be changed for a remedy."""
    return ", ".join(tried.changes) or "nothing that costs"


def commands(tried: Tried) -> list[str]:
    """The commands of a remedy, by kind of machine."""
    out = []
    if not tried.commands and tried.remedy.how:
        out.append(f"How: {tried.remedy.how}")
    for one in tried.commands:
        out.append(f"On the {one['on']}:" if not one["on"].startswith(("each", "both")) else f"On {one['on']}:")
        out += [f"    {line}" for line in one["run"]]
    return out


def order(advice: Advice) -> list[str]:
    """Names of the remedies tried: the advised ones, then by gain; what harms comes last."""
    rest = [name for name in advice.tried if name not in advice.advised]

    def key(name: str) -> tuple[bool, float]:
        cell = advice.tried[name].cell
        return (cell is None or bool(cell.harmed), 0.0 if cell is None else -advice.gain(name).value)

    return [*advice.advised, *sorted(rest, key=key)]


def reasons(left_out: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Each reason with the remedies that it keeps out."""
    out: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        out.setdefault(reason[:1].upper() + reason[1:], []).append(name)
    return list(out.items())


def idle(advice: Advice) -> list[str]:
    """Remedies that change nothing here: within a hundredth of what there is, whatever the seed."""

    def is_idle(name: str) -> bool:
        gain = advice.gain(name) if advice.tried[name].cell is not None else None
        return gain is not None and all(end is None or abs(end - 1) < 0.015 for end in (gain.low, gain.high))

    return [name for name in advice.tried if name not in advice.advised and is_idle(name)]


def _tried(advice: Advice) -> Table:
    title = f"Remedies tried, {len(advice.seeds)} seeds at most"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("remedy", overflow="fold")
    table.add_column("who changes", overflow="fold")
    for measure in advice.measures:
        table.add_column(f"{_short(measure.name)}\n{UNITS[measure.name]}", justify="right", no_wrap=True)
    table.add_column("gain\noverall", justify="right", no_wrap=True)
    base = [number(stats.mean(advice.base[measure.name]).value) for measure in advice.measures]
    table.add_row("as it is", "", *base, "")
    left_out = idle(advice)
    for name in order(advice):
        if name in left_out:
            continue
        one = advice.tried[name]
        cells = [
            number(stats.mean(one.values[measure.name]).value) if measure.name in one.values else "-"
            for measure in advice.measures
        ]
        style = "bold" if advice.outcome == REMEDY and name == advice.advised[0] else ""
        table.add_row(name, ", ".join(one.changes), *cells, verdict(advice, name), style=style)
    return table


def verdict(advice: Advice, name: str) -> str:
    """A remedy's overall gain, or what it harms."""
    cell = advice.tried[name].cell
    if cell is None:
        return "-"
    if cell.harmed:
        return f"harms {_short(cell.harmed[0])}"
    return factor(advice.gain(name))


def factor(gain: stats.Estimate) -> str:
    """A factor with its interval."""

    def short(value: float) -> str:
        return f"{value:.2f}" if value < 10 else f"{value:.0f}" if value < 100 else ">99"

    text = f"\N{MULTIPLICATION SIGN}{short(gain.value)}"
    return text if gain.low is None or gain.high is None else f"{text} [{short(gain.low)}, {short(gain.high)}]"


def value(estimate: stats.Estimate, unit: str) -> str:
    """A value with its unit and interval. No measure is below zero."""
    text = f"{number(estimate.value)} {unit}".rstrip()
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return text
    return f"{text} [{number(max(0.0, estimate.low))}, {number(estimate.high)}]"


def number(value: float) -> str:
    """A number with three digits."""
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    text = f"{value:.{DIGITS}g}"
    return "0" if text in ("-0", "0") else text


def _short(measure: str) -> str:
    return {"latency": "latency", "goodput": "goodput", "fairness": "Jain", "loss": "loss", "pages": "load"}[measure]


def notes(advice: Advice) -> list[str]:
    """Notes for a reader of the figures."""
    out = [
        "Latency: 95th percentile above that of the empty path. Gain: of all measures together, with its interval.",
    ]
    if advice.outcome in (FINE, OPEN):
        out.append("A remedy counts from a gain of a quarter that chance does not explain.")
    return out
