// Builds the page: one file that holds all it needs. `node build.mjs [--tests]`

import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

import { build } from "esbuild";
import { parse } from "smol-toml";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "..");
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
const WASM = join(TARGET, "wasm32-unknown-unknown/web/airtcp_web.wasm");
const MOST_BROTLI_KB = 700;

if (!existsSync(WASM)) {
  console.error(`missing: ${WASM}\n  make playground builds it`);
  process.exit(1);
}

/** Findings that stories speak of, as they are published. */
function findings() {
  const all = {};
  for (const study of readdirSync(join(ROOT, "studies"))) {
    const file = join(ROOT, "studies", study, "published.json");
    if (!existsSync(file)) continue;
    let before = "";
    for (const { id, claim, verdict } of JSON.parse(readFileSync(file, "utf8")).findings) {
      // A claim that goes on from the one before is no sentence without it.
      const whole = /^[a-z]/.test(claim) ? `${before} … ${claim}` : claim;
      all[`${study}/${id}`] = { claim: whole.replace(/[^.?!]$/, "$&."), verdict };
      before = whole;
    }
  }
  const wanted = readFileSync(join(HERE, "src/stories.ts"), "utf8").matchAll(/finding: "([^"]+)"/g);
  return Object.fromEntries(
    [...wanted].map(([, key]) => {
      if (!all[key]) throw new Error(`src/stories.ts: there is no finding ${key}`);
      return [key, all[key]];
    }),
  );
}

/** The remedies, without what the page does not look at. */
function catalogue() {
  const { remedies } = parse(readFileSync(join(ROOT, "python/airtcp/advice/data/remedies.toml"), "utf8"));
  return remedies.map(({ name, text, needs, set, line, parts }) => ({ name, text, needs, set, line, parts }));
}

const define = { FINDINGS: JSON.stringify(findings()), CATALOGUE: JSON.stringify(catalogue()) };
const common = {
  absWorkingDir: HERE,
  bundle: true,
  format: "esm",
  target: ["chrome111", "firefox113", "safari16.4"],
  loader: { ".toml": "text" },
  charset: "utf8",
  logLevel: "warning",
};

if (process.argv.includes("--tests")) {
  await build({ ...common, target: "node20", entryPoints: readdirSync(join(HERE, "tests")).map((f) => join("tests", f)), outdir: "dist/tests", platform: "node", outExtension: { ".js": ".mjs" }, define });
  await build({ ...common, target: "node20", entryPoints: ["src/hashes.ts"], outfile: "dist/hashes.mjs", platform: "node" });
  await build({ ...common, entryPoints: ["src/hashes-page.ts"], outfile: "dist/hashes-page.js" });
  // The package for Node: `npm install playground/dist/npm`.
  await build({ ...common, target: "node20", entryPoints: ["src/node.ts"], outfile: "dist/npm/index.mjs", platform: "node" });
  copyFileSync(WASM, join(HERE, "dist/npm/airtcp.wasm"));
  const { version, license } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));
  const manifest = { name: "airtcp", version, license, type: "module", description: "TCP over Wi-Fi, simulated packet by packet", engines: { node: ">=20" }, exports: { ".": { types: "./node.d.ts", default: "./index.mjs" } } };
  writeFileSync(join(HERE, "dist/npm/package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  process.exit(0);
}

const text = async (entry, more = {}) => {
  const { outputFiles } = await build({ ...common, entryPoints: [entry], minify: true, write: false, define: more });
  return outputFiles[0].text;
};
const wasm = readFileSync(WASM);
const worker = await text("src/worker.ts");
const script = await text("src/main.ts", { ...define, WORKER: JSON.stringify(worker) });
const uplot = readFileSync(join(HERE, "node_modules/uplot/dist/uPlot.min.css"), "utf8");
const style = `${uplot}\n${readFileSync(join(HERE, "style.css"), "utf8")}`;

// What would end its element early, or begin a comment, has no place in it.
const safe = (code) => code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
const hash = (code) => `'sha256-${createHash("sha256").update(code).digest("base64")}'`;
const policy = [
  "default-src 'none'",
  `script-src ${hash(safe(script))} 'wasm-unsafe-eval'`,
  `style-src ${hash(style)}`,
  "worker-src blob:",
  "connect-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const parts = { policy, style, given: "", wasm: gzipSync(wasm, { level: 9 }).toString("base64"), script: safe(script) };
const page = readFileSync(join(HERE, "index.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
mkdirSync(join(HERE, "dist"), { recursive: true });
writeFileSync(join(HERE, "dist/playground.html"), page);

const kb = (bytes) => `${(bytes / 1000).toFixed(0)} kB`;
const brotli = brotliCompressSync(wasm, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: wasm.length } }).length;
console.log(`engine: ${kb(wasm.length)}, brotli ${kb(brotli)}; page: ${kb(page.length)}, brotli ${kb(brotliCompressSync(page).length)}`);
if (brotli > MOST_BROTLI_KB * 1000) {
  console.error(`the engine has ${kb(brotli)} compressed: must be at most ${MOST_BROTLI_KB} kB`);
  process.exit(1);
}
