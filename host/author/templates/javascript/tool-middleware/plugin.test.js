import assert from "node:assert/strict";
import { test } from "node:test";

import { toolMiddleware } from "../src/plugin.js";
import { withHost } from "../src/shelly-plugin/testing.js";

const CX = { run: "run", agent: "agent", depth: 0 };

test("only calls that may change something are asked about", () => {
  withHost({ params: { allow: ["note"] } }, () => {
    const before = (name, hints = {}) => {
      const call = { id: "1", name, arguments: "{}", meta: [] };
      return toolMiddleware.before(CX, call, { origin: "host", hints }).verdict;
    };
    assert.deepEqual(before("read", { readOnly: true }), { tag: "allow" });
    assert.deepEqual(before("note"), { tag: "allow" });
    assert.deepEqual(before("write"), { tag: "ask", val: { text: "`write` may change something", topic: "write" } });
  });
});
