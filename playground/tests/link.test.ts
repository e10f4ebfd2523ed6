import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";

import { LinkError, MOST_CHANGES, MOST_TOML, command, fromFragment, quoted, toFragment } from "../src/link";

const given = { toml: 'duration = "5s" # straße\n', set: ["links[0].queue=codel", 'coop=[{ name = "a&b#=" }]'] };

test("what goes into a link comes out", async () => {
  const fragment = await toFragment(given);
  assert.match(fragment, /^#s=[\w-]+(&set=[^&]+){2}$/);
  assert.deepEqual(await fromFragment(fragment), given);
  assert.equal(await fromFragment("#elsewhere"), null);
});

test("a link that was cut or made to harm is refused", async () => {
  const fragment = await toFragment({ toml: given.toml.repeat(50), set: [] });
  const bomb = `#s=${deflateRawSync(Buffer.alloc(MOST_TOML + 1, "x")).toString("base64url")}`;
  const noText = `#s=${deflateRawSync(Buffer.from([0xff, 0xfe, 0xfd])).toString("base64url")}`;
  const bad = [fragment.slice(0, -9), "#s=", "#s=<script>alert(1)</script>", "#s=aaaa", bomb, noText, `#s=${"a".repeat(70_000)}`];
  bad.push(`${fragment}${"&set=a=1".repeat(MOST_CHANGES + 1)}`, `${fragment}&set=%`, `${fragment}&set=${"x".repeat(3000)}`);
  for (const link of bad) await assert.rejects(fromFragment(link), LinkError, link.slice(0, 40));
});

test("a link of any size and form is refused at once, and touches nothing", async () => {
  const { length } = Object.getOwnPropertyNames(Object.prototype);
  const { "0": plain = "" } = (await toFragment(given)).split("&");
  const bad = [`#s=${"A".repeat(10_000_000)}`, `${plain}${"&set=".repeat(2_000_000)}`, "#s=A", "#s=A===", "#s=\u0101\u0102", "#s=a b", "#s=../../etc", "#s=%41%41"];
  const begin = performance.now();
  for (const link of bad) await assert.rejects(fromFragment(link), LinkError, link.slice(0, 40));
  assert.ok(performance.now() - begin < 2000);
  // Many levels: what unpacks to a bomb is not unpacked again.
  const twice = deflateRawSync(deflateRawSync(Buffer.alloc(1 << 24)));
  const once = await fromFragment(`#s=${twice.toString("base64url")}`).catch((error: unknown) => error);
  assert.ok(once instanceof LinkError || (once !== null && typeof once === "object" && "toml" in once));
  assert.deepEqual(await fromFragment(`${plain}&__proto__=x&constructor=y&set=__proto__.a=1`), { toml: given.toml, set: ["__proto__.a=1"] });
  assert.equal(Object.getOwnPropertyNames(Object.prototype).length, length);
  assert.equal("a" in {}, false);
});

test("the command is safe in a shell", () => {
  assert.equal(quoted("a=b"), "a=b");
  assert.equal(quoted("it's; rm -rf $HOME"), `'it'\\''s; rm -rf $HOME'`);
  assert.equal(command("#s=ab&set=x", []), "airtcp run '#s=ab'");
  assert.equal(command("#s=ab", ["a={ b = 1 }"]), "airtcp run '#s=ab' --set 'a={ b = 1 }'");
});
