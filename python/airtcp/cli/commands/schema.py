"""`airtcp schema`: JSON Schemas of the files that people write."""

from __future__ import annotations

from airtcp._terminal import FAILURE, OK, StopError, write_out
from airtcp.schemas import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any


def schema(args: argparse.Namespace) -> int:
    """Print the JSON Schema of scenario, sweep or study files, for editors and validators."""
    from pathlib import Path

    from airtcp.schemas import schema as schema_of

    text = schema_of(args.what).rstrip("\n") + "\n"
    if args.out is None:
        write_out(text)
        return OK
    try:
        Path(args.out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StopError(f"cannot write {args.out}: {error.strerror}", FAILURE) from error
    return OK


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command("schema", schema, "airtcp schema --out scenario.schema.json", "airtcp schema sweep")
    sub.add_argument(
        "what", nargs="?", choices=KINDS, default="scenario", help="kind of file (default: %(default)s)", metavar="KIND"
    )
    sub.add_argument("--out", metavar="FILE", help="file to write; default: standard output")
