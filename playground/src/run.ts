// One run as it is looked at: the engine's tables, with indices by time.

import type { Column, Description, Output } from "./engine";

/** A PPDU with data, or a Block Ack request. */
export interface Ppdu {
  index: number;
  start_s: number;
  end_s: number;
  link: number;
  from: number;
  to: number;
  mode: string;
  ac: string;
  mpdus: number;
  received: number;
  legible: number;
  bytes: number;
  repeat: number;
  answered: boolean;
  collided: boolean;
  snr_db: number;
}

export interface Drop {
  time_s: number;
  link: number;
  flow: number;
  reason: string;
}

/** Packets of a group of flows that wait at a link. */
export interface Share {
  group: string;
  reverse: boolean;
  packets: number;
}

/** Why a packet was lost, for those who do not know the engine's names. */
export const REASONS: Record<string, string> = {
  overflow: "the queue was full",
  early: "the queue chose it, to stay short",
  line: "it was damaged on the line",
  retry_limit: "the radio gave up after its last try",
  late: "it came after the receiver had given it up",
  collision: "another transmission hit it",
  errors: "it arrived damaged, and is not sent again by the radio",
  gone: "the station had left this access point",
};

export const KINDS = ["data", "ACK", "Block Ack", "Block Ack request", "RTS", "CTS"] as const;
const NO_NUMBER = 0xffff_ffff;

/** The first place in ascending `values` with a value of at least `x`. */
export function lowerBound(values: ArrayLike<number>, x: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] as number) < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The columns that are looked at here: no others come to the page. */
export const SEEN: Record<string, readonly string[]> = {
  ppdus: ["start_s", "duration_us", "link", "mode", "ac", "mpdus", "received", "legible", "psdu_bytes", "repeat", "answered", "collided", "snr_db"],
  frames: ["time_s", "kind", "from", "to", "sn", "ok", "retry", "flow", "reverse", "bytes"],
  waiting: ["time_s", "link", "reorder", "flow", "reverse", "packets"],
  drops: ["time_s", "link", "flow", "reason"],
  pings: ["sent_s", "rtt_ms"],
  flow_series: ["time_s", "flow", "srtt_ms", "bytes_acked"],
  walkers: ["time_s", "node", "x_m", "y_m"],
};

const EMPTY: Column = { name: "", meaning: "", values: new Uint32Array(0), names: [] };

export class Run {
  readonly duration_s: number;
  /** PPDUs by start. */
  readonly starts: Float64Array;
  private readonly order: Uint32Array;
  private readonly longest_s: number;
  readonly drops: Drop[];
  readonly dropTimes: number[];
  /** Ends of frames, ascending. */
  readonly frameTimes: ArrayLike<number>;
  /** Nodes with a radio that sent something, in the order of the scenario; of a run without frames all that may send. */
  readonly senders: number[];
  /** Where packets ever wait, the longest queue first: a line, or all that a radio sends. */
  readonly queues: { place: number; most: number }[];
  private readonly places: number[];
  private readonly sampleTimes: number[] = [];
  private readonly sampleRows: number[] = [];

