"""`airtcp play`: the simulator in a web page."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from airtcp import share_url
from airtcp._files import fault_of_input, read_bytes, write_bytes
from airtcp._terminal import BAD_INPUT, FAILURE, OK, StopError, say, write_out
from airtcp._text import is_link
from airtcp.cli.options import port, single_set_option

if TYPE_CHECKING:
    from pathlib import Path

GIVEN: Final = b'<script type="application/json" id="given"></script>'
"""Where the page takes its scenario from if its address has none."""


def built() -> Path:
    """The page, as `make playground` leaves it.

    Raises:
        StopError: it was not built.
    """
    from pathlib import Path

    page = Path(__file__).parents[2] / "page" / "playground.html"
    if not page.exists():
        raise StopError(
            "this airtcp was built without the page: `make playground` builds it. That needs Node 20 with npm, "
            "and Rust's target wasm32-unknown-unknown",
            FAILURE,
        )
    return page


def _fragment(scenario: str | None, changes: list[str]) -> str:
    """The scenario as a fragment; empty: the page's own first story."""
    if scenario is None:
        if changes:
            raise StopError("--set changes a SCENARIO: name one", BAD_INPUT)
        return ""
    if is_link(scenario):
        try:
            link = share_url.read(scenario)
        except share_url.ShareUrlError as error:
            raise StopError(str(error), BAD_INPUT) from None
        return share_url.SharedScenario(link.toml, tuple(changes) or link.changes).fragment()
    if (fault := fault_of_input(scenario)) is not None:
        raise StopError(fault, BAD_INPUT)
    from airtcp import _airtcp

    # The page takes what the command line takes: a fault is told here, before a browser opens.
    _airtcp.Checked.load(scenario, [_airtcp.parse_set(change) for change in changes])
    fragment = share_url.SharedScenario(read_bytes(scenario).decode(), tuple(changes)).fragment()
    if len(fragment) > share_url.MOST_LINK:
        raise StopError(
            f"{scenario}: too large for the page: must fit a link of {share_url.MOST_LINK} characters", BAD_INPUT
        )
    return fragment


def play(args: argparse.Namespace) -> int:
    """Open the simulator as a web page: every packet and radio frame of a scenario, beside a second run."""
    from pathlib import Path

    fragment = _fragment(args.scenario, args.changes)
    page = built().read_bytes()
    if page.count(GIVEN) != 1:
        raise StopError("the page is damaged: `make playground` builds it anew", FAILURE)
    page = page.replace(GIVEN, GIVEN.replace(b"></", b">" + fragment.encode() + b"</"))
    if args.export is None:
        return _serve(page, args.port, browse=not args.no_browser)
    try:
        write_bytes(Path(args.export), page)
    except OSError as error:
        raise StopError(f"cannot write {args.export}: {error.strerror}", FAILURE) from error
    write_out(f"{args.export}: {len(page) / 1e6:.1f} MB, needs no network\n")
    return OK


def _serve(page: bytes, number: int, *, browse: bool) -> int:
    from airtcp.serving import PageServer

    try:
        server = PageServer(page, number)
    except OSError as error:
        raise StopError(f"cannot open port {number} on 127.0.0.1: {error.strerror}", FAILURE) from error
    with server:
        write_out(server.url + "\n")
        say("Only this machine can open it, and only at this address. Ctrl-C ends it.")
        if browse:
            import webbrowser

            # The page has its scenario: in the address, other users would see it among the browser's arguments.
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return OK
    return OK


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "play",
        play,
        "airtcp play",
        "airtcp play examples/wifi-upload.toml --set nodes.sta.profile=linux-3.13",
        "airtcp play examples/walk.toml --export page.html",
        more="\nexit codes:\n  0 done; 2 bad input; 1 any other failure, such as a page that was not built\n",
    )
    sub.add_argument("scenario", nargs="?", metavar="SCENARIO", help="file (TOML) or link; default: the first story")
    single_set_option(sub, "what the second run changes; can be repeated")
    sub.add_argument("--export", metavar="FILE", help="write the page as one file that needs no network, and end")
    sub.add_argument("--port", type=port, default=0, metavar="N", help="port on 127.0.0.1; default: a free one")
    sub.add_argument("--no-browser", action="store_true", help="print the address only")
