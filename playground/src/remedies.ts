// What the second run changes: the remedies of the study `remedies`, as changes for `--set`, fitted to the scenario at hand.

import type { Description, Engine } from "./engine";

export type Value = string | number | boolean | Value[] | { [key: string]: Value };

/** A remedy of python/airtcp/advice/data/remedies.toml, as far as the page looks at it. */
export interface Entry {
  name: string;
  text?: string;
  needs?: string[];
  set?: Record<string, Value>;
  line?: { queue: Value; share?: number; packets?: string };
  parts?: string[];
}

export interface Remedy {
  id: string;
  label: string;
}

/** Where a host's options stand in a flow: of its sender, or of its receiver. */
const RECEIVER_KEYS = ["acks_per_rtt"];

/** A value as TOML in one line. */
export function toToml(value: Value): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(toToml).join(", ")}]`;
  if (typeof value === "object") return `{ ${Object.entries(value).map(([key, part]) => `${key} = ${toToml(part)}`).join(", ")} }`;
  return String(value);
}

const change = (key: string, value: Value): string => `${key}=${typeof value === "string" ? value : toToml(value)}`;

const wlans = (d: Description): number[] => (d.scenario.wlans ?? []).map((_, i) => i);

/** Flows over TCP, as entries of the file. */
const tcpFlows = (d: Description): string[] => [...new Set(d.flows.filter((f) => f.tcp).map((f) => f.group))];

const groupOf = (d: Description, node: number): string => (d.nodes[node]?.name ?? "").replace(/\[\d+\]$/, "");

/** Groups of hosts on the air, the access points left out. */
const stations = (d: Description): Set<string> => new Set(d.links.filter((l) => l.air && !l.air.down).map((l) => groupOf(d, l.from)));

/** Entries of the file whose flows go to the air and are not TCP. */
function callsDown(d: Description): string[] {
  const air = stations(d);
  return [...new Set(d.flows.filter((f) => !f.tcp && air.has(groupOf(d, f.to)) && !air.has(groupOf(d, f.from))).map((f) => f.group))];
}

/** Where the profiles of hosts stand that have another system than Linux 6. */
function olderSystems(d: Description, role: string): string[] {
  const air = stations(d);
  const keys = new Set<string>();
  for (const node of d.scenario.nodes) {
    if (node.kind !== "host" || (air.size > 0 && air.has(node.name) !== (role === "user"))) continue;
    const profile = node.profile ?? "linux-6";
    const own = d.scenario.profiles?.[profile];
    if ((own?.base ?? profile) !== "linux-6") keys.add(own ? `profiles.${profile}.base` : `nodes.${node.name}.profile`);
  }
  return [...keys];
}

function uploaders(d: Description): string[] {
  const air = stations(d);
  // A daemon is of a station of one WLAN.
  const roams = new Set((d.scenario.roaming ?? []).map((r) => r.node));
  const names = d.flows.filter((f) => f.tcp).map((f) => groupOf(d, f.from));
  return [...new Set(names)].filter((name) => air.has(name) && !roams.has(name));
}

const hasModernQueues = (d: Description): boolean[] =>
  (d.scenario.wlans ?? []).map(({ ap_radio }) => {
    const transmit = ap_radio?.transmit ?? "mac80211";
    return (typeof transmit === "string" ? transmit : transmit.name) === "mac80211";
  });

const NEEDS: Record<string, (d: Description) => boolean> = {
  "plain AP": (d) => wlans(d).length > 0 && !hasModernQueues(d).some(Boolean),
  "mac80211 AP": (d) => wlans(d).length > 0 && hasModernQueues(d).every(Boolean),
  "hosts of 2014": (d) => olderSystems(d, "user").length > 0,
  "no RACK": (d) => [...olderSystems(d, "user"), ...olderSystems(d, "server")].length > 0,
  uploads: (d) => uploaders(d).length > 0,
  calls: (d) => callsDown(d).length > 0,
};

/** A place of the catalogue as changes; null: the page does not know how. */
function placed(d: Description, place: string, value: Value): string[] | null {
  const [kind, role = "", ...keys] = place.split(".");
  const key = keys.join(".");
  if (typeof value === "string" && value.includes("{")) return null;
  switch (kind) {
    case "wlans":
      return wlans(d).map((i) => change(`wlans[${i}].${key}`, value));
    case "flows":
      return callsDown(d).map((name) => change(`flows.${name}.${key}`, value));
    case "coop": {
      if ((d.scenario.coop ?? []).length > 0 || !Array.isArray(value)) return null;
      return [change("coop", value.map((daemons) => ({ ...(daemons as object), nodes: uploaders(d) })))];
    }
    case "profiles":
      if (key === "base") return olderSystems(d, role).map((where) => change(where, value));
      if (keys[0] === "wifi") return role === "user" ? wlans(d).map((i) => change(`wlans[${i}].station_radio.${keys.slice(1).join(".")}`, value)) : [];
      return tcpFlows(d).map((name) => change(`flows.${name}.${RECEIVER_KEYS.includes(key) ? "receiver" : "tcp"}.${key}`, value));
    default:
      return null;
  }
}

/** What a remedy changes in a scenario; none: it does not apply here. */
function changesOf(entry: Entry, d: Description): string[] {
  if ((entry.needs ?? []).some((need) => !NEEDS[need]?.(d))) return [];
  const all: string[] = [];
  for (const part of entry.parts ?? []) {
    const one = CATALOGUE.find(({ name }) => name === part);
    const set = one ? changesOf(one, d) : [];
    if (set.length === 0) return [];
    all.push(...set);
  }
  for (const [place, value] of Object.entries(entry.set ?? {})) {
    const set = placed(d, place, value);
    if (set === null) return [];
    all.push(...set);
  }
  if (entry.line) {
    // Which line holds the queue is not known before the run, nor the rate of a shaper.
    if (entry.line.share !== undefined || entry.line.packets !== undefined) return [];
    const { queue } = entry.line;
    all.push(...d.scenario.links.map((_, i) => change(`links[${i}].queue`, queue)));
  }
  return [...new Set(all)];
}

const WITHOUT_DAEMONS: Remedy = { id: "no coop", label: "no coop: without the cooperative daemons" };

/** The remedies that the scenario takes, with their changes. */
export function offered(engine: Engine, toml: string, d: Description): { remedy: Remedy; set: string[] }[] {
  const all = CATALOGUE.map((entry) => ({
    remedy: { id: entry.name, label: entry.text ? `${entry.name}: ${entry.text.replace(/, see below$/, "")}` : entry.name },
    set: changesOf(entry, d),
  }));
  if ((d.scenario.coop ?? []).length > 0) all.push({ remedy: WITHOUT_DAEMONS, set: ["coop=[]"] });
  return all.filter(({ set }) => {
    if (set.length === 0) return false;
    try {
      engine.check({ toml, set });
      return true;
    } catch {
      // Such as a reorder buffer where the radio has none.
      return false;
    }
  });
}
