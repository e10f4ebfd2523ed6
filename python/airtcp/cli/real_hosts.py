"""Networks whose hosts are real, from a command's plan to its exit code."""

from __future__ import annotations

from airtcp._terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from airtcp.realtime import SessionPlan


def carry_out(plan: SessionPlan, out: str | None) -> int:
    """Runs a network of real hosts to its end, keeps its results in a folder if asked to, and returns the exit code."""
    from airtcp import realtime

    if out is None:
        return realtime.Session(plan).wait()
    from pathlib import Path

    from airtcp.results import Folder

    with realtime.past_hangup(), Folder(Path(out), tell=say) as folder:
        session = realtime.Session(plan, folder)
        code = session.wait()
        kept = session.commit()
    if not plan.quiet:
        say(f"results in {out}" if kept is not None else "no results were kept")
    return code
