import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { message, withHost } from "../src/testing.js";

const SDK = fileURLToPath(new URL("../src", import.meta.url));
const README = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const BLOCKS = [...README.matchAll(/```js\n(.*?)```/gs)].map(([, block]) => block);

const project = mkdtempSync(join(tmpdir(), "shelly-plugin-"));
after(() => rmSync(project, { recursive: true }));
mkdirSync(join(project, "src"));
mkdirSync(join(project, "test"));
writeFileSync(join(project, "package.json"), '{"type": "module"}');
symlinkSync(SDK, join(project, "src/shelly-plugin"));

/** Loads the block of the page with these words. */
function load(words, path) {
  const found = BLOCKS.filter((block) => block.includes(words));
  assert.equal(found.length, 1, words);
  writeFileSync(join(project, path), found[0]);
  return import(pathToFileURL(join(project, path)));
}

test("tool of the page refuses what the page says", async () => {
  const { sumDice } = await load("export const sumDice", "src/dice.js");
  assert.deepEqual(sumDice.call({ rolls: [6, 1] }), [{ tag: "json", val: '{"sum":7}' }]);
  const refused = (error) => README.includes(error.message);
  assert.throws(() => sumDice.call({ rolls: [1, 7], bonus: "2" }), refused);
});

test("unit test of the page passes", async () => {
  await load("export const issueTitle", "src/plugin.js");
  // It fails this file if it fails.
  await load('test("the title is read"', "test/plugin.test.js");
});

test("effect, middleware and provider of the page work", async () => {
  const { effect } = await load("export const effect", "src/effect.js");
  withHost({}, (host) => {
    assert.deepEqual(host.eval(effect, { iteration: 9 }).nextCall, { tag: "when", val: { iteration: 10 } });
    const late = host.eval(effect, { iteration: 10 });
    assert.deepEqual([late.action.val.length, late.nextCall], [1, { tag: "never" }]);
  });
  const { toolMiddleware } = await load("export const toolMiddleware", "src/middleware.js");
  assert.equal(toolMiddleware.before({}, { name: "delete_file" }).verdict.tag, "deny");
  const { provider } = await load("export const provider", "src/provider.js");
  withHost({}, (host) => {
    host.respond("POST", "https://api.example.com/chat", { body: "data: a\n\ndata: b\n\n" });
    provider.complete("m", { messages: [message("user", "Hello")] });
    assert.equal(host.text, "ab");
  });
});
