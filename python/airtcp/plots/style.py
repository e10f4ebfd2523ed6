"""How all figures look: light ground, colours that colour-blind readers can tell apart, no dependence on a display."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
from cycler import cycler

# Okabe and Ito, "Color Universal Design" (2008), without black and yellow: yellow is too faint on white.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# A second sign beside the colour, for print in grey.
LINES: Final = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))

_STYLE: Final[dict[Any, Any]] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.dpi": 120,
    "figure.facecolor": "white",
    "font.size": 9,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.facecolor": "white",
    # Text stays text, and the same figure gives the same bytes.
    "svg.fonttype": "none",
    "svg.hashsalt": "airtcp",
}


@contextmanager
def style() -> Iterator[None]:
    """Figures made inside look like airtcp's; the caller's settings stay as they were."""
    with mpl.rc_context(_STYLE):
        yield
