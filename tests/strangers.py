"""Keys of files that a stranger may send, with values that name programs, devices, pipes, paths and addresses.

`python tests/strangers.py WORK PORT` does in one process what the commands do. `test_strangers.py` watches its system
calls. Keys come from the schemas, and from folders of results as they are written: a new key is covered without a word
here. `AIRTCP_STRANGER_KINDS="sweep study"` keeps to these kinds. JSON at the end says how many keys of each there are.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import shutil
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

import airtcp
from airtcp import _airtcp, _marker, cli, documents, share_url
from airtcp._scenario_table import to_toml_value
from airtcp.analysis.results import Analysis
from airtcp.catalogue import CatalogueFile
from airtcp.errors import ResultsError, RunError, ScenarioError, StudyError, SweepError
from airtcp.realtime import program
from airtcp.report import page
from airtcp.results import Results
from airtcp.study import saved_definition as saved_study
from airtcp.study.files import ExperimentFile, StudyFile, read
from airtcp.study.prepare import prepare
from airtcp.sweeps import saved_definition
from airtcp.sweeps.file import SweepFile, VariantsFile
from airtcp.sweeps.planning import plan
from airtcp.sweeps.store import JOURNAL, _line
from conftest import WIRELESS

Json = dict[str, Any]
Place = tuple[str | int, ...]

HERE = Path(__file__).parent
PHASE = "/phase"
"""A look at a file below it, which is not there, tells the reader of the system calls what comes next."""
LONGEST_S = 20
"""Longer than that waits for a pipe, or reads a device without an end."""

FILES: dict[str, type[documents.Table]] = {
    "sweep": SweepFile,
    "variants": VariantsFile,
    "catalogue": CatalogueFile,
    "study": StudyFile,
    "experiment": ExperimentFile,
}
"""Kinds of files with a schema, beside scenarios."""


def values(work: Path, port: int) -> dict[str, str]:
    """What a stranger may write in place of any value."""
    return {
        "program beside": "./evil",
        "program": str(work / "outside/evil"),
        "endless": "/dev/zero",
        "terminal": "/dev/tty",
        "pipe beside": "pipe",
        "outside": "../outside/secret.toml",
        "link": "link",
        "link to a device": "device",
        "url": f"http://127.0.0.1:{port}/x.toml",
        "address": f"tcp://127.0.0.1:{port}",
        "share": "\\\\127.0.0.1\\share\\x.toml",
        "query": f"SELECT * FROM read_csv('{work}/outside/secret.toml')",
        "table": f"SELECT * FROM '{work}/outside/secret.toml'",
        "expression": "{__import__('os').system('" + f"{work}/outside/evil" + "')}",
    }


FEW = ("program", "outside", "link")
"""Values for keys of results, which nobody writes by hand."""


def tell(text: str) -> None:
    sys.stderr.write(text + "\n")


def phase(*words: str) -> None:
    with contextlib.suppress(OSError):
        os.close(os.open("/".join([PHASE, *(word.replace("/", "|") for word in words)]), os.O_RDONLY))


# --- places of a schema -----------------------------------------------------------------------------------------------


Step = tuple[str | int, Json]
"""A key or an index, and the schema of the table or list that has it."""


def places(
    part: Json, whole: Json, once: set[tuple[str, str]] | None, above: tuple[str, ...] = ()
) -> Iterator[list[Step]]:
    """Every place of a kind of file, each with the schemas on the way.

    Args:
        part: schema of what is here.
        whole: the kind's.
        once: if given, each definition is entered from one place only.
        above: definitions on the way here, because they may have themselves as a part.
    """
    if "$ref" in part:
        name = part["$ref"].rsplit("/", 1)[1]
        if name in above or (once is not None and (name, "") in once):
            return
        if once is not None:
            once.add((name, ""))
        yield from places(whole["$defs"][name], whole, once, (*above, name))
        return
    for key in ("oneOf", "anyOf"):
        for form in part.get(key, ()):
            yield from places(form, whole, once, above)
    for name, inner in part.get("properties", {}).items():
        yield [(name, part)]
        yield from ([(name, part), *rest] for rest in places(inner, whole, once, above))
    if isinstance(inner := part.get("additionalProperties"), dict):
        yield [("any", part)]
        yield from ([("any", part), *rest] for rest in places(inner, whole, once, above))
    lists = [part["items"]] if isinstance(part.get("items"), dict) else part.get("prefixItems", [])
    for inner in lists:
        yield [(0, part)]
        yield from ([(0, part), *rest] for rest in places(inner, whole, once, above))


def least(part: Json, whole: Json, name: str = "") -> Any:
    """The smallest value that a schema accepts."""
    if "$ref" in part:
        name = part["$ref"].rsplit("/", 1)[1]
        return least(whole["$defs"][name], whole, name)
    for key in ("oneOf", "anyOf"):
        if key in part:
            return least(part[key][0], whole, name)
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return part["enum"][0]
    known = {"Span": "10ms", "DataRate": "1Mbit/s", "Bytes": "1kB"}
    match part.get("type"):
        case "object":
            return {key: least(part["properties"][key], whole) for key in part.get("required", ())}
        case "array":
            inner = part.get("items", {})
            return [least(inner, whole)] * part.get("minItems", 0) if inner else []
        case "integer" | "number":
            return max(part.get("minimum", 1), part.get("exclusiveMinimum", 0) + 1)
        case "boolean":
            return True
    return known.get(name, "1")


def fits(value: object, part: Json) -> bool:
    """Whether a table or list is already of this form."""
    if part.get("type") == "array" or "items" in part or "prefixItems" in part:
        return isinstance(value, list) and len(value) > 0
    if not isinstance(value, dict):
        return False
    known = part.get("properties", {})
    consts = all(value.get(key) == inner["const"] for key, inner in known.items() if "const" in inner)
    return consts and (isinstance(part.get("additionalProperties"), dict) or value.keys() <= known.keys())


def changed(base: Any, steps: list[Step], whole: Json, value: object) -> Any:
    """A document with another value at a place. What leads there is made if need be."""
    (key, part), *rest = steps
    if not fits(base, part):
        base = (
            [least(part.get("items") or part["prefixItems"][0], whole)] if isinstance(key, int) else least(part, whole)
        )
    out = copy.copy(base)
    if key == "any" and out and isinstance(out, dict):
        key = next((name for name in out if name not in part.get("properties", {})), key)
    inner = out[key] if isinstance(key, int) or key in out else None
    out[key] = changed(inner, rest, whole, value) if rest else value
    return out


def word(steps: list[Step]) -> str:
    return ".".join(str(key) for key, _ in steps)


# --- doing it ---------------------------------------------------------------------------------------------------------


REFUSED = (ScenarioError, SweepError, StudyError, ResultsError, RunError, share_url.ShareUrlError)


class TooLongError(BaseException):
    """It waits or reads for ever."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """At most `LONGEST_S`."""

    def ring(*_: object) -> None:
        raise TooLongError

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)


said: list[str] = []
"""The last words of the last attempt."""


crashes: Counter[str] = Counter()
"""Errors that are no message for users."""


def attempt(do: Callable[[], object]) -> bool:
    """Whether it is taken. Only errors that users are told may come."""
    words = io.StringIO()
    with bounded(), contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
        try:
            return do() in (None, True, 0)
        except REFUSED as error:
            words.write(str(error))
            return False
        except Exception as error:  # a fault of airtcp, which is counted
            words.write(repr(error))
            crashes[f"{type(error).__name__} in {traceback.extract_tb(error.__traceback__)[-1].filename}"] += 1
            return False
        finally:
            said[:] = words.getvalue().splitlines()[-10:]


def command(*words: object) -> Callable[[], int]:
    return lambda: cli.main([str(word) for word in words])


def toml(document: Json) -> str:
    return "".join(f"{json.dumps(key)} = {to_toml_value(value)}\n" for key, value in document.items())


class Kind:
    """A kind of file: an innocent one, what a look at it does, and what the command does."""

    def __init__(
        self, name: str, schema: Json, file: Path, look: Callable[[], object], act: Callable[[], object]
    ) -> None:
        self.name, self.schema, self.file, self.look, self.act = name, schema, file, look, act
        self.base: Json = documents.load(file, name, StudyError).value()
        once: set[tuple[str, str]] | None = set() if name == "scenario" else None
        seen = {word(steps): steps for steps in places(schema, schema, once)}
        self.places = list(seen.values())

    def put(self, document: Json) -> None:
        self.file.write_text(toml(document))

    def innocent(self) -> None:
        phase("innocent", self.name)
        assert attempt(self.look), f"{self.name}: the innocent file is refused: {said}"
        assert attempt(self.act), f"{self.name}: the innocent file does not run: {said}"

    def attack(self, about: str, value: str) -> None:
        """Each key alone; then those that were taken, together, as the command does it."""
        taken = []
        for steps in self.places:
            phase("attack", self.name, word(steps), about)
            self.put(changed(self.base, steps, self.schema, value))
            if attempt(self.look):
                taken.append(steps)
        self.together(about, value, taken)
        self.put(self.base)

    def together(self, about: str, value: str, taken: list[list[Step]]) -> None:
        if not taken:
            return
        document: Json = self.base
        for steps in taken:
            document = changed(document, steps, self.schema, value)
        self.put(document)
        names = " ".join(map(word, taken))[:150]
        phase("attack", self.name, names, about)
        if attempt(self.look) or len(taken) == 1:
            phase("act", self.name, names, about)
            attempt(self.act)
            return
        half = len(taken) // 2
        self.together(about, value, taken[:half])
        self.together(about, value, taken[half:])


def kinds(box: Path, out: Path) -> list[Kind]:
    scenario = json.loads(airtcp.schema())
    text = WIRELESS
    for long, short in (('"4s"', '"50ms"'), ('"2s"', '"20ms"'), ('"500ms"', '"5ms"')):
        text = text.replace(long, short)
    (box / "scenario.toml").write_text(text)
    line = (
        'duration = "50ms"\nnodes = [{ name = "a", kind = "host" }, { name = "b", kind = "host" }]\n'
        'links = [{ name = "line", from = "a", to = "b", rate = "5Mbit/s", delay = "1ms" }]\n'
        'flows = [{ name = "bulk", from = "a", to = "b" }]\n'
    )
    (box / "line.toml").write_text(line)
    variant = 'name = "kernel", engine = "kernel", kernel = "6.12"'
    measures = (
        '[measures]\nused = "links.line.utilisation"\n'
        'rows = { sql = "SELECT time_s, cwnd_segments FROM flow_series ORDER BY time_s LIMIT 2" }\n'
    )
    rate = '[parameters]\nrate = 5\n[set]\n"links.line.rate" = "{rate}Mbit/s"\n'
    (box / "sweep.toml").write_text(
        f'scenario = "line.toml"\nvariants = [{{ {variant} }}, {{ name = "plain" }}]\n{rate}{measures}'
    )
    (box / "shared.toml").write_text(
        f'scenario = "line.toml"\nvariants = {{ file = "variants.toml" }}\n{rate}{measures}'
    )
    (box / "variants.toml").write_text(
        f'catalogue = "catalogue.toml"\nvariants = [{{ {variant}, remedies = ["loss"] }}, {{ name = "plain" }}]\n'
    )
    (box / "catalogue.toml").write_text(
        '[[remedies]]\nname = "loss"\nset = { "links.line.loss" = 0.01 }\ncommands = [{ on = "a", run = ["x"] }]\n'
    )
    study = box / "study"
    (study / "experiments").mkdir(parents=True, exist_ok=True)
    (study / "line.toml").write_text(line)
    (study / "catalogue.toml").write_text((box / "catalogue.toml").read_text())
    (study / "variants.toml").write_text(
        f'catalogue = "catalogue.toml"\nvariants = [{{ {variant} }}, {{ name = "plain" }}, '
        '{ name = "loss", remedies = ["loss"] }]\n'
    )
    (study / "study.toml").write_text(
        'id = "mine"\ntitle = "Title"\nquestion = "Question?"\nanswer = { findings = ["one"], plot = "figure" }\n'
        '[[matrices]]\nid = "which"\ntitle = "Which"\ncatalogue = "catalogue.toml"\n'
        'measures = [{ name = "used", better = "more" }]\nscenes = [{ experiment = "first" }]\n'
        'groups = [{ title = "All", base = "plain", rows = [{ variant = "loss" }] }]\n'
    )
    (study / "experiments/first.toml").write_text(
        f'id = "first"\ntitle = "First"\nkind = "beyond"\nseeds = 2\nscenario = "../line.toml"\n'
        f'variants = {{ file = "../variants.toml" }}\n{rate}{measures}'
        '[[plots]]\nid = "figure"\ntitle = "Figure"\nx = "variant"\ny = "used"\nkind = "bar"\n'
        '[[findings]]\nid = "one"\nclaim = "Claim"\nchecks = ["used(\'loss\') <= used(\'plain\')"]\n'
    )

    def runs(*words: object) -> Callable[[], object]:
        def do() -> object:
            shutil.rmtree(out, ignore_errors=True)
            return cli.main([*map(str, words), "--out", str(out), "--executor", "threads", "-q"])

        return do

    def run_and_report() -> object:
        code = runs("study", "run", study)()
        return cli.main(["report", str(out)]) or code in (0, 1)

    def read_study() -> None:
        prepare(read(study), "quick")

    def sweep(name: str) -> Callable[[], object]:
        return lambda: plan(box / name).points and None

    schemas = {name: documents.schema(kind) for name, kind in FILES.items()}
    first = sorted((study / "experiments").glob("*.toml"))[0]

    def load_scenario() -> None:
        _airtcp.Checked.load(box / "scenario.toml", [])

    def fails(name: str) -> Callable[[], object]:
        # A kernel that a file may name boots nothing here, so that the run of its variant fails: the exit code is 1.
        return lambda: runs("sweep", box / name)() in (0, 1)

    return [
        Kind("scenario", scenario, box / "scenario.toml", load_scenario,
             command("run", box / "scenario.toml", "--no-save", "-q")),
        Kind("sweep", schemas["sweep"], box / "sweep.toml", sweep("sweep.toml"),
             fails("sweep.toml")),
        Kind("variants", schemas["variants"], box / "variants.toml", sweep("shared.toml"),
             fails("shared.toml")),
        Kind("catalogue", schemas["catalogue"], box / "catalogue.toml", sweep("shared.toml"),
             fails("shared.toml")),
        Kind("study", schemas["study"], study / "study.toml", read_study, run_and_report),
        Kind("experiment", schemas["experiment"], first, read_study, run_and_report),
    ]  # fmt: skip


# --- links, captures, media -------------------------------------------------------------------------------------------


def share_links(box: Path, hostile: dict[str, str]) -> int:
    """A link carries a scenario, whose keys are a scenario's, and changes."""
    text = (box / "line.toml").read_text()
    phase("innocent", "link")
    assert attempt(
        command("run", "https://example.org/" + share_url.SharedScenario(text).fragment(), "--no-save", "-q")
    )
    places_ = {"toml": "", "name": "name = {}\n", "description": "description = {}\n", "set": ""}
    for about, value in hostile.items():
        for place, line in places_.items():
            phase("attack", "link", place, about)
            changes = (f"nodes.a.profile={value}", value, f"{value}=1") if place == "set" else ()
            whole = value if place == "toml" else line.format(json.dumps(value)) + text
            for scheme in ("", "file:///", value):
                link = scheme + share_url.SharedScenario(whole, changes).fragment()
                attempt(command("run", link, "--no-save", "-q"))
                attempt(command("play", link, "--export", box / "page.html"))
    return len(places_)


