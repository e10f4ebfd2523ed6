"""The page of an advice: what helps, by how much, who changes what, with which commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airtcp import stats
from airtcp.advice import show
from airtcp.advice.measures import UNITS
from airtcp.report.page import filled

if TYPE_CHECKING:
    from airtcp.advice.ranking import Advice


def html(advice: Advice) -> str:
    """The page. It works offline."""

    def row(name: str) -> dict[str, Any]:
        one = advice.tried[name]
        cells = [
            show.value(stats.mean(one.values[measure.name]), UNITS[measure.name])
            if measure.name in one.values
            else "\N{EN DASH}"
            for measure in advice.measures
        ]
        return {
            "name": name,
            "text": one.remedy.text,
            "who": show.who(one),
            "cells": cells,
            "gain": show.verdict(advice, name),
            "commands": one.commands,
            "how": one.remedy.how,
            "is_advised": name in advice.advised,
        }

    return filled(
        "advice.html.j2",
        advice=advice,
        headline=show.headline(advice),
        best=row(advice.advised[0]) if advice.best is not None else None,
        promise=show.promise(advice),
        base=[show.value(stats.mean(advice.base[measure.name]), UNITS[measure.name]) for measure in advice.measures],
        titles=[show.TITLES.get(measure.name, measure.name) for measure in advice.measures],
        rows=[row(name) for name in show.order(advice)],
        reasons=show.reasons(advice.left_out),
        notes=show.notes(advice),
    )
