"""A run, a study or a sweep as one page for the browser and as figures for papers."""

from airtcp.report.page import write

__all__ = ["write"]
