import assert from "node:assert/strict";
import { test } from "node:test";
import { KINDS, lineRef, type Kind } from "../src/model";
import { Reducer } from "../src/reduce";
import { rowsOf } from "../src/rows";

type Line = Record<string, unknown>;

/** A stream whose lines are numbered and a second apart. */
class Stream {
  readonly reducer = new Reducer();
  sequence = 0;
  second = 0;

  add(run: string | null, event: string, fields: Line = {}, parent?: string) {
    this.sequence += 1;
    this.second += 1;
    const line: Line = { sequence: this.sequence, time: new Date(1_000 * this.second).toISOString(), session: "s", event, ...fields };
    if (run !== null) line.run = run;
    if (parent !== undefined) line.parent = parent;
    this.raw(line);
    return this;
  }

  raw(line: unknown) {
    this.reducer.pushText(JSON.stringify(line), 0, this.reducer.model.lines, lineRef(0, this.reducer.model.lines));
    return this;
  }

  get model() {
    return this.reducer.model;
  }

  titles(kind: Kind) {
    return this.model.steps.filter((step) => step.kind === kind).map((step) => `${step.title} ${step.status}`);
  }
}

const usage = (input: number, output: number, read = 0) => ({
  input_tokens: input, output_tokens: output, cache_read_tokens: read, cache_write_tokens: 0,
});

const call = (id: string, name: string, args: unknown) => ({ type: "tool_call", value: { id, name, arguments: JSON.stringify(args) } });

const message = (role: string, ...parts: unknown[]) => ({ agent: "ada", role, message: { sender: "", role, parts } });

/** One agent that calls one tool and answers. */
function single(): Stream {
  return new Stream()
    .raw({ event: "stream_started", version: 1, host: "0.1.0", session: "s" })
    .add("r", "run_started", { agent: "ada", model: "m", task: "Count", depth: 0, prefix: "" })
    .add("r", "message_added", message("user", { type: "text", value: "Count" }))
    .add("r", "model_started", { agent: "ada", iteration: 1, tokens: 10, parts: { system: 4, tools: 6 }, window: 100 })
    .add("r", "model_delta", { agent: "ada", delta: { kind: "text", value: "I " } })
    .add("r", "model_finished", { agent: "ada", iteration: 1, model: "m-1", stop: "tool_calls", calls: 1, usage: usage(10, 5), usd: 0.5, duration_ms: 900 })
    .add("r", "message_added", message("assistant", { type: "text", value: "I count" }, call("c1", "count", { of: "lines" })))
    .add("r", "tool_started", { agent: "ada", call: "c1", tool: "count", origin: "plugin", arguments: "{\"of\":" })
    .add("r", "plugin_call", { agent: "ada", plugin: "counter", function: "call", outcome: "ok", duration_ms: 500, cpu_ms: 3, memory: 4096, host_calls: 1, bytes_in: 1, bytes_out: 2 })
    .add("r", "tool_finished", { agent: "ada", call: "c1", tool: "count", is_error: false, bytes: 2, duration_ms: 900 })
    .add("r", "message_added", message("tool", { type: "tool_result", value: { call_id: "c1", is_error: false, content: [{ type: "text", value: "42" }] } }))
    .add("r", "model_started", { agent: "ada", iteration: 2, tokens: 20 })
    .add("r", "model_finished", { agent: "ada", iteration: 2, model: "m-1", stop: "end_turn", calls: 0, usage: usage(5, 5, 10), usd: 0.25, duration_ms: 900 })
    .add("r", "message_added", message("assistant", { type: "text", value: "42" }))
    .add("r", "run_finished", { agent: "ada", error: null, iterations: 2, usage: usage(15, 10, 10), of_children: usage(0, 0), duration_ms: 9_000, usd: 0.75 });
}

