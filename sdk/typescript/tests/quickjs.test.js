import assert from "node:assert/strict";
import { test } from "node:test";

import "../src/quickjs.js";
import { PluginError, defineTool, exportTools, s } from "../src/index.js";

test("integers of 64 bits are numbers", () => {
  const error = new PluginError("rate-limited", "slow down", 1.5);
  assert.deepEqual(error.toContract(), { tag: "rate-limited", val: { message: "slow down", afterMs: 2 } });
  const missing = PluginError.fromContract({ tag: "unavailable", val: { message: "gone", afterMs: null } });
  assert.equal(missing.afterMs, undefined);
});

test("crash of a tool needs no console", () => {
  const run = () => JSON.parse("{");
  const tool = exportTools(defineTool({ name: "a", description: "Crashes.", args: s.object({}), run }));
  const { console } = globalThis;
  delete globalThis.console;
  try {
    const isTold = ({ tag, val }) => tag === "other" && val.startsWith("the plugin failed: SyntaxError");
    assert.throws(() => tool.call({ id: "1", name: "a", arguments: "{}" }), isTold);
  } finally {
    globalThis.console = console;
  }
});