def block(kind: int, body: bytes) -> bytes:
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def captures(box: Path, hostile: dict[str, str]) -> int:
    """Comments, names of interfaces, hosts and programs in a capture."""

    def options(codes: tuple[int, ...], value: str) -> bytes:
        data = value.encode()
        padded = data + b"\0" * (-len(data) % 4)
        return b"".join(struct.pack("<HH", code, len(data)) + padded for code in codes) + bytes(4)

    def capture(value: str) -> bytes:
        head = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + options((1, 2, 3, 4), value))
        device = block(1, struct.pack("<HHI", 1, 0, 0) + options((1, 2, 3, 12, 15), value))
        names = block(4, struct.pack("<HH", 1, 4 + len(value) + 1) + bytes([192, 0, 2, 1]) + value.encode() + b"\0")
        secrets = block(10, struct.pack("<II", 0x544C534B, len(value)) + value.encode())
        packet = bytes(12) + b"\x08\x00" + bytes(40)
        return head + device + names + secrets + block(
            6, struct.pack("<IIIII", 0, 0, 0, len(packet), len(packet)) + packet + options((1,), value)
        )  # fmt: skip

    file = box / "capture.pcapng"
    for first, about, value in [("innocent", "", "a name"), *(("attack", *item) for item in hostile.items())]:
        file.write_bytes(capture(value))
        phase(first, "capture", "options", about)
        taken = attempt(command("analyze", file, "--json"))
        assert taken or first == "attack"
        attempt(command("advise", file, "--json"))
    return 12