  constructor(
    readonly description: Description,
    readonly output: Output,
    readonly wall_ms: number,
    /** Its queues were looked at at this distance. */
    readonly every_s: number,
    /** Its frames and PPDUs were recorded. */
    readonly hasFrames = true,
  ) {
    this.duration_s = description.duration_s;
    const starts = this.column("ppdus", "start_s").values as Float64Array;
    const durations = this.column("ppdus", "duration_us").values;
    this.order = Uint32Array.from(starts.keys()).sort((a, b) => (starts[a] as number) - (starts[b] as number));
    this.starts = Float64Array.from(this.order, (row) => starts[row] as number);
    let longest = 0;
    for (let i = 0; i < durations.length; i++) longest = Math.max(longest, Number(durations[i]));
    this.longest_s = longest * 1e-6;

    const [times, links, flows, reasons] = ["time_s", "link", "flow", "reason"].map((c) => this.column("drops", c));
    this.drops = Array.from({ length: times?.values.length ?? 0 }, (_, i) => ({
      time_s: Number(times?.values[i]),
      link: Number(links?.values[i]),
      flow: Number(flows?.values[i]),
      reason: reasons?.names?.[Number(reasons.values[i])] ?? "",
    })).filter((drop) => drop.reason !== "filtered");
    this.drops.sort((a, b) => a.time_s - b.time_s);
    this.dropTimes = this.drops.map((drop) => drop.time_s);

    this.frameTimes = this.column("frames", "time_s").values as Float64Array;
    const from = hasFrames ? (this.column("frames", "from").values as Uint32Array) : description.links.filter((l) => l.air).map((l) => l.from);
    this.senders = [...new Set(from)].filter((node) => node !== NO_NUMBER).sort((a, b) => a - b);

    const firsts = new Map<string, number>();
    this.places = description.links.map((l, i) => {
      if (!l.air) return i;
      const radio = `${l.air.channel} ${l.from}`;
      if (!firsts.has(radio)) firsts.set(radio, i);
      return firsts.get(radio) as number;
    });

    const most = new Map<number, number>();
    const at = this.column("waiting", "time_s").values as Float64Array;
    const link = this.column("waiting", "link").values as Uint32Array;
    const packets = this.column("waiting", "packets").values as Uint32Array;
    const reorder = this.column("waiting", "reorder").values as Uint8Array;
    for (let row = 0; row < at.length; ) {
      const now = at[row] as number;
      this.sampleTimes.push(now);
      this.sampleRows.push(row);
      const sums = new Map<number, number>();
      for (; row < at.length && at[row] === now; row++) {
        if (reorder[row]) continue;
        const place = this.place(link[row] as number);
        sums.set(place, (sums.get(place) ?? 0) + (packets[row] as number));
      }
      for (const [id, sum] of sums) most.set(id, Math.max(most.get(id) ?? 0, sum));
    }
    this.sampleRows.push(at.length);
    this.queues = [...most].map(([place, n]) => ({ place, most: n })).sort((a, b) => b.most - a.most || a.place - b.place);
  }

  /** Of links that start at one radio the first: their packets may share a queue. */
  place(link: number): number {
    return this.places[link] ?? link;
  }

  /** How a place is called: `ap → its stations` where it is several links. */
  placeName(place: number): string {
    const own = this.description.links[place];
    if (!own?.air) return this.linkName(place);
    const alike = this.description.links.filter((l) => l.air?.channel === own.air?.channel && l.from === own.from);
    return alike.length > 1 ? `${this.nodeName(own.from)} → stations` : this.linkName(place);
  }

  column(table: string, name: string): Column {
    if (!SEEN[table]?.includes(name)) throw new Error(`${table}.${name} does not come to the page`);
    return this.output.tables[table]?.columns[name] ?? EMPTY;
  }

  private value(table: string, name: string, row: number): number {
    return Number(this.column(table, name).values[row]);
  }

  private name(table: string, name: string, row: number): string {
    const column = this.column(table, name);
    return column.names?.[Number(column.values[row])] ?? "";
  }

  get ppdus(): number {
    return this.order.length;
  }

  /** The i-th PPDU by start. */
  ppdu(i: number): Ppdu {
    const row = this.order[i] as number;
    const v = (name: string): number => this.value("ppdus", name, row);
    const link = v("link");
    const ends = this.description.links[link];
    const start_s = v("start_s");
    return {
      index: i,
      start_s,
      end_s: start_s + v("duration_us") * 1e-6,
      link,
      from: ends?.from ?? 0,
      to: ends?.to ?? 0,
      mode: this.name("ppdus", "mode", row),
      ac: this.name("ppdus", "ac", row),
      mpdus: v("mpdus"),
      received: v("received"),
      legible: v("legible"),
      bytes: v("psdu_bytes"),
      repeat: v("repeat"),
      answered: v("answered") !== 0,
      collided: v("collided") !== 0,
      snr_db: v("snr_db"),
    };
  }

  /** Places of the PPDUs that are on the air at some time from `from_s` to `to_s`. */
  ppdusBetween(from_s: number, to_s: number): [number, number] {
    return [lowerBound(this.starts, from_s - this.longest_s), lowerBound(this.starts, to_s)];
  }

  /** The last PPDU that has begun by then; -1: none. */
  lastPpdu(time_s: number): number {
    return lowerBound(this.starts, time_s + 1e-12) - 1;
  }

