// Runs the linter, Biome, which is a program for each machine. Those of Linux are in the lock file; elsewhere this says that nothing was linted.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const BIOME = join(HERE, `node_modules/@biomejs/cli-${process.platform}-${process.arch}/biome`);

if (!existsSync(BIOME)) {
  console.log(`skipped: the page is not linted: no Biome for ${process.platform} on ${process.arch}`);
  process.exit(0);
}
process.exit(spawnSync(BIOME, ["lint", "--error-on-warnings"], { cwd: HERE, stdio: "inherit" }).status ?? 1);
