// The page: a scenario, its run and the run with changes, side by side.

import { controlsOf, type Control, type Edit } from "./controls";
import { AirView, Colours, GROUP_COLOURS, QueueView, ReorderView, fields, span, spoken } from "./draw";
import { by, make } from "./elements";
import { Engine, EngineError, type Description, type Request } from "./engine";
import { figures, headline } from "./figures";
import { LinkError, command, fromFragment, toFragment, type Given } from "./link";
import { Plot, plotsOf } from "./plots";
import { offered } from "./remedies";
import { REASONS, Run } from "./run";
import { Scene } from "./scene";
import { STORIES, VERDICTS, type Story } from "./stories";
import type { Ask, Tell } from "./worker";

const RUNS = ["As it is", "With the change"] as const;
const state = by("state");
const toml = by<HTMLTextAreaElement>("toml");
const changes = by<HTMLTextAreaElement>("changes");
const remedy = by<HTMLSelectElement>("remedy");
const faults = by("faults");
const time = by<HTMLInputElement>("time");
const speed = by<HTMLSelectElement>("speed");
const play = by<HTMLButtonElement>("play");
const watch = by<HTMLSelectElement>("watch");
const tip = by("tip");

let engine: Engine;
let module: WebAssembly.Module;
let names: Record<string, string[]> = {};
let colours = new Colours();
let description: Description | null = null;

// --- two workers, one for each run ---------------------------------------------------------------------------------

interface Slot {
  worker: Worker | null;
  asked: number;
  run: Run | null;
  /** What it does now, for the line above. */
  doing: string;
  wish: Wish | null;
}
/** A run that is asked for. */
interface Wish {
  request: Request;
  /** What the request means: read while a worker already begins the run, and there before it ends. */
  description: Description | null;
  every_s: number;
  hasFrames: boolean;
}
const slots: Slot[] = RUNS.map(() => ({ worker: null, asked: 0, run: null, doing: "", wish: null }));
let asks = 0;
/** Larger networks are not drawn, and not begun. */
const MOST_PARTS = 20_000;
/** So often in a run its queues are looked at; while a control is dragged, the picture only has to be quick. */
const LOOKS = 1200;
const LOOKS_IN_A_DRAG = 100;
/** After a run that took longer, those of a drag are made without frames. */
const MOST_WITH_FRAMES_MS = 40;
/** A drag is over when nothing moved for so long. */
const SETTLED_MS = 200;
/** A run of a drag goes on although the control has moved, but not for longer than this. */
const MOST_PATIENCE_MS = 400;
const LONG = "waits for your word";
const FAILED = "failed";
const workerUrl = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));

/** The memory of a module does not shrink: above this, its worker ends with the run, and another takes its place. */
const MOST_KEPT_BYTES = 48e6;

/** A new worker, ready for the next run. */
function renew(slot: Slot): Worker {
  slot.worker?.terminate();
  const worker = new Worker(workerUrl);
  worker.onmessage = (event: MessageEvent<Tell>) => heard(slot, event.data);
  worker.postMessage({ kind: "module", module } satisfies Ask);
  slot.worker = worker;
  return worker;
}

const post = (slot: Slot, ask: Ask): void => (slot.worker ?? renew(slot)).postMessage(ask);

function ask(slot: Slot, wish: Wish, anyway = false): void {
  slot.asked = ++asks;
  slot.wish = wish;
  slot.doing = "starts";
  const { request, every_s, hasFrames } = wish;
  post(slot, { kind: "run", id: slot.asked, request: { ...request, draw_every_s: every_s, draw_frames: hasFrames }, anyway });
}

const isBusy = (): boolean => slots.some((s) => s.doing !== "" && s.doing !== FAILED && s.doing !== LONG);

/** What a request means. */
function checked(request: Request): Description {
  const d = engine.check(request);
  const parts = d.nodes.length + d.links.length + d.flows.length;
  if (parts > MOST_PARTS) throw new EngineError(`this network has ${parts} nodes, lines and flows, and a page takes ${MOST_PARTS}: run it with the command line`);
  return d;
}

