import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { bitsPerSecond, controlsOf, seconds } from "../src/controls";
import { Engine, EngineError, run } from "../src/engine";
import { offered } from "../src/remedies";
import { Run, SEEN, lowerBound } from "../src/run";
import { STORIES } from "../src/stories";

const wasm = new WebAssembly.Module(readFileSync(process.env.AIRTCP_WASM ?? "../target/wasm32-unknown-unknown/web/airtcp_web.wasm"));
const engine = new Engine(wasm);
const { names } = engine.about();
const short = (toml: string): string => engine.change(engine.change(toml, ["duration"], '"3s"'), ["warmup"], null);

test("faults are those of the command line", () => {
  const told = (toml: string): EngineError => {
    try {
      engine.check({ toml });
    } catch (error) {
      assert.ok(error instanceof EngineError);
      return error;
    }
    return assert.fail("it is accepted");
  };
  const call = STORIES[0]?.toml ?? "";
  const typo = told(call.replace("[[nodes]]\nname", "[[nodes]]\nnam"));
  assert.match(typo.message, /scenario\.toml:\d+: nodes\[0\]\.nam = "laptop": unknown key; did you mean `name`/);
  assert.ok((typo.faults[0]?.line ?? 0) > 1);
  assert.match(told("duration = ").message, /scenario\.toml/);
  assert.throws(() => engine.check({ toml: call, set: ["flows.nobody.tcp.cc=bbr"] }), /--set flows\.nobody/);
  assert.throws(() => engine.advance(1), /no run is open/);
});

test("a scenario made to harm is a fault, and pollutes nothing", () => {
  const call = STORIES[0]?.toml ?? "";
  const before = Object.getOwnPropertyNames(Object.prototype).length;
  const own = new Engine(wasm);
  const bad = [
    ...["__proto__", "constructor.prototype", "prototype"].map((key) => `${call}\n[${key}]\npolluted = 1\n`),
    ...["__proto__", "constructor", "toString"].map((name) => call.replace('kind = "host"', `kind = "${name}"`)),
    ...[1e9, 1e6, Number.MAX_SAFE_INTEGER].map((count) => call.replace('kind = "host"', `kind = "host"\ncount = ${count}`)),
    `a = ${"[".repeat(50_000)}${"]".repeat(50_000)}`,
    `${"a.".repeat(50_000)}a = 1`,
    "\u0000",
    call.replace(/^name = .*$/m, "name = '<img src=x onerror=alert(1)>'\nname = 'twice'"),
  ];
  for (const toml of bad) assert.throws(() => own.check({ toml }), EngineError, toml.slice(0, 40));
  for (const set of ["__proto__.polluted=1", "constructor.prototype.polluted=1", "nodes.__proto__.x=1"]) assert.throws(() => own.check({ toml: call, set: [set] }), EngineError, set);
  assert.throws(() => own.change(call, ["__proto__", "polluted"], "1") && own.check({ toml: own.change(call, ["__proto__", "polluted"], "1") }), EngineError);
  assert.equal(own.broken, false);
  assert.equal(own.check({ toml: call }).name, engine.check({ toml: call }).name);
  assert.equal(Object.getOwnPropertyNames(Object.prototype).length, before);
  assert.equal("polluted" in {}, false);
});

test("drawing a run does not change it", () => {
  for (const { id, toml, set } of STORIES) {
    const plain = run(wasm, { toml: short(toml), set });
    const drawn = run(wasm, { toml: short(toml), set, draw_every_s: 0.01 });
    assert.equal(drawn.hash, plain.hash, id);
    assert.ok(!("frames" in plain.tables) && "frames" in drawn.tables);
    const quick = run(wasm, { toml: short(toml), set, draw_every_s: 0.01, draw_frames: false });
    assert.equal(quick.hash, plain.hash, id);
    assert.equal(quick.tables.frames?.rows, 0, id);
    assert.equal(quick.tables.ppdus?.rows, 0, id);
    for (const name of ["waiting", "drops", "flow_series"]) assert.deepEqual(quick.tables[name], drawn.tables[name], `${id} ${name}`);
  }
});

test("slices do not change a run", () => {
  const toml = short(STORIES[0]?.toml ?? "");
  engine.open({ toml });
  for (let now = 0; now < 3; ) now = engine.advance(now + 0.0137);
  assert.equal(engine.finish().hash, run(wasm, { toml }).hash);
});

test("every story has three steps within its run, and a second run", () => {
  assert.equal(STORIES.length, 6);
  for (const story of STORIES) {
    const { duration_s } = engine.check({ toml: story.toml, set: story.set });
    assert.equal(story.steps.length, 3, story.id);
    for (const step of story.steps) assert.ok(step.from_s < duration_s, story.id);
    assert.ok(FINDINGS[story.finding]);
    assert.ok(story.watch === "" || engine.check({ toml: story.toml }).flows.some((f) => f.tcp && f.group === story.watch));
    for (const text of [story.scene, story.attempt, ...story.steps.map((s) => s.text)]) {
      for (const sentence of text.split(/[.?!:] /)) assert.ok(sentence.split(" ").length <= 25, sentence);
    }
  }
});

