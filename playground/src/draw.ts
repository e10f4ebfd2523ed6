// Canvases of one run: the air, the queues, the numbers that a receiver waits for.

import { KINDS, type Ppdu, type Run, type Share } from "./run";

/** Colours come from the style sheet, so that light and dark are said once. */
export class Colours {
  private readonly style: CSSStyleDeclaration;
  private readonly known = new Map<string, string>();
  constructor() {
    this.style = getComputedStyle(document.documentElement);
  }
  of(name: string): string {
    let value = this.known.get(name);
    if (value === undefined) {
      value = this.style.getPropertyValue(`--${name}`).trim();
      this.known.set(name, value);
    }
    return value;
  }
}

export const GROUP_COLOURS = 8;

/** A canvas as large as its place, in the screen's own pixels. */
function fitted(canvas: HTMLCanvasElement, height: number): CanvasRenderingContext2D {
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  return context;
}

function clipped(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  // The end tells members of a group apart.
  const end = text.slice(-4);
  let short = text.slice(0, -4);
  while (short.length > 1 && context.measureText(`${short}…${end}`).width > width) short = short.slice(0, -1);
  return `${short}…${end}`;
}

const LANE = 22;
const MOST_LANES = 12;
const MOST_QUEUES = 8;
/** In the place of frames, while a control moves. */
export const LATER = "Frames are drawn when the control rests.";
/** Where now is in the picture of the air, of its width. */
const NOW = 0.72;

export interface Window {
  time_s: number;
  width_s: number;
}

const label = (width: number): number => Math.min(96, Math.max(70, width * 0.16));

export class AirView {
  private at: Window = { time_s: 0, width_s: 1 };

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly run: Run,
  ) {}

  get height(): number {
    return Math.max(1, Math.min(this.run.senders.length, MOST_LANES)) * LANE + 20;
  }

  private lane(node: number): number {
    const place = this.run.senders.indexOf(node);
    return Math.min(place, MOST_LANES - 1);
  }

  draw(at: Window, colours: Colours): void {
    this.at = at;
    const c = fitted(this.canvas, this.height);
    const width = this.canvas.clientWidth;
    const left = label(width);
    const { run } = this;
    if (run.senders.length === 0) {
      c.fillStyle = colours.of("quiet");
      c.fillText("This scenario has no radio: see the queues below.", 8, 16);
      return;
    }
    const from = at.time_s - at.width_s * NOW;
    const x = (time: number): number => left + ((time - from) / at.width_s) * (width - left);
    run.senders.slice(0, MOST_LANES).forEach((node, i) => {
      const y = i * LANE;
      c.fillStyle = colours.of(i % 2 ? "lane" : "ground");
      c.fillRect(0, y, width, LANE);
      c.fillStyle = colours.of("text");
      const more = run.senders.length - MOST_LANES;
      const name = i === MOST_LANES - 1 && more > 0 ? `${more + 1} more` : run.nodeName(node);
      c.fillText(clipped(c, name, left - 8), 4, y + LANE / 2);
    });
    if (!run.hasFrames) {
      c.fillStyle = colours.of("quiet");
      c.fillText(LATER, left + 8, this.height - 9);
      return;
    }
    c.save();
    c.beginPath();
    c.rect(left, 0, width - left, this.height);
    c.clip();
    const [first, last] = run.ppdusBetween(from, from + at.width_s);
    // Where blocks are thinner than a pixel, some stand for all.
    const step = Math.max(1, Math.floor((last - first) / 1500));
    for (let i = first; i < last; i += step) this.block(c, run.ppdu(i), x, at.time_s, colours);
    this.answers(c, x, from, at, colours);
    c.fillStyle = colours.of("accent");
    c.fillRect(x(at.time_s) - 1, 0, 2, this.height - 18);
    c.restore();
    c.fillStyle = colours.of("quiet");
    const y = this.height - 9;
    c.fillText(`${span(at.width_s * NOW)} ago`, left, y);
    c.textAlign = "center";
    c.fillText("now", x(at.time_s), y);
    c.textAlign = "left";
  }

  private block(c: CanvasRenderingContext2D, p: Ppdu, x: (t: number) => number, now: number, colours: Colours): void {
    const lane = this.lane(p.from);
    if (lane < 0) return;
    const [a, y] = [x(p.start_s), lane * LANE + 3];
    const w = Math.max(x(p.end_s) - a, 1);
    const h = LANE - 6;
    c.globalAlpha = p.start_s > now ? 0.35 : 1;
    if (p.mpdus > 1 && w / p.mpdus >= 3) {
      const each = w / p.mpdus;
      this.run.framesOf(p).forEach((row, i) => {
        const frame = this.run.frame(row);
        c.fillStyle = colours.of(frame.ok ? (frame.reverse ? "ack" : "good") : "bad");
        c.fillRect(a + i * each + 0.5, y, each - 1, h);
      });
    } else {
      const lost = p.mpdus === 0 ? 0 : (p.mpdus - p.received) / p.mpdus;
      c.fillStyle = colours.of(p.mpdus === 0 ? "request" : "good");
      c.fillRect(a, y, w, h);
      c.fillStyle = colours.of("bad");
      c.fillRect(a, y + h * (1 - lost), w, h * lost);
    }
    if (p.collided || !p.answered) {
      c.strokeStyle = colours.of(p.collided ? "collision" : "bad");
      c.lineWidth = p.collided ? 2 : 1;
      if (w > 3) c.strokeRect(a + 0.5, y - 1, w - 1, h + 2);
      if (p.collided && w > 8) {
        c.beginPath();
        c.moveTo(a, y);
        c.lineTo(a + w, y + h);
        c.moveTo(a, y + h);
        c.lineTo(a + w, y);
        c.stroke();
      }
    }
    c.globalAlpha = 1;
  }

  /** Acknowledgements, in the lane of who sends them. */
  private answers(c: CanvasRenderingContext2D, x: (t: number) => number, from: number, at: Window, colours: Colours): void {
    // They take some 30 us: seen only from near.
    if (at.width_s > 0.12) return;
    const { run } = this;
    const kind = run.column("frames", "kind").values;
    const sender = run.column("frames", "from").values;
    let row = run.frameTimes.length === 0 ? 0 : this.rowAt(from);
    for (; row < run.frameTimes.length && (run.frameTimes[row] as number) <= from + at.width_s; row++) {
      const k = Number(kind[row]);
      if (k === 0 || k === 3) continue;
      const lane = this.lane(Number(sender[row]));
      const end = x(run.frameTimes[row] as number);
      const w = Math.max(3, x((run.frameTimes[row] as number) + 30e-6) - end);
      c.globalAlpha = (run.frameTimes[row] as number) > at.time_s ? 0.35 : 1;
      c.fillStyle = colours.of(k === 2 ? "answer" : k === 1 ? "answer" : "request");
      c.fillRect(end - w, lane * LANE + 6, w, LANE - 12);
      c.globalAlpha = 1;
    }
  }

  private rowAt(time: number): number {
    let [low, high] = [0, this.run.frameTimes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.run.frameTimes[middle] as number) < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** What is under the pointer, as text. */
  under(px: number, py: number): string | null {
    const width = this.canvas.clientWidth;
    const left = label(width);
    if (px < left) return null;
    const lane = Math.floor(py / LANE);
    const from = this.at.time_s - this.at.width_s * NOW;
    const time = from + ((px - left) / (width - left)) * this.at.width_s;
    const near = (this.at.width_s / (width - left)) * 3;
    const [first, last] = this.run.ppdusBetween(time - near, time + near);
    for (let i = last - 1; i >= first; i--) {
      const p = this.run.ppdu(i);
      if (this.lane(p.from) === lane && p.start_s <= time + near && p.end_s >= time - near) return fields(this.run, p);
    }
    return null;
  }
}

