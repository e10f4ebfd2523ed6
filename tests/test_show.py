"""Tables of a run in a terminal of 80 columns."""

from __future__ import annotations

from pathlib import Path

from conftest import Command


def test_no_heading_is_cut_at_80_columns(airtcp: Command, tmp_path: Path) -> None:
    assert airtcp("new", tmp_path / "first.toml").returncode == 0
    done = airtcp("run", tmp_path / "first.toml", "--duration", "4s", "--no-save")
    assert done.returncode == 0
    for word in ("delivered", "segments", "timeouts"):
        assert word in done.stdout
    assert "\N{HORIZONTAL ELLIPSIS}" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
