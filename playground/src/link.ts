// A link is a scenario: `#s=` and the TOML, deflated, in base64url; then a `set=` for each change of the second run.
// What comes in a link is text of a stranger. It is only ever shown as text, and read by the engine.

export interface Given {
  toml: string;
  /** What the second run changes, as for `--set`. */
  set: string[];
}

export const MOST_LINK = 64 * 1024;
export const MOST_TOML = 256 * 1024;
export const MOST_CHANGES = 40;
const MOST_CHANGE = 2000;

/** The link is of no use; the message says why. */
export class LinkError extends Error {}

const CUT = "The link is cut or damaged: its scenario cannot be unpacked. Ask for it again, or paste the scenario as text.";

async function through(bytes: Uint8Array, stream: CompressionStream | DecompressionStream, most: number): Promise<Uint8Array> {
  const writer = stream.writable.getWriter();
  // Failures show at the reader.
  writer.write(bytes as Uint8Array<ArrayBuffer>).catch(() => undefined);
  writer.close().catch(() => undefined);
  const reader = stream.readable.getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) {
      await reader.cancel();
      throw new LinkError(`The scenario in the link is larger than ${most / 1024} KiB: that is not one of ours.`);
    }
    parts.push(value);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function fromBase64(text: string): Uint8Array {
  if (!/^[\w-]+$/.test(text)) throw new LinkError(CUT);
  try {
    return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  } catch {
    throw new LinkError(CUT);
  }
}

/** The fragment, with its `#`. */
export async function toFragment(given: Given): Promise<string> {
  const packed = await through(new TextEncoder().encode(given.toml), new CompressionStream("deflate-raw"), MOST_TOML * 2);
  const sets = given.set.map((set) => `&set=${encodeURIComponent(set)}`).join("");
  return `#s=${toBase64(packed)}${sets}`;
}

/** The scenario in a fragment; `null`: there is none. */
export async function fromFragment(fragment: string): Promise<Given | null> {
  const text = fragment.replace(/^#/, "");
  if (!text.startsWith("s=")) return null;
  if (text.length > MOST_LINK) throw new LinkError(`The link has more than ${MOST_LINK} characters: that is too long for a scenario.`);
  const [packed = "", ...rest] = text.slice(2).split("&");
  const set: string[] = [];
  for (const part of rest) {
    if (!part.startsWith("set=")) continue;
    let change: string;
    try {
      change = decodeURIComponent(part.slice(4));
    } catch {
      throw new LinkError(CUT);
    }
    if (change.length > MOST_CHANGE) throw new LinkError(`A change in the link has more than ${MOST_CHANGE} characters.`);
    set.push(change);
  }
  if (set.length > MOST_CHANGES) throw new LinkError(`The link has more than ${MOST_CHANGES} changes.`);
  let bytes: Uint8Array;
  try {
    bytes = await through(fromBase64(packed), new DecompressionStream("deflate-raw"), MOST_TOML);
  } catch (error) {
    throw error instanceof LinkError ? error : new LinkError(CUT);
  }
  try {
    return { toml: new TextDecoder("utf-8", { fatal: true }).decode(bytes), set };
  } catch {
    throw new LinkError(CUT);
  }
}

/** An argument for a POSIX shell. */
export function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}

/** The command that makes a run natively. */
export function command(fragment: string, set: string[]): string {
  const base = fragment.replace(/&set=.*$/, "");
  const changes = set.length > 0 ? ` --set ${set.map(quoted).join(" ")}` : "";
  return `airtcp run ${quoted(base)}${changes}`;
}
