import assert from "node:assert/strict";
import { test } from "node:test";

import { question } from "../src/logic.js";

test("only calls that may change something are asked about", () => {
  assert.equal(question("read", true, []), undefined);
  assert.equal(question("note", false, ["note"]), undefined);
  assert.match(question("write", false, ["note"]) ?? "", /`write`/);
});
