// Runs scenarios off the page's thread, in slices, so that a newer wish can take an older one's place.

import { Engine, EngineError, type Fault, type Output, type Request } from "./engine";
import { SEEN } from "./run";

export type Ask =
  | { kind: "module"; module: WebAssembly.Module }
  | { kind: "run"; id: number; request: Request; anyway: boolean }
  | { kind: "cancel" };

export type Tell =
  | { kind: "progress"; id: number; now_s: number; end_s: number }
  | { kind: "long"; id: number; estimate_s: number; duration_s: number }
  | { kind: "done"; id: number; output: Output; memory: number; wall_ms: number }
  | { kind: "failed"; id: number; text: string; faults: Fault[] };

/** Runs that would take longer than this are only made if one insists. */
const MOST_WALL_S = 20;
/** After so long the speed of a run is known. */
const KNOWN_AFTER_MS = 700;
const SLICE_MS = 25;

let module: WebAssembly.Module | null = null;
let engine: Engine | null = null;
/** What is to run next, and whether what runs now has been given up. */
let wish: Extract<Ask, { kind: "run" }> | null = null;
let isRunning = false;
let isGivenUp = false;

const tell = (message: Tell, transfer: Transferable[] = []): void => self.postMessage(message, { transfer });

/** Lets messages in. */
const { port1, port2 } = new MessageChannel();
const turn = (): Promise<void> =>
  new Promise((resolve) => {
    port1.onmessage = () => resolve();
    port2.postMessage(null);
  });

async function run({ id, request, anyway }: Extract<Ask, { kind: "run" }>): Promise<void> {
  if (module === null) return;
  if (engine === null || engine.broken) engine = new Engine(module);
  const begin = performance.now();
  const end = engine.open(request).duration_s;
  let now = 0;
  let slice = end / 2000;
  let told = begin;
  while (now < end) {
    const from = performance.now();
    now = engine.advance(Math.min(now + slice, end));
    const took = Math.max(performance.now() - from, 0.05);
    slice *= Math.min(Math.max(SLICE_MS / took, 0.2), 3);
    await turn();
    if (isGivenUp || wish !== null) return;
    const wall = performance.now() - begin;
    if (!anyway && wall > KNOWN_AFTER_MS) {
      const estimate_s = ((wall / 1000) * end) / now;
      if (estimate_s > MOST_WALL_S) return tell({ kind: "long", id, estimate_s, duration_s: end });
    }
    if (performance.now() - told > 100) {
      told = performance.now();
      tell({ kind: "progress", id, now_s: now, end_s: end });
    }
  }
  const output = engine.finish(SEEN);
  const buffers = Object.values(output.tables).flatMap((t) => Object.values(t.columns).map((c) => c.values.buffer as ArrayBuffer));
  tell({ kind: "done", id, output, memory: engine.memory, wall_ms: performance.now() - begin }, buffers);
}

async function work(): Promise<void> {
  if (isRunning) return;
  isRunning = true;
  while (wish !== null) {
    const mine = wish;
    wish = null;
    isGivenUp = false;
    try {
      await run(mine);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      tell({ kind: "failed", id: mine.id, text, faults: error instanceof EngineError ? error.faults : [] });
    }
  }
  isRunning = false;
}

self.onmessage = (event: MessageEvent<Ask>) => {
  const ask = event.data;
  if (ask.kind === "module") {
    module = ask.module;
    // The first run finds it ready.
    engine = new Engine(module);
  } else if (ask.kind === "cancel") {
    wish = null;
    isGivenUp = true;
  } else wish = ask;
  void work();
};
