// Controls that follow from a scenario: each shows a value of the file, and writes it back into the text.

import type { Description } from "./engine";
import type { Wlan } from "./scenario";

export type Path = (string | number)[];
/** A value, or none: the key is taken out. In this order. */
export type Edit = { path: Path; value: string | null };

interface Common {
  id: string;
  label: string;
}
export interface Slider extends Common {
  kind: "range";
  min: number;
  max: number;
  step: number;
  /** Steps are of the logarithm. */
  log: boolean;
  value: number;
  unit: string;
  edits(value: number): Edit[];
}
export interface Choice extends Common {
  kind: "select";
  options: { value: string; label: string }[];
  value: string;
  /** What is changed where the first way fails: a table with a header of its own is not replaced as a value. */
  otherwise?(value: string): Edit[];
  edits(value: string): Edit[];
}
export type Control = Slider | Choice;

const UNITS_S: Record<string, number> = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600 };
const UNITS_BPS: Record<string, number> = { bit: 1, kbit: 1e3, Mbit: 1e6, Gbit: 1e9 };

function measured(text: unknown, units: Record<string, number>, after: string): number | null {
  const match = typeof text === "string" ? /^([\d.]+)\s*([a-zA-Z]+)/.exec(text) : null;
  const unit = match?.[2] === undefined ? undefined : units[match[2]];
  return match && unit !== undefined && (after === "" || String(text).endsWith(after)) ? Number(match[1]) * unit : null;
}

/** A duration in seconds; `null`: it is none. */
export const seconds = (text: unknown): number | null => measured(text, UNITS_S, "");
/** A rate in bit/s. */
export const bitsPerSecond = (text: unknown): number | null => measured(text, UNITS_BPS, "/s");

const quote = (text: string): string => JSON.stringify(text);
const round = (value: number, digits = 3): number => Number(value.toPrecision(digits));

/** At most this many of one kind: what is beyond is in the text. */
const MOST_OF_A_KIND = 2;

/** Most packets that a queue holds; 0: it is not limited in packets. */
const limitOf = (queue: Description["scenario"]["links"][number]["queue"]): number => ("limit_packets" in queue ? (queue.limit_packets ?? 0) : 0);

type Station = { name: string; snr_db?: number | undefined; position_m?: [number, number] | undefined };

function stationOf(of: Wlan["stations"][number]): Station {
  if (typeof of === "string") return { name: of };
  return { name: of.node, snr_db: typeof of.signal === "object" && of.signal.kind === "snr" ? of.signal.snr_db : undefined, position_m: of.position_m };
}

const decimal = (x: number): string => {
  const text = String(round(x));
  return /[.e]/.test(text) ? text : `${text}.0`;
};

/** Of stations with a signal or a place of their own: those that hear least. */
function ownSignals(stations: Station[], wlan: number, ap: [number, number]): Slider[] {
  const path = (k: number, ...keys: string[]): Path => ["wlans", wlan, "stations", k, ...keys];
  const far = ([x, y]: [number, number]): number => Math.hypot(x - ap[0], y - ap[1]);
  const all: { order: number; slider: Slider }[] = [];
  stations.forEach(({ name, snr_db, position_m }, k) => {
    if (snr_db !== undefined) {
      all.push({
        order: snr_db,
        slider: {
          id: `snr-${wlan}-${k}`, label: `Signal of “${name}” above noise`, kind: "range", min: 0, max: 40, step: 0.5, log: false,
          value: snr_db, unit: "dB", edits: (db) => [{ path: path(k, "signal", "snr_db"), value: String(db) }],
        },
      });
    } else if (position_m !== undefined && far(position_m) > 0) {
      // It moves on its line from the access point.
      const [dx, dy, m] = [position_m[0] - ap[0], position_m[1] - ap[1], far(position_m)];
      const at = (to: number): string => `[${decimal(ap[0] + (dx / m) * to)}, ${decimal(ap[1] + (dy / m) * to)}]`;
      all.push({
        order: -m,
        slider: {
          id: `distance-${wlan}-${k}`, label: `Distance of “${name}”`, kind: "range", min: 0.5, max: 100, step: 0.02, log: true,
          value: round(m), unit: "m", edits: (to) => [{ path: path(k, "position_m"), value: at(to) }],
        },
      });
    }
  });
  return all.sort((a, b) => a.order - b.order).slice(0, MOST_OF_A_KIND).map(({ slider }) => slider);
}

