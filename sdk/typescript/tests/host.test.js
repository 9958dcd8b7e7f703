import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { now } from "shelly:plugin/clock@0.2.0";
import * as chat from "shelly:plugin/chat@0.2.0";
import { get as outgoing } from "shelly:plugin/outgoing@0.2.0";
import { run } from "shelly:plugin/process@0.2.0";
import { bytes } from "shelly:plugin/random@0.2.0";
import { read as attachment } from "shelly:plugin/attachments@0.2.0";

import { params } from "../src/config.js";
import { FUNCTIONS } from "../src/hooks.js";
import * as http from "../src/http.js";
import { PluginError, exportCoordinator, exportEffect, exportModelMiddleware, exportRunMiddleware } from "../src/index.js";
import { exportProvider, exportToolMiddleware, isAnswer, s, textOf } from "../src/index.js";
import * as kv from "../src/kv.js";
import * as log from "../src/log.js";
import { Streamed } from "../src/streamed.js";
import { message, withHost } from "../src/testing.js";

const URL = "https://user:secret@example.com:8443/a";
const PARAMS = s.object({ turns: s.integer().default(10) });

function failure(call) {
  try {
    call();
  } catch (error) {
    assert.ok(error instanceof PluginError, `${error}`);
    return [error.kind, error.message, error.afterMs];
  }
  throw new Error("it did not fail");
}

test("functions of the fakes are those of the contract", () => {
  const wit = readFileSync(new globalThis.URL("../../../wit/imports.wit", import.meta.url), "utf8").replace(/\/\/.*/g, "");
  const camel = (name) => name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
  const found = {};
  for (const [, name, body] of wit.matchAll(/^interface (\S+) \{\n(.*?)^\}/gms)) {
    found[name] = [...body.matchAll(/^ {2}([\w-]+): func/gm)].map(([, of]) => camel(of));
  }
  assert.deepEqual(Object.entries(found).sort(), Object.entries(FUNCTIONS).sort());
});

test("params are read and checked", () => {
  assert.deepEqual([params(), params(PARAMS)], [{}, { turns: 10 }]);
  withHost({ params: { turns: 3 } }, () => assert.deepEqual(params(PARAMS), { turns: 3 }));
  withHost({ params: { turn: 3 } }, () => {
    const says = "params: `turn`: unknown property; the properties are `turns`; did you mean `turns`?";
    assert.deepEqual(failure(() => params(PARAMS)), ["invalid", says, undefined]);
  });
});

test("function without a host names itself", () => {
  for (const [call, name] of [[now, "clock.now"], [() => kv.get("a"), "kv.get"], [() => http.get(URL), "http.send"]]) {
    assert.throws(call, new RegExp(`^Error: ${name} calls the host`));
  }
  assert.throws(() => withHost({}, () => withHost({}, () => {})), /there is a host already/);
  withHost({}, (host) => {
    log.warn("a");
    assert.deepEqual(host.log, [["warn", "a"]]);
  });
});

test("host ends with the promise of its function", async () => {
  await withHost({ params: { a: 1 } }, async () => {
    await null;
    assert.deepEqual(params(), { a: 1 });
  });
  assert.deepEqual(params(), {});
});

test("values are stored with revisions and bounds", () => {
  withHost({}, (host) => {
    for (const name of ["b", "a/2", "a/1"]) kv.put(name, { is: name });
    assert.deepEqual([kv.read("b"), kv.read("c")], [{ is: "b" }, undefined]);
    assert.deepEqual([kv.keys("a/"), kv.keys("", "a/1")], [["a/1", "a/2"], ["a/2", "b"]]);
    kv.remove("b");
    assert.deepEqual([...host.stored.keys()].sort(), ["a/1", "a/2"]);
    assert.equal(kv.compareAndSwap("n", undefined, Uint8Array.of(49)), true);
    assert.equal(kv.compareAndSwap("n", undefined, Uint8Array.of(50)), false);
    const seen = [];
    const change = (count) => {
      if (seen.length === 0) kv.put("n", 5);
      seen.push(count);
      return count + 1;
    };
    assert.deepEqual([kv.update("n", change), seen], [6, [1, 5]]);
    assert.equal(failure(() => kv.get(""))[0], "invalid");
    assert.equal(failure(() => kv.set("a", new Uint8Array((1 << 20) + 1)))[0], "too-large");
    kv.set("a", Uint8Array.of(1));
    assert.match(failure(() => kv.read("a"))[1], /the value of `a` is not JSON/);
  });
});

test("keys are listed in the order of their bytes", () => {
  withHost({}, () => {
    // In UTF-16 the smiley comes before U+FFFD, in UTF-8 after it.
    for (const name of ["b", "a\u{1f600}", "a\ufffd", "ab", "a"]) kv.put(name, 1);
    assert.deepEqual(kv.keys(), ["a", "ab", "a\ufffd", "a\u{1f600}", "b"]);
    assert.deepEqual(kv.keys("a", "a\ufffd"), ["a\u{1f600}"]);
    assert.deepEqual(kv.keys("a", "a\u{1f600}"), []);
  });
});

