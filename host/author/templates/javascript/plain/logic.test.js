import assert from "node:assert/strict";
import { test } from "node:test";

import { counts } from "../src/logic.js";

test("words, lines and characters are counted", () => {
  assert.deepEqual(counts("to be\nor not"), { words: 4, lines: 2, characters: 12 });
  assert.deepEqual(counts("süß\n"), { words: 1, lines: 1, characters: 4 });
});
