import assert from "node:assert/strict";
import { test } from "node:test";

import { PURE, PluginError, Reply, defineTool, exportTools, needsFolder, s } from "../src/index.js";

// The keywords that the host enforces or allows: host/core/src/tool/schema.rs.
const KEYWORDS = [
  ...["type", "enum", "properties", "required", "additionalProperties", "items", "anyOf"],
  ...["minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "description", "default"],
];

const countText = defineTool({
  name: "count_text",
  description: "Counts a text.",
  hints: PURE,
  title: "Count",
  output: s.object({ count: s.integer() }),
  args: s.object({
    text: s.string("The text to count in."),
    limit: s.integer("The highest count.").min(1).max(99).default(10),
    unit: s.enum(["words", "lines"]).optional(),
  }),
  run({ text, limit, unit }) {
    return { count: Math.min(limit, text.split(unit === "lines" ? "\n" : " ").length) };
  },
});

const everyType = defineTool({
  name: "every-type",
  description: "Takes every type.",
  args: s.object({
    on: s.boolean(),
    share: s.number().nullable(),
    window: s.object({ start: s.integer("The first line."), marks: s.array(s.string()).default([]) }),
    windows: s.array(s.object({ start: s.integer() })).max(2),
    scores: s.record(s.integer()),
    anything: s.any("Whatever."),
    either: s.union([s.integer(), s.array(s.integer())]),
    told: s.string().min(1).max(3),
    one: s.enum([1, null]),
    choice: s.enum(["a"]).nullable(),
  }),
  run: (args) => args,
});

const EVERY = {
  ...{ on: true, share: null, window: { start: 1 }, windows: [{ start: 2 }], scores: { a: 1 } },
  ...{ anything: [null], either: [1], told: "süß", one: 1, choice: null },
};

function cause(tool, args) {
  let message;
  assert.throws(
    () => tool.call(args),
    (error) => {
      message = error.message;
      return error instanceof PluginError && error.kind === "invalid";
    },
  );
  return message.replace(`invalid arguments of \`${tool.name}\`: `, "");
}

function walk(schema) {
  for (const word of Object.keys(schema)) assert.ok(KEYWORDS.includes(word), word);
  const { properties = {}, anyOf = [], items, additionalProperties } = schema;
  const below = [...Object.values(properties), ...anyOf, items, additionalProperties];
  below.filter((one) => typeof one === "object").forEach(walk);
}

test("schema has only keywords that the host enforces", () => {
  const spec = countText.spec();
  assert.deepEqual(JSON.parse(spec.inputSchema), {
    type: "object",
    properties: {
      text: { type: "string", description: "The text to count in." },
      limit: { type: "integer", description: "The highest count.", minimum: 1, maximum: 99, default: 10 },
      unit: { type: "string", enum: ["words", "lines"] },
    },
    additionalProperties: false,
    required: ["text"],
  });
  assert.deepEqual([spec.hints, spec.meta], [PURE, [["title", "Count"]]]);
  assert.equal(JSON.parse(spec.outputSchema).required[0], "count");
  const every = JSON.parse(everyType.spec().inputSchema);
  walk(every);
  assert.deepEqual(every.properties.share, { type: ["number", "null"] });
  assert.deepEqual(every.properties.one, { type: ["number", "null"], enum: [1, null] });
  assert.deepEqual(every.properties.choice, { anyOf: [{ type: "string", enum: ["a"] }, { type: "null" }] });
});

test("arguments are checked and completed", () => {
  assert.deepEqual(countText.call('{"text": "a b", "limit": 1}'), [{ tag: "json", val: '{"count":1}' }]);
  const [{ val }] = everyType.call(EVERY);
  assert.deepEqual(JSON.parse(val), { ...EVERY, window: { start: 1, marks: [] } });
  const first = everyType.call(EVERY)[0].val;
  assert.equal(everyType.call(EVERY)[0].val, first, "a default is not shared");
});

test("wrong argument is named with its mend", () => {
  for (const [args, says] of [
    [{}, "`text`: it is missing; expected a string"],
    [{ text: 7 }, "`text`: got 7, expected a string"],
    [{ text: "a", limit: "3" }, '`limit`: got the string "3", expected an integer'],
    [{ text: "a", limit: 1.5 }, "`limit`: got 1.5, expected an integer"],
    [{ text: "a", limit: 100 }, "`limit`: got 100, the maximum is 99"],
    [
      { text: "a", unit: "word" },
      '`unit`: got the string "word", expected one of "words", "lines"; did you mean "words"?',
    ],
    [
      { txt: "a" },
      "`txt`: unknown argument; the arguments are `text`, `limit`, `unit`; did you mean `text`?; " +
        "`text`: it is missing; expected a string",
    ],
    ["[1]", "got an array, expected an object"],
  ]) {
    assert.equal(cause(countText, args), says);
  }
  assert.match(cause(countText, "{"), /^it is not valid JSON: /);
});

test("wrong value within another has its path", () => {
  for (const [change, says] of [
    [{ windows: [{ start: 1 }, { start: "a" }] }, '`windows[1].start`: got the string "a", expected an integer'],
    [{ windows: [{ start: 1 }, { start: 1 }, { start: 1 }] }, "`windows`: got 3 items, the maximum is 2"],
    [{ window: { start: 1, stop: 2 } }, "`window.stop`: unknown property; the properties are `start`, `marks`"],
    [{ scores: { a: null } }, "`scores.a`: got null, expected an integer"],
    [{ either: "a" }, '`either`: got the string "a", expected an integer or an array'],
    [{ either: [1, "a"] }, '`either[1]`: got the string "a", expected an integer'],
    [{ told: "" }, "`told`: got 0 characters, the minimum is 1"],
    [{ told: "a\u{1f600}bc" }, "`told`: got 4 characters, the maximum is 3"],
    [{ share: "1" }, '`share`: got the string "1", expected a number or null'],
    [{ one: true }, "`one`: got true, expected one of 1, null"],
  ]) {
    assert.equal(cause(everyType, { ...EVERY, ...change }), says);
  }
  assert.match(cause(everyType, {}), /; and 5 more$/);
});

test("what a tool returns becomes content", () => {
  const text = { tag: "text", val: "a" };
  for (const [returned, content] of [
    ["a", [text]],
    [undefined, []],
    [[1, 2n], [{ tag: "json", val: "[1,2]" }]],
    [new Reply(text, text), [text, text]],
    [needsFolder("/a"), [{ tag: "other", val: { kind: "shelly.needs", json: '{"folder":"/a"}' } }]],
  ]) {
    const tool = defineTool({ name: "t", description: "T.", args: s.object({}), run: () => returned });
    assert.deepEqual(tool.call({}), content);
  }
});

test("tool that cannot be offered is refused by name", () => {
  const args = s.object({});
  const define = (parts) => () => defineTool({ name: "t", description: "T.", args, run() {}, ...parts });
  assert.throws(define({ name: "a b" }), /`a b` is not 1 to 64/);
  assert.throws(define({ description: "" }), /`t` has no description/);
  assert.throws(define({ args: s.string() }), /use s\.object/);
  assert.throws(() => exportTools(), /no tool is exported/);
  assert.throws(() => exportTools(countText, countText), /two tools are called `count_text`/);
  assert.throws(() => s.boolean().min(1), /true or false has no minimum/);
  assert.throws(() => s.integer().default("a"), /expected an integer/);
});

test("failure is an error of the contract", () => {
  const fails = defineTool({
    name: "fails",
    description: "Fails.",
    args: s.object({ how: s.string() }),
    run({ how }) {
      if (how === "busy") throw new PluginError("unavailable", "busy", 1.5);
      if (how === "host") throw Object.assign(new Error("no"), { payload: { tag: "denied", val: "no" } });
      throw new RangeError("too far");
    },
  });
  const tools = exportTools(fails, countText);
  const call = (name, how) => {
    try {
      return tools.call({ id: "1", name, arguments: JSON.stringify({ how }), meta: [] });
    } catch (error) {
      return error;
    }
  };
  assert.deepEqual(tools.specs().map((spec) => spec.name), ["fails", "count_text"]);
  assert.deepEqual(call("fails", "busy"), { tag: "unavailable", val: { message: "busy", afterMs: 2n } });
  assert.deepEqual(call("fails", "host"), { tag: "denied", val: "no" });
  assert.deepEqual(call("other"), { tag: "not-found", val: "unknown tool `other`; available tools: fails, count_text" });
  assert.equal(call("fails").tag, "invalid");
  const { error } = console;
  const written = [];
  console.error = (line) => written.push(line);
  const crash = call("fails", "x");
  console.error = error;
  assert.deepEqual(crash, { tag: "other", val: "the plugin failed: RangeError: too far" });
  assert.match(written[0], /RangeError: too far\n/);
  assert.throws(() => new PluginError("bad", "a"), /unknown kind of error bad/);
  assert.throws(() => new PluginError("invalid", "a", 5), /has no `afterMs`/);
});