def media(box: Path, hostile: dict[str, str]) -> int:
    """A configuration of wmediumd."""
    try:
        program()
    except RunError:
        tell("not covered: wmediumd: there is no airtcp-emu")
        return 0
    file = box / "wmediumd.cfg"
    texts = {
        "ids": 'ifaces : {{ ids = ["{0}", "02:00:00:00:01:00"]; }};',
        "model.type": 'ifaces : {{ ids = ["02:00:00:00:00:00", "02:00:00:00:01:00"]; }}; model : {{ type = "{0}"; }};',
        "any": '"{0}" : {{ }};',
        "include": '@include "{0}"\n',
    }
    for place, text in texts.items():
        for number, (about, value) in enumerate({"": "x", **hostile}.items()):
            file.write_text(text.format(value.replace("\\", "\\\\").replace('"', '\\"')))
            phase("attack" if number else "innocent", "wmediumd", place, about)
            if number == 0 or about in ("program", "link"):
                attempt(command("hwsim", "--wmediumd", file, "--for", "10ms", "-q"))
    return len(texts)


# --- results ----------------------------------------------------------------------------------------------------------


def leaves(value: Any, at: Place = ()) -> Iterator[Place]:
    """Places of a document, and of its keys; of each list the first item."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*at, key)
            yield from leaves(item, (*at, key))
    elif isinstance(value, list) and value:
        yield (*at, 0)
        yield from leaves(value[0], (*at, 0))


def with_value(document: Any, at: Place, value: object, *, as_key: bool) -> Any:
    document = copy.copy(document)
    key, *rest = at
    if rest:
        document[key] = with_value(document[key], tuple(rest), value, as_key=as_key)
    elif as_key and isinstance(document, dict):
        document = {value if name == key else name: item for name, item in document.items()}
    else:
        document[key] = value
    return document


def all_texts(document: Any, value: str) -> Any:
    """With another value for every text but what tells the kind of the document."""
    if isinstance(document, dict):
        return {
            key: item if key in ("format", "kind", "status", "key", "sha256", "scenario") else all_texts(item, value)
            for key, item in document.items()
        }
    if isinstance(document, list):
        return [all_texts(item, value) for item in document]
    return value if isinstance(document, str) else document


def sealed(folder: Path) -> None:
    """Whoever changes a file signs anew."""
    marker = _marker.Marker.read(folder)
    if marker is not None:
        for name in marker.files:
            marker.files[name] = [_marker.sha256_of(folder / name)]
        marker.write(folder)


def read_results(folder: Path, file: str | None = None) -> Callable[[], object]:
    """What commands do with a folder; with `file` only what that file has a part in."""

    def do() -> object:
        if file == saved_definition.DEFINITION:
            definition = saved_definition.check(json.loads((folder / file).read_bytes()), folder / file)
            is_sweep = definition["kind"] == "sweep"
            plan_again = saved_definition.planned if is_sweep else saved_study.prepared
            plan_again(definition["sweep"] if is_sweep else definition, _airtcp.engine(), folder / file)
            return 0
        code: object = 0
        if (folder / "analysis.json").exists() or (folder / "monitor.json").exists() or file is None:
            for load in (Results.load, Analysis.load):
                with contextlib.suppress(*REFUSED):
                    for frame in load(folder).tables.values():
                        with contextlib.suppress(*REFUSED, pl.exceptions.PolarsError):
                            frame.lazy().collect()
        if file is None or any((folder / name).exists() for name in ("study.json", "sweep.json", "summary.json")):
            # The page of a study names its files by what `study.json` says; others have fixed names.
            is_whole = file is None or file == "study.json"
            code = cli.main(["report", str(folder)]) if is_whole else page.load(folder) and None
        if file in (None, _marker.MARKER):
            cli.main(["verify", str(folder), "--runs", "0", "-q"])
        return code

    return do


def documents_of(folder: Path) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """The documents of a folder: name, content, and what writes another one there."""
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".json":

            def put(value: Any, file: Path = file) -> None:
                if file.name == _marker.MARKER:
                    value = {key: item for key, item in value.items() if key != "sha256"}
                    value["sha256"] = _marker._sum_of(value)
                file.write_text(json.dumps(value))
                if file.name != _marker.MARKER:
                    sealed(folder)

            yield str(file.relative_to(folder)), json.loads(file.read_bytes()), put
    if (folder / JOURNAL).exists():
        head, *lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
        first = {key: value for key, value in json.loads(lines[0]).items() if key != "check"}

        def put_line(value: Any) -> None:
            (folder / JOURNAL).write_bytes(b"".join([head, _line(value), *lines[1:]]))

        yield JOURNAL, first, put_line
    for table in (folder / "verify/tasks.parquet", folder / "runs.parquet"):
        if table.exists():
            rows = pl.read_parquet(table)
            row = {key: value for key, value in rows.row(0, named=True).items() if isinstance(value, str)}
            row = {key: json.loads(value) if value[:1] in "[{" else value for key, value in row.items()}

            def put_row(value: Json, table: Path = table, rows: pl.DataFrame = rows) -> None:
                texts = {key: item if isinstance(item, str) else json.dumps(item) for key, item in value.items()}
                columns = [pl.lit(item).alias(key) for key, item in texts.items()]
                rows.with_columns(columns).write_parquet(table)
                sealed(folder)

            yield str(table.relative_to(folder)), row, put_row


def shape(name: str, at: Place) -> str:
    """The scenario's keys are not enumerated again, nor each file's or column's name."""
    kept: list[str | int] = []
    for i, key in enumerate(at):
        if key == "scenario" and i + 1 < len(at):
            return ""
        above = at[i - 1] if i else ""
        kept.append("*" if above in ("files", "tables", "columns", "measures", "links", "parameters") else key)
    return f"{name}: {'.'.join(map(str, kept))}"


