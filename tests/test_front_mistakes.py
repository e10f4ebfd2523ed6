"""Mistakes with captures, advice, new files, examples and `--vary`: each gets exit code 2 and a sentence that names it.

Nothing is left behind. `test_mistakes` has those of the other commands, and the rules.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from airtcp import cli
from conftest import ROOT, SMALL

CAPTURE = ROOT / "tests/data/captures/timeout_2_duplicates-sender.pcap"

# Words as typed, and what the answer must have. `S` is a valid scenario, `C` a capture, `D` an empty folder.
MISTAKES = [
    ("analyze", "FILE"),
    ("analyze none.pcap", "none.pcap: No such file"),
    ("analyze S", "begins with the bytes"),
    ("analyze D", "is a folder"),
    ("analyze empty.pcap", "it is empty"),
    ("analyze short.pcap", "the file header has 20 bytes; expected are 24"),
    ("analyze text.pcap", "expected is pcap"),
    ("analyze cut.gz", "gzip that cannot be unpacked"),
    ("analyze other.gz", "begins with the bytes 6e 6f 74 68"),
    ("analyze C none.pcap", "none.pcap"),
    ("analyze --rotated C C", "given twice"),
    ("analyze C --host 300.1.1.1", "300.1.1.1"),
    ("analyze C --host", "--host"),
    ("analyze C --port https", "'https'"),
    ("analyze C --port -1", "'-1'"),
    ("analyze C --flow x", "'x' is not a whole number from 0"),
    ("analyze C --no-save --out o", "use either --out or --no-save"),
    ("analyze C --no-save --html", "--html needs a folder"),
    ("analyze C --points 0", "'0' is not a whole number from 2"),
    ("analyze C --idle-timeout soon", "'soon' is not a number of seconds"),
    ("analyze C --max-connections 0", "'0' is not a whole number from 1"),
    ("analyze C --details -1", "'-1' is not a whole number from 0"),
    ("analyze C --out S", "S.toml is a file"),
    ("analyze C --rotatd", "did you mean `--rotated`?"),
    ("advise none.toml", "no such file, and no built-in scene"),
    ("advise D", "D"),
    ("advise text.pcap", "no capture"),
    ("advise empty.pcap", "no capture"),
    ("advise short.pcap", "the file header has 20 bytes"),
    ("advise broken.toml", "not TOML"),
    ("advise S --with", "--with"),
    ("advise S --seeds x", "'x'"),
    ("advise S --duration 0s", 'duration = "0s"'),
    ("advise S --duration 3parsecs", "3parsecs"),
    ("advise S --set seed", "not an override"),
    ("advise S --set links.bottlenek.rate=1Mbit/s", "did you mean `bottleneck`?"),
    ("advise S --ap mt67", "did you mean `mt76`?"),
    ("advise S --ap mt76", "has no WLAN"),
    ("advise S --flow 1", "--flow is for captures"),
    ("advise home --set nodes.x.count=3", "error: --set nodes.x.count=3: nodes: `x`"),
    ("advise damaged.pcap", "capture a longer upload or download; packet 66, byte"),
    ("exec nobody true", "airtcp exec nobody -- true"),
    ("study run efr --set nokey=3", "; and 12 more experiments"),
    ("advise C --flow 99", "no flow has the number 99"),
    ("advise C --flow x", "'x' is not a whole number from 0"),
    ("advise C --set seed=2", "--set is for scenarios"),
    ("advise C --ap mt76", "--ap is for scenarios"),
    ("advise C", "no flow with 100 kB of data"),
    ("advise S --out o --no-save", "use either --out or --no-save"),
    ("advise S --out S", "S.toml is a file"),
    ("advise S --resaerch", "did you mean `--research`?"),
    ("advise S S", "unrecognized arguments"),
    ("new D", "must end in .toml"),
    ("new .toml", "must end in .toml"),
    ("new a.toml b.toml", "b.toml"),
    ("new n.toml --kidn wifi", "did you mean `--kind`?"),
    ("new --kind", "--kind"),
    ("example none", "no example is called 'none'"),
    ("example walk --out S", "is there already"),
    ("example walk --out D", "is there already"),
    ("example walk --out w.txt", "must end in .toml"),
    ("example walk --prnt", "did you mean `--print`?"),
    ("example walk walk", "unrecognized arguments"),
    ("example --out w.toml", "NAME of an example is missing"),
    ("example --print", "NAME of an example is missing"),
    ("example walk --print --out w.toml", "use either --out or --print"),
    ("sweep S", "is a scenario"),
    ("sweep S --vary", "--vary"),
    ("sweep S --vary =1,2", "--vary =1,2: must be KEY=V1,V2"),
    ("sweep S --vary links.bottleneck.rate=", "give different values"),
    ("sweep S --vary links.bottleneck.rate=1,2", "not a data rate"),
    ("sweep S --vary links.bottleneck.rate=1Mbit/s,1Mbit/s", "give different values"),
    ("sweep S --vary links.bottlenek.rate=1Mbit/s,2Mbit/s", "did you mean `bottleneck`?"),
    ("sweep S --vary flows.bulk.tcp.cc=cubic,cubik", "did you mean `cubic`?"),
    ("sweep S --vary links.bottleneck.loss=0.1,2", "must be a number from 0 to 1"),
    ("sweep S --vary seed=1,2", "--seeds N says how many"),
    ("sweep S --vary links.bottleneck.loss=0,0.1 --seeds 0", "'0'"),
    ("sweep S --vary links.bottleneck.loss=0,0.1 --jobs x", "'x'"),
    ("sweep S --vary links.bottleneck.loss=0,0.1 --set links.bottleneck.loss=0", "use either, not both"),
    ("sweep S --vary links.bottleneck.loss=0,0.1 --ap mt76", "has no WLAN"),
    ("sweep C --vary links.bottleneck.loss=0,0.1", "is a binary file"),
    ("sweep D --vary links.bottleneck.loss=0,0.1", "is a directory"),
    ("sweep none.toml --vary links.bottleneck.loss=0,0.1", "none.toml: cannot be read"),
]


@pytest.mark.parametrize(("typed", "says"), MISTAKES, ids=[typed for typed, _ in MISTAKES])
def test_a_mistake_is_answered(
    typed: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.toml").write_text(SMALL)
    Path("D").mkdir()
    Path("empty.pcap").touch()
    Path("text.pcap").write_text("this is no capture\n")
    Path("short.pcap").write_bytes(CAPTURE.read_bytes()[:20])
    Path("damaged.pcap").write_bytes(CAPTURE.read_bytes()[:-37])
    Path("cut.gz").write_bytes(gzip.compress(CAPTURE.read_bytes())[:40])
    Path("other.gz").write_bytes(gzip.compress(b"nothing that is a capture"))
    Path("broken.toml").write_text("name = [\n")
    before = sorted(tmp_path.rglob("*"))
    short = {"S": "S.toml", "C": str(CAPTURE)}
    try:
        code = cli.main([short.get(word, word) for word in typed.split()])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    out, err = capsys.readouterr()
    assert code == 2, err
    assert out == ""
    assert says in err
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_there_are_sixty() -> None:
    assert len({typed for typed, _ in MISTAKES}) >= 60