test("request has each part", () => {
  withHost({ credentials: ["k"] }, (host) => {
    host.respond("POST", `${URL}?b=1&q=%C3%A4%20b%26c`, { json: { title: "A" }, headers: { "X-A": "b" } });
    const head = { query: { q: "ä b&c", none: undefined }, headers: { Accept: "a" }, timeoutMs: 0.1 };
    const response = http.post(`${URL}?b=1`, { ...head, json: [1], credential: "k" });
    assert.deepEqual([response.json(), response.header("x-a"), response.header("no")], [{ title: "A" }, "b", undefined]);
    const [sent] = host.requests;
    assert.deepEqual(sent.headers, { accept: "a", "content-type": "application/json" });
    assert.deepEqual([new TextDecoder().decode(sent.body), sent.credential, sent.timeoutMs], ["[1]", "k", 1]);
    assert.deepEqual(http.credentials(), ["k"]);
    assert.throws(() => http.get(URL), /no response is prepared for GET/);
    host.respond("PUT", URL, { status: 201 });
    const upload = http.upload("PUT", URL);
    upload.write(new Uint8Array(300_000));
    upload.write(Uint8Array.of(1));
    assert.deepEqual([upload.finish().status, host.requests.at(-1).body.length], [201, 300_001]);
  });
});

test("status becomes the error that it means", () => {
  const unpaid = '{"error": {"code": "insufficient_quota", "message": "pay"}}';
  for (const [status, headers, body, kind, said, afterMs] of [
    [404, {}, '{"error": {"message": "no\\u001b[31m such"}}', "not-found", ": no [31m such"],
    [429, { "Retry-After": "1.5" }, "", "rate-limited", "", 1500],
    [503, { "retry-after-ms": "7" }, "<html>", "unavailable", "", 7],
    [400, {}, "x".repeat(400), "invalid", `: ${"x".repeat(300)}…`],
    [429, {}, unpaid, "exhausted", ": pay"],
    [403, {}, '[{"detail": "no"}]', "denied", ": no"],
    [501, {}, "", "other", ""],
  ]) {
    withHost({}, (host) => {
      host.respond("GET", URL, { status, headers, body });
      assert.deepEqual(failure(() => http.get(URL).ok()), [kind, `example.com:8443 answered ${status}${said}`, afterMs]);
    });
  }
  const line = 'GET https://b is not granted; to allow it write `http: ["https://b"]`';
  assert.equal(http.lacking(new PluginError("denied", line)), "https://b");
  assert.equal(http.lacking(new PluginError("invalid", line)), undefined);
});

test("lines and events are read as they arrive", () => {
  withHost({}, (host) => {
    const half = Uint8Array.of(0xc3);
    const first = ["event: a\r\nda", "ta: ", half, Uint8Array.of(0xa4), "\ndata:b:c\n\n"];
    host.respond("GET", URL, { body: [...first, ": ping\n\nid: 7\ndata: c\n\ndata: cut"] });
    const events = [...http.get(URL).events()];
    assert.deepEqual(events, [{ name: "a", data: "ä\nb:c", id: "" }, { name: "message", data: "c", id: "7" }]);
    host.respond("GET", URL, { body: ["one\r\n\ntw", "o"] });
    assert.deepEqual([...http.get(URL).lines()], ["one", "", "two"]);
    host.respond("GET", URL, { body: ["one\n", new PluginError("unavailable", "broken")] });
    assert.deepEqual(failure(() => [...http.get(URL).lines()]), ["unavailable", "broken", undefined]);
    for (const read of [(response) => response.bytes(), (response) => [...response.lines()]]) {
      host.respond("GET", URL, { body: new Uint8Array(http.MOST_WHOLE + 1) });
      assert.equal(failure(() => read(http.get(URL)))[0], "too-large");
    }
    host.respond("GET", URL, new PluginError("denied", "no"));
    assert.deepEqual(failure(() => http.get(URL)), ["denied", "no", undefined]);
  });
});

test("chat has groups and traits", () => {
  const of = (role, tag, val) => ({ sender: "", role, parts: [{ tag, val }], meta: [] });
  const call = of("assistant", "tool-call", { id: "1", name: "t", arguments: "{}", meta: [] });
  const result = of("tool", "tool-result", { callId: "1", content: [], isError: true });
  const note = message("user", "b", [["shelly.note", "e"]]);
  withHost({ chat: [message("user", "a"), call, result, note], tools: ["t"] }, () => {
    const entries = chat.entries(0, chat.length());
    assert.deepEqual(entries.map((entry) => entry.group), [undefined, 2n, 2n, undefined]);
    const traits = entries.map((entry) => Object.keys(entry.traits).filter((name) => entry.traits[name]));
    assert.deepEqual(traits, [[], ["calls"], ["results", "failed"], ["note"]]);
    assert.deepEqual([chat.find(2n), chat.find(9n), chat.tools(), textOf(chat.read(0, 1)[0])], [1, undefined, ["t"], "a"]);
  });
});

