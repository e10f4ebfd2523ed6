/** airtcp in Node: a scenario in, its summary, hash and tables out. */

import { readFileSync } from "node:fs";

import { Engine, type Description, type Output, run as runOn } from "./engine";

export { EngineError } from "./engine";
export type { Column, Description, Fault, GroupSummary, Output, Summary, Table, Values } from "./engine";

export interface Options {
  /** Changes, each as the argument of `--set`. */
  set?: string[];
  /** How errors call the scenario. */
  file?: string;
}

let compiled: WebAssembly.Module | null = null;
const module = (): WebAssembly.Module => (compiled ??= new WebAssembly.Module(readFileSync(new URL("airtcp.wasm", import.meta.url))));

/** Runs a scenario, TOML, to its end. Throws an `EngineError` with the command line's words. */
export function run(toml: string, options: Options = {}): Output {
  return runOn(module(), { toml, ...options });
}

/** What a scenario means, defaults filled in; it is not run. */
export function check(toml: string, options: Options = {}): Description {
  return new Engine(module()).check({ toml, ...options });
}

/** The JSON Schema of scenarios. */
export function schema(): unknown {
  return new Engine(module()).schema();
}
