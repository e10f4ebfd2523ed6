// Hashes of runs in Node, for the test that holds them against native ones. Requests come as a list in JSON on standard input.

import { readFileSync } from "node:fs";

import { run, type Request } from "./engine";

const module = new WebAssembly.Module(readFileSync(process.argv[2] ?? ""));
const requests = JSON.parse(readFileSync(0, "utf8")) as Request[];
for (const request of requests) {
  const { engine, hash, tables_hash } = run(module, request);
  process.stdout.write(`${JSON.stringify({ engine, hash, tables_hash })}\n`);
}
