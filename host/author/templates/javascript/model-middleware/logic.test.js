import assert from "node:assert/strict";
import { test } from "node:test";

import { refusal } from "../src/logic.js";

test("only a large request is refused", () => {
  assert.equal(refusal(10n, 10n), undefined);
  assert.match(refusal(11n, 10n) ?? "", /11 tokens/);
});
