// The scenario as a picture: hosts, access points, routers, and what connects them.

import type { Description } from "./engine";
import type { Run } from "./run";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 320;
/** Members of a group that are drawn; the rest is a number. */
const MOST_MEMBERS = 8;

type Point = { x: number; y: number };

function element(name: string, attributes: Record<string, string | number>, text?: string): SVGElement {
  const it = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) it.setAttribute(key, String(value));
  if (text !== undefined) it.textContent = text;
  return it;
}

/** Nodes that are drawn, each for itself or for the rest of its group. */
function drawn(d: Description): { node: number; label: string }[] {
  const members = new Map<string, number>();
  const all: { node: number; label: string }[] = [];
  d.nodes.forEach((n, node) => {
    const group = /^(.*)\[\d+\]$/.exec(n.name)?.[1];
    if (group === undefined) {
      all.push({ node, label: n.name });
      return;
    }
    const count = (members.get(group) ?? 0) + 1;
    members.set(group, count);
    if (count <= MOST_MEMBERS) all.push({ node, label: n.name });
  });
  for (const [group, count] of members) {
    if (count <= MOST_MEMBERS) continue;
    const last = all.filter((a) => a.label.startsWith(`${group}[`)).at(-1);
    if (last) last.label = `${group} × ${count}`;
  }
  return all;
}

/** Columns by the distance from the hosts that send. */
function layout(d: Description, nodes: number[]): { places: Map<number, Point>; height: number } {
  const neighbours = new Map<number, number[]>();
  for (const l of d.links) neighbours.set(l.from, [...(neighbours.get(l.from) ?? []), l.to]);
  const inAir = new Set(d.links.filter((l) => l.air && !l.air.down).map((l) => l.from));
  const sources = nodes.filter((n) => (inAir.size > 0 ? inAir.has(n) : d.flows.some((f) => f.from === n)));
  const depth = new Map<number, number>(sources.map((n) => [n, 0]));
  const queue = [...sources];
  for (let at = queue.shift(); at !== undefined; at = queue.shift()) {
    for (const next of neighbours.get(at) ?? []) {
      if (depth.has(next)) continue;
      depth.set(next, (depth.get(at) ?? 0) + 1);
      queue.push(next);
    }
  }
  const columns = new Map<number, number[]>();
  for (const n of nodes) columns.set(depth.get(n) ?? 0, [...(columns.get(depth.get(n) ?? 0) ?? []), n]);
  const last = Math.max(1, ...columns.keys());
  const places = new Map<number, Point>();
  const height = Math.max(200, ...[...columns.values()].map((members) => (members.length + 1) * 32));
  for (const [column, members] of columns) {
    members.forEach((n, i) => {
      places.set(n, { x: 34 + (column / last) * (WIDTH - 68), y: ((i + 1) / (members.length + 1)) * height });
    });
  }
  return { places, height };
}

export class Scene {
  private readonly circles = new Map<number, SVGElement>();
  private readonly places: Map<number, Point>;
  private readonly lines: { from: number; to: number; line: SVGElement }[] = [];
  private readonly labels = new Map<number, SVGElement>();

  constructor(
    svg: SVGSVGElement,
    d: Description,
  ) {
    const nodes = drawn(d);
    const { places, height } = layout(d, nodes.map((n) => n.node));
    this.places = places;
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    const summary = `${nodes.length} nodes: ${nodes.map((n) => n.label).join(", ")}; ${d.flows.length} flows`;
    svg.setAttribute("aria-label", `The network: ${summary}`);
    svg.replaceChildren();
    // Who walks is drawn apart from those who stay.
    for (const walk of d.scenario.walks ?? []) {
      const p = places.get(d.nodes.findIndex((n) => n.name === walk.node));
      if (p) p.x += 46;
    }
    const pairs = new Set<string>();
    for (const l of d.links) {
      const key = [l.from, l.to].sort((a, b) => a - b).join("-");
      const [a, b] = [this.places.get(l.from), this.places.get(l.to)];
      if (!a || !b || pairs.has(key)) continue;
      pairs.add(key);
      const line = element("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: l.air ? "radio" : "wire" });
      line.append(element("title", {}, `${l.name}: ${l.air ? "radio" : `${l.rate_bps / 1e6} Mbit/s, ${l.delay_s * 1000} ms`}`));
      svg.append(line);
      this.lines.push({ from: l.from, to: l.to, line });
    }
    for (const { node, label } of nodes) {
      const p = this.places.get(node) as Point;
      const info = d.nodes[node];
      const isAp = d.links.some((l) => l.air?.down && l.from === node);
      const circle = element("circle", { cx: p.x, cy: p.y, r: info?.host ? 9 : 11, class: isAp ? "ap" : info?.host ? "host" : "router" });
      svg.append(circle);
      this.circles.set(node, circle);
      const text = element("text", { x: p.x, y: p.y + 22, "text-anchor": "middle" }, label);
      svg.append(text);
      this.labels.set(node, text);
    }
  }

  /** Who sends now, and how much waits with whom. */
  draw(run: Run, time_s: number): void {
    const i = run.lastPpdu(time_s);
    const ppdu = i >= 0 ? run.ppdu(i) : null;
    const sends = ppdu && ppdu.end_s >= time_s ? ppdu.from : -1;
    const waits = new Map<number, number>();
    for (const [link, shares] of run.waiting(time_s).queues) {
      const from = run.description.links[link]?.from ?? -1;
      waits.set(from, (waits.get(from) ?? 0) + shares.reduce((sum, s) => sum + s.packets, 0));
    }
    const most = Math.max(20, run.queues[0]?.most ?? 0);
    for (const [node, circle] of this.circles) {
      circle.classList.toggle("sends", node === sends);
      const full = Math.min(1, (waits.get(node) ?? 0) / most);
      circle.style.strokeWidth = String(1.5 + 7 * full);
    }
    for (const [node, [x, y]] of run.walkers(time_s)) this.move(node, x, y, run.description);
  }

  /** A host that walks goes from one of its access points to the other as it does in the scenario. */
  private move(node: number, x: number, y: number, d: Description): void {
    const aps = (d.scenario.wlans ?? []).flatMap((w) => {
      const id = d.nodes.findIndex((n) => n.name === w.ap);
      const place = this.places.get(id);
      return place ? [{ place, at: w.ap_position_m ?? [0, 0] }] : [];
    });
    const [a, b] = [aps[0], aps.at(-1)];
    const circle = this.circles.get(node);
    if (!a || !b || !circle || a === b) return;
    const [dx, dy] = [(b.at[0] ?? 0) - (a.at[0] ?? 0), (b.at[1] ?? 0) - (a.at[1] ?? 0)];
    const part = Math.min(1.2, Math.max(-0.2, ((x - (a.at[0] ?? 0)) * dx + (y - (a.at[1] ?? 0)) * dy) / (dx * dx + dy * dy || 1)));
    const py = a.place.y + part * (b.place.y - a.place.y);
    circle.setAttribute("cy", String(py));
    this.labels.get(node)?.setAttribute("y", String(py + 22));
    for (const { from, to, line } of this.lines) {
      if (from === node) line.setAttribute("y1", String(py));
      if (to === node) line.setAttribute("y2", String(py));
    }
  }
}