test("single agent: requests, calls and messages are one step each", () => {
  const { model } = single();
  assert.deepEqual(model.steps.map((step) => step.kind), ["run", "message", "model", "tool", "plugin", "model", "run"]);
  const [, , request, tool, plugin] = model.steps;
  assert.deepEqual([request!.title, request!.detail, request!.status], ["m-1", "I count", "ok"]);
  assert.equal(request!.end! - request!.start, 2_000);
  assert.deepEqual([request!.fills, request!.window], [[["system", 4], ["tools", 6]], 100]);
  assert.equal(request!.partial, undefined, "the pieces are void once the reply is there");
  // The reply with the whole arguments, and the message with the result, belong to the call.
  assert.equal(tool!.detail, "42");
  assert.equal(tool!.refs.length, 4);
  assert.deepEqual([plugin!.cpu, plugin!.memory, plugin!.end! - plugin!.start], [3, 4096, 500]);
  assert.deepEqual(model.plugins.get("counter")!.calls, 1);
});

test("single agent: usage and cost are those of the end", () => {
  const { model, reducer } = single();
  const run = model.runs[0]!;
  assert.deepEqual(run.usage, { input: 15, output: 10, read: 10, write: 0 });
  assert.deepEqual([run.cost, run.iterations, run.status, run.error], [0.75, 2, "ok", null]);
  assert.deepEqual(model.calls.map((call) => call.cost), [0.5, 0.25]);
  assert.deepEqual([model.version, model.session, reducer.gaps(), model.duplicates], [1, "s", [], 0]);
});

test("delegation: a child hangs below the call that began it", () => {
  const stream = new Stream()
    .add("r", "run_started", { agent: "lead" })
    .add("r", "tool_started", { agent: "lead", call: "a", tool: "delegate to bob" })
    .add("r", "tool_started", { agent: "lead", call: "b", tool: "delegate to eve" })
    .add("r.1", "run_started", { agent: "bob", parent_agent: "lead", parent_call: "a" }, "r")
    .add("r.2", "run_started", { agent: "eve", parent_agent: "lead", parent_call: "b" }, "r")
    .add("r.2", "run_finished", { agent: "eve", error: null }, "r")
    .add("r", "tool_finished", { agent: "lead", call: "b", tool: "delegate to eve", is_error: false })
    .add("r.1", "run_finished", { agent: "bob", error: null }, "r")
    .add("r", "tool_finished", { agent: "lead", call: "a", tool: "delegate to bob", is_error: false })
    .add("r", "run_finished", { agent: "lead", error: null });
  const { model } = stream;
  const [lead, bob, eve] = model.runs;
  assert.deepEqual([lead!.children, bob!.parent, eve!.parent], [[1, 2], 0, 0]);
  assert.deepEqual([bob, eve].map((run) => model.steps[run!.parentStep]!.title), ["delegate to bob", "delegate to eve"]);
  assert.deepEqual(lead!.waits, [{ start: 4_000, end: 8_000, child: 1 }, { start: 5_000, end: 6_000, child: 2 }]);
  const options = { nested: true, folded: new Set<number>(), hidden: new Set<Kind>(), failures: false, run: -1, matches: null };
  const shown = (rows: ReturnType<typeof rowsOf>) => [...rows.steps].map((step, at) => `${rows.depths[at]} ${model.steps[step]!.title}`);
  assert.deepEqual(shown(rowsOf(model, options)), [
    "0 lead", "0 delegate to bob", "1 bob", "1 bob finished", "0 delegate to eve", "1 eve", "1 eve finished", "0 lead finished",
  ]);
  assert.deepEqual(shown(rowsOf(model, { ...options, folded: new Set([1]) })).slice(1, 4), ["0 delegate to bob", "1 bob", "0 delegate to eve"]);
  assert.deepEqual(shown(rowsOf(model, { ...options, nested: false })).slice(0, 5), ["0 lead", "0 delegate to bob", "0 delegate to eve", "0 bob", "0 eve"]);
  assert.deepEqual(shown(rowsOf(model, { ...options, run: 2 })), ["1 eve", "1 eve finished"]);
});

