// The engine as WebAssembly: text in, text and columns out. It knows no page, so the worker and Node use the same.

import type { AirtcpScenario, Flow, Link, Wlan } from "./scenario";

/** What a column holds, by index of the row. */
export type Values = Float64Array | Uint32Array | BigUint64Array | Uint8Array;

export interface Column {
  name: string;
  meaning: string;
  values: Values;
  /** Of a column of names: `values` are places in this list. */
  names: string[] | null;
}

export interface Table {
  name: string;
  about: string;
  rows: number;
  columns: Record<string, Column>;
}

export interface Fault {
  line: number | null;
  argument: string | null;
  key: string;
  value: string | null;
  message: string;
}

/** What is wrong, as the command line says it. */
export class EngineError extends Error {
  constructor(
    message: string,
    readonly faults: Fault[] = [],
  ) {
    super(message);
    this.name = "EngineError";
  }
}

export interface Request {
  toml: string;
  file?: string;
  /** Changes, each as the argument of `--set`. */
  set?: string[];
  /** The run is to be drawn; its queues are looked at at this distance. */
  draw_every_s?: number;
  /** Of a run that is drawn, each frame and PPDU is recorded, too; so it is if nothing is said. */
  draw_frames?: boolean;
}

export interface NodeInfo {
  name: string;
  host: boolean;
}

export interface LinkInfo {
  name: string;
  group: string;
  from: number;
  to: number;
  rate_bps: number;
  delay_s: number;
  member: boolean;
  air: { channel: number; down: boolean } | null;
}

export interface FlowInfo {
  name: string;
  group: string;
  from: number;
  to: number;
  start_s: number;
  tcp: boolean;
}

/** A policy as a table. */
type AsTable<T> = Extract<T, object>;

/** A scenario as the engine writes it: lists are there, and what may be a name or a table is a table. */
export interface Scenario extends Omit<AirtcpScenario, "flows" | "links" | "wlans"> {
  flows: Flow[];
  links: (Omit<Link, "queue"> & { queue: AsTable<Link["queue"]> })[];
  wlans?: (Omit<Wlan, "signal"> & { signal?: AsTable<Wlan["signal"]> })[];
}

export interface Description {
  name: string;
  scenario: Scenario;
  seed: number;
  duration_s: number;
  warmup_s: number;
  nodes: NodeInfo[];
  links: LinkInfo[];
  flows: FlowInfo[];
  channels: { name: string; nodes: number[] }[];
}

export interface GroupSummary {
  group: string;
  kind: string;
  cc: string;
  flow_count: number;
  goodput_bps: number | null;
  jain: number | null;
  timeouts: number;
  segments_retransmitted: number;
  dropped_at_queues: number;
  lost_on_lines: number;
  rtt_mean_ms: number | null;
  transfers: number;
  received: number;
}

export interface Summary {
  seed: number;
  end_s: number;
  warmup_s: number;
  groups: GroupSummary[];
}

export interface Output {
  engine: string;
  /** Of the summary: the same on every machine. */
  hash: string;
  /** Of all tables of the engine, as the scenario records them; not of a run that is drawn. */
  tables_hash: string | null;
  end_s: number;
  events: number;
  packets_delivered: number;
  /** Frames or queues later than this were too many to keep. */
  drawn_until_s: number | null;
  summary: Summary;
  tables: Record<string, Table>;
}

interface Exports {
  memory: WebAssembly.Memory;
  buffer(bytes: number): number;
  answer_at(): number;
  answer_bytes(): number;
  about(): number;
  schema(): number;
  check(): number;
  change(): number;
  open(): number;
  advance(until: number): number;
  finish(): number;
}

interface Placed {
  name: string;
  meaning: string;
  kind: "f64" | "u32" | "u64" | "bool" | "names";
  at: number;
  names: string[] | null;
}

const OUT_OF_MEMORY = "the run needs more memory than a page has: run it with the command line";

export class Engine {
  private readonly x: Exports;
  private isBroken = false;

  constructor(module: WebAssembly.Module) {
    this.x = new WebAssembly.Instance(module, {}).exports as unknown as Exports;
  }

