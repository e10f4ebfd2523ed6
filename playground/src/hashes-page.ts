// Hashes of runs in a browser, for the test that holds them against native ones: the requests are in the page.

import { run, type Request } from "./engine";

const text = (id: string): string => document.getElementById(id)?.textContent ?? "";
const bytes = Uint8Array.from(atob(text("wasm")), (c) => c.charCodeAt(0));
const { until_s, requests } = JSON.parse(text("requests")) as { until_s: number; requests: Request[] };

async function all(): Promise<void> {
  const module = await WebAssembly.compile(bytes);
  const found = requests.map((request) => {
    const { engine, hash, tables_hash } = run(module, request, until_s);
    return { engine, hash, tables_hash };
  });
  document.body.dataset.hashes = JSON.stringify(found);
}

all().catch((error: unknown) => (document.body.dataset.hashes = String(error)));