test("delegation: a run is below the call that it names, whatever its agent is called", () => {
  const { model } = new Stream()
    .add("r", "run_started", { agent: "lead" })
    .add("r", "tool_started", { agent: "lead", call: "a", tool: "ask", origin: "agent:ada", arguments: "adam" })
    .add("r", "tool_started", { agent: "lead", call: "b", tool: "ask", origin: "agent:adam", arguments: "ada" })
    .add("r", "tool_started", { agent: "lead", call: "c", tool: "read", origin: "files" })
    .add("r.1", "run_started", { agent: "ada", configured: "ada", parent_call: "b" }, "r")
    .add("r.2", "run_started", { agent: "ada-2", configured: "ada", parent_call: "a" }, "r")
    .add("r.3", "run_started", { agent: "eve", configured: "eve", parent_call: "c" }, "r")
    .add("r", "tool_finished", { agent: "lead", call: "a", tool: "ask", is_error: false })
    .add("r.4", "run_started", { agent: "max", configured: "max", parent_call: "a" }, "r")
    .add("r.5", "run_started", { agent: "ada", configured: "ada", parent_call: "unknown" }, "r")
    .add("r.6", "run_started", { agent: "ada", configured: "ada", parent_call: "__proto__" }, "r");
  const calls = model.runs.slice(1).map((run) => model.steps[run.parentStep]?.call);
  assert.deepEqual(calls, ["b", "a", "c", "a", undefined, undefined]);
});

test("delegation: events of older hosts are told apart by the origin of the tool", () => {
  const { model } = new Stream()
    .add("r", "run_started", { agent: "lead" })
    .add("r", "tool_started", { agent: "lead", call: "a", tool: "delegate", origin: "host" })
    .add("r", "tool_started", { agent: "lead", call: "b", tool: "delegate", origin: "host" })
    .add("r", "tool_started", { agent: "lead", call: "c", tool: "ask", origin: "agent:ada" })
    .add("r", "tool_started", { agent: "lead", call: "d", tool: "read", origin: "files", arguments: "adam" })
    .add("r.1", "run_started", { agent: "adam-1", configured: "adam" }, "r")
    .add("r.2", "run_started", { agent: "lead/ada#1", configured: "ada" }, "r")
    .add("r.3", "run_started", { agent: "adam-2", configured: "adam" }, "r")
    .add("r", "tool_finished", { agent: "lead", call: "a", tool: "delegate", is_error: false })
    .add("r", "tool_finished", { agent: "lead", call: "b", tool: "delegate", is_error: false })
    .add("r.4", "run_started", { agent: "adam-3", configured: "adam" }, "r");
  assert.deepEqual(model.runs.slice(1).map((run) => model.steps[run.parentStep]?.call), ["a", "c", "b", undefined]);
});

test("delegation: any number of open calls is looked through in bounded time", () => {
  const stream = new Stream().add("r", "run_started", { agent: "lead" });
  for (let at = 0; at < 20_000; at += 1) stream.add("r", "tool_started", { agent: "lead", call: `c${at}`, tool: "delegate" });
  const began = performance.now();
  for (let at = 0; at < 20_000; at += 1) stream.add(`r.${at}`, "run_started", { agent: "a" }, "r");
  assert.ok(performance.now() - began < 10_000);
  assert.equal(stream.model.steps[stream.model.runs[1]!.parentStep]!.call, "c19744", "the newest 256 are known");
});