  /** A trap leaves the module in pieces: it takes no more calls. */
  get broken(): boolean {
    return this.isBroken;
  }

  private call<T>(body: () => T): T {
    if (this.isBroken) throw new EngineError(OUT_OF_MEMORY);
    try {
      return body();
    } catch (error) {
      if (error instanceof WebAssembly.RuntimeError || error instanceof RangeError) {
        this.isBroken = true;
        throw new EngineError(OUT_OF_MEMORY);
      }
      throw error;
    }
  }

  private ask(text: string): void {
    const bytes = new TextEncoder().encode(text);
    const at = this.x.buffer(bytes.length);
    new Uint8Array(this.x.memory.buffer, at, bytes.length).set(bytes);
  }

  private answer(): string {
    const bytes = new Uint8Array(this.x.memory.buffer, this.x.answer_at(), this.x.answer_bytes());
    return new TextDecoder().decode(bytes);
  }

  private good(is: number): unknown {
    const answer = JSON.parse(this.answer()) as unknown;
    if (is === 0) {
      const { text, errors } = answer as { text: string; errors: Fault[] };
      throw new EngineError(text, errors);
    }
    return answer;
  }

  about(): { engine: string; names: Record<string, string[]> } {
    return this.call(() => this.good(this.x.about()) as { engine: string; names: Record<string, string[]> });
  }

  schema(): unknown {
    return this.call(() => this.good(this.x.schema()));
  }

  /** What a scenario means. */
  check(request: Request): Description {
    return this.call(() => {
      this.ask(JSON.stringify(request));
      return this.good(this.x.check()) as Description;
    });
  }

  /** The scenario with one value changed; comments and order stay. Without a value the key is taken out. */
  change(toml: string, path: (string | number)[], value: string | null): string {
    return this.call(() => {
      this.ask(JSON.stringify({ toml, path, value }));
      return (this.good(this.x.change()) as { toml: string }).toml;
    });
  }

  /** Begins a run. One before it is given up. */
  open(request: Request): Description {
    return this.call(() => {
      this.ask(JSON.stringify(request));
      return this.good(this.x.open()) as Description;
    });
  }

  /** Runs up to this simulated time; how far it came. */
  advance(until: number): number {
    return this.call(() => {
      const now = this.x.advance(until);
      if (now < 0) this.good(0);
      return now;
    });
  }

  /** Bytes of memory that the module has, which never become fewer. */
  get memory(): number {
    return this.x.memory.buffer.byteLength;
  }

  /** Ends the run. The columns are copies: all, or by table those that are `seen`. */
  finish(seen?: Record<string, readonly string[]>): Output {
    return this.call(() => {
      const answer = this.good(this.x.finish()) as Omit<Output, "tables"> & {
        tables: { name: string; about: string; rows: number; columns: Placed[] }[];
      };
      const tables: Record<string, Table> = {};
      for (const { name, about, rows, columns } of answer.tables) {
        const own: Record<string, Column> = {};
        for (const c of columns) if (seen === undefined || seen[name]?.includes(c.name)) own[c.name] = { name: c.name, meaning: c.meaning, values: this.copy(c, rows), names: c.names };
        tables[name] = { name, about, rows, columns: own };
      }
      return { ...answer, tables };
    });
  }

  private copy(column: Placed, rows: number): Values {
    const memory = this.x.memory.buffer;
    // An empty column lies nowhere.
    const at = rows === 0 ? 0 : column.at;
    switch (column.kind) {
      case "f64":
        return new Float64Array(memory, at, rows).slice();
      case "u64":
        return new BigUint64Array(memory, at, rows).slice();
      case "bool":
        return new Uint8Array(memory, at, rows).slice();
      default:
        return new Uint32Array(memory, at, rows).slice();
    }
  }
}

/** A run at once, to its end or so far: what Node and tests want. */
export function run(module: WebAssembly.Module, request: Request, until_s = Infinity): Output {
  const engine = new Engine(module);
  const { duration_s } = engine.open(request);
  engine.advance(Math.min(duration_s, until_s));
  return engine.finish();
}
