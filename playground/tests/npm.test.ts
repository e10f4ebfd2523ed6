import assert from "node:assert/strict";
import { test } from "node:test";

import { STORIES } from "../src/stories";

test("the package for Node runs a scenario and says what is wrong with one", async () => {
  // At run time, as whoever installs it: not bundled into the test.
  const at = new URL("../npm/index.mjs", import.meta.url).href;
  const { run, check, schema, EngineError } = (await import(at)) as typeof import("../src/node");
  const toml = STORIES[0]?.toml ?? "";
  const output = run(toml, { set: ["duration=3s"] });
  assert.match(output.hash, /^[0-9a-f]{16}$/);
  assert.equal(output.summary.end_s, 3);
  assert.ok((output.tables.flows?.rows ?? 0) === 2);
  assert.equal(check(toml).name, "call");
  assert.ok("properties" in (schema() as object));
  assert.throws(() => run("duration = 3", { file: "mine.toml" }), (e) => e instanceof EngineError && /mine\.toml/.test(e.message));
});