test("team: its steps and members are told apart from delegation", () => {
  const { model } = new Stream()
    .add("t", "run_started", { agent: "panel" })
    .add("t", "team_step", { agent: "panel", step: 0, members: ["x", "y"], done: false, reasoning: "both know" })
    .add("t.1", "run_started", { agent: "x" }, "t")
    .add("t.2", "run_started", { agent: "y" }, "t")
    .add("t.2", "run_finished", { agent: "y", error: null }, "t")
    .add("t", "member_replied", { agent: "y", text: "yes" }, undefined)
    .add("t.1", "handed_over", { agent: "x", to: "y", reason: "better" }, "t");
  assert.equal(model.runs[0]!.isTeam, true);
  assert.deepEqual(model.steps.filter((step) => step.kind === "team").map((step) => step.title), ["Next: x, y", "y replied", "Handed over to y"]);
  assert.equal(model.runs[1]!.parentStep, -1, "no call began a member");
  assert.equal(model.runs[1]!.status, "open");
});

test("failures: they are counted at their run and name their reason", () => {
  const stream = new Stream()
    .add("r", "run_started", { agent: "ada" })
    .add("r", "model_started", { agent: "ada", iteration: 1, tokens: 1 })
    .add("r", "model_failed", { agent: "ada", model: "m", reason: "529", again: true })
    .add("r", "model_failed", { agent: "ada", model: "m", reason: "no model", again: false })
    .add("r", "tool_started", { agent: "ada", call: "c", tool: "t" })
    .add("r", "tool_finished", { agent: "ada", call: "c", tool: "t", is_error: true, reason: "no file" })
    .add("r", "middleware_failed", { agent: "ada", middleware: "guard", reason: "trap", skipped: true })
    .add("r", "tool_started", { agent: "ada", call: "d", tool: "u" })
    .add("r", "run_finished", { agent: "ada", error: "no model", iterations: 1 });
  assert.deepEqual(stream.titles("model"), ["m fail"]);
  assert.deepEqual(stream.titles("tool"), ["t fail", "u cut"]);
  assert.deepEqual(stream.titles("middleware"), ["guard warn"]);
  const run = stream.model.runs[0]!;
  assert.deepEqual([run.failures, run.status, run.error], [3, "fail", "no model"]);
  assert.equal(stream.model.steps.find((step) => step.title === "t")!.detail, "no file");
});

test("questions: a run waits for the answer", () => {
  const { model } = new Stream()
    .add("r", "run_started", { agent: "ada" })
    .add("r", "question_asked", { agent: "ada", id: 7, question: "May I?" })
    .add("r", "question_answered", { agent: "ada", id: 7, question: "May I?", outcome: "no", by: "person" });
  const step = model.steps[1]!;
  assert.deepEqual([step.kind, step.status, step.detail, step.end! - step.start], ["question", "warn", "no · by person", 1_000]);
  assert.deepEqual(model.runs[0]!.waits, [{ start: 2_000, end: 3_000, child: -1 }]);
});

test("unknown events, odd types and lines that are not JSON are shown", () => {
  const stream = new Stream()
    .add("r", "run_started", { agent: "ada" })
    .add("r", "brand_new", { agent: "ada", message: "hello", deep: { a: [1] } })
    .add("r", "tool_finished", { agent: 3, call: null, tool: ["x"], is_error: "yes", duration_ms: "long" })
    .add("r", "message_added", { role: 9, message: { parts: [null, 4, { type: "text", value: 5 }] } })
    .add("r", "model_finished", { usage: "none", stop: { other: "x" } })
    .add(null, "plugin_call", {})
    .raw([1]).raw(null).raw("x");
  stream.reducer.pushText("{broken", 0, 99, lineRef(0, 99));
  assert.deepEqual(stream.titles("other"), ["brand_new ok"]);
  assert.equal(stream.model.broken, 4);
  assert.equal(stream.model.steps.filter((step) => step.title === "A line that is not a JSON object").length, 4);
  assert.equal(stream.reducer.stepOfLine[0]![99], stream.model.steps.length - 1);
});

test("events of runs whose beginning is missing make a run", () => {
  const { model } = new Stream().add("late", "warning", { message: "x", agent: "bob" });
  assert.deepEqual(model.runs.map((run) => [run.id, run.agent]), [["late", "bob"]]);
});

