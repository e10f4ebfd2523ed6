"""A forger: copies of finished folders, changed and signed anew. He knows how airtcp signs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import airtcp
from airtcp import Sweep
from airtcp._marker import MARKER, Marker, names_in, sha256_of
from airtcp._text import to_json
from airtcp.sweeps.store import JOURNAL, _line
from airtcp.tasks.task import key_of
from conftest import ROOT
from sample_sweep import FAILS, TINY

Json = dict[str, Any]

DEFINITION = "verify/definition.json"
TASKS = "verify/tasks"


class Copy:
    """A copy of a folder."""

    def __init__(self, source: Path, target: Path) -> None:
        self.folder = target
        shutil.copytree(source, target)
        marker = Marker.read(target)
        assert marker is not None
        self.kind = marker.kind

    def json(self, name: str, change: Callable[[Json], object]) -> None:
        path = self.folder / name
        document = json.loads(path.read_text())
        change(document)
        path.write_text(to_json(document) + "\n")

    def read(self, name: str) -> Json:
        return dict(json.loads((self.folder / name).read_text()))

    def table(self, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        path = self.folder / f"{name}.parquet"
        changed = change(pl.read_parquet(path))
        changed.write_parquet(path)

    def text(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        before = path.read_text()
        assert old in before, (name, old)
        path.write_text(before.replace(old, new))

    def lines(self) -> list[Json]:
        _, *lines = (self.folder / JOURNAL).read_bytes().splitlines()
        entries = [json.loads(line) for line in lines]
        for entry in entries:
            del entry["check"]
        return entries

    def journal(self, change: Callable[[list[Json]], list[Json] | None]) -> None:
        path = self.folder / JOURNAL
        head = path.read_bytes().splitlines(keepends=True)[0]
        entries = self.lines()
        changed = change(entries)
        path.write_bytes(head + b"".join(map(_line, entries if changed is None else changed)))

    def drop(self, name: str) -> None:
        (self.folder / name).unlink()

    def everywhere(self, names: dict[str, str]) -> None:
        """Texts replaced in the journal, in all tables and in all documents."""

        def new(text: str) -> str:
            for old, other in names.items():
                text = text.replace(old, other)
            return text

        for path in sorted(self.folder.rglob("*.json")):
            if path.name != MARKER:
                path.write_text(new(path.read_text()))
        self.journal(lambda entries: [json.loads(new(json.dumps(entry))) for entry in entries])
        for path in sorted(self.folder.rglob("*.parquet")):
            frame = pl.read_parquet(path)
            columns = [
                pl.Series(s.name, [v and new(v) for v in s], dtype=s.dtype) for s in frame if s.dtype == pl.String
            ]
            frame.with_columns(columns).write_parquet(path)

    def rekey(self, engine: str) -> None:
        """All keys as another engine would have them."""
        tasks = pl.read_parquet(self.folder / f"{TASKS}.parquet")
        pairs = zip(tasks["key"], tasks["scenario"], strict=True)
        old = airtcp._airtcp.engine()
        self.everywhere({key: key_of(json.loads(text), engine) for key, text in pairs} | {old: engine})

    def sign(self, extra: dict[str, list[str]] | None = None) -> None:
        kept = {MARKER, JOURNAL, ".lock"}
        files = {
            name: [sha256_of(self.folder / name)]
            for name in names_in(self.folder)
            if name not in kept and not (self.folder / name).is_symlink() and (self.folder / name).is_file()
        }
        Marker(self.kind, files | (extra or {})).write(self.folder)


def variants(scenario: Json = TINY, **more: Any) -> Sweep:
    """Two variants, which a forger would like to exchange."""
    given = {
        "name": "variants",
        "scenario": scenario,
        "parameters": {"rate": [2, 5]},
        "set": {"links.line.rate": "{rate}Mbit/s"},
        "variants": [{"name": cc, "set": {"flows.bulk.tcp.cc": cc}} for cc in ("reno", "cubic")],
        "seeds": 2,
        "measures": {
            "utilisation": {"value": "links.line.utilisation", "label": "Utilisation", "unit": "%", "scale": 100},
            "loss": "links.line.loss_ratio",
            "dropped": {"sql": "SELECT sum(dropped_overflow) AS n FROM links"},
            "windows": {"sql": "SELECT time_s, cwnd_segments FROM flow_series WHERE flow = 0 ORDER BY time_s LIMIT 3"},
        },
    }
    return Sweep(**{**given, **more})


def make(kind: str, folder: Path) -> None:
    """One of the folders that are forged."""
    if kind == "sweep":
        airtcp.sweep(variants(), out=folder)
    elif kind == "failing":
        airtcp.sweep(variants(name="failing", variants=[], measures={"text": {"sql": FAILS}}), out=folder)
    elif kind == "study":
        from airtcp.report.page import write
        from airtcp.study.files import read
        from airtcp.study.prepare import prepare
        from airtcp.study.run import run
        from airtcp.study.run_options import RunOptions

        study = read(ROOT / "tests/data/tiny")
        run(study, prepare(study, "quick"), folder, RunOptions("tiny", "quick"))
        write(folder)
    else:
        raise AssertionError(kind)


def make_run(scenario: Path, folder: Path) -> None:
    """The folder of a run, with a capture."""
    airtcp.run(scenario, duration="700ms", out=folder)