function heard(slot: Slot, tell: Tell): void {
  if (tell.id !== slot.asked) return;
  const which = slots.indexOf(slot);
  if (tell.kind === "progress") {
    slot.doing = `${Math.round((100 * tell.now_s) / tell.end_s)} %`;
  } else if (tell.kind === "long") {
    slot.doing = LONG;
    offerLong(tell.duration_s, tell.estimate_s);
  } else if (tell.kind === "failed") {
    slot.doing = FAILED;
    showFault(which === 1 ? `The second run: ${tell.text}` : tell.text);
  } else if (slot.wish?.description) {
    slot.doing = "";
    if (tell.memory > MOST_KEPT_BYTES) renew(slot);
    slot.run = new Run(slot.wish.description, tell.output, tell.wall_ms, slot.wish.every_s, slot.wish.hasFrames);
    arrived();
  }
  tellState();
  if (isOverdue && !isBusy()) runBoth(LOOKS_IN_A_DRAG);
}

function tellState(): void {
  // What is wrong stays in sight.
  if (slots.some((s) => s.doing === FAILED) && !isBusy()) return;
  const busy = slots.filter((s) => s.doing !== "" && s.doing !== FAILED).map((s) => `${RUNS[slots.indexOf(s)]}: ${s.doing}`);
  const [a, b] = slots.map((s) => s.run);
  if (busy.length > 0) state.textContent = `Simulating. ${busy.join("; ")}`;
  else if (a) state.textContent = headline(a, b ?? null, watch.value);
}

function offerLong(duration_s: number, estimate_s: number): void {
  const box = by("long");
  const anyway = make("button", "Run it here all the same", { type: "button" });
  anyway.onclick = () => {
    box.hidden = true;
    for (const slot of slots) if (slot.doing === LONG && slot.wish) ask(slot, slot.wish, true);
  };
  box.replaceChildren(
    make("p", `This run of ${duration_s} s would take about ${Math.round(estimate_s)} s in the page. The command below runs it natively, which is faster; or shorten “Simulated time”.`),
    make("p", command(location.hash, []).slice(0, 300)),
    anyway,
  );
  box.hidden = false;
}

// --- the scenario: text, controls and link --------------------------------------------------------------------------

const changed = (): string[] => changes.value.split("\n").map((line) => line.trim()).filter((line) => line !== "");

const firstLine = (text: string): string => text.split("\n")[0] ?? "";

function showFault(text: string): void {
  faults.textContent = text;
  // On a telephone the text is far below.
  if (text !== "") state.textContent = text.startsWith("The ") ? firstLine(text) : `The scenario has a fault: ${firstLine(text)}`;
  toml.setAttribute("aria-invalid", String(text !== ""));
}

let linking = 0;
async function setLink(): Promise<void> {
  const mine = ++linking;
  const fragment = await toFragment({ toml: toml.value, set: changed() });
  if (mine !== linking) return;
  history.replaceState(null, "", fragment);
  native();
}

/** Reads the text, fits controls to it and runs it. */
function update(from: "text" | "control"): void {
  const isDrag = from === "control";
  // One after the other, so that a picture follows the control while it moves.
  const waits = isDrag && isBusy() && looksNow === LOOKS_IN_A_DRAG && performance.now() - begun_ms < MOST_PATIENCE_MS;
  const begins = isDrag && !waits && description !== null;
  if (begins) begin(LOOKS_IN_A_DRAG);
  try {
    description = checked({ toml: toml.value });
  } catch (error) {
    if (engine.broken) engine = new Engine(module);
    if (begins) slots.forEach(giveUp);
    showFault(error instanceof Error ? error.message : String(error));
    return;
  }
  showFault("");
  by("long").hidden = true;
  window.clearTimeout(settling);
  isOverdue = waits;
  if (!isDrag) {
    drawControls(description);
    drawRemedies(description);
    runBoth(LOOKS);
    return;
  }
  if (begins) describe(description);
  settle();
}

let begun_ms = 0;
let looksNow = LOOKS;
/** Frames are recorded. Once they are left out in a drag, they come back when it ends. */
let framesNow = true;
/** The text is newer than the run that is made now. */
let isOverdue = false;
let settling: number | undefined;

/** After a drag: the run with all its looks, and the link. */
function settle(): void {
  settling = window.setTimeout(() => {
    if (isBusy() || isOverdue) settle();
    else runBoth(LOOKS);
  }, SETTLED_MS);
}