test("every control changes its value and leaves the rest of the text", () => {
  for (const { id, toml } of STORIES) {
    const description = engine.check({ toml });
    const controls = controlsOf(description, names);
    assert.ok(controls.length > 3, id);
    for (const control of controls) {
      const other = control.kind === "range" ? (control.value === control.max ? control.min : control.max) : control.options.findLast((o) => o.value !== control.value)?.value;
      assert.ok(other !== undefined, `${id} ${control.id}`);
      const edits = control.kind === "range" ? control.edits(other as number) : control.edits(other as string);
      let text = toml;
      for (const { path, value } of edits) text = engine.change(text, path, value);
      const comments = (t: string): string[] => t.split("\n").filter((line) => line.startsWith("#"));
      assert.deepEqual(comments(text), comments(toml), `${id} ${control.id}`);
      const after = controlsOf(engine.check({ toml: text }), names).find((c) => c.id === control.id);
      assert.ok(after !== undefined, `${id} ${control.id}`);
      if (typeof after.value === "number") assert.ok(Math.abs(after.value / (other as number) - 1) < 0.01, `${id} ${control.id}: ${after.value}`);
      else assert.equal(after.value, other, `${id} ${control.id}`);
    }
  }
});

test("a queue is changed wherever it stands", () => {
  const line = (queue: string): string => `duration = "1s"
[[nodes]]
name = "a"
kind = "host"
[[nodes]]
name = "b"
kind = "host"
[[links]]
name = "l"
from = "a"
to = "b"
rate = "1Mbit/s"
delay = "1ms"
${queue}
[[flows]]
name = "f"
from = "a"
to = "b"
`;
  for (const queue of ["", 'queue = "fifo"', 'queue = { name = "fifo", limit_packets = 50 }', '[links.queue]\nname = "fifo"\nlimit_packets = 50']) {
    for (const [id, to] of [["queue", "codel"], ["buffer", 20]] as const) {
      const control = controlsOf(engine.check({ toml: line(queue) }), names).find((c) => c.id === id);
      // Without a limit there is no buffer to be changed.
      if (!control && id === "buffer") continue;
      assert.ok(control, queue);
      const all = control.kind === "range" ? [control.edits(to as number)] : [control.edits(to as string), control.otherwise?.(to as string) ?? []];
      const texts = all.flatMap((edits) => {
        try {
          return [edits.reduce((text, { path, value }) => engine.change(text, path, value), line(queue))];
        } catch {
          return [];
        }
      });
      const after = controlsOf(engine.check({ toml: texts[0] ?? "" }), names).find((c) => c.id === id);
      assert.equal(after?.value, to, `${queue} ${id}`);
    }
  }
});

test("every remedy that is offered runs", () => {
  let count = 0;
  for (const { id, toml } of STORIES) {
    const description = engine.check({ toml });
    for (const { remedy, set } of offered(engine, toml, description)) {
      count++;
      engine.open({ toml: short(toml), set });
      assert.ok(engine.advance(0.3) >= 0.3, `${id} ${remedy.id}`);
    }
  }
  assert.ok(count > 25, String(count));
});

test("a run is found again by time", () => {
  const request = { toml: short(STORIES[1]?.toml ?? ""), draw_every_s: 0.0025 };
  const all = run(wasm, request);
  for (const [table, columns] of Object.entries(SEEN)) for (const c of columns) assert.ok(table === "walkers" || all.tables[table]?.columns[c], `${table}.${c}`);
  const it = new Run(engine.check(request), all, 0, 0.0025);
  assert.ok(it.ppdus > 100);
  let frames = 0;
  for (let i = 0; i < it.ppdus; i++) {
    const p = it.ppdu(i);
    assert.ok(i === 0 || p.start_s >= it.ppdu(i - 1).start_s);
    const rows = it.framesOf(p);
    assert.equal(rows.length, p.mpdus, `PPDU ${i}`);
    assert.equal(rows.filter((row) => it.frame(row).ok).length, p.received, `PPDU ${i}`);
    frames += rows.length;
    const [first, last] = it.ppdusBetween(p.start_s, p.end_s);
    assert.ok(first <= i && i < last);
  }
  assert.ok(frames > 1000);
  assert.equal(it.lastPpdu(-1), -1);
  const late = it.waiting(2.9);
  assert.ok([...late.queues.values()].flat().reduce((sum, s) => sum + s.packets, 0) > 5);
  const link = it.description.links.findIndex((l) => l.air && !l.air.down);
  const numbers = it.numbers(link, 2.9);
  assert.ok(numbers.length > 40 && numbers.every((n) => n.tries > 0));
  assert.ok(it.latency("").ms.length > 10 && it.goodput("upload").mbps.some((x) => x > 1));
});

test("a run without frames has its figures, its queues and its radios", () => {
  const request = { toml: short(STORIES[1]?.toml ?? ""), draw_every_s: 0.01 };
  const description = engine.check(request);
  const whole = new Run(description, run(wasm, request), 0, 0.01);
  const quick = new Run(description, run(wasm, { ...request, draw_frames: false }), 0, 0.01, false);
  assert.ok(whole.ppdus > 100 && whole.hasFrames && !quick.hasFrames);
  assert.equal(quick.ppdus, 0);
  assert.deepEqual(quick.senders, whole.senders);
  assert.deepEqual(quick.queues, whole.queues);
  assert.deepEqual(quick.latency(""), whole.latency(""));
  assert.deepEqual(quick.goodput(""), whole.goodput(""));
  assert.equal(quick.lastPpdu(2), -1);
  assert.deepEqual(quick.ppdusBetween(0, 2), [0, 0]);
});

test("units and places", () => {
  assert.deepEqual([seconds("90ms"), seconds("1.5s"), seconds("x"), seconds(3)], [0.09, 1.5, null, null]);
  assert.deepEqual([bitsPerSecond("10Mbit/s"), bitsPerSecond("1Gbit/s"), bitsPerSecond("10MB")], [1e7, 1e9, null]);
  assert.deepEqual([lowerBound([1, 2, 2, 5], 2), lowerBound([], 1), lowerBound([1], 9)], [1, 0, 1]);
});
