import assert from "node:assert/strict";
import { test } from "node:test";

import { isEmptyAnswer } from "../src/logic.js";

test("an answer without a word is empty", () => {
  assert.equal(isEmptyAnswer([" ", "\n"], new Map()), true);
  assert.equal(isEmptyAnswer(["yes"], new Map()), false);
  assert.equal(isEmptyAnswer([], new Map([["shelly.ending", "handed-over"]])), false);
});
