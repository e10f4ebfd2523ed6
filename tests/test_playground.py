"""The page of `airtcp play`: the same bits as natively in Node and Chromium, and nothing that a stranger could use.

`make playground` builds it. Where that was not done, or Node or Chromium is missing, tests say so and are skipped.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from airtcp import _airtcp, share_url
from airtcp._text import is_link
from browsing import NEEDS_CHROMIUM, NEEDS_FIREFOX, WIDTHS, Visit, in_firefox
from conftest import AIRTCP, EXAMPLES, ROOT, SMALL, Command

PAGE = ROOT / "playground/dist/playground.html"
HASHES = ROOT / "playground/dist/hashes.mjs"
HASHES_PAGE = ROOT / "playground/dist/hashes-page.js"
WASM = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "wasm32-unknown-unknown/web/airtcp_web.wasm"
STORIES = sorted((ROOT / "playground/stories").glob("*.toml"))
SCENES = sorted(p for p in (ROOT / "python/airtcp/advice/data/scenes").glob("*.toml"))
NODE = shutil.which("node")
BUILT = pytest.mark.skipif(
    not all(p.exists() for p in (PAGE, HASHES, HASHES_PAGE, WASM)), reason="needs `make playground`"
)
NEEDS_NODE = pytest.mark.skipif(NODE is None, reason="needs Node (Debian package nodejs)")


def native(scenario: str, *changes: str, until_s: float = 1e6) -> dict[str, str]:
    """Engine and hashes of a run on this machine."""
    checked = _airtcp.Checked.from_toml(scenario.encode(), "scenario.toml", [_airtcp.parse_set(c) for c in changes])
    run = _airtcp.Run(checked, None)
    run.advance(min(run.end_s, until_s))
    output = run.finish()
    tables = hashlib.sha256()
    for name, columns in output.tables.items():
        rows = len(next(iter(columns.values())))
        tables.update(f"{name} {rows}\n".encode())
        for column, values in columns.items():
            tables.update(f"{column}\n".encode())
            if isinstance(values, list):
                tables.update("".join(f"{value}\n" for value in values).encode())
            elif values.dtype == np.float64:
                tables.update(np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes())
            else:
                tables.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
    summary = hashlib.sha256(output.summary.encode()).hexdigest()[:16]
    return {"engine": _airtcp.engine(), "hash": summary, "tables_hash": tables.hexdigest()[:16]}


def same_engine() -> None:
    said = in_node([{"toml": SMALL}])[0]["engine"]
    if said != _airtcp.engine():
        pytest.skip(f"the page is of engine {said}, this is {_airtcp.engine()}: `make playground`")


def in_node(requests: list[dict[str, Any]]) -> list[dict[str, str]]:
    command = [str(NODE), str(HASHES), str(WASM)]
    done = subprocess.run(
        command,
        input=json.dumps({"until_s": UNTIL_S, "requests": requests}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [{key: value for key, value in one.items() if key != "wall_s"} for one in found]


# As far as runs are made; those of `make test-all` go to their ends.
UNTIL_S = 1e6 if os.environ.get("AIRTCP_TEST_WASM") else 2.0


# --- the same bits --------------------------------------------------------------------------------------------------


@BUILT
@NEEDS_NODE
@pytest.mark.parametrize("files", [EXAMPLES, STORIES, SCENES], ids=["examples", "stories", "scenes"])
def test_node_has_the_bits_of_this_machine(files: list[Path]) -> None:
    same_engine()
    texts = [path.read_text() for path in files]
    found = in_node([{"toml": text} for text in texts])
    expected = [native(text, until_s=UNTIL_S) for text in texts]
    assert dict(zip([p.name for p in files], found, strict=True)) == dict(
        zip([p.name for p in files], expected, strict=True)
    )


@BUILT
@NEEDS_NODE
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm (Debian package npm)")
def test_the_tarball_for_node_is_installed_and_imported(tmp_path: Path) -> None:
    same_engine()

    def made(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    tarball = made("npm", "pack", "--silent", str(HASHES.parent / "npm")).strip()
    # It needs no other package, so none has to be asked for.
    made("npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", f"./{tarball}")
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "mine.mjs").write_text(
        'import { readFileSync } from "node:fs";\n'
        'import { run } from "airtcp";\n'
        'console.log(run(readFileSync("small.toml", "utf8"), { set: ["seed=7"] }).hash);\n'
    )
    assert made("node", "mine.mjs").strip() == native(SMALL, "seed=7")["hash"]
    assert (tmp_path / "node_modules/airtcp/node.d.ts").is_file()


def page_of_hashes(folder: Path, requests: list[dict[str, Any]]) -> Path:
    """A page that makes the runs and leaves their hashes in an attribute of its body."""
    given = json.dumps({"until_s": UNTIL_S, "requests": requests}).replace("<", "\\u003c")
    wasm = base64.b64encode(WASM.read_bytes()).decode()
    page = folder / "hashes.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8"><body>'
        f'<script type="application/json" id="requests">{given}</script>'
        f'<script type="text/plain" id="wasm">{wasm}</script>'
        f'<script type="module">{HASHES_PAGE.read_text()}</script>'
    )
    return page


def every_scenario() -> tuple[list[str], list[dict[str, Any]], list[dict[str, str]]]:
    files = [*EXAMPLES, *STORIES, *SCENES]
    texts = [path.read_text() for path in files]
    return (
        [p.name for p in files],
        [{"toml": text} for text in texts],
        [native(text, until_s=UNTIL_S) for text in texts],
    )


@BUILT
@NEEDS_CHROMIUM
def test_chromium_has_the_bits_of_every_scenario(browser: Any, tmp_path: Path) -> None:
    same_engine()
    files, requests, expected = every_scenario()
    with Visit(browser, page_of_hashes(tmp_path, requests).as_uri(), offline=True) as visit:
        visit.page.wait_for_selector("body[data-hashes]", state="attached", timeout=120_000)
        found = json.loads(visit.page.get_attribute("body", "data-hashes"))
    assert dict(zip(files, found, strict=True)) == dict(zip(files, expected, strict=True))


@BUILT
@NEEDS_FIREFOX
def test_firefox_has_the_bits_of_every_scenario(tmp_path: Path) -> None:
    same_engine()
    files, requests, expected = every_scenario()
    profile = tmp_path / "profile"
    profile.mkdir()
    [said] = in_firefox(page_of_hashes(tmp_path, requests), [""], "data-hashes", profile)
    assert dict(zip(files, json.loads(said), strict=True)) == dict(zip(files, expected, strict=True))


# --- links ----------------------------------------------------------------------------------------------------------


def test_a_link_holds_its_scenario() -> None:
    link = share_url.SharedScenario(SMALL, ("flows.bulk.tcp.cc=bbr", 'coop=[{ name = "a&b#" }]'))
    assert is_link(link.fragment())
    assert not is_link("examples/walk.toml")
    assert share_url.read(link.fragment()) == link
    assert share_url.read("file:///tmp/page.html" + link.fragment()) == link


def damaged() -> Iterator[tuple[str, str]]:
    good = share_url.SharedScenario(SMALL).fragment()
    packer = zlib.compressobj(9, wbits=-15)
    bomb = packer.compress(b"x" * (share_url.MOST_TOML + 1)) + packer.flush()
    yield good[:-20], "cut or damaged"
    yield "#s=", "cut or damaged"
    yield "#s=<script>alert(1)</script>", "cut or damaged"
    yield "#s=" + base64.urlsafe_b64encode(bomb).decode().rstrip("="), "more than 262144 bytes"
    yield "#s=" + "a" * 70_000, "must be at most 65536"
    yield good + "&set=a=1" * 41, "too many changes"
    yield good + "&set=%ff", "cut or damaged"


@pytest.mark.parametrize(("link", "told"), list(damaged()))
def test_a_damaged_link_is_told(link: str, told: str, airtcp: Command) -> None:
    with pytest.raises(share_url.ShareUrlError, match=told):
        share_url.read(link)
    if len(link) < 10_000:
        done = airtcp("run", link)
        assert done.returncode == 2
        assert told in done.stderr
        assert "Traceback" not in done.stderr


def test_a_link_runs_natively_and_tells_its_hash(airtcp: Command) -> None:
    link = share_url.SharedScenario(SMALL, ("flows.bulk.tcp.cc=bbr",)).fragment()
    done = airtcp("run", link, "--no-save", "-q")
    assert done.returncode == 0, done.stderr
    done = airtcp("run", link, "--no-save")
    assert native(SMALL)["hash"] in done.stderr
    done = airtcp("run", link, "--json", "--set", "flows.bulk.tcp.cc=bbr")
    assert native(SMALL, "flows.bulk.tcp.cc=bbr")["hash"] in done.stderr
    assert json.loads(done.stdout)["name"] == "small"


# --- the command ----------------------------------------------------------------------------------------------------


def page_installed() -> bool:
    import airtcp

    return (Path(airtcp.__file__).parent / "page/playground.html").exists()


INSTALLED = pytest.mark.skipif(not page_installed(), reason="needs `make playground`")


def test_without_the_page_it_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airtcp._terminal import StopError
    from airtcp.cli.commands import play

    monkeypatch.setattr(play, "__file__", str(tmp_path / "commands/play.py"))
    with pytest.raises(StopError, match=r"make playground.*Node 20"):
        play.built()


@INSTALLED
def test_export_is_one_file_with_the_scenario(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = airtcp("play", scenario, "--set", "flows.bulk.tcp.cc=bbr", "--export", out)
    assert done.returncode == 0, done.stderr
    given = re.search(r'<script type="application/json" id="given">(.*?)</script>', out.read_text())
    assert given is not None
    assert share_url.read(given[1]) == share_url.SharedScenario(SMALL, ("flows.bulk.tcp.cc=bbr",))


@INSTALLED
def test_bad_input_is_told_before_a_page_opens(airtcp: Command, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(SMALL.replace("kind", "kin", 1))
    out = tmp_path / "page.html"
    for arguments, told in [
        ((bad,), "did you mean `kind`"),
        (("missing.toml",), "missing.toml"),
        (("#s=abc",), "cut or damaged"),
        (("--set", "a=1"), "name one"),
        (("--port", "x"), "is not a port"),
    ]:
        done = airtcp("play", *arguments, "--export", out)
        assert (done.returncode, told in done.stderr, out.exists()) == (2, True, False), done.stderr
    done = airtcp("play", "--export", tmp_path / "no/such/page.html")
    assert done.returncode == 1
    assert "cannot write" in done.stderr


def test_the_site_offers_the_page_only_where_it_was_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("site_links", ROOT / "tools/site_links.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    text = (ROOT / "docs/playground.md").read_text()
    page = SimpleNamespace(file=SimpleNamespace(src_uri="playground.md"))
    config = {"extra": {"repository": "https://example.org/airtcp"}}
    (tmp_path / "built.html").write_text("page")
    for file, built in (("built.html", True), ("missing.html", False)):
        monkeypatch.setattr(hook, "PLAY", tmp_path / file)
        assert ("](play.html)" in hook.on_page_markdown(text, page, config)) == built


@INSTALLED
def test_it_serves_one_page_on_loopback() -> None:
    command = [str(AIRTCP), "play", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", url)
            with urllib.request.urlopen(url, timeout=20) as answer:
                assert b'id="wasm"' in answer.read()
                assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url + "../../etc/passwd", timeout=20)
        finally:
            server.terminate()
            server.wait(20)


# --- the page, in Chromium ------------------------------------------------------------------------------------------

READY = "body[data-runs]"


def opened(browser: Any, link: str = "", size: tuple[int, int] = WIDTHS["desktop"], **more: Any) -> Visit:
    visit = Visit(browser, PAGE.as_uri() + link, size, offline=True, **more)
    visit.page.wait_for_selector(READY, timeout=60_000)
    return visit


def hashes(visit: Visit) -> list[str]:
    return str(visit.page.get_attribute("body", "data-runs")).split()


def shortened(story: Path) -> str:
    return re.sub(r'(?m)^duration = "\d+s"', 'duration = "4s"', re.sub(r"(?m)^warmup.*\n", "", story.read_text()))


@BUILT
@NEEDS_FIREFOX
def test_firefox_has_the_bits_of_this_machine(tmp_path: Path) -> None:
    same_engine()
    texts = [shortened(story) for story in STORIES]
    fragments = [share_url.SharedScenario(text, ("seed=7",)).fragment() for text in texts]
    found = in_firefox(PAGE, fragments, "data-runs", tmp_path)
    assert found == [f"{native(text)['hash']} {native(text, 'seed=7')['hash']}" for text in texts]


@BUILT
@NEEDS_CHROMIUM
@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_chromium_has_the_bits_of_this_machine(browser: Any, story: Path) -> None:
    same_engine()
    text = shortened(story)
    with opened(browser, share_url.SharedScenario(text, ("seed=7",)).fragment()) as visit:
        assert hashes(visit) == [native(text)["hash"], native(text, "seed=7")["hash"]]
        assert visit.said == []
        assert [url for url in visit.asked if not url.startswith(("file:", "blob:"))] == []


@BUILT
@NEEDS_CHROMIUM
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", list(WIDTHS))
def test_the_page_from_disk(browser: Any, width: str, scheme: str) -> None:
    with opened(browser, "", WIDTHS[width], color_scheme=scheme) as visit:
        page = visit.page
        assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width][0]
        # Whoever hears the page is told what each control is.
        for control in page.locator("button, input, select, textarea").all():
            assert control.evaluate("e => e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label')")
        page.locator("#step").click()
        assert "in one transmission" in page.text_content("#spoken")
        assert page.locator("#spoken").is_visible()
        page.locator("#drop").click()
        assert re.search("is lost at|No packet is lost", page.text_content("#spoken"))
        page.locator("#play").click()
        page.wait_for_selector("#play[aria-pressed=true]")
        page.locator("#play").click()
        assert visit.said == []
        assert all(url.startswith(("file:", "blob:")) for url in visit.asked)


@BUILT
@NEEDS_CHROMIUM
def test_a_touch_shows_the_fields_of_a_frame(browser: Any) -> None:
    with opened(browser, "", WIDTHS["phone"], has_touch=True) as visit:
        page = visit.page
        page.locator("#step").tap()
        air = page.locator("#runs canvas").first
        air.scroll_into_view_if_needed()
        box = air.bounding_box()
        # The frame that begins now is right of the mark.
        left = min(96, max(70, box["width"] * 0.16))
        x = left + (box["width"] - left) * 0.72 + 4
        for lane in range(2):
            air.tap(position={"x": x, "y": 11 + 22 * lane})
            if page.locator("#tip").is_visible():
                break
        assert "in one transmission" in page.text_content("#tip")
        page.locator("#state").tap()
        page.wait_for_selector("#tip", state="hidden")
        assert visit.said == []


@BUILT
@NEEDS_CHROMIUM
def test_text_and_controls_follow_each_other(browser: Any) -> None:
    from playwright.sync_api import expect

    same_engine()
    text = (ROOT / "playground/stories/call.toml").read_text().replace('"10s"', '"2s"').replace('start = "2s"', "")
    with opened(browser, share_url.SharedScenario(text).fragment()) as visit:
        page = visit.page
        [before] = hashes(visit)
        page.locator("#control-snr-0").fill("20")
        page.wait_for_selector(f"body:not([data-runs='{before}'])")
        changed = page.input_value("#toml")
        assert changed == text.replace("snr_db = 6", "snr_db = 20")
        assert hashes(visit) == [native(changed)["hash"]]
        page.locator("#toml").fill(changed.replace('kind = "host"', 'kind = "hots"', 1))
        page.wait_for_selector("#toml[aria-invalid=true]")
        with pytest.raises(_airtcp.ScenarioError) as told:
            native(page.input_value("#toml"))
        assert page.text_content("#faults") == str(told.value)
        assert page.text_content("#state") == f"The scenario has a fault: {str(told.value).splitlines()[0]}"
        page.locator("#toml").fill(changed.replace("snr_db = 20", "snr_db = 9"))
        expect(page.locator("#control-snr-0")).to_have_value("9")
        # The link in the address bar is the scenario.
        written = page.input_value("#toml")
        deadline = time.monotonic() + 20
        while share_url.read(page.url).toml != written and time.monotonic() < deadline:
            page.wait_for_timeout(50)
        assert share_url.read(page.url).toml == written


@BUILT
@NEEDS_CHROMIUM
def test_a_control_of_a_faulty_text_tells_the_fault(browser: Any) -> None:
    same_engine()
    text = shortened(ROOT / "playground/stories/call.toml")
    with opened(browser, share_url.SharedScenario(text, ("seed=7",)).fragment()) as visit:
        page = visit.page
        # The workers have begun by the time that the fault is seen.
        bad = text.replace('kind = "host"', 'kind = "hots"', 1)
        page.evaluate("bad => { document.getElementById('toml').value = bad }", bad)
        page.locator("#control-snr-0").fill("20")
        page.wait_for_selector("#toml[aria-invalid=true]")
        assert "hots" in page.text_content("#faults")
        page.evaluate("document.body.removeAttribute('data-runs')")
        good = text.replace("snr_db = 6", "snr_db = 9")
        page.locator("#toml").fill(good)
        page.wait_for_selector(READY, timeout=60_000)
        assert hashes(visit) == [native(good)["hash"], native(good, "seed=7")["hash"]]
        assert visit.said == []


@BUILT
@NEEDS_CHROMIUM
def test_the_page_tells_a_hash_and_how_to_verify_it(browser: Any, airtcp: Command, tmp_path: Path) -> None:
    same_engine()
    with opened(browser, share_url.SharedScenario(SMALL, ("seed=7",)).fragment()) as visit:
        page = visit.page
        page.locator("#native summary").click()
        shown = page.locator("#hashes code").all_inner_texts()
        assert [f"hash {one}" for one in hashes(visit)] == shown[0::2]
        for told, command in zip(shown[0::2], shown[1::2], strict=True):
            done = airtcp(*shlex.split(command)[1:], "--no-save")
            assert told.removeprefix("hash ") in done.stderr


@BUILT
@NEEDS_CHROMIUM
def test_a_drag_is_followed_and_ends_in_the_whole_run(browser: Any) -> None:
    same_engine()
    text = shortened(ROOT / "playground/stories/coop.toml")
    with opened(browser, share_url.SharedScenario(text, ("seed=7",)).fragment()) as visit:
        page = visit.page
        looks = page.evaluate("""async () => {
          const control = document.getElementById("control-count-0"), pictures = [];
          const seen = () => pictures.push([document.body.dataset.looks, document.body.dataset.frames]);
          new MutationObserver(seen).observe(document.body, { attributes: true, attributeFilter: ["data-runs"] });
          for (let stations = 11; stations <= 20 || pictures.length === 0; stations++) {
            control.value = String(stations);
            control.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((resolve) => setTimeout(resolve, 40));
          }
          return pictures;
        }""")
        # Pictures came while the control moved, of runs with fewer looks at their queues.
        assert {few for few, _ in looks} == {"few"}
        # Frames that were left out do not come back before the control rests.
        kept = [frames for _, frames in looks]
        assert kept == sorted(kept), kept
        page.wait_for_selector("body[data-looks=all][data-frames=all]", timeout=60_000)
        last = page.input_value("#toml")
        assert last == text.replace("count = 10", "count = 20")
        assert hashes(visit) == [native(last)["hash"], native(last, "seed=7")["hash"]]
        assert visit.said == []


@BUILT
@NEEDS_CHROMIUM
def test_a_hostile_link_is_a_sentence_or_text(browser: Any) -> None:
    script = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    text = SMALL.replace('name = "small"', f"name = '{script}'\ndescription = '{script}'")
    with opened(browser, share_url.SharedScenario(text, (f"description='{script}'",)).fragment()) as visit:
        assert script in visit.page.input_value("#toml")
        assert visit.page.locator("img, body script:not([id]):not([type=module])").count() == 0
        assert visit.said == []
    for link, _ in damaged():
        with Visit(browser, PAGE.as_uri() + link, offline=True) as visit:
            visit.page.wait_for_selector("#state:not(:has-text('Loading'))", timeout=60_000)
            assert re.match(r"(The|A) (link|scenario|change)\b", visit.page.text_content("#state"))
            assert visit.said == []


def worlds() -> Iterator[tuple[str, str]]:
    """Scenarios that are too much for a page, and what it says."""
    many = SMALL.replace('name = "a"\nkind = "host"', 'name = "a"\nkind = "host"\ncount = {}')
    yield many.replace("{}", str(10**9)), "must be a whole number from 1 to 1000000"
    yield many.replace("{}", "200000"), "run it with the command line"
    yield SMALL.replace('name = "bulk"', 'name = "bulk"\ncount = 400000'), "run it with the command line"
    yield SMALL + "\n[__proto__]\npolluted = 1\n", "unknown key"
    yield SMALL + "\n[constructor.prototype]\npolluted = 1\n", "unknown key"
    yield "a = " + "[" * 20_000 + "]" * 20_000, "nested too deep"
    yield "#" * 200_000, "is empty"


@BUILT
@NEEDS_CHROMIUM
@pytest.mark.parametrize(("toml", "told"), list(worlds()), ids=[f"world{i}" for i in range(7)])
def test_a_link_with_too_large_a_world_is_a_sentence(browser: Any, toml: str, told: str) -> None:
    with Visit(
        browser, PAGE.as_uri() + share_url.SharedScenario(toml, ("__proto__.x=1",)).fragment(), offline=True
    ) as visit:
        page = visit.page
        page.locator("#faults", has_text=told).wait_for(timeout=120_000)
        assert page.evaluate("[({}).polluted, ({}).x, Object.keys(Object.prototype).length]") == [None, None, 0]
        # The page goes on: another link runs.
        page.evaluate("fragment => { location.hash = fragment }", share_url.SharedScenario(SMALL).fragment())
        page.wait_for_selector(READY, timeout=60_000)
        assert hashes(visit) == [native(SMALL)["hash"]]
        assert visit.said == []


@BUILT
@NEEDS_CHROMIUM
def test_a_link_of_ten_megabytes_is_a_sentence(browser: Any) -> None:
    # Chromium itself takes no address of more than 2 MB; a page may set one.
    with opened(browser, share_url.SharedScenario(SMALL).fragment()) as visit:
        for size in (100_000, 1_900_000):
            visit.page.evaluate("size => { location.hash = '#s=' + 'A'.repeat(size) }", size)
            visit.page.wait_for_selector("#state:has-text('more than 65536 characters')", timeout=20_000)
            visit.page.evaluate("document.getElementById('state').textContent = ''")
        assert visit.said == []


@INSTALLED
def test_an_exported_link_is_data_in_the_page(airtcp: Command, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    script = "</script><script>alert(1)</script><!--"
    toml = SMALL.replace('name = "small"', f"name = 'small'\ndescription = '{script}'")
    link = share_url.SharedScenario(toml, (f"description='{script}'",)).fragment()
    done = airtcp("play", link + "&other=</script><script>alert(2)</script>", "--export", out)
    assert done.returncode == 0, done.stderr
    page, plain = out.read_text(), PAGE.read_text()
    assert len(re.findall("<script|<!--", page)) == len(re.findall("<script|<!--", plain))
    given = re.search(r'id="given">([^<]*)</script>', page)
    assert given is not None
    assert re.fullmatch(r"#s=[\w-]+&set=[\w.~%-]+", given[1])


@BUILT
def test_the_policy_of_the_page_has_no_holes() -> None:
    from airtcp import _csp

    policy = _csp.directives(PAGE.read_text())
    assert policy.keys() == {
        "default-src",
        "script-src",
        "style-src",
        "worker-src",
        "connect-src",
        "base-uri",
        "form-action",
    }
    for name in ("default-src", "connect-src", "base-uri", "form-action"):
        assert policy[name] == ["'none'"]
    assert policy["worker-src"] == ["blob:"]
    for value in [*policy["script-src"], *policy["style-src"]]:
        assert value == "'wasm-unsafe-eval'" or re.fullmatch(r"'sha256-[\w+/]{43}='", value), value


@BUILT
@NEEDS_CHROMIUM
def test_a_run_that_is_too_long_is_told_before(browser: Any) -> None:
    text = (ROOT / "examples/backbone.toml").read_text()
    with Visit(browser, PAGE.as_uri() + share_url.SharedScenario(text).fragment(), offline=True) as visit:
        told = "text=/run it with the command line|The command below runs it natively/"
        visit.page.wait_for_selector(told, timeout=60_000)
        assert visit.said == []