  /** Rows of the frames with data of a PPDU. */
  framesOf(ppdu: Ppdu): number[] {
    const [from, kind] = [this.column("frames", "from").values, this.column("frames", "kind").values];
    const rows = [];
    for (let row = lowerBound(this.frameTimes, ppdu.end_s - 2e-8); row < this.frameTimes.length; row++) {
      if ((this.frameTimes[row] as number) > ppdu.end_s + 2e-8) break;
      if (from[row] === ppdu.from && kind[row] === 0) rows.push(row);
    }
    return rows;
  }

  frame(row: number): { kind: number; from: number; to: number; sn: number; ok: boolean; retry: boolean; flow: number; reverse: boolean; bytes: number } {
    const v = (name: string): number => this.value("frames", name, row);
    return {
      kind: v("kind"),
      from: v("from"),
      to: v("to"),
      sn: v("sn"),
      ok: v("ok") !== 0,
      retry: v("retry") !== 0,
      flow: v("flow"),
      reverse: v("reverse") !== 0,
      bytes: v("bytes"),
    };
  }

  /** Group of a flow; empty: none. */
  group(flow: number): string {
    return this.description.flows[flow]?.group ?? "";
  }

  /** What waits at each place at the last look before `time_s`, and what is held in reorder buffers, by link. */
  waiting(time_s: number): { queues: Map<number, Share[]>; reorder: Map<number, number> } {
    const queues = new Map<number, Share[]>();
    const reorder = new Map<number, number>();
    // Instants at which nothing waits have no row: older ones do not speak for them.
    const sample = lowerBound(this.sampleTimes, time_s + 1e-9) - 1;
    if (sample < 0 || time_s - (this.sampleTimes[sample] as number) > this.every_s * 1.5) return { queues, reorder };
    for (let row = this.sampleRows[sample] as number; row < (this.sampleRows[sample + 1] as number); row++) {
      const v = (name: string): number => this.value("waiting", name, row);
      const [link, packets] = [v("link"), v("packets")];
      if (v("reorder") !== 0) {
        reorder.set(link, (reorder.get(link) ?? 0) + packets);
        continue;
      }
      const place = this.place(link);
      const shares = queues.get(place) ?? [];
      const [group, reverse] = [this.group(v("flow")), v("reverse") !== 0];
      const share = shares.find((s) => s.group === group && s.reverse === reverse);
      if (share) share.packets += packets;
      else shares.push({ group, reverse, packets });
      queues.set(place, shares);
    }
    return { queues, reorder };
  }

  /** The newest `width` sequence numbers of a link's data by then, oldest first: whether a copy has arrived whole. */
  numbers(link: number, time_s: number, width = 64): { sn: number; arrived: boolean; tries: number }[] {
    const ends = this.description.links[link];
    if (!ends) return [];
    const [from, to, kind, sn, ok] = ["from", "to", "kind", "sn", "ok"].map((c) => this.column("frames", c).values);
    if (!from || !to || !kind || !sn || !ok) return [];
    const seen = new Map<number, { arrived: boolean; tries: number }>();
    let newest = -1;
    let looked = 0;
    for (let row = lowerBound(this.frameTimes, time_s + 1e-12) - 1; row >= 0 && looked < 600; row--) {
      if (kind[row] !== 0 || from[row] !== ends.from || to[row] !== ends.to) continue;
      looked++;
      const number = Number(sn[row]);
      // The newest number is the one ahead of all others, modulo 4096.
      if (newest < 0 || ((number - newest) & 4095) < 2048) newest = number;
      const known = seen.get(number) ?? { arrived: false, tries: 0 };
      known.arrived ||= ok[row] !== 0;
      known.tries++;
      seen.set(number, known);
    }
    if (newest < 0) return [];
    const all = [];
    for (let back = width - 1; back >= 0; back--) {
      const number = (newest - back) & 4095;
      const known = seen.get(number);
      if (known) all.push({ sn: number, ...known });
    }
    return all;
  }