def results(box: Path, hostile: dict[str, str]) -> dict[str, int]:
    made = {
        "run": command("run", box / "line.toml", "--out", box / "r-run", "-q"),
        "sweep": command("sweep", box / "plain.toml", "--out", box / "r-sweep", "-q", "--executor", "threads"),
        "study results": command(
            "study", "run", box / "study", "--out", box / "r-study results", "-q", "--executor", "threads"
        ),
        "analysis": command("analyze", box / "sample.pcap", "--out", box / "r-analysis", "-q"),
        "monitor": lambda: None,
    }
    text = (box / "sweep.toml").read_text()
    (box / "plain.toml").write_text(text.replace('{ name = "kernel", engine = "kernel", kernel = "6.12" }, ', ""))
    shutil.copy(HERE / "data/captures/two_losses-sender.pcap", box / "sample.pcap")
    monitor(box / "r-monitor")
    counts: dict[str, int] = {}
    for name, make in made.items():
        phase("innocent", name)
        assert attempt(make), name
        whole = box / f"r-{name}"
        assert attempt(read_results(whole)) or name in ("analysis", "monitor"), name
        attempt(command("verify", whole, "-q", "--jobs", "1"))
        folder = box / f"attacked {name}"
        shutil.copytree(whole, folder)
        seen: set[str] = set()
        turn = 0
        for file, document, put in list(documents_of(folder)):
            for at in leaves(document):
                about_place = shape(f"{name}/{file}", at)
                if not about_place or about_place in seen:
                    continue
                seen.add(about_place)
                turn += 1
                # Each key alone with one value in turn; names of files and tables, and all texts together, with all.
                for about in FEW if about_place.endswith("*") else [FEW[turn % len(FEW)]]:
                    phase("attack", about_place, about)
                    put(with_value(document, at, hostile[about], as_key=about_place.endswith("*")))
                    attempt(read_results(folder, file))
            for about in FEW:
                phase("attack", f"{name}/{file}", "all texts", about)
                put(all_texts(document, hostile[about]))
                attempt(read_results(folder))
            put(document)
        for about in ("program", "outside"):
            phase("act", name, "tasks", about)
            again(folder, whole, hostile[about])
        counts[name] = len(seen)
        files_replaced(name, folder, whole)
        shutil.rmtree(folder)
    return counts


