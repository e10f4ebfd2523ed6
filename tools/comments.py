"""Checks comments of Rust and C sources: lines of 100 columns, and openings that name their subject.

Usage: comments.py    prints each line that is wrong; the exit code is 1 if there is one

A line without a space to break at, such as a long address or a row of a table, may be longer.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
MOST_COLUMNS: Final = 100
COMMENT: Final = re.compile(r"^\s*//[/!]?(?: |$)")
ODD_OPENING: Final = re.compile(r"^(?:What|Of|Whose|Whether)\b")


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Line and fault of each comment that is wrong."""
    inside, in_code = False, False
    for number, line in enumerate(text.splitlines(), 1):
        found = COMMENT.match(line)
        if found is None:
            inside, in_code = False, False
            continue
        words = line[found.end() :]
        in_code ^= words.lstrip().startswith("```")
        breakable = " " in words.strip() and not words.lstrip().startswith(("|", "[")) and not in_code
        if len(line) > MOST_COLUMNS and breakable and "http" not in words:
            yield number, f"{len(line)} columns: at most {MOST_COLUMNS}"
        if not inside and ODD_OPENING.match(words):
            yield number, f"opens with {words.split()[0]!r}: begin with a noun or a verb"
        inside = bool(words.strip())


def main() -> int:
    """Reads all sources that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    wrong = 0
    for name in filter(None, listed.stdout.split("\0")):
        for number, fault in faults((ROOT / name).read_text(encoding="utf-8")):
            print(f"{name}:{number}: {fault}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
