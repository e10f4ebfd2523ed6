"""evidence/lockstep: its page follows from what was recorded, and the crate that drives the kernel passes its tests."""

import gzip
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def lockstep() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lockstep", ROOT / "evidence/lockstep/run.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_follows_from_the_recorded_paths_and_the_list_of_what_differs(lockstep: ModuleType) -> None:
    text = lockstep.PAGE.read_text()
    for name, body in lockstep.tables().items():
        assert lockstep.page.part(text, name) == body, "run `evidence/lockstep/run.py --page`"


def test_every_seed_of_every_topic_is_recorded_once_and_compactly(lockstep: ModuleType) -> None:
    for topic, text in json.loads(gzip.decompress(lockstep.FIGURES.read_bytes()))["paths"].items():
        seeds = [int(seed) for seed in re.findall(rf"^path {topic} (\d+) ", text, re.MULTILINE)]
        assert seeds == list(range(1, lockstep.KEPT[topic] + 1))
        assert lockstep.compact(text) == text
    assert lockstep.FIGURES.stat().st_size < 1_000_000


def test_a_record_keeps_what_is_compared(lockstep: ModuleType) -> None:
    record = "path sack 2 cc=reno\nA 5 1 k0 t3 >2 |c11i300p123456x9\nS 7 |x3\npath sack 1 cc=bbr\nO 9 >syn\n"
    assert lockstep.compact(record) == (
        "path sack 1 cc=bbr\nO 9 >syn\npath sack 2 cc=reno\nA 5 1 k0 t3 >2 |c11p123000\nS 7\n"
    )


def test_the_crate_that_drives_the_kernel(tmp_path: Path) -> None:
    if not shutil.which("cargo"):
        pytest.skip("needs cargo, to build evidence/lockstep/linux")
    manifest = ROOT / "evidence/lockstep/linux/Cargo.toml"
    command = ["cargo", "test", "--quiet", "--manifest-path", str(manifest), "--target-dir", str(tmp_path)]
    subprocess.run(command, check=True)