test("effect and coordinator get the replies of models", () => {
  const request = { messages: [message("user", "good?")], tools: [], toolChoice: { tag: "auto" }, meta: [] };
  const judge = exportEffect({
    eval({ reply }, state) {
      const nextCall = { tag: "next-phase" };
      if (reply === undefined) return { state: Uint8Array.of(1), action: { tag: "ask-model", val: { request } }, nextCall };
      const text = reply.tag === "ok" ? textOf(reply.val) : reply.val.val;
      return { state, action: { tag: "edits", val: [{ tag: "note", val: text }] }, nextCall };
    },
  });
  withHost({}, (host) => {
    host.reply("yes");
    const step = host.eval(judge, { iteration: 3 });
    assert.deepEqual([[...step.state], step.action.val], [[1], [{ tag: "note", val: "yes" }]]);
    host.reply(new PluginError("denied", "no"));
    assert.equal(host.eval(judge).action.val[0].val, "no");
    assert.equal(host.asked.length, 2);
    assert.throws(() => host.eval(judge), /no reply of a model is prepared/);
    const asks = exportCoordinator({ next: (_, state) => ({ state, action: { tag: "ask-model", val: { request } } }) });
    for (let reply = 0; reply < 9; reply++) host.reply("a");
    assert.equal(failure(() => host.next(asks))[0], "exhausted");
  });
});

test("middleware that says nothing lets all pass", () => {
  assert.deepEqual(exportRunMiddleware({}).before().tag, "proceed");
  assert.deepEqual(exportModelMiddleware({}).after(), { tag: "accept" });
  assert.deepEqual(exportToolMiddleware({}).before().verdict, { tag: "allow" });
  assert.equal(exportToolMiddleware({}).after(), undefined);
  const strict = exportRunMiddleware({
    after() {
      throw new PluginError("denied", "no");
    },
  });
  assert.throws(() => strict.after(), (error) => error.tag === "denied" && error.val === "no");
  assert.equal(isAnswer(message("assistant", "a", [["shelly.ending", "failed"]])), false);
  assert.equal(isAnswer(message("assistant", "a")), true);
});

test("streamed reply is what was emitted", () => {
  const long = "ä\u{1f600}".repeat(20_000);
  const provider = exportProvider({
    complete(model) {
      const reply = new Streamed(model);
      reply.thinking("hm");
      reply.text("a");
      reply.text(long);
      reply.call("1", "t", "");
      reply.usage({ inputTokens: 1 });
      return reply.finish("odd");
    },
  });
  withHost({}, (host) => {
    const reply = provider.complete("small");
    assert.deepEqual(reply.parts.map((part) => part.tag), ["thinking", "text", "tool-call"]);
    assert.deepEqual([textOf(reply), reply.stop, reply.usage.inputTokens], [host.text, { tag: "other", val: "odd" }, 1n]);
    const texts = host.emitted.filter((delta) => delta.tag === "text").map((delta) => delta.val);
    const sizes = texts.map((text) => new TextEncoder().encode(text).length);
    assert.ok(sizes.length > 2 && Math.max(...sizes) <= 64 << 10, `${sizes}`);
    const many = new Streamed("small");
    for (let call = 0; call < 1_024; call++) many.call("", "t", "{}");
    assert.equal(failure(() => many.call("", "t", "{}"))[0], "too-large");
    const large = new Streamed("small");
    assert.equal(failure(() => large.text("a".repeat((16 << 20) + 1)))[0], "too-large");
  });
});

test("clock, random, attachments, request and programs are prepared", () => {
  const request = { messages: [], tools: [], toolChoice: { tag: "auto" }, meta: [] };
  withHost({ attachments: { a: "abc" }, outgoing: request }, (host) => {
    const begun = now();
    host.advance(1_500);
    assert.equal(now() - begun, 1_500n);
    assert.notDeepEqual(bytes(9), bytes(9));
    assert.equal(new TextDecoder().decode(attachment("a", 1n, 9)), "bc");
    assert.equal(outgoing(), request);
    host.setOutput("git", { stdout: "clean" });
    const command = { program: "git", args: ["status"], stdin: new Uint8Array() };
    assert.equal(new TextDecoder().decode(run(command).stdout), "clean");
    assert.deepEqual(host.commands, [command]);
    assert.throws(() => run(command), /no output is prepared for the program git/);
  });
});
