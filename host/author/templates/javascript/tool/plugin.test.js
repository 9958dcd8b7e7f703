import assert from "node:assert/strict";
import { test } from "node:test";

import { countText } from "../src/plugin.js";

test("words, lines and characters are counted", () => {
  const json = (counts) => [{ tag: "json", val: JSON.stringify(counts) }];
  assert.deepEqual(countText.call({ text: "to be\nor not" }), json({ words: 4, lines: 2, characters: 12 }));
  assert.deepEqual(countText.call({ text: "süß\n" }), json({ words: 1, lines: 1, characters: 4 }));
});

test("a call of a model is checked", () => {
  assert.throws(() => countText.call('{"text": ""}'), /`text` is empty/);
  assert.throws(() => countText.call('{"text": 7}'), /`text`: got 7, expected a string/);
  assert.throws(() => countText.call('{"txt": "a"}'), /did you mean `text`/);
});
