import assert from "node:assert/strict";
import { test } from "node:test";

import { chosen } from "../src/logic.js";

test("each member works once a round", () => {
  const members = [0, 1, 2, 3, 4].map((step) => chosen(["a", "b"], step, 2));
  assert.deepEqual(members, ["a", "b", "a", "b", undefined]);
  assert.equal(chosen([], 0, 1), undefined);
});
