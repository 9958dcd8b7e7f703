import assert from "node:assert/strict";
import { test } from "node:test";

import { answer } from "../src/logic.js";

test("what was said is repeated after the prefix", () => {
  assert.equal(answer("You said: ", ["Hel", "lo"]), "You said: Hello");
});