/** A span of time in the unit that fits. */
export function span(s: number): string {
  if (s >= 1) return `${Number(s.toPrecision(3))} s`;
  if (s >= 1e-3) return `${Number((s * 1e3).toPrecision(3))} ms`;
  return `${Number((s * 1e6).toPrecision(3))} µs`;
}

/** The fields of a PPDU, as text. */
export function fields(run: Run, p: Ppdu): string {
  const what = p.mpdus === 0 ? "Block Ack request" : `${p.mpdus} ${p.mpdus === 1 ? "frame" : "frames"} in one transmission`;
  const fate =
    p.mpdus === 0 ? (p.answered ? "answered" : "no answer") : `${p.received} arrived${p.received < p.mpdus ? `, ${p.mpdus - p.received} damaged` : ""}`;
  const rows = run.framesOf(p).map((row) => run.frame(row));
  const sns = rows.length > 1 ? `numbers ${rows[0]?.sn} to ${rows.at(-1)?.sn}` : rows.map((f) => `number ${f.sn}`).join("");
  const whose = [...new Set(rows.map((f) => (f.flow === 0xffffffff ? "" : run.group(f.flow) + (f.reverse ? " (ACKs)" : ""))))].filter(Boolean);
  const again = rows.filter((f) => f.retry).length;
  return [
    `${run.nodeName(p.from)} → ${run.nodeName(p.to)}, ${p.start_s.toFixed(6)} s, ${span(p.end_s - p.start_s)}`,
    `${what}: ${fate}`,
    `${p.mode}, ${p.bytes} bytes, category ${p.ac}${Number.isFinite(p.snr_db) ? `, SNR ${p.snr_db.toFixed(1)} dB` : ""}`,
    [sns, whose.length > 0 ? `of ${whose.join(", ")}` : "", again > 0 ? `${again} sent again` : ""].filter(Boolean).join("; "),
    p.collided ? "Collision: another transmission hit it." : p.answered ? "Acknowledged." : `No acknowledgement${p.repeat > 0 ? `; ${p.repeat} repeats before` : ""}.`,
  ]
    .filter(Boolean)
    .join("\n");
}

