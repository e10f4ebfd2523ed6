// Runs a WebAssembly program on its arguments; it sees the folder that the environment variable FOLDER names, as ".".
// Usage: FOLDER=examples node wasi.mjs PROGRAM.wasm ARGUMENT...
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';

const [program, ...rest] = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args: [program, ...rest], preopens: { '.': process.env.FOLDER } });
const module = await WebAssembly.compile(await readFile(program));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