/** What a worker does is not wanted any more, whatever it is. */
function giveUp(slot: Slot): void {
  if (slot.doing !== "") renew(slot);
  slot.asked = 0;
  slot.doing = "";
}

/** Has the workers begin, before anything is known of what they are to run. */
function begin(looks: number): void {
  const [first, second] = slots as [Slot, Slot];
  const set = changed();
  framesNow = looks === LOOKS || (framesNow && runs().every((run) => run.wall_ms <= MOST_WITH_FRAMES_MS));
  const hasFrames = framesNow;
  const every_s = Math.max((description?.duration_s ?? 0) / looks, 0.001);
  const wish = (request: Request): Wish => ({ request, description: null, every_s, hasFrames });
  isOverdue = false;
  begun_ms = performance.now();
  looksNow = looks;
  ask(first, wish({ toml: toml.value }));
  second.asked = 0;
  second.doing = "";
  if (set.length > 0) ask(second, wish({ toml: toml.value, set }));
  else {
    second.run = null;
    second.worker?.postMessage({ kind: "cancel" } satisfies Ask);
  }
  tellState();
  if (looks === LOOKS) void setLink();
}

/** What it is that they run: the scenario, which is known, and the one with the changes. */
function describe(d: Description): void {
  const [first, second] = slots as [Slot, Slot];
  if (first.wish) first.wish.description = d;
  if (second.asked === 0 || second.wish === null) return;
  try {
    second.wish.description = checked(second.wish.request);
  } catch (error) {
    if (engine.broken) engine = new Engine(module);
    giveUp(second);
    second.doing = FAILED;
    showFault(`The second run: ${error instanceof Error ? error.message : error}`);
  }
}

function runBoth(looks: number): void {
  if (description === null) return;
  begin(looks);
  describe(description);
}

let waiting: number | undefined;
const soon = (body: () => void, ms: number): void => {
  window.clearTimeout(waiting);
  waiting = window.setTimeout(body, ms);
};

function edit(edits: Edit[], otherwise?: Edit[]): void {
  try {
    let text = toml.value;
    for (const { path, value } of edits) text = engine.change(text, path, value);
    toml.value = text;
  } catch (error) {
    if (otherwise) edit(otherwise);
    else showFault(error instanceof EngineError ? error.message : String(error));
    return;
  }
  update("control");
}

function drawControls(d: Description): void {
  by("controls").replaceChildren(...controlsOf(d, names).map((control) => (control.kind === "range" ? slider(control) : choice(control))));
}

function slider(control: Extract<Control, { kind: "range" }>): HTMLElement {
  const { log } = control;
  const put = (x: number): number => (log ? Math.log10(x) : x);
  const take = (x: number): number => (log ? 10 ** x : x);
  const label = make("label");
  const output = make("output", `${control.value} ${control.unit}`);
  const input = make("input", "", { type: "range", id: `control-${control.id}` });
  input.min = String(put(Math.min(control.min, Math.max(control.value, 1e-6))));
  input.max = String(put(Math.max(control.max, control.value)));
  input.step = String(control.step);
  input.value = String(put(control.value));
  const said = (): string => `${Number(take(Number(input.value)).toPrecision(3))} ${control.unit}`;
  input.setAttribute("aria-valuetext", said());
  input.oninput = () => {
    output.textContent = said();
    input.setAttribute("aria-valuetext", said());
    edit(control.edits(take(Number(input.value))));
  };
  // The output could be labelled as well, and is first.
  label.htmlFor = input.id;
  label.append(make("span", control.label), output, input);
  return label;
}

function choice(control: Extract<Control, { kind: "select" }>): HTMLElement {
  const label = make("label", control.label);
  const select = make("select", "", { id: `control-${control.id}` });
  const known = control.options.some((o) => o.value === control.value);
  for (const o of known ? control.options : [{ value: control.value, label: control.value }, ...control.options]) {
    select.append(make("option", o.label, { value: o.value }));
  }
  select.value = control.value;
  select.onchange = () => edit(control.edits(select.value), control.otherwise?.(select.value));
  label.append(select);
  return label;
}

let remedies: ReturnType<typeof offered> = [];

