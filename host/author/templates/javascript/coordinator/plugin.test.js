import assert from "node:assert/strict";
import { test } from "node:test";

import { coordinator } from "../src/plugin.js";
import { withHost } from "../src/shelly-plugin/testing.js";

test("each member works once a round", () => {
  const members = ["a", "b"].map((name) => ({ name, role: "", description: "" }));
  withHost({ params: { rounds: 2 } }, (host) => {
    const actions = [0, 1, 2, 3, 4].map((step) => host.next(coordinator, { members, step }).action);
    const run = (member) => ({ tag: "run", val: [{ member }] });
    assert.deepEqual(actions, [run("a"), run("b"), run("a"), run("b"), { tag: "done", val: { tag: "last-reply" } }]);
  });
});
