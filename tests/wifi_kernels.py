"""Whether kernels with simulated radios can run here."""

from __future__ import annotations

import shutil

from airtcp import realtime
from airtcp.errors import RunError


def missing(*programs: str) -> str | None:
    """What of the kernel and these programs is not here; None: all is."""
    try:
        realtime.program()
        realtime.kernel(realtime.WIFI)
    except RunError as error:
        return str(error)
    absent = [name for name in programs if shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin") is None]
    return f"no {', '.join(absent)}" if absent else None
