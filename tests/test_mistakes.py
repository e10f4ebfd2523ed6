"""Mistakes at the command line: each gets exit code 2, one sentence that names it, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from airtcp import cli
from conftest import ROOT, SMALL

CAPTURE = str(ROOT / "tests/data/captures/timeout_2_duplicates-sender.pcap")

# Words as typed, and what the answer must have. `S` is a valid scenario, `C` a capture, `D` an empty folder.
MISTAKES = [
    ("--sed", "required"),
    ("rnu S", "did you mean `run`?"),
    ("run", "a scenario FILE is missing"),
    ("run none.toml", "none.toml"),
    ("run D", "D"),
    ("run C", "C"),
    ("run S --sed 3", "did you mean `--seed`?"),
    ("run S --seed x", "'x'"),
    ("run S --seed -1", "-1"),
    ("run S --seeds 0", "0"),
    ("run S --seeds 2 --out o", "--out"),
    ("run S --duration 3", "duration"),
    ("run S --duration 3parsecs", "parsecs"),
    ("run S --out o --no-save", "use either --out or --no-save"),
    ("run S --snaplen x", "x"),
    ("run S --set", "--set"),
    ("run S --set seed", "seed"),
    ("run S --set links.bottlenek.rate=1Mbit/s", "did you mean `bottleneck`?"),
    ("run S --set links.bottleneck.rat=1Mbit/s", "did you mean `rate`?"),
    ("run S --set links.bottleneck.rate=fast", "fast"),
    ("run S --set links.bottleneck.rate=10", "rate"),
    ("run S --set links.bottleneck.delay=-1ms", "delay"),
    ("run S --set links.bottleneck.loss=2", "loss"),
    ("run S --set links.bottleneck.queue=fq_codle", "did you mean `fq_codel`?"),
    ("run S --set flows.bulk.tcp.cc=cubik", "did you mean `cubic`?"),
    ("run S --set flows.bulk.from=nobody", "nobody"),
    ("run S --set nodes.server.profile=linux", "linux"),
    ("run S --set duration=0s", "duration"),
    ("run S --set warmup=1h", "warmup"),
    ("run #s=broken", "link"),
    ("run S --ap mt67", "did you mean `mt76`?"),
    ("run S --ap mt76", "has no WLAN"),
    ("run - --ap mt76", "--ap needs a file"),
    ("check none.toml", "none.toml"),
    ("schema sceanrio", "did you mean `scenario`?"),
    ("list cubic", "not a kind of name"),
    ("explain cubicc", "did you mean cubic?"),
    ("plot D", "D"),
    ("plot none", "none"),
    ("plot D --out plot.gif", ".png"),
    ("compare", "DIR"),
    ("compare D", "D"),
    ("report D", "no study.json"),
    ("report none", "no such folder"),
    ("report S", "is a file: give a folder of results"),
    ("verify D", "D"),
    ("verify S", "is a file: give a folder of results"),
    ("sweep", "FILE"),
    ("sweep none.toml", "none.toml"),
    ("sweep S --vary links.bottleneck.rate", "KEY=V1,V2"),
    ("sweep S --vary links.bottleneck.rat=1,2", "did you mean `rate`?"),
    ("sweep S --jobs 0 --vary seed=1,2", "0"),
    ("sweep S --memory-limit much --vary seed=1,2", "much"),
    ("study shwo", "did you mean `show`?"),
    ("study show none", "none"),
    ("study run efrr", "did you mean `efr`"),
    ("study check D", "D"),
    ("study run efr --seeds -2", "-2"),
    ("analyze", "FILE"),
    ("analyze none.pcap", "none.pcap"),
    ("analyze S", "S"),
    ("analyze D", "is a folder"),
    ("analyze C C", "given twice"),
    ("analyze C --host example.org", "example.org"),
    ("analyze C --port 70000", "70000"),
    ("analyze C --json --html", "--html needs a folder"),
    ("analyse C", "did you mean `analyze`?"),
    ("advise", "SCENARIO is missing"),
    ("advise kaffee", "kaffee"),
    ("advise cafee", "cafe"),
    ("advise S --with todya", "today"),
    ("advise S --seeds 0", "0"),
    ("example wifi-uplod", "did you mean `wifi-upload`?"),
    ("new S", "is there already"),
    ("new net.txt", ".toml"),
    ("new n.toml --kind mesh", "mesh"),
    ("play none.toml", "none.toml"),
    ("shell none.toml", "none.toml"),
    ("completion tcsh", "tcsh"),
    ("clean none", "none"),
    ("clean S", "is a file: give a folder that holds results"),
]


@pytest.mark.parametrize(("typed", "says"), MISTAKES, ids=[typed for typed, _ in MISTAKES])
def test_a_mistake_is_answered(
    typed: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "S.toml").write_text(SMALL)
    (tmp_path / "D").mkdir()
    before = sorted(tmp_path.rglob("*"))
    short = {"S": "S.toml", "C": CAPTURE}
    words = [short.get(word, word) for word in typed.split()]
    try:
        code = cli.main(words)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    out, err = capsys.readouterr()
    assert code == 2, err
    assert out == ""
    (told,) = [line for line in err.splitlines() if line.startswith("error: ")] or [err]
    assert short.get(says, says) in err
    assert len(told) > len("error: ") + 5
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_there_are_sixty() -> None:
    assert len({typed for typed, _ in MISTAKES}) >= 60
