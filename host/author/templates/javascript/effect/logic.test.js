import assert from "node:assert/strict";
import { test } from "node:test";

import { reminder } from "../src/logic.js";

test("the agent is reminded once the turns are taken", () => {
  assert.equal(reminder(2, 3), undefined);
  assert.match(reminder(3, 3) ?? "", /3 turns/);
});