function drawRemedies(d: Description): void {
  const now = changed().join("\n");
  const options = [make("option", "no second run", { value: "" })];
  let chosen = now === "" ? "" : "own";
  remedies = offered(engine, toml.value, d);
  for (const { remedy: r, set } of remedies) {
    options.push(make("option", r.label, { value: r.id }));
    if (set.join("\n") === now) chosen = r.id;
  }
  if (chosen === "own") options.push(make("option", "the changes below", { value: "own" }));
  remedy.replaceChildren(...options);
  remedy.value = chosen;
}

let story: Story | null = null;

function open(given: Given, told: Story | null = null): void {
  story = told;
  toml.value = given.toml;
  changes.value = given.set.join("\n");
  for (const slot of slots) slot.run = null;
  stop();
  position = 0;
  showStory(story);
  watch.replaceChildren(make("option", "", { value: story?.watch ?? "" }));
  update("text");
}

// --- what is seen of the runs ---------------------------------------------------------------------------------------

interface View {
  air: AirView;
  queues: QueueView;
  reorder: ReorderView;
  told: HTMLElement;
}
/** What of a view stays as long as it shows the same things of another run. */
interface Frame {
  of: string;
  box: HTMLElement;
  canvases: [HTMLCanvasElement, HTMLCanvasElement, HTMLCanvasElement];
  told: HTMLElement;
}
let frames: Frame[] = [];
/** The link in the air that carried most in the last run with frames. */
let busiest: number | null = null;
let views: View[] = [];
let scene: Scene | null = null;
let position = 0;
let width_s = 1;
const latency = new Plot(by("latency"), (t) => seek(t));
const goodput = new Plot(by("goodput"), (t) => seek(t));

const runs = (): Run[] => slots.map((s) => s.run).filter((run) => run !== null);
const end = (): number => runs()[0]?.duration_s ?? 1;

/** A run has come: all pictures are made anew. */
function arrived(): void {
  if (slots.some((s) => s.doing !== "" && s.doing !== "failed")) return;
  const all = runs();
  const first = all[0];
  if (!first) return;
  const groups = [...new Set(all.flatMap((run) => run.description.flows.map((f) => f.group)))];
  const { places, most } = QueueView.places(all);
  drawWatch(first);
  scene = new Scene(by<SVGSVGElement>("scene"), first.description);
  // Without frames it is not known: the boxes stay as they are.
  if (first.hasFrames) busiest = first.senders.length > 0 ? busiestLink(first) : null;
  const old = frames;
  frames = all.map((run, i) => framed(run, i, busiest !== null, old[i]));
  if (frames.length !== old.length || frames.some((f, i) => f !== old[i])) by("runs").replaceChildren(...frames.map((f) => f.box));
  views = all.map((run, i) => {
    const { canvases, told } = frames[i] as Frame;
    const [air, queues] = [new AirView(canvases[0], run), new QueueView(canvases[1], run, places, most, groups)];
    hover(air.canvas, (x, y) => air.under(x, y));
    hover(queues.canvas, (x, y) => queues.under(x, y));
    return { air, queues, reorder: new ReorderView(canvases[2], run, busiest), told };
  });
  legend(groups, all.some((run) => run.senders.length > 0));
  const { latency: l, goodput: g } = plotsOf(all, watch.value);
  const labels = all.map((_, i) => RUNS[i] as string);
  latency.set(l.what.replace(/^./, (c) => c.toUpperCase()), "ms", labels, l.lines, end(), colours);
  goodput.set(watch.value === "" ? "TCP goodput" : `Goodput of ${watch.value}`, "Mbit/s", labels, g, end(), colours);
  figures(by("figures"), all, RUNS);
  native();
  seek(Math.min(position, end()));
  document.body.dataset.looks = looksNow === LOOKS ? "all" : "few";
  document.body.dataset.frames = all.every((run) => run.hasFrames) ? "all" : "none";
  document.body.dataset.wall = all.map((run) => run.wall_ms.toFixed(1)).join(" ");
  document.body.dataset.runs = all.map((run) => run.output.hash).join(" ");
}

