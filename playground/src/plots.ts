// Latency and goodput over time, both runs in one picture.

import uPlot from "uplot";

import type { Colours } from "./draw";
import type { Run } from "./run";

interface Line {
  times: number[];
  values: number[];
}

export class Plot {
  private plot: uPlot | null = null;
  /** What its lines and axes are: new points do not need a new plot. */
  private of = "";
  private duration_s = 1;
  private now = 0;

  constructor(
    private readonly place: HTMLElement,
    private readonly seek: (time_s: number) => void,
  ) {
    new ResizeObserver(() => this.plot?.setSize({ width: this.place.clientWidth, height: 170 })).observe(place);
  }

  set(title: string, unit: string, names: string[], lines: Line[], duration_s: number, colours: Colours): void {
    this.duration_s = duration_s;
    const tables = lines.map((line) => [line.times, line.values] as uPlot.AlignedData);
    const data = tables.length === 1 ? (tables[0] as uPlot.AlignedData) : uPlot.join(tables, tables.map((t) => t.map(() => 2)));
    this.tell(title, unit, names, lines);
    const of = JSON.stringify([title, unit, names, colours.of("quiet")]);
    if (this.plot !== null && of === this.of) {
      this.plot.setData(data);
      return;
    }
    this.of = of;
    this.plot?.destroy();
    const axis = { stroke: colours.of("quiet"), grid: { stroke: colours.of("lane"), width: 1 }, ticks: { stroke: colours.of("lane") } };
    this.plot = new uPlot(
      {
        width: this.place.clientWidth,
        height: 170,
        title: `${title}, ${unit}`,
        padding: [8, 20, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false } },
        scales: { x: { time: false, range: () => [0, this.duration_s] }, y: { range: (_u, _min, max) => [0, Math.max(max * 1.08, 1e-3)] } },
        axes: [{ ...axis, values: (_u, ticks) => ticks.map((t) => `${t} s`) }, { ...axis, size: 52 }],
        series: [
          {},
          ...names.map((label, i) => ({
            label,
            stroke: colours.of(i === 0 ? "run-a" : "run-b"),
            width: 2,
            spanGaps: true,
            points: { show: false },
            ...(i === 0 ? {} : { dash: [6, 3] }),
          })),
        ],
        hooks: {
          draw: [
            (u) => {
              const x = u.valToPos(this.now, "x", true);
              u.ctx.save();
              u.ctx.fillStyle = colours.of("accent");
              u.ctx.fillRect(x - 1, u.bbox.top, 2, u.bbox.height);
              u.ctx.restore();
            },
          ],
        },
      },
      data,
      this.place,
    );
    this.plot.over.addEventListener("click", (event) => {
      const time = this.plot?.posToVal(event.offsetX, "x");
      if (time !== undefined) this.seek(time);
    });
  }

  private tell(title: string, unit: string, names: string[], lines: Line[]): void {
    const spoken = lines.map((line, i) => `${names[i]}: mean ${mean(line.values)} ${unit}, most ${most(line.values)}`);
    this.place.setAttribute("role", "img");
    this.place.setAttribute("aria-label", `${title} over time. ${spoken.join("; ")}`);
  }

  mark(time_s: number): void {
    this.now = time_s;
    this.plot?.redraw(false, false);
  }
}

const three = (x: number): string => (Number.isFinite(x) ? String(Number(x.toPrecision(3))) : "none");
export const mean = (values: number[]): string => three(values.reduce((a, b) => a + b, 0) / values.length);
const most = (values: number[]): string => three(values.reduce((a, b) => Math.max(a, b), 0));

export function plotsOf(runs: Run[], group: string): { latency: { what: string; lines: Line[] }; goodput: Line[] } {
  const latency = runs.map((run) => run.latency(group));
  return {
    latency: { what: latency[0]?.what ?? "", lines: latency.map((l) => ({ times: l.times, values: l.ms })) },
    goodput: runs.map((run) => run.goodput(group)).map((g) => ({ times: g.times, values: g.mbps })),
  };
}
