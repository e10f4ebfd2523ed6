"""Style of all figures: light ground, and colours that colour-blind readers can tell apart. No display is needed.

The report's page takes its series colours from this module, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
from cycler import cycler

# Okabe and Ito, "Color Universal Design" (2008), without black and yellow: yellow is too faint on white.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
STRONG: Final = 4
"""Number of colours, from the first, whose contrast to white is about 3:1 or more."""
# The same hues for a dark ground, lighter: at least 6:1 against the page's.
COLOURS_ON_DARK: Final = ("#4FA8E8", "#FF8A4C", "#2FC79A", "#E8A3CB", "#93D6F7", "#F2BE55")
SHADES: Final = 3
"""Shades of each colour: unchanged, darker, lighter. They tell apart curves of one variant."""
# A second sign beside the colour, for print in grey.
LINES: Final = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
HATCHES: Final = ("", "///", "..", "\\\\\\", "xx", "---")

COLUMN_WIDTH_IN: Final = 3.5
"""One column of a two-column page (IEEE, ACM)."""


def shaded(colour: str, shade: int) -> str:
    """One of the `SHADES` of a colour."""
    towards, part = ((0, 0.0), (0, 0.4), (255, 0.42))[shade]
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel + (towards - channel) * part):02X}" for channel in channels)


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
    # A dollar in a name begins no formula.
    "text.parse_math": False,
}

_COLUMN: Final[dict[Any, Any]] = {
    "axes.labelpad": 2.5,
    "axes.linewidth": 0.6,
    "errorbar.capsize": 1.8,
    "figure.constrained_layout.h_pad": 0.02,
    "figure.constrained_layout.w_pad": 0.02,
    "font.size": 8,
    "axes.labelsize": 8,
    "grid.linewidth": 0.4,
    "hatch.linewidth": 0.5,
    "legend.columnspacing": 1.2,
    "legend.fontsize": 7,
    "legend.handlelength": 2.6,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.25,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    "xtick.labelsize": 7,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "ytick.labelsize": 7,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.6,
    "ytick.minor.size": 1.5,
    "ytick.minor.width": 0.4,
}


@contextmanager
def style(*, column: bool = False) -> Iterator[None]:
    """Applies airtcp's style to figures made inside, and restores the caller's settings.

    Args:
        column: sizes for one column of a two-column page instead of those for a screen.
    """
    with mpl.rc_context(_STYLE | _COLUMN if column else _STYLE):
        yield