/** The box of a run, or the one that is there if nothing in it has to change but its pictures. */
function framed(run: Run, i: number, hasReceiver: boolean, old: Frame | undefined): Frame {
  const title = i === 1 ? `${RUNS[1]}: ${changeLabel()}` : RUNS[0];
  const hasAir = run.senders.length > 0;
  const until_s = run.output.drawn_until_s;
  const of = JSON.stringify([title, hasAir, hasReceiver, until_s]);
  if (old?.of === of) return old;
  const box = make("div", "", { className: i === 1 ? "run second" : "run" });
  const head = make("h3");
  head.append(make("span", "", { className: "mark" }), title);
  box.append(head);
  const canvas = (heading: string, what: string): HTMLCanvasElement => {
    const it = make("canvas");
    it.setAttribute("role", "img");
    it.setAttribute("aria-label", `${RUNS[i]}: ${what}`);
    box.append(make("h4", heading), it);
    return it;
  };
  const air = canvas(hasAir ? "On the air, by sender" : "The air", "transmissions by sender over time");
  if (until_s !== null) box.append(make("p", `Frames and queues are kept up to ${span(until_s)}; figures and plots are of the whole run.`));
  const queues = canvas("Packets that wait, by whose they are", "queues by link");
  const reorder = hasReceiver ? canvas("The newest 64 frames at their receiver: a gap holds up what came after it", "sequence numbers at the receiver") : make("canvas");
  const told = make("p");
  box.append(told);
  return { of, box, canvases: [air, queues, reorder], told };
}

/** Groups with TCP, of which the plots can show one. */
function drawWatch(run: Run): void {
  const chosen = watch.value;
  const tcp = [...new Set(run.description.flows.filter((f) => f.tcp).map((f) => f.group))];
  watch.replaceChildren(make("option", "all TCP flows", { value: "" }), ...tcp.map((g) => make("option", g, { value: g })));
  watch.value = tcp.includes(chosen) ? chosen : "";
}

/** The link in the air that carries most. */
function busiestLink(run: Run): number | null {
  const sums = new Map<number, number>();
  const [link, bytes] = [run.column("ppdus", "link").values, run.column("ppdus", "psdu_bytes").values];
  for (let i = 0; i < link.length; i++) sums.set(Number(link[i]), (sums.get(Number(link[i])) ?? 0) + Number(bytes[i]));
  return [...sums].sort((a, b) => b[1] - a[1])[0]?.[0] ?? null;
}

function changeLabel(): string {
  if (story !== null && story.set.join("\n") === changed().join("\n")) return story.change;
  return remedy.value === "own" ? changed().join(", ") : remedy.value;
}

function legend(groups: string[], hasAir: boolean): void {
  const entry = (colour: string, text: string): HTMLElement => {
    const it = make("span");
    const box = make("i");
    box.style.background = colours.of(colour);
    it.append(box, text);
    return it;
  };
  const air = [
    entry("good", "arrived"),
    entry("ack", "arrived, TCP's ACKs"),
    entry("bad", "damaged or lost"),
    entry("collision", "collision"),
    entry("answer", "acknowledgement of the radio"),
    entry("request", "request"),
  ];
  const queues = groups.slice(0, GROUP_COLOURS).map((g, i) => entry(`group-${i}`, `waits: ${g}`));
  by("legend").replaceChildren(...(hasAir ? air : []), ...queues, make("span", "paler: ACKs and answers"));
}

function native(): void {
  const rows = runs().flatMap((run, i) => {
    const text = command(location.hash, i === 1 ? changed() : []);
    const code = make("dd");
    const copy = make("button", "Copy the command", { type: "button" });
    copy.setAttribute("aria-label", `Copy the command of the run ${RUNS[i]}`);
    copy.onclick = async () => {
      copy.textContent = (await copied(text)) ? "Copied." : "Select it above.";
    };
    const shown = make("code", text, { tabIndex: 0 });
    // It is wider than its place, and scrolled with the keyboard as well.
    shown.setAttribute("role", "group");
    shown.setAttribute("aria-label", `The command of the run ${RUNS[i]}`);
    code.append(shown, copy);
    const hash = make("dd");
    hash.append(make("code", `hash ${run.output.hash}`));
    return [make("dt", RUNS[i]), hash, code];
  });
  by("hashes").replaceChildren(...rows);
}

