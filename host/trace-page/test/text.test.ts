import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { test } from "node:test";
import { diffLines, foldContext, unifiedDiff } from "../src/diff";
import { segments, visible } from "../src/escape";
import { sseFrames } from "../src/feed";
import { short } from "../src/fields";
import { indentJson, jsonTokens } from "../src/json";
import { bytesOfBase64, gunzip, lineAt, LineStore } from "../src/lines";
import { lineRef } from "../src/model";
import { matchingLines, needles } from "../src/search";

test("characters that hide or reorder text are shown as escapes", () => {
  assert.equal(visible("a\u202Eb\u0000\u001b[1m\u200B\u{E0041}\uD800"), "a\\u202eb\\x00\\x1b[1m\\u200b\\u{e0041}\\ud800");
  assert.deepEqual(segments("\u202E\u202Cx"), [{ text: "\\u202e\\u202c", isEscape: true }, { text: "x", isEscape: false }]);
});

test("text of all languages and emoji stay as they are", () => {
  const text = "שלום مرحبا 👩‍👩‍👧 ❤️ naïve\ttab\nline می‌خواهم";
  assert.equal(visible(text), text);
  assert.deepEqual(segments(""), [{ text: "", isEscape: false }]);
});

test("JSON is indented as it was written", () => {
  assert.equal(indentJson('{"a":1e400,"a":[1,{}],"s":"x{\\"[,:"}'), '{\n  "a": 1e400,\n  "a": [\n    1,\n    {}\n  ],\n  "s": "x{\\"[,:"\n}');
  assert.equal(indentJson(" [ ] "), "[]");
  assert.equal(indentJson("{no"), null);
  assert.equal(indentJson("12"), null);
  const deep = "[".repeat(5_000) + "]".repeat(5_000);
  assert.ok(indentJson(deep)!.length < 1_000_000);
});

test("JSON tokens add up to the text, also when it was cut", () => {
  for (const text of ['{"a": [1.5, true, "b\\"c"], "d": null}', '{"a": "cut', '{"a": tr', ""]) {
    assert.equal(jsonTokens(text).map((token) => token.text).join(""), text);
  }
  assert.deepEqual(jsonTokens('{"a": 1}').map((token) => token.kind), ["", "key", "", "", "number", ""]);
});

test("a diff has the fewest lines and gives both texts back", () => {
  const cases: [string, string][] = [["", ""], ["a\nb\nc", "a\nc"], ["a", "b"], ["", "x\ny"], ["a\nb\nc\nd\ne", "b\nx\nd\ne\nf"]];
  for (const [before, after] of cases) {
    const lines = diffLines(before, after);
    assert.equal(lines.filter((line) => line.op !== "+").map((line) => line.text).join("\n"), before);
    assert.equal(lines.filter((line) => line.op !== "-").map((line) => line.text).join("\n"), after);
  }
  assert.deepEqual(diffLines("a\nb\nc", "a\nc").map((line) => line.op).join(""), " - ");
});

test("a diff of texts without a common line is bounded", () => {
  const text = (of: string) => Array.from({ length: 3_000 }, (_, at) => of + at).join("\n");
  assert.equal(diffLines(text("a"), text("b")).length, 6_000);
});

test("unchanged lines far from a change are folded", () => {
  const before = Array.from({ length: 20 }, (_, at) => String(at)).join("\n");
  const folded = foldContext(diffLines(before, before.replace("10", "ten")), 1);
  assert.deepEqual(folded.map((line) => line.text), ["9 unchanged lines", "9", "10", "ten", "11", "8 unchanged lines"]);
  assert.deepEqual(unifiedDiff("@@ -1 +1 @@\n-a\n+b\n c\n").map((line) => line.op), ["@", "-", "+", " "]);
});

test("chunks are unpacked, and lines found by their number", async () => {
  const store = new LineStore();
  const chunk = store.addChunk(bytesOfBase64(gzipSync("one\ntwö\n\nfour\n").toString("base64")));
  assert.deepEqual(await store.lines([lineRef(chunk, 1), lineRef(chunk, 3), lineRef(chunk, 9)]), ["twö", "four", ""]);
  await assert.rejects(gunzip(new Uint8Array([1, 2, 3])));
  assert.equal(lineAt("a\nb", 1), "b");
});

test("live lines are found again after they were compressed", async () => {
  const store = new LineStore();
  const long = "x".repeat(700_000);
  const places = [1, 2, 3, 4].map((number) => store.addLine(`${number}${long}`));
  assert.deepEqual(places.map((place) => place.chunk), [0, 0, 1, 1]);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const found = await store.lines(places.map((place) => lineRef(place.chunk, place.line)));
  assert.deepEqual(found.map((line) => line[0]), ["1", "2", "3", "4"]);
});

test("search finds text as JSON has it, in strings and in JSON in strings", () => {
  const lines = [{ a: "say \"Hi\"\n" }, { arguments: JSON.stringify({ b: "say \"hi\"" }) }, { c: "nothing" }].map((line) => JSON.stringify(line));
  assert.deepEqual(matchingLines(lines.join("\n"), needles("Say \"hi\"")), [0, 1]);
  assert.deepEqual(matchingLines(lines.join("\n"), needles("nothing")), [2]);
  assert.deepEqual(matchingLines("", needles("x")), []);
});

test("texts that are cut are copies with a mark", () => {
  assert.equal(short("abcdef", 3), "abc…");
  assert.equal(short("abc", 3), "abc");
});

test("an event stream is split into frames, wherever it was cut", async () => {
  const text = ": hello\r\nretry: 1000\n\nid: 1\nevent: run\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nevent: end\ndata: ö\n\nid: 9\ndata: never";
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 7, bytes.length]) {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        controller.close();
      },
    });
    const frames = [];
    for await (const frame of sseFrames(body)) frames.push(frame);
    assert.deepEqual(frames, [
      { id: "1", event: "run", data: "{\"a\":\n1}" }, { id: "", event: "", data: "x" }, { id: "", event: "end", data: "ö" },
    ]);
  }
});
