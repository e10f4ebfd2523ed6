"""Names from strangers' files reach the terminal as text, commands that messages name can be copied, and standard
output that is full, closed or not read is an error of one line: for every command that prints.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from airtcp import _airtcp
from airtcp._terminal import progress, render
from airtcp._text import visible
from airtcp.cli.commands.start import KINDS
from conftest import AIRTCP, ROOT

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
EVIL = (
    "\x1b]0;owned\x07\x1b[8m\x9b2J\u202egpj\u2066\x7f\u200f\u2028\nerror: made up\r"
    "[red][link=http://127.0.0.1/]x[/red]$(touch pwned)`touch pwned`'\"\\;&"
)
COMMANDS = [
    "run tiny.toml --no-save",
    "run tiny.toml --json",
    "run tiny.toml --seeds 2",
    "run tiny.toml --out again",
    "check tiny.toml",
    "check tiny.toml --json",
    "compare run run",
    "compare run run --json",
    "sweep tiny.toml --vary links.line.loss=0,0.01 --seeds 1 --out sweep",
    "sweep tiny.toml --vary links.line.loss=0,0.01 --seeds 1 --out sweep --json",
    "sweep sweep.toml --out named",
    "study check study",
    "study show study",
    "study run study --out results",
    "study run study --out results --json",
    "study list",
    "advise tiny.toml --seeds 1 --duration 3s --no-save",
    "advise tiny.toml --seeds 1 --duration 3s --json",
    "advise --scenes",
    "verify run",
    "verify run --json",
    "report run --json",
    "analyze {capture} --no-save",
    "analyze {capture} --json",
    "analyze {capture} --json-lines",
    "list",
    "explain",
    "explain cubic",
    "schema",
    "example",
    "example walk --print",
    "completion bash",
    "--help",
    "--version",
    "run --help",
]
"""Every command that prints and needs no root, no kernel and no browser."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with names that act, in a folder with such a name."""
    place = tmp_path_factory.mktemp("evil")
    escaped = json.dumps(EVIL).replace("\x7f", "\\u007f")
    (place / "tiny.toml").write_text(
        f"""name = {escaped}
duration = "300ms"
nodes = [{{ name = "a", kind = "host" }}, {{ name = "b", kind = "host" }}]
links = [{{ name = "line", from = "a", to = "b", rate = "5Mbit/s", delay = "5ms", queue = "fifo" }}]
flows = [{{ name = "bulk", from = "a", to = "b" }}]
"""
    )
    (place / "sweep.toml").write_text(
        f"""name = {escaped}
scenario = "tiny.toml"
seeds = 1
variants = [{{ name = {escaped} }}, {{ name = "other" }}]
[measures]
use = {{ value = "links.line.utilisation", label = {escaped}, unit = {escaped} }}
"""
    )
    shutil.copytree(ROOT / "tests/data/tiny", place / "study")
    for path in place.glob("study/**/*.toml"):
        text = re.sub(r'^(title|question|summary|claim|published|text) = ".*"', r"\1 = E", path.read_text(), flags=re.M)
        path.write_text(text.replace("= E\n", f"= {escaped}\n"))
    shutil.copy(ROOT / "tests/data/captures/timeout_2_duplicates-sender.pcap", place / f"{EVIL.replace('/', '')}.pcap")
    subprocess.run([AIRTCP, "run", "tiny.toml", "--out", "run", "-q"], cwd=place, check=True, timeout=60)
    return place


def words(command: str, place: Path) -> list[str]:
    (capture,) = place.glob("*.pcap")
    return [word.format(capture=capture.name) if word == "{capture}" else word for word in command.split()]