test("duplicates are left out, and gaps are found and closed", () => {
  const stream = new Stream();
  const line = (sequence: number) => ({ sequence, time: "2026-01-01T00:00:00Z", run: "r", event: "warning", agent: "a", message: String(sequence) });
  for (const sequence of [1, 2, 2, 5, 9, 5, 1]) stream.raw(line(sequence));
  assert.deepEqual([stream.model.steps.length, stream.model.duplicates], [4, 3]);
  assert.deepEqual(stream.reducer.gaps(), [{ epoch: 1, from: 3, to: 4 }, { epoch: 1, from: 6, to: 8 }]);
  for (const sequence of [4, 3, 7]) stream.raw(line(sequence));
  assert.deepEqual(stream.reducer.gaps(), [{ epoch: 1, from: 6, to: 6 }, { epoch: 1, from: 8, to: 8 }]);
  assert.equal(stream.model.steps.length, 7);
});

test("numbers that arrive in any order are the same in the end", () => {
  const stream = new Stream();
  const line = (sequence: number) => ({ sequence, time: "2026-01-01T00:00:00Z", run: "r", event: "warning", agent: "a" });
  for (let at = 0; at < 1_000; at += 1) stream.raw(line(((at * 397) % 1_000) + 1));
  assert.deepEqual([stream.reducer.gaps(), stream.model.duplicates, stream.model.steps.length], [[], 0, 1_000]);
});

test("a resumed session counts anew, and its links say so", () => {
  const stream = single();
  const before = stream.model.steps.length;
  stream.raw({ event: "stream_started", version: 1 });
  stream.sequence = 0;
  stream
    .add("r", "run_started", { agent: "ada", model: "m", task: "Go on" })
    .add("r", "warning", { agent: "ada", message: "x" });
  const { model, reducer } = stream;
  assert.deepEqual([model.epochs, model.duplicates, model.runs.length], [2, 0, 2]);
  assert.deepEqual(model.steps.slice(before).map((step) => `${step.link} ${step.title}`), ["2.0 The session was resumed", "2.1 ada", "2.2 Warning"]);
  assert.deepEqual(model.runs.map((run) => run.status), ["ok", "open"]);
  assert.equal(reducer.stepOfLink("2.2"), model.steps.length - 1);
  assert.equal(reducer.stepOfLink("2"), 1);
});

test("a reader that connects anew gets the same stream", () => {
  const stream = single();
  const steps = stream.model.steps.length;
  const first = { sequence: 1, time: new Date(1_000).toISOString(), run: "r", event: "run_started", agent: "ada" };
  stream.raw({ event: "stream_started", version: 1 }).raw(first);
  stream.raw({ event: "stream_started", version: 1 }).add("r", "warning", { agent: "ada", message: "later" });
  const fourth = { sequence: 4, time: new Date(4_000).toISOString(), run: "r", event: "model_delta", agent: "ada" };
  stream.raw({ event: "stream_started", version: 1 }).raw(fourth);
  assert.deepEqual([stream.model.epochs, stream.model.steps.length, stream.model.duplicates], [1, steps + 1, 2]);
});

test("a recorded session counts on when it is resumed", () => {
  const stream = new Stream()
    .add(null, "stream_started", { version: 1, host: "0.1.0" })
    .add("r", "run_started", { agent: "ada" })
    .add("r", "tool_started", { agent: "ada", call: "c", tool: "t" })
    .add(null, "stream_started", { version: 1, host: "0.1.0" })
    .add("r", "run_started", { agent: "ada" })
    .add("r", "run_finished", { agent: "ada", error: null });
  const { model } = stream;
  assert.deepEqual([model.epochs, stream.reducer.gaps(), model.duplicates], [1, [], 0]);
  assert.deepEqual(model.runs.map((run) => run.status), ["cut", "ok"]);
  assert.deepEqual(model.steps.map((step) => step.link), ["2", "3", "4", "5", "6"]);
});

