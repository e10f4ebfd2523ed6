"""The options with which a study is run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from airtcp.study.prepare import Mode
from airtcp.study.settle import Budget


@dataclass(frozen=True)
class RunOptions:
    """The options of the command line, so that the results can record the command."""

    name: str
    """The study as given on the command line: its id or its path."""
    mode: Mode
    seeds: int | None = None
    figures: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """`KEY=VALUE`, values that are not the study's own."""
    kernel: str | None = None
    """Version or file, in place of the kernels that variants name."""
    settle: Budget | None = None
    """Budget of further runs for open findings; `None`: no further runs."""

    @property
    def command(self) -> str:
        """A command that does the same."""
        parts = ["airtcp", "study", "run", self.name, f"--{self.mode}"]
        for figure in self.figures:
            parts += ["--figure", figure]
        for experiment in self.experiments:
            parts += ["--experiment", experiment]
        if self.seeds is not None:
            parts += ["--seeds", str(self.seeds)]
        for change in self.changes:
            parts += ["--set", change]
        if self.kernel is not None:
            parts += ["--kernel", self.kernel]
        if self.settle is not None:
            parts += ["--settle", "--settle-budget", self.settle.text]
        return shlex.join(parts)