@pytest.mark.parametrize("command", COMMANDS)
def test_names_are_text(place: Path, command: str) -> None:
    done = subprocess.run([AIRTCP, *words(command, place)], cwd=place, capture_output=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr.decode()
    for stream in (done.stdout, done.stderr):
        text = stream.decode()
        assert ACTING.search(text) is None, repr(text)
    assert b"\nerror: made up" not in done.stderr
    assert b"Traceback" not in done.stderr
    assert not (place / "pwned").exists()
    if command.endswith("--json"):
        # Nothing is lost: JSON has its own spelling for it.
        json.loads(done.stdout)
    if command in ("run tiny.toml --json", "check tiny.toml --json"):
        assert json.loads(done.stdout)["name"] == EVIL


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_standard_output_is_1(place: Path, command: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [AIRTCP, *words(command, place)],
            cwd=place,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert "error: cannot write to standard output: No space left on device" in done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("closed", ["reader", "stdout", "stderr"])
def test_closed_streams(place: Path, command: str, closed: str) -> None:
    # `head -c 0` has ended before anything is written.
    ends = {"reader": "| (exec <&-; sleep 0.1)", "stdout": ">&-", "stderr": "2>&-"}
    read, write = os.pipe()
    script = f"{shlex.join([str(AIRTCP), *words(command, place)])} {ends[closed]}; echo ${{PIPESTATUS[0]}} >&{write}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=place,
        capture_output=True,
        pass_fds=[write],
        timeout=120,
        check=False,
    )
    os.close(write)
    code = int(os.read(read, 100))
    os.close(read)
    assert code == (0 if closed == "stderr" else 1), done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_markup_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table("[bold]head[/]", title="[red]title[/red]")
    table.add_row("[link=http://127.0.0.1/]name[/link] :smile:")
    render(table, "[blink]text[/blink]")
    shown = " ".join(capsys.readouterr().out.split())
    for one in ("[bold]head[/]", "[red]title[/red]", "[link=http://127.0.0.1/]name[/link] :smile:", "[blink]text"):
        assert one in shown


def test_a_bar_shows_text(capsys: pytest.CaptureFixture[str]) -> None:
    bar = progress("{task.fields[line]}")
    bar.console.file = shown = StringIO()
    bar.console._force_terminal = True
    bar.live.transient = False
    bar.add_task("[red]name[/red]", total=1, line="[link=x]line[/link]")
    with bar:
        pass
    assert "[red]name[/red]" in shown.getvalue()
    assert "[link=x]line[/link]" in shown.getvalue()


def test_what_is_visible_stays_the_same_json() -> None:
    everything = "".join(map(chr, range(0x2100))) + "\udcff \U0001f600"
    text = json.dumps({"a": everything}, ensure_ascii=False)
    assert ACTING.search(visible(text)) is None
    assert json.loads(visible(text)) == json.loads(text)
    plain = "Zürich, 東京, עברית\n\tline\N{NARROW NO-BREAK SPACE}1"
    assert visible(plain) == plain


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "names"
    folder.mkdir()
    names = [
        "$(touch pwned)",
        "`touch pwned`",
        "a'b\"c",
        "x;touch pwned;",
        "y&touch pwned",
        "z|touch pwned",
        "~{a,b}*?[c]",
    ]
    names += ["e\x1b]0;x\x07", "n\nl", "b\u202etxt"]
    for name in names:
        (folder / f"{name}.toml").write_text("x")
    yield folder
    assert not (folder / "pwned").exists()


COMPLETE = """
eval "$(airtcp completion bash)"
complete -p airtcp > complete
read -r function <<< "$(sed 's/.*-F \\([^ ]*\\).*/\\1/' complete)"
rm complete
COMP_LINE="airtcp run $1"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
COMP_WORDS=(airtcp run "$1"); COMP_CWORD=2; COMPREPLY=()
$function airtcp
for candidate in "${COMPREPLY[@]}"; do
    # As readline does: the word with its opening quote, and the closing one.
    eval "printf '%s\\\\0' $1$candidate$1"
done
"""


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_completions_run_nothing(folder: Path, quote: str) -> None:
    """Names of files, as bash's own parser reads the line that a completion has made."""
    found = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", quote],
        cwd=folder,
        env={**os.environ, "PATH": f"{AIRTCP.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split("\0")
    names = {path.name for path in folder.iterdir()}
    offered = {name for name in names if visible(name) == name and "\n" not in name}
    assert len(offered) == len(names) - 3
    assert {name for name in found if name.endswith(".toml")} == offered


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_new_quotes_its_name(tmp_path: Path, kind: str) -> None:
    name = "a \"b\" $(touch pwned) 'c'\\n.toml"
    done = subprocess.run(
        [AIRTCP, "new", name, "--kind", kind], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert _airtcp.Checked.load(str(tmp_path / name), []).counts()
    command = done.stderr.rpartition("run it with: ")[2]
    assert shlex.split(command) == ["airtcp", "run", name]
    done = subprocess.run([AIRTCP, "new", "a\nb.toml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "printable" in done.stderr) == (2, True)


def test_a_command_of_a_message_can_be_copied(tmp_path: Path) -> None:
    folder = tmp_path / "it's $(touch pwned)"
    shutil.copytree(ROOT / "tests/data/tiny", folder)
    done = subprocess.run([AIRTCP, "run", folder / "study.toml"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    command = re.search(r"`(airtcp .*)` runs it", done.stderr)
    assert command is not None
    assert shlex.split(command[1]) == ["airtcp", "study", "run", str(folder)]