def again(folder: Path, whole: Path, value: str) -> None:
    """Runs that `verify` makes again: what tasks name is a stranger's."""
    tasks = folder / "verify/tasks.parquet"
    if not tasks.exists():
        return
    rows = pl.read_parquet(tasks).with_columns(kernel=pl.lit(value), engine=pl.lit("kernel"), table=pl.lit(value))
    rows.write_parquet(tasks)
    sealed(folder)
    attempt(command("verify", folder, "-q", "--jobs", "1", "--runs", "1"))
    shutil.copy(whole / "verify/tasks.parquet", tasks)
    sealed(folder)


def files_replaced(name: str, folder: Path, whole: Path) -> None:
    """Each file of the results is a pipe, a device, or a link out of the folder, with the checksum that this gives."""
    secret = folder.parent.parent / "outside/secret.toml"
    for file in sorted(_marker.names_in(whole)):
        for about in ("pipe", "device", "link"):
            phase("attack", f"{name}/{file}", "replaced", about)
            shutil.rmtree(folder)
            shutil.copytree(whole, folder)
            path = folder / file
            path.unlink()
            depth = "../" * (len(Path(file).parts) + 1)
            match about:
                case "pipe":
                    os.mkfifo(path)
                case "device":
                    path.symlink_to("/dev/zero")
                case "link":
                    path.symlink_to(f"{depth}outside/secret.toml")
                case _:
                    path.symlink_to(secret)
            attempt(read_results(folder))


