// Hashes of runs in Node, for the test that holds them against native ones. Requests come in JSON on standard input.

import { readFileSync } from "node:fs";

import { run, type Request } from "./engine";

const module = new WebAssembly.Module(readFileSync(process.argv[2] ?? ""));
const { until_s, requests } = JSON.parse(readFileSync(0, "utf8")) as { until_s: number; requests: Request[] };
for (const request of requests) {
  const begin = performance.now();
  const { engine, hash, tables_hash } = run(module, request, until_s);
  process.stdout.write(`${JSON.stringify({ engine, hash, tables_hash, wall_s: (performance.now() - begin) / 1000 })}\n`);
}
