import assert from "node:assert/strict";
import { test } from "node:test";

import { runMiddleware } from "../src/plugin.js";
import { message, withHost } from "../src/shelly-plugin/testing.js";

const CX = { run: "run", agent: "agent", depth: 0 };
const NONE = { inputTokens: 0n, outputTokens: 0n, cacheReadTokens: 0n, cacheWriteTokens: 0n };

test("an empty answer is asked for once more", () => {
  withHost({ params: { feedback: "Answer." } }, () => {
    const after = (text, attempt = 0, meta = []) => {
      const reply = { tag: "ok", val: message("assistant", text, meta) };
      return runMiddleware.after(CX, { reply, usage: NONE, attempt }, new Uint8Array()).tag;
    };
    assert.equal(after("yes"), "accept");
    assert.equal(after(" \n"), "retry");
    assert.equal(after(" ", 1), "accept");
    assert.equal(after("", 0, [["shelly.ending", "handed-over"]]), "accept");
  });
});