export function controlsOf(d: Description, names: Record<string, string[]>): Control[] {
  const all: Control[] = [];
  const file = d.scenario;

  const groups = file.nodes.map((node, i) => ({ node, i })).filter(({ node }) => node.count !== undefined && node.kind === "host");
  const inAir = new Set(d.links.filter((l) => l.air).map((l) => (d.nodes[l.from]?.name ?? "").replace(/\[\d+\]$/, "")));
  // Stations that are listed one by one would have to be listed anew.
  const listed = new Set((file.wlans ?? []).flatMap((w) => w.stations.map(stationOf)).filter((s) => s.name.includes("[")).map((s) => s.name.replace(/\[.*$/, "")));
  for (const { node, i } of groups.filter((g) => inAir.has(g.node.name) && !listed.has(g.node.name)).slice(0, MOST_OF_A_KIND)) {
    all.push({
      id: `count-${i}`, label: `Stations “${node.name}”`, kind: "range", min: 1, max: Math.max(20, node.count ?? 1), step: 1, log: false,
      value: node.count ?? 1, unit: "", edits: (n) => [{ path: ["nodes", i, "count"], value: String(Math.round(n)) }],
    });
  }

  (file.wlans ?? []).slice(0, MOST_OF_A_KIND).forEach((wlan, i) => {
    const signal = wlan.signal;
    if (signal?.kind === "snr") {
      all.push({
        id: `snr-${i}`, label: `Signal of “${wlan.name}” above noise`, kind: "range", min: 0, max: 40, step: 0.5, log: false,
        value: signal.snr_db, unit: "dB", edits: (db) => [{ path: ["wlans", i, "signal", "snr_db"], value: String(db) }],
      });
    } else if (signal?.kind === "path_loss" && typeof signal.distance_m === "number") {
      all.push({
        id: `distance-${i}`, label: `Distance in “${wlan.name}”`, kind: "range", min: 0.5, max: 100, step: 0.02, log: true,
        value: signal.distance_m, unit: "m", edits: (m) => [{ path: ["wlans", i, "signal", "distance_m"], value: decimal(m) }],
      });
    }
    all.push(...ownSignals(wlan.stations.map(stationOf), i, wlan.ap_position_m ?? [0, 0]));
  });

  // One line of the file, whatever its values are: the one with a buffer of its own, or else the last.
  const lines = file.links.map((link, i) => ({ link, i, rate: bitsPerSecond(link.rate), delay: seconds(link.delay) }));
  const limited = (l: (typeof lines)[number]): boolean => limitOf(l.link.queue) > 0;
  const line = lines.find((l) => l.link.buffer !== undefined && l.link.buffer !== null) ?? lines.find(limited) ?? lines.at(-1);
  const long = line !== undefined && line.delay !== null ? line : undefined;
  const narrow = line !== undefined && line.rate !== null ? line : undefined;
  if (long) {
    all.push({
      id: "delay", label: `Round trip over line “${long.link.name}”`, kind: "range", min: 0.1, max: 600, step: 0.02, log: true,
      value: round((long.delay ?? 0) * 2000), unit: "ms",
      edits: (ms) => [{ path: ["links", long.i, "delay"], value: quote(`${round(ms / 2)}ms`) }],
    });
  }
  if (narrow) {
    all.push({
      id: "rate", label: `Rate of line “${narrow.link.name}”`, kind: "range", min: 0.5, max: 1000, step: 0.02, log: true,
      value: round((narrow.rate ?? 0) / 1e6), unit: "Mbit/s",
      edits: (mbps) => [{ path: ["links", narrow.i, "rate"], value: quote(`${round(mbps)}Mbit/s`) }],
    });
    const queue = narrow.link.queue;
    const limit = limitOf(queue);
    if (narrow.link.buffer?.scale !== undefined && narrow.link.buffer.scale > 0) {
      all.push({
        id: "buffer", label: `Buffer of line “${narrow.link.name}”, of its rule`, kind: "range", min: 0.05, max: 10, step: 0.02, log: true,
        value: narrow.link.buffer.scale, unit: "×",
        edits: (scale) => [{ path: ["links", narrow.i, "buffer", "scale"], value: round(scale).toFixed(3) }],
      });
    } else if (limit > 0) {
      all.push({
        id: "buffer", label: `Buffer of line “${narrow.link.name}”`, kind: "range", min: 2, max: 5000, step: 0.02, log: true,
        value: limit, unit: "packets",
        edits: (n) => [
          { path: ["links", narrow.i, "queue", "name"], value: quote(queue.name) },
          { path: ["links", narrow.i, "queue", "limit_packets"], value: String(Math.round(n)) },
        ],
      });
    }
    if (narrow.link.buffer === undefined) {
      all.push({
        id: "queue", label: `Queue of line “${narrow.link.name}”`, kind: "select", value: queue.name,
        options: (names.queue ?? []).map((name) => ({ value: name, label: name })),
        edits: (name) => [{ path: ["links", narrow.i, "queue"], value: quote(name) }],
        otherwise: (name) => [
          // Its parameters go with it.
          ...Object.keys(queue).filter((key) => key !== "name").map((key) => ({ path: ["links", narrow.i, "queue", key], value: null })),
          { path: ["links", narrow.i, "queue", "name"], value: quote(name) },
        ],
      });
    }
  }

  const busy = new Set(d.flows.filter((f) => f.tcp).flatMap((f) => [f.from, f.to]).map((n) => (d.nodes[n]?.name ?? "").replace(/\[\d+\]$/, "")));
  const hosts = file.nodes.map((node, i) => ({ node, i })).filter(({ node }) => node.kind === "host" && busy.has(node.name));
  const seen = new Set<string>();
  for (const { node, i } of hosts) {
    const profile = node.profile ?? "linux-6";
    const own = file.profiles?.[profile];
    const path: Path = own ? ["profiles", profile, "base"] : ["nodes", i, "profile"];
    if (seen.has(path.join("."))) continue;
    seen.add(path.join("."));
    if (seen.size > MOST_OF_A_KIND) break;
    all.push({
      id: `profile-${i}`, label: own ? `System of hosts “${profile}”` : `System of “${node.name}”`, kind: "select",
      value: own?.base ?? profile, options: (names.profiles ?? []).map((name) => ({ value: name, label: name })),
      edits: (name) => [{ path, value: quote(name) }],
    });
  }

  const tcp = new Set(d.flows.filter((f) => f.tcp).map((f) => f.group));
  for (const [i, flow] of [...file.flows.entries()].filter(([, f]) => tcp.has(f.name)).slice(0, MOST_OF_A_KIND)) {
    const cc = flow.tcp?.cc;
    all.push({
      id: `cc-${i}`, label: `Congestion control of “${flow.name}”`, kind: "select", value: typeof cc === "string" ? cc : "",
      options: [{ value: "", label: "as its system has it" }, ...(names.cc ?? []).filter((n) => n !== "tcp_av").map((name) => ({ value: name, label: name }))],
      edits: (name) => [{ path: ["flows", i, "tcp", "cc"], value: name === "" ? null : quote(name) }],
    });
  }

  // Less would end before something begins.
  const times = [d.warmup_s, ...d.flows.map((f) => f.start_s), ...file.flows.map((f) => seconds(f.stop) ?? 0), seconds(file.record?.interval) ?? 0];
  const least = Math.min(Math.ceil(Math.max(...times)) + 1, d.duration_s);
  all.push({
    id: "duration", label: "Simulated time", kind: "range", min: Math.max(1, least), max: 120, step: 1, log: false, value: d.duration_s, unit: "s",
    edits: (s) => [{ path: ["duration"], value: quote(`${s}s`) }],
  });
  all.push({
    id: "seed", label: "Seed", kind: "range", min: 1, max: 20, step: 1, log: false, value: d.seed, unit: "",
    edits: (n) => [{ path: ["seed"], value: String(Math.round(n)) }],
  });
  return all;
}
