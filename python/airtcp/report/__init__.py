"""A study or a sweep as one page for the browser and as figures for papers."""

from __future__ import annotations

from pathlib import Path

from airtcp.report.page import write

__all__ = ["Path", "write"]
