// What the second run changes: the published remedies, as changes for `--set`, fitted to the scenario at hand.

import type { Description, Engine } from "./engine";

export interface Remedy {
  id: string;
  label: string;
  /** The changes; `null`: it does not apply here. */
  set(of: Description): string[] | null;
}

type Some = string[];
const orNull = (all: Some): Some | null => (all.length > 0 ? all : null);

const wlans = (d: Description): number[] => (d.scenario.wlans ?? []).map((_, i) => i);

/** Flows over TCP, as entries of the file. */
const tcpFlows = (d: Description): string[] => [...new Set(d.flows.filter((f) => f.tcp).map((f) => f.group))];

/** Where the profile of each host that has TCP stands. */
function profileKeys(d: Description, wanted: (profile: string) => boolean): string[] {
  const keys = new Set<string>();
  for (const node of d.scenario.nodes) {
    if (node.kind !== "host") continue;
    const profile = node.profile ?? "linux-6";
    const own = d.scenario.profiles?.[profile];
    if (wanted(own?.base ?? profile)) keys.add(own ? `profiles.${profile}.base` : `nodes.${node.name}.profile`);
  }
  return [...keys];
}

const ofEachWlan = (d: Description, key: string, value: string): string[] => wlans(d).map((i) => `wlans[${i}].${key}=${value}`);

const uploaders = (d: Description): string[] => {
  const inAir = new Set(d.links.filter((l) => l.air && !l.air.down).map((l) => l.from));
  // A daemon is of a station of one WLAN.
  const roams = new Set((d.scenario.roaming ?? []).map((r) => r.node));
  const names = d.flows.filter((f) => f.tcp && inAir.has(f.from)).map((f) => (d.nodes[f.from]?.name ?? "").replace(/\[\d+\]$/, ""));
  return [...new Set(names)].filter((name) => !roams.has(name));
};

const REMEDIES: Remedy[] = [
  {
    id: "retry-out",
    label: "access point gives up early on damaged frames (retry-out)",
    set: (d) => orNull(ofEachWlan(d, "ap_radio.reorder_buffer.retry_out", "stepped")),
  },
  {
    id: "today",
    label: "hosts of today: Linux 6 with short, fair queues",
    set: (d) => orNull(profileKeys(d, (profile) => profile !== "linux-6").map((key) => `${key}=linux-6`)),
  },
  {
    id: "ap-fq",
    label: "fair queues in the access point (FQ-CoDel)",
    set: (d) => orNull(ofEachWlan(d, "ap_radio.transmit", "mac80211")),
  },
  {
    id: "coop",
    label: "phones that count each other and share (coop)",
    set: (d) => {
      const nodes = uploaders(d);
      if (nodes.length === 0 || (d.scenario.coop ?? []).length > 0) return null;
      return [`coop=[{ name = "daemons", nodes = [${nodes.map((n) => `"${n}"`).join(", ")}], daemon = { bw_max = "learn" } }]`];
    },
  },
  {
    id: "no-coop",
    label: "without the cooperative daemons",
    set: (d) => ((d.scenario.coop ?? []).length > 0 ? ["coop=[]"] : null),
  },
  {
    id: "efr",
    label: "earlier fast retransmit for small windows (EFR)",
    set: (d) => orNull(tcpFlows(d).map((flow) => `flows.${flow}.tcp.loss=efr`)),
  },
  {
    id: "pacing",
    label: "senders that pace their packets",
    set: (d) => orNull(tcpFlows(d).map((flow) => `flows.${flow}.tcp.pacing=rtt_over_cwnd`)),
  },
  {
    id: "bbr",
    label: "BBR as congestion control",
    set: (d) => orNull(tcpFlows(d).map((flow) => `flows.${flow}.tcp.cc=bbr`)),
  },
  {
    id: "line-fq",
    label: "fair queues before the lines (FQ-CoDel)",
    set: (d) => orNull(d.scenario.links.map((_, i) => `links[${i}].queue=fq_codel`)),
  },
];

/** The remedies that the scenario takes, with their changes. */
export function offered(engine: Engine, toml: string, d: Description): { remedy: Remedy; set: string[] }[] {
  return REMEDIES.flatMap((remedy) => {
    const set = remedy.set(d);
    if (set === null) return [];
    try {
      engine.check({ toml, set });
      return [{ remedy, set }];
    } catch {
      // Such as a reorder buffer where the radio has none.
      return [];
    }
  });
}
