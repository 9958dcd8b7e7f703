import assert from "node:assert/strict";
import { test } from "node:test";

import { effect } from "../src/plugin.js";
import { withHost } from "../src/shelly-plugin/testing.js";

test("the agent is reminded once the turns are taken", () => {
  withHost({ params: { turns: 3 } }, (host) => {
    const early = host.eval(effect, { iteration: 2 });
    assert.deepEqual(early.action, { tag: "edits", val: [] });
    assert.deepEqual(early.nextCall, { tag: "when", val: { iteration: 3 } });
    const late = host.eval(effect, { iteration: 3 });
    assert.match(JSON.stringify(late.action), /3 turns/);
    assert.deepEqual(late.nextCall, { tag: "never" });
  });
});