function hover(canvas: HTMLCanvasElement, under: (x: number, y: number) => string | null): void {
  const show = (event: PointerEvent): void => {
    const text = under(event.offsetX, event.offsetY);
    tip.hidden = text === null;
    if (text === null) return;
    tip.textContent = text;
    const x = Math.min(event.clientX + 14, window.innerWidth - Math.min(380, window.innerWidth * 0.94));
    tip.style.left = `${Math.max(4, x)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 6)}px`;
  };
  canvas.onpointermove = show;
  canvas.onpointerdown = show;
  // A finger that is lifted leaves, too: what it showed stays until the next touch.
  canvas.onpointerleave = (event) => {
    if (event.pointerType !== "touch") tip.hidden = true;
  };
}
document.addEventListener(
  "pointerdown",
  (event) => {
    if (!(event.target instanceof HTMLCanvasElement)) tip.hidden = true;
  },
  { passive: true },
);
document.addEventListener("scroll", () => (tip.hidden = true), { passive: true });

// --- time -----------------------------------------------------------------------------------------------------------

let playing = false;
let last = 0;

function drawNow(): void {
  for (const { air, queues, reorder, told } of views) {
    air.draw({ time_s: position, width_s }, colours);
    queues.draw(position, colours);
    told.textContent = reorder.draw(position, colours);
  }
  const run = runs()[0];
  if (run) scene?.draw(run, position);
  latency.mark(position);
  goodput.mark(position);
  time.value = String(Math.round((position / end()) * 1000));
  const digits = width_s >= 0.5 ? 2 : 5;
  by("now").textContent = `${position.toFixed(digits)} s`;
  time.setAttribute("aria-valuetext", `${position.toFixed(3)} seconds of ${end()}`);
}

function seek(to: number): void {
  position = Math.min(Math.max(to, 0), end());
  drawNow();
}

/** How much time the picture of the air shows: what passes in some seconds. */
function fitWidth(): void {
  const factor = Number(speed.value);
  width_s = factor === 0 ? end() : Math.min(Math.max(4 * factor, 0.003), end());
}

function frame(now: number): void {
  if (!playing) return;
  const factor = Number(speed.value);
  const passed = Math.min((now - last) / 1000, 0.1);
  last = now;
  seek(factor === 0 ? end() : position + passed * factor);
  if (position >= end()) {
    stop();
    return;
  }
  requestAnimationFrame(frame);
}

function stop(): void {
  playing = false;
  play.textContent = "Play";
  play.setAttribute("aria-pressed", "false");
  const run = runs()[0];
  if (run && position > 0) by("spoken").textContent = spoken(run, position);
}

function start(): void {
  if (position >= end()) position = 0;
  fitWidth();
  playing = true;
  play.textContent = "Pause";
  play.setAttribute("aria-pressed", "true");
  last = performance.now();
  requestAnimationFrame(frame);
}

play.onclick = () => (playing ? stop() : start());
speed.onchange = () => {
  fitWidth();
  drawNow();
};
time.oninput = () => seek((Number(time.value) / 1000) * end());

by("step").onclick = () => {
  stop();
  const run = runs()[0];
  if (!run) return;
  if (run.ppdus === 0) return seek(position + 0.001);
  const next = Math.min(run.lastPpdu(position) + 1, run.ppdus - 1);
  const p = run.ppdu(next);
  // Near enough to see its frames.
  width_s = Math.min(Math.max((p.end_s - p.start_s) * 12, 0.003), end());
  seek(p.start_s);
  by("spoken").textContent = fields(run, p).replaceAll("\n", " · ");
};

by("drop").onclick = () => {
  stop();
  const all = runs();
  const next = Math.min(...all.map((run) => run.dropTimes.find((t) => t > position + 1e-9) ?? Infinity));
  if (!Number.isFinite(next)) {
    by("spoken").textContent = "No packet is lost after this.";
    return;
  }
  width_s = Math.min(0.05, end());
  seek(next);
  const run = all.find((r) => r.dropTimes.includes(next));
  const drop = run?.drops.find((d) => d.time_s === next);
  if (!run || !drop) return;
  const said = `${RUNS[slots.findIndex((s) => s.run === run)]}: at ${next.toFixed(4)} s a packet of ${run.group(drop.flow)} is lost at ${run.linkName(drop.link)}: ${REASONS[drop.reason] ?? drop.reason}.`;
  by("spoken").textContent = said;
};

document.addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (["INPUT", "TEXTAREA", "SELECT", "BUTTON", "A", "SUMMARY"].includes(target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys: Record<string, string> = { " ": "play", ".": "step", d: "drop" };
  const id = keys[event.key];
  if (id === undefined) return;
  event.preventDefault();
  by(id).click();
});

