"""The page of `airtcp play`, measured: sizes, first picture, drags, frames per second, memory, speed beside native.

Usage: playground.py [--only PART ...] [--stories STORY ...] [--ahead] [--out FILE]

Needs `make playground`, Chromium and Node. It prints tables for evidence/playground.md, each row as it comes. Times are
of this machine as it is: stop other work first, or run before it (`--ahead`, as root). All parts take five minutes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airtcp import _airtcp, share_url

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "playground/dist/playground.html"
HASHES = ROOT / "playground/dist/hashes.mjs"
WASM = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "wasm32-unknown-unknown/web/airtcp_web.wasm"
STORIES = ROOT / "playground/stories"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DESKTOP = {"width": 1280, "height": 900}
MOVES = 24
"""Steps of a control that are measured."""
CHOSEN: list[str] = []
"""Stories whose drags are measured; empty: all."""
REMEDY = "seed=7"
"""The change of second runs: what they cost does not hang on it."""

CELLS = {
    "20 stations of 802.11n": ("playground/stories/call.toml", ["duration=60s", "nodes.laptop.count=20"], []),
    "20 stations of 802.11g": ("playground/stories/coop.toml", ["duration=60s", "nodes.phone.count=20"], []),
    "the same, two runs": ("playground/stories/coop.toml", ["duration=60s", "nodes.phone.count=20"], [REMEDY]),
}
SPEEDS = {
    "walk, 20 s": ("examples/walk.toml", ["duration=20s"]),
    "wifi-upload, 20 s": ("examples/wifi-upload.toml", ["duration=20s"]),
    "wifi-retry-out, 30 s": ("examples/wifi-retry-out.toml", ["duration=30s"]),
    "story call": ("playground/stories/call.toml", []),
    "story pacing": ("playground/stories/pacing.toml", []),
}

# Moves a control by a step, and waits for the picture: until the frame with it has been handed on. Then it waits
# for the run with all its frames, which is made when the control rests.
STEPS = """async ({ id, times }) => {
  const control = document.getElementById(id), body = document.body, found = [], walls = [];
  for (let i = 0; i < times; i++) {
    const begin = performance.now();
    control.value = String(Number(control.value) + (i < times / 2 ? 1 : -1) * Number(control.step));
    control.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((resolve) => {
      const watch = new MutationObserver(() => (watch.disconnect(), resolve()));
      watch.observe(body, { attributes: true, attributeFilter: ["data-runs"] });
    });
    await new Promise((resolve) => requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = resolve;
      port2.postMessage(null);
    }));
    found.push(performance.now() - begin);
    walls.push(Math.max(...body.dataset.wall.split(" ").map(Number)));
    while (body.dataset.looks !== "all") await new Promise((resolve) => setTimeout(resolve, 20));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return { found, walls };
}"""

# Moves it in every frame for two seconds, and counts pictures.
DRAG = """async (id) => {
  const control = document.getElementById(id), begin = performance.now();
  let pictures = 0;
  const watch = new MutationObserver(() => pictures++);
  watch.observe(document.body, { attributes: true, attributeFilter: ["data-runs"] });
  for (let i = 0; performance.now() - begin < 2000; i++) {
    control.value = String(Number(control.value) + (i % 20 < 10 ? 1 : -1) * Number(control.step));
    control.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise(requestAnimationFrame);
  }
  watch.disconnect();
  return pictures / 2;
}"""

FRAMES = """(ms) => new Promise((resolve) => {
  const begin = performance.now();
  let frames = 0, longest = 0, last = begin;
  const next = () => {
    const now = performance.now();
    frames++;
    longest = Math.max(longest, now - last);
    last = now;
    if (now - begin > ms) resolve([(frames / (now - begin)) * 1000, longest]);
    else requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})"""


def changed(file: str, changes: list[str]) -> str:
    text = (ROOT / file).read_bytes()
    return str(_airtcp.Checked.from_toml(text, file, [_airtcp.parse_set(c) for c in changes]).to_toml())


def five_seconds(story: str) -> str:
    text = (STORIES / f"{story}.toml").read_text()
    return re.sub(r"(?m)^duration = .*", 'duration = "5s"', re.sub(r"(?m)^warmup.*\n", "", text))


def heading(*head: str) -> None:
    print("\n| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|", flush=True)


def row(*values: str) -> None:
    print("| " + " | ".join(values) + " |", flush=True)


def spread(values: list[float]) -> tuple[float, float, float]:
    """The median, and an interval that has it in 95 of 100 cases whatever the distribution is: by ranks."""
    n, ordered = len(values), sorted(values)
    below, k = 0.0, 0
    while k < n // 2 and (below := below + math.comb(n, k) / 2**n) <= 0.025:
        k += 1
    low = max(k - 1, 0)
    return statistics.median(ordered), ordered[low], ordered[n - 1 - low]


@contextmanager
def shown(browser: Browser, text: str | None, *changes: str) -> Iterator[Page]:
    """The page with a scenario, ready."""
    context = browser.new_context(viewport=DESKTOP, offline=True)
    page = context.new_page()
    page.goto(PAGE.as_uri() + ("" if text is None else share_url.SharedScenario(text, changes).fragment()))
    page.wait_for_selector("body[data-runs]", timeout=300_000)
    yield page
    context.close()


def renderer_mb(browser: Browser) -> tuple[float, float]:
    """Of the process of a page with its workers: the proportional set, and the resident one at its largest so far."""
    infos = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    best = (0.0, 0.0)
    for info in infos:
        if info["type"] != "renderer":
            continue
        process = Path("/proc", str(info["id"]))
        text = (process / "smaps_rollup").read_text() + (process / "status").read_text()
        kb = {k: int(v) for k, v in re.findall(r"(?m)^(Pss|VmHWM):\s+(\d+) kB", text)}
        best = max(best, (kb["Pss"] * 1.024e-3, kb["VmHWM"] * 1.024e-3))
    return best


def sizes(_: Browser) -> Json:
    packed = (
        "const z=require('zlib');console.log(z.brotliCompressSync(require('fs').readFileSync(process.argv[1])).length)"
    )
    found = {}
    heading("kB", "as it is", "gzip", "brotli")
    for name, path in (("engine", WASM), ("page, with the engine", PAGE)):
        brotli = int(
            subprocess.run(["node", "-e", packed, str(path)], capture_output=True, text=True, check=True).stdout
        )
        found[name] = {"bytes": path.stat().st_size, "gzip": len(gzip.compress(path.read_bytes())), "brotli": brotli}
        row(name, *(f"{n / 1000:.0f}" for n in found[name].values()))
    return found


def first(browser: Browser) -> Json:
    found = []
    for _ in range(7):
        begin = time.monotonic()
        with shown(browser, None):
            found.append(time.monotonic() - begin)
    told = [f"{x:.2f}" for x in (statistics.median(found), max(found))]
    heading("from disk to the first picture", "median, s", "most of 7, s")
    row("", *told)
    return {"s": found}


def drags(browser: Browser) -> Json:
    found = {}
    head = ["median (95 %), ms", f"most of {MOVES}, ms", "of it the run, ms", "pictures a second"]
    heading("5 s simulated, a drag", *head)
    for story in CHOSEN or sorted(path.stem for path in STORIES.glob("*.toml")):
        for changes in ((), (REMEDY,)):
            with shown(browser, five_seconds(story), *changes) as page:
                ids = [e.get_attribute("id") for e in page.locator("#controls input[type=range]").all()]
                control = next((i for i in ids if i.startswith("control-snr")), ids[0])
                page.wait_for_timeout(500)
                steps = page.evaluate(STEPS, {"id": control, "times": MOVES + 2})
                rate = page.evaluate(DRAG, control)
            ms, walls = steps["found"][2:], steps["walls"][2:]
            name = f"{story}, {'two runs' if changes else 'one run'}"
            found[name] = {"control": control, "ms": ms, "run_ms": walls, "pictures_per_s": rate}
            middle, low, high = spread(ms)
            told = [
                f"{middle:.0f} ({low:.0f} to {high:.0f})",
                f"{max(ms):.0f}",
                f"{statistics.median(walls):.0f}",
                f"{rate:.0f}",
            ]
            row(name, *told)
    return found


def playing(browser: Browser) -> Json:
    found = {}
    heading("a minute of", "frames a second", "after the run, MB", "playing", "at the end", "most resident")
    with blank(browser):
        empty = renderer_mb(browser)
    row("an empty page", "", "", "", f"{empty[0]:.0f}", f"{empty[1]:.0f}")
    for name, (file, changes, second) in CELLS.items():
        with shown(browser, changed(file, changes), *second) as page:
            after = renderer_mb(browser)
            page.locator("#play").click()
            rate, longest = page.evaluate(FRAMES, 10_000)
            during = renderer_mb(browser)
            page.locator("#play").click()
            page.locator("#speed").select_option("10")
            page.locator("#play").click()
            page.wait_for_selector("#play[aria-pressed=false]", timeout=120_000)
            end = renderer_mb(browser)
        found[name] = {"fps": rate, "longest_ms": longest, "mb": {"run": after, "playing": during, "end": end}}
        told = [f"{mb[0]:.0f}" for mb in (after, during, end)] + [f"{end[1]:.0f}"]
        row(name, f"{rate:.1f}, longest {longest:.0f} ms", *told)
    return found


@contextmanager
def blank(browser: Browser) -> Iterator[None]:
    context = browser.new_context()
    page = context.new_page()
    page.goto("data:text/html,<p>nothing")
    yield page
    context.close()


def speeds(browser: Browser) -> Json:
    found = {}
    head = ["native, s", "Node, s", "page, s", "Node / native", "page / native", "hash, all alike"]
    heading("best of 5, in the page of 3", *head)
    for name, (file, changes) in SPEEDS.items():
        text = changed(file, changes)
        native, hash_ = [], ""
        for _ in range(5):
            begin = time.perf_counter()
            run = _airtcp.Run(_airtcp.Checked.from_toml(text.encode(), file, []), None)
            run.advance(run.end_s)
            run.finish()
            native.append(time.perf_counter() - begin)
        requests = json.dumps({"until_s": 1e6, "requests": [{"toml": text}] * 5})
        done = subprocess.run(["node", HASHES, WASM], input=requests, capture_output=True, text=True, check=True)
        node = [json.loads(line) for line in done.stdout.splitlines()]
        page_s = []
        with shown(browser, text) as page:
            hash_ = page.get_attribute("body", "data-runs")
            for _ in range(3):
                page.evaluate("document.body.removeAttribute('data-runs')")
                page.locator("#toml").dispatch_event("input")
                page.wait_for_selector("body[data-runs]", timeout=300_000)
                page_s.append(float(page.get_attribute("body", "data-wall")) / 1000)
        assert all(n["hash"] == hash_ for n in node), name
        best = [min(native), min(n["wall_s"] for n in node), min(page_s)]
        found[name] = {"native_s": native, "node_s": [n["wall_s"] for n in node], "page_s": page_s, "hash": hash_}
        times = [f"{t:.3f}" for t in best] + [f"{t / best[0]:.1f}" for t in best[1:]]
        row(name, *times, str(hash_))
    return found


PARTS = {"sizes": sizes, "first": first, "drags": drags, "playing": playing, "speeds": speeds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", default=list(PARTS), help=", ".join(PARTS))
    stories = sorted(path.stem for path in STORIES.glob("*.toml"))
    parser.add_argument(
        "--stories", nargs="+", choices=stories, metavar="STORY", default=[], help="whose drags; default: all"
    )
    parser.add_argument(
        "--ahead", action="store_true", help="as root: run before all programs without real-time priority"
    )
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    for path in (PAGE, HASHES, WASM):
        if not path.exists():
            sys.exit(f"missing: {path}\n  make playground builds it")
    if CHROMIUM is None or shutil.which("node") is None:
        sys.exit("needs Chromium (Debian package chromium) and Node (nodejs)")
    from playwright.sync_api import sync_playwright

    CHOSEN.extend(arguments.stories)
    if arguments.ahead:
        # Inherited by all that is started from here.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))
    found = {}
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        for part in arguments.only:
            found[part] = PARTS[part](browser)
        browser.close()
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