export class QueueView {
  private boxes: { y: number; place: number; shares: Share[] }[] = [];

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly run: Run,
    /** Places that are shown, and the longest queue of all runs: both runs have the same. */
    readonly places: number[],
    readonly most: number,
    readonly groups: string[],
  ) {}

  static places(runs: Run[]): { places: number[]; most: number } {
    const most = new Map<number, number>();
    for (const run of runs) for (const q of run.queues) most.set(q.place, Math.max(most.get(q.place) ?? 0, q.most));
    const all = [...most].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, MOST_QUEUES);
    return { places: all.map(([place]) => place).sort((a, b) => a - b), most: Math.max(1, ...all.map(([, n]) => n)) };
  }

  draw(time_s: number, colours: Colours): void {
    const row = 24;
    const c = fitted(this.canvas, Math.max(1, this.places.length) * row);
    const width = this.canvas.clientWidth;
    const left = Math.min(150, Math.max(100, width * 0.28));
    const { queues } = this.run.waiting(time_s);
    this.boxes = [];
    if (this.places.length === 0) {
      c.fillStyle = colours.of("quiet");
      c.fillText("No packet ever waits here.", 8, 12);
    }
    this.places.forEach((place, i) => {
      const y = i * row;
      const shares = queues.get(place) ?? [];
      c.fillStyle = colours.of("text");
      c.fillText(clipped(c, this.run.placeName(place), left - 8), 4, y + row / 2);
      c.fillStyle = colours.of("lane");
      c.fillRect(left, y + 4, width - left - 52, row - 8);
      let x = left;
      let sum = 0;
      for (const share of shares) {
        const w = (share.packets / this.most) * (width - left - 52);
        c.fillStyle = colours.of(`group-${Math.max(0, this.groups.indexOf(share.group)) % GROUP_COLOURS}`);
        c.globalAlpha = share.reverse ? 0.5 : 1;
        c.fillRect(x, y + 4, Math.max(w, share.packets > 0 ? 1 : 0), row - 8);
        c.globalAlpha = 1;
        x += w;
        sum += share.packets;
      }
      c.fillStyle = colours.of("text");
      c.textAlign = "right";
      c.fillText(String(sum), width - 4, y + row / 2);
      c.textAlign = "left";
      this.boxes.push({ y: y + row, place, shares });
    });
  }

  under(_: number, py: number): string | null {
    const box = this.boxes.find((b) => py < b.y);
    if (!box) return null;
    const shares = box.shares.map((s) => `${s.packets} of ${s.group}${s.reverse ? " (ACKs or answers)" : ""}`);
    return `${this.run.placeName(box.place)}: ${shares.length > 0 ? shares.join(", ") : "nothing waits"}`;
  }
}

export class ReorderView {
  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly run: Run,
    readonly link: number | null,
  ) {}

  /** Draws the newest numbers of the link, and tells what they are. */
  draw(time_s: number, colours: Colours): string {
    const c = fitted(this.canvas, 24);
    const width = this.canvas.clientWidth;
    if (this.link === null) return "";
    if (!this.run.hasFrames) return LATER;
    const numbers = this.run.numbers(this.link, time_s);
    const each = width / 64;
    numbers.forEach((n, i) => {
      c.fillStyle = colours.of(n.arrived ? "good" : "hole");
      c.fillRect((i + 64 - numbers.length) * each + 0.5, n.arrived ? 6 : 3, Math.max(each - 1, 1), n.arrived ? 12 : 18);
    });
    const held = this.run.waiting(time_s).reorder.get(this.link) ?? 0;
    const holes = numbers.filter((n) => !n.arrived).length;
    return `${this.run.linkName(this.link)}: ${holes} of the last ${numbers.length} frames missing, ${held} packets wait behind a gap`;
  }
}

/** For those who hear the page: what is on the air, and what waits. */
export function spoken(run: Run, time_s: number): string {
  const i = run.lastPpdu(time_s);
  const queues = [...run.waiting(time_s).queues]
    .map(([place, shares]) => ({ place, sum: shares.reduce((a, s) => a + s.packets, 0) }))
    .sort((a, b) => b.sum - a.sum)
    .slice(0, 2)
    .map((q) => `${q.sum} packets wait at ${run.placeName(q.place)}`);
  const air = i < 0 ? "" : fields(run, run.ppdu(i)).split("\n").slice(0, 2).join("; ");
  return [`At ${time_s.toFixed(3)} s`, air, ...queues].filter(Boolean).join(". ");
}

export { KINDS };