// --- stories --------------------------------------------------------------------------------------------------------

function showStory(story: Story | null): void {
  const box = by("story");
  box.hidden = story === null;
  for (const button of by("stories").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.id === story?.id));
  if (story === null) {
    box.replaceChildren();
    return;
  }
  const list = make("ol");
  story.steps.forEach((step) => {
    const item = make("li", step.text);
    const look = make("button", "Look", { type: "button" });
    look.setAttribute("aria-label", `Look: ${step.text}`);
    look.onclick = () => {
      for (const other of list.children) other.classList.toggle("now", other === item);
      speed.value = step.speed;
      stop();
      seek(step.from_s);
      start();
      // On a narrow screen the story is out of sight then.
      by("spoken").textContent = step.text;
      by("player").scrollIntoView({ block: "start", behavior: "auto" });
    };
    item.append(look);
    list.append(item);
  });
  const found = FINDINGS[story.finding];
  const study = story.finding.split("/")[0] as string;
  const source = make("p", "Where it is measured: ");
  source.append(make("a", `study ${study}`, { href: `https://github.com/airtcp/airtcp/blob/main/studies/${study}/RESULTS.md`, rel: "noopener noreferrer" }));
  if (found) source.append(`. “${found.claim}” Verdict: `, make("span", found.verdict, { className: "verdict" }), VERDICTS[found.verdict] ? ` (${VERDICTS[found.verdict]}).` : "");
  box.replaceChildren(make("h2", story.title), make("p", story.scene), list, make("p", `Try: ${story.attempt}`), source);
}

by("stories").append(
  ...STORIES.map((story) => {
    const button = make("button", story.short, { type: "button" });
    button.dataset.id = story.id;
    button.setAttribute("aria-pressed", "false");
    button.onclick = () => open({ toml: story.toml, set: story.set }, story);
    return button;
  }),
);

// --- the rest -------------------------------------------------------------------------------------------------------

toml.oninput = () => soon(() => update("text"), 250);
changes.oninput = () => soon(() => update("text"), 400);
remedy.onchange = () => {
  if (description === null || remedy.value === "own") return;
  changes.value = (remedies.find((r) => r.remedy.id === remedy.value)?.set ?? []).join("\n");
  update("text");
};
watch.onchange = () => {
  arrived();
  tellState();
};
by("controls").onsubmit = (event) => event.preventDefault();

/** Whether it is on the clipboard now, which a browser may refuse. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

by("share").onclick = async () => {
  await setLink();
  by("copied").textContent = (await copied(location.href)) ? "Copied." : "The link is in the address bar.";
};
by("save").onclick = () => {
  const url = URL.createObjectURL(new Blob([toml.value], { type: "application/toml" }));
  make("a", "", { href: url, download: `${description?.name ?? "scenario"}.toml` }).click();
  URL.revokeObjectURL(url);
};

window.addEventListener("hashchange", () => void openLink(location.hash));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colours = new Colours();
  arrived();
});
new ResizeObserver(() => drawNow()).observe(by("runs"));

/** Opens a link's scenario; what is wrong with it is a sentence. */
async function openLink(fragment: string): Promise<boolean> {
  try {
    const given = await fromFragment(fragment);
    if (given === null || (given.toml === toml.value && given.set.join("\n") === changed().join("\n"))) return given !== null;
    open(given);
    return true;
  } catch (error) {
    state.textContent = error instanceof LinkError ? error.message : "The link cannot be read.";
    return error instanceof LinkError;
  }
}

async function unpacked(base64: string): Promise<WebAssembly.Module> {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

async function load(): Promise<void> {
  try {
    module = await unpacked(by("wasm").textContent ?? "");
  } catch (error) {
    state.textContent = `This browser cannot run the engine (${error instanceof Error ? error.message : error}): a newer one can, and so can the command line.`;
    return;
  }
  engine = new Engine(module);
  const about = engine.about();
  names = about.names;
  by("engine").textContent = about.engine;
  fitWidth();
  const given = by("given").textContent?.trim() ?? "";
  const fault = async (): Promise<boolean> => (location.hash !== "" ? openLink(location.hash) : given !== "" && openLink(given));
  if (await fault()) return;
  const [story] = STORIES;
  if (story) open({ toml: story.toml, set: story.set }, story);
}

void load();