def monitor(folder: Path) -> None:
    from test_monitor_results import SERIES

    folder.mkdir()
    rows = [f"{n / 100:.2f},1,10,8,10,9,20.5,{n * 10_000},{n * 7},0" for n in range(1, 21)]
    (folder / "flow_series.csv").write_text("\n".join([SERIES, *rows, ""]))
    (folder / "events.csv").write_text("time_s,flow,event,cwnd_segments,in_flight_segments\n0.1,0,listen,10,0\n")
    (folder / "flows.csv").write_text(
        "flow,source,source_port,destination,destination_port,start_s,end_s,bytes_acked,segments_retransmitted\n"
        "1,192.0.2.1,443,192.0.2.9,50000,0.01,2.0,2000000,1\n"
    )
    about = {"format": "airtcp-monitor", "format_version": 1, "source": "tracepoints", "kernel": "6.18"}
    (folder / "monitor.json").write_text(json.dumps({**about, "events": 202, "lost": 0, "end_unix_ns": 10**18}))


def main() -> None:
    work, port = Path(sys.argv[1]), int(sys.argv[2])
    box = work / "box"
    os.chdir(box)
    hostile = values(work, port)
    counts: dict[str, int] = {}
    took: dict[str, float] = {}
    begin = time.monotonic()

    def done(name: str) -> None:
        nonlocal begin
        took[name], begin = round(time.monotonic() - begin, 1), time.monotonic()
        tell(f"{name}: {took[name]} s")

    only = os.environ.get("AIRTCP_STRANGER_KINDS", "").split()
    for kind in kinds(box, work / "out"):
        if only and kind.name not in only:
            continue
        kind.innocent()
        for about, value in hostile.items():
            kind.attack(about, value)
        counts[kind.name] = len(kind.places)
        done(kind.name)
    if not only:
        counts["link"] = share_links(box, hostile)
        done("link")
        counts["capture"] = captures(box, hostile)
        done("capture")
        counts["wmediumd"] = media(box, hostile)
        done("wmediumd")
        counts |= results(box, hostile)
        done("results")
    phase("end")
    sys.stdout.write(json.dumps({"keys": counts, "values": len(hostile), "seconds": took, "crashes": crashes}) + "\n")


if __name__ == "__main__":
    main()