test("two events may share a number", () => {
  const stream = single();
  const last = stream.sequence;
  const at = (event: string, fields: Line) => ({ sequence: last + 1, time: "2026-01-01T00:00:00Z", run: "r", event, agent: "ada", ...fields });
  const both = [at("model_delta", { delta: { kind: "text", value: "held back" } }), at("warning", { message: "x" })];
  for (const line of [...both, ...both]) stream.raw(line);
  assert.equal(stream.titles("note").length, 1);
  assert.equal(stream.model.duplicates, 2);
});

test("messages that were not recorded say so", () => {
  const { model } = new Stream()
    .add("r", "message_added", { agent: "ada", role: "user", message: null, omitted_bytes: 6554 })
    .add("r", "message_added", { agent: "ada", role: "user", message: null });
  assert.deepEqual(model.steps.map((step) => step.detail), ["6,554 bytes, not recorded", "withheld by middleware"]);
});

test("a resumed session may give the id of one run to another agent", () => {
  const stream = new Stream()
    .add("r", "run_started", { agent: "lead" })
    .add("r.1", "run_started", { agent: "bob" }, "r")
    .raw({ event: "stream_started", version: 1 });
  stream.sequence = 0;
  stream.add("r", "run_started", { agent: "lead" }).add("r.1", "run_started", { agent: "eve" }, "r");
  assert.deepEqual(stream.model.runs.map((run) => run.agent), ["lead", "bob", "lead", "eve"]);
});

test("a stream over HTTP has the event below `event`", () => {
  const stream = new Stream().raw({ sequence: 1, time: "2026-01-01T00:00:00Z", run: "r", event: { event: "run_started", agent: "ada", task: "x" } });
  assert.deepEqual(stream.model.runs.map((run) => [run.agent, run.task]), [["ada", "x"]]);
});

test("what is open when the stream ends is not complete", () => {
  const stream = new Stream().add("r", "run_started", { agent: "ada" }).add("r", "tool_started", { agent: "ada", call: "c", tool: "t" });
  stream.reducer.finish();
  assert.deepEqual([stream.model.runs[0]!.status, stream.titles("tool")], ["cut", ["t cut"]]);
});

test("filters: kinds, failures and matches choose the rows", () => {
  const { model } = single();
  const options = { nested: true, folded: new Set<number>(), hidden: new Set<Kind>(), failures: false, run: -1, matches: null };
  const kinds = (hidden: Set<Kind>) => [...rowsOf(model, { ...options, hidden }).steps].map((step) => model.steps[step]!.kind);
  assert.deepEqual(kinds(new Set(KINDS.filter((kind) => kind !== "tool"))), ["tool"]);
  assert.equal(rowsOf(model, { ...options, failures: true }).steps.length, 0);
  const found = rowsOf(model, { ...options, matches: new Set([2]) });
  assert.deepEqual([[...found.steps], found.rowOf[2], found.rowOf[3]], [[2], 0, -1]);
});

test("objects in the place of numbers and texts break nothing", () => {
  const hostile = JSON.parse('{"toString": 1, "valueOf": 1, "toJSON": 1, "__proto__": {"polluted": 1}, "constructor": 1}') as Line;
  const stream = new Stream().add("r", "run_started", { agent: "a" });
  const names = ["plugin_request", "question_asked", "question_answered", "tool_started", "tool_finished", "model_finished", "warning"];
  const fields = ["id", "status", "call", "tool", "model", "message", "usage", "plugin", "url", "reason", "duration_ms", "iteration"];
  for (const name of names) stream.add("r", name, { agent: "a", outcome: "answered", ...Object.fromEntries(fields.map((field) => [field, hostile])) });
  stream.add("r", "warning", { message: "last" });
  assert.equal(stream.model.broken, 0);
  assert.deepEqual(stream.titles("note").slice(-1), ["Warning warn"]);
  assert.equal(({} as Line).polluted, undefined);
});