  /** Round trips of pings, or else TCP's smoothed ones of a group or all (""): time, ms. */
  latency(group: string): { what: string; times: number[]; ms: number[] } {
    const [sent, rtt] = [this.column("pings", "sent_s").values, this.column("pings", "rtt_ms").values];
    if (rtt.length > 0) {
      const rows = [...sent.keys()].filter((i) => Number.isFinite(Number(rtt[i])));
      rows.sort((a, b) => Number(sent[a]) - Number(sent[b]));
      return { what: "round trip of a ping", times: rows.map((i) => Number(sent[i])), ms: rows.map((i) => Number(rtt[i])) };
    }
    const [time, srtt] = [this.column("flow_series", "time_s").values, this.column("flow_series", "srtt_ms").values];
    const flow = this.column("flow_series", "flow").values;
    const sums = new Map<number, [number, number]>();
    for (let i = 0; i < time.length; i++) {
      if (!Number.isFinite(Number(srtt[i])) || (group !== "" && this.group(Number(flow[i])) !== group)) continue;
      const sum = sums.get(Number(time[i])) ?? [0, 0];
      sums.set(Number(time[i]), [sum[0] + Number(srtt[i]), sum[1] + 1]);
    }
    const means = [...sums];
    return { what: "round trip as TCP measures it", times: means.map(([t]) => t), ms: means.map(([, [sum, n]]) => sum / n) };
  }

  /** Payload acknowledged of the TCP flows of a group, or of all (""): time, Mbit/s over about a fiftieth of the run. */
  goodput(group: string): { times: number[]; mbps: number[] } {
    const [time, acked] = [this.column("flow_series", "time_s").values, this.column("flow_series", "bytes_acked").values];
    const flow = this.column("flow_series", "flow").values;
    const sums = new Map<number, number>();
    for (let i = 0; i < time.length; i++) if (group === "" || this.group(Number(flow[i])) === group) sums.set(Number(time[i]), (sums.get(Number(time[i])) ?? 0) + Number(acked[i]));
    const all: [number, number][] = [[0, 0], ...sums];
    const back = Math.max(1, Math.round(all.length / 50));
    const later = all.slice(1);
    const mbps = later.map(([t, bytes], i) => {
      const [from, before] = all[Math.max(0, i + 1 - back)] as [number, number];
      return (Math.max(0, bytes - before) * 8e-6) / (t - from);
    });
    return { times: later.map(([t]) => t), mbps };
  }

  /** Payload acknowledged of each TCP flow of a group, after the warm-up: Mbit/s. */
  shares(group: string): number[] {
    const { flows, warmup_s } = this.description;
    const [time, acked, flow] = ["time_s", "bytes_acked", "flow"].map((c) => this.column("flow_series", c).values);
    const bytes = new Map(flows.flatMap((f, i) => (f.tcp && f.group === group ? [[i, [0, 0] as [number, number]]] : [])));
    for (let i = 0; time && acked && flow && i < time.length; i++) {
      const of = bytes.get(Number(flow[i]));
      if (of === undefined) continue;
      if (Number(time[i]) <= warmup_s) of[0] = Number(acked[i]);
      of[1] = Number(acked[i]);
    }
    return [...bytes.values()].map(([before, all]) => ((all - before) * 8e-6) / Math.max(this.duration_s - warmup_s, 1e-9));
  }

  /** Where a host is that walks: node, metres. */
  walkers(time_s: number): Map<number, [number, number]> {
    const places = new Map<number, [number, number]>();
    const [time, node, x, y] = ["time_s", "node", "x_m", "y_m"].map((c) => this.column("walkers", c));
    if (!time || !node || !x || !y) return places;
    for (let row = lowerBound(time.values as Float64Array, time_s) - 1; row >= 0; row--) {
      const name = node.names?.[Number(node.values[row])];
      const id = name === undefined ? Number(node.values[row]) : this.description.nodes.findIndex((n) => n.name === name);
      if (places.has(id)) break;
      places.set(id, [Number(x.values[row]), Number(y.values[row])]);
    }
    return places;
  }

  /** Nodes by their name, links as `from → to`. */
  nodeName(node: number): string {
    return this.description.nodes[node]?.name ?? "?";
  }
  linkName(link: number): string {
    const ends = this.description.links[link];
    return ends ? `${this.nodeName(ends.from)} → ${this.nodeName(ends.to)}` : "?";
  }
}
