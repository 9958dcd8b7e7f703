import assert from "node:assert/strict";
import { test } from "node:test";

import { modelMiddleware } from "../src/plugin.js";
import { withHost } from "../src/shelly-plugin/testing.js";

const CX = { run: "run", agent: "agent", depth: 0 };

test("only a large request is refused", () => {
  withHost({ params: { max_tokens: 10 } }, () => {
    const before = (tokens) => modelMiddleware.before(CX, { model: "m", digest: "", tokens, attempt: 0 });
    assert.equal(before(10n).tag, "proceed");
    assert.deepEqual(before(11n), {
      tag: "reject",
      val: { tag: "too-large", val: "the request has about 11 tokens, 10 are allowed" },
    });
  });
});
