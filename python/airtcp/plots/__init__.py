"""Figures of runs, for print and screen: PNG, SVG or PDF."""

from airtcp.plots.one_run import one_run
from airtcp.plots.over_time import FORMATS, PlotError, over_time

__all__ = ["FORMATS", "PlotError", "one_run", "over_time"]
