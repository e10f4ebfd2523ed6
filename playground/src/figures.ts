// What came of the runs: a sentence, and a table.

import { span } from "./draw";
import { make } from "./elements";
import { mean } from "./plots";
import type { Run } from "./run";

/** What changed, in a sentence. */
export function headline(a: Run, b: Run | null, group: string): string {
  const took = `${span(a.duration_s)} simulated in ${span(a.wall_ms / 1000)}.`;
  const timeouts = (run: Run): string => String(run.output.summary.groups.reduce((sum, g) => sum + g.timeouts, 0));
  const of = (run: Run): { ms: string; mbps: string; timeouts: string } => {
    return { ms: mean(run.latency(group).ms), mbps: mean(run.goodput(group).mbps), timeouts: timeouts(run) };
  };
  const [x, y] = [of(a), b ? of(b) : null];
  const whose = group === "" ? "TCP goodput" : `Goodput of ${group}`;
  const to = (p: string, q: string | undefined, unit: string): string => (q === undefined ? `${p} ${unit}` : `${p} → ${q} ${unit}`);
  const waits = x.timeouts === "0" && (y?.timeouts ?? "0") === "0" ? "" : ` Timeouts: ${to(x.timeouts, y?.timeouts, "").trim()}.`;
  return `Mean ${a.latency(group).what}: ${to(x.ms, y?.ms, "ms")}. ${whose}: ${to(x.mbps, y?.mbps, "Mbit/s")}.${waits} ${took}`;
}

/** The table of what came of the runs. */
export function figures(table: HTMLElement, all: Run[], names: readonly string[]): void {
  const rows: [string, string[]][] = [];
  const three = (x: number | null | undefined, factor = 1): string => (x === null || x === undefined ? "–" : String(Number((x * factor).toPrecision(3))));
  const groups = [...new Set(all.flatMap((run) => run.output.summary.groups.map((g) => g.group)))].slice(0, 8);
  for (const name of groups) {
    const of = all.map((run) => run.output.summary.groups.find((g) => g.group === name));
    const g = of.find((x) => x !== undefined);
    if (!g) continue;
    const many = g.flow_count > 1 ? ` (${g.flow_count} together)` : "";
    if (of.some((x) => x?.goodput_bps)) rows.push([`${name}: goodput, Mbit/s${many}`, of.map((x) => three(x?.goodput_bps, 1e-6))]);
    if (of.some((x) => x?.rtt_mean_ms)) rows.push([`${name}: mean round trip, ms`, of.map((x) => three(x?.rtt_mean_ms))]);
    const shares = all.map((run) => run.shares(name));
    if (g.flow_count > 1 && shares.some((x) => x.length > 1)) rows.push([`${name}: least and most of one flow, Mbit/s`, shares.map((x) => (x.length > 1 ? `${three(Math.min(...x))} and ${three(Math.max(...x))}` : "–"))]);
    if (g.flow_count > 1 && of.some((x) => x?.jain)) rows.push([`${name}: fairness (Jain, 1 is equal)`, of.map((x) => three(x?.jain))]);
    if (of.some((x) => x?.timeouts)) rows.push([`${name}: timeouts`, of.map((x) => three(x?.timeouts))]);
    if (of.some((x) => x?.segments_retransmitted)) rows.push([`${name}: segments sent again`, of.map((x) => three(x?.segments_retransmitted))]);
  }
  rows.push(["packets dropped or lost, all kinds", all.map((run) => String(run.drops.length))]);
  const head = make("tr");
  head.append(make("th", "Figure", { scope: "col" }), ...all.map((_, i) => make("th", names[i], { scope: "col" })));
  table.querySelector("thead")?.replaceChildren(head);
  table.querySelector("tbody")?.replaceChildren(
    ...rows.map(([what, values]) => {
      const row = make("tr");
      row.append(make("th", what, { scope: "row" }), ...values.map((v) => make("td", v)));
      return row;
    }),
  );
}
