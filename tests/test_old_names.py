"""Files with the names of an older release: read as today's, with a warning."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from airtcp import Sweep
from airtcp.old_names import OldNameWarning
from airtcp.study import files
from airtcp.study.prepare import prepare
from conftest import ROOT, Command

TINY = ROOT / "tests/data/tiny"
SWEEP = """
scenario = "net.toml"
[[variants]]
name = "a"
[[variants]]
name = "b"
only = { n = [2] }
[parameters]
n = [1, 2]
[set]
"links.line.loss" = "{n / 100}"
[measures]
loss = "links.line.loss_ratio"
"""


def old(text: str) -> str:
    """A file as the older release had it."""
    return re.sub(r"\bvariant(s?)\b", r"arm\1", text)


def test_a_sweep_with_arms_is_one_with_variants(tmp_path: Path) -> None:
    (tmp_path / "new.toml").write_text(SWEEP)
    (tmp_path / "old.toml").write_text(old(SWEEP))
    with pytest.warns(OldNameWarning, match=r"old.toml:\d+: arms.*`variants`"):
        found = Sweep.load(tmp_path / "old.toml")
    wanted = Sweep.load(tmp_path / "new.toml")
    assert found.variant_list == wanted.variant_list
    assert [variant.name for variant in found.variant_list] == ["a", "b"]


def test_a_shared_file_of_arms_is_read(tmp_path: Path) -> None:
    (tmp_path / "shared.toml").write_text("[[arms]]\nname = 'x'\n")
    (tmp_path / "sweep.toml").write_text(re.sub(r"(?s)\[\[v.*?\[p", "variants = 'shared.toml'\n[p", SWEEP))
    with pytest.warns(OldNameWarning, match="shared.toml"):
        assert [one.name for one in Sweep.load(tmp_path / "sweep.toml").variant_list] == ["x"]


def test_a_fault_beside_an_old_name_keeps_its_line(tmp_path: Path) -> None:
    file = tmp_path / "old.toml"
    file.write_text(old(SWEEP).replace("only = { n = [2] }", "only = { m = [2] }"))
    with pytest.warns(OldNameWarning), pytest.raises(ValueError, match=r"old.toml:7: .*no such parameter"):
        Sweep.load(file)


def test_a_study_with_arms_has_the_same_plots_and_findings(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TINY, tmp_path / "tiny"))
    for file in folder.rglob("*.toml"):
        file.write_text(old(file.read_text()))
    with pytest.warns(OldNameWarning):
        found = files.read(folder)
    wanted = files.read(TINY)
    for one, other in zip(found.experiments, wanted.experiments, strict=True):
        assert [plot.series for plot in one.plots] == [plot.series for plot in other.plots]
        assert [plot.where for plot in one.plots] == [plot.where for plot in other.plots]
        assert [v.name for v in one.sweep.variant_list] == [v.name for v in other.sweep.variant_list]
    assert len(prepare(found, "quick")) == len(prepare(wanted, "quick"))


def test_the_command_tells_of_an_old_name_in_one_line(airtcp: Command, tmp_path: Path, scenario: Path) -> None:
    text = old(SWEEP).replace("net.toml", scenario.name).replace("links.line", "links.bottleneck")
    file = scenario.parent / "old.toml"
    file.write_text(text)
    done = airtcp("sweep", file, "--quick", "--out", tmp_path / "out")
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert "old.toml" in warnings[0]
    assert "OldNameWarning" not in done.stderr
