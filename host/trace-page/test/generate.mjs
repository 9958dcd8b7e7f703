// Writes traces to look at: an agent that delegates to others at once and one after the other, a team, failures, questions,
// edits by effects, and text that wants to do harm. node test/generate.mjs STEPS MEBIBYTES OUT.html

import { readFileSync, writeFileSync, openSync, writeSync, closeSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";

const PAGE = fileURLToPath(new URL("../dist/trace.html", import.meta.url));
export const MARKER = "<!--shelly-data-->";

/** The same numbers each time (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const WORDS = ("the parser reads a line and returns its fields so that callers see one error for each place where the input is wrong "
  + "tests cover empty input long lines and nested values while the cache keeps recent results by digest").split(" ");

export const HOSTILE = [
  "</script><script>window.__harm=1;alert(1)</script>",
  "<img src=x onerror=\"window.__harm=1;alert(2)\"><svg onload=alert(3)>",
  "<!--shelly-data--><script type=\"application/json\" id=\"shelly-trace\">{\"title\":\"stolen\"}</script>",
  "user\u202Egnp.exe \u2066hidden\u2069 \u200Bzero\u200B \u0000\u0007\u001b[31mred\u001b[0m \uD800 \u{E0041}\u{E0042}",
  "javascript:alert(4) http://127.0.0.1:9/beacon.png ${alert(5)} {{constructor.constructor('alert(6)')()}}",
  "__proto__",
];

/** Yields the objects of a stream of about `steps` steps with `bytes` of text in results of tools. */
export function* events({ steps, bytes = 0, seed = 1, hostile = true }) {
  const next = random(seed);
  const pick = (list) => list[Math.floor(next() * list.length)];
  const words = (count) => Array.from({ length: count }, () => pick(WORDS)).join(" ");
  let time = Date.parse("2026-11-27T09:00:00.000Z");
  let sequence = 0;
  let made = 0;
  const line = (run, parent, event, at = time) => ({
    sequence: ++sequence, time: new Date(at).toISOString(), session: "20261127-090000-7f3a9c", ...(run ? { run } : {}), ...(parent ? { parent } : {}), ...event,
  });
  const filler = bytes > 0 ? Math.ceil(bytes / (steps / 3.4)) : 400;
  // Text that does not compress to nothing.
  const text = (size) => {
    const parts = [];
    for (let length = 0; length < size; ) {
      const part = `${words(9)} ${Math.floor(next() * 1e9).toString(36)}${next() < 0.1 ? "\n" : " "}`;
      parts.push(part);
      length += part.length;
    }
    return parts.join("");
  };

  yield { sequence: ++sequence, time: new Date(time).toISOString(), session: "20261127-090000-7f3a9c", event: "stream_started", version: 1 };
  const MODELS = { lead: "vendor/large-4", reviewer: "vendor/large-4", researcher: "vendor/small-4", writer: "vendor/small-4", tester: "vendor/small-4" };
  let runs = 0;
  const begin = (agent, parent, task, depth, call) => {
    const run = { id: runs === 0 ? "run-7f3a9c" : `run-7f3a9c.${runs}`, agent, parent: parent?.id, iteration: 0, calls: 0, context: 1200, usage: [0, 0, 0, 0], began: time };
    runs += 1;
    run.start = line(run.id, run.parent, {
      event: "run_started", agent, parent_agent: parent?.agent ?? null, ...(call ? { parent_call: call } : {}), depth, prefix: "", model: MODELS[agent] ?? "vendor/small-4", task,
    });
    return run;
  };
  const end = (run, error = null) => line(run.id, run.parent, {
    event: "run_finished", agent: run.agent, error, iterations: run.iteration,
    usage: { input_tokens: run.usage[0], output_tokens: run.usage[1], cache_read_tokens: run.usage[2], cache_write_tokens: run.usage[3] },
    of_children: { input_tokens: 0, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 }, duration_ms: time - run.began,
  });
  const message = (run, role, parts, sender = "") => line(run.id, run.parent, { event: "message_added", agent: run.agent, role, message: { sender, role, parts } });

  /** One turn: a request, and the calls of tools that it makes. */
  function* turn(run, wanted) {
    run.iteration += 1;
    const who = { agent: run.agent };
    yield line(run.id, run.parent, {
      event: "model_started", ...who, iteration: run.iteration, tokens: run.context,
      parts: { system: 500, tools: 640, user: 60, assistant: Math.floor(run.context * 0.2), tool_results: Math.floor(run.context * 0.7) }, window: 200000,
    });
    made += 1;
    time += 300 + next() * 2500;
    if (next() < 0.03) yield line(run.id, run.parent, { event: "model_waits", ...who, model: "vendor/small-4", wait: "rate_limit", detail: "room for 12k tokens in 3 s" });
    if (next() < 0.02) yield line(run.id, run.parent, { event: "model_failed", ...who, model: "vendor/small-4", reason: "status 529: overloaded", again: true });
    const calls = wanted.map((call) => ({ ...call, id: `call_${run.id}_${++run.calls}` }));
    const usage = [200 + Math.floor(next() * 900), 60 + Math.floor(next() * 500), Math.floor(run.context * (run.iteration > 1 ? 0.8 : 0)), 100];
    usage.forEach((count, at) => { run.usage[at] += count; });
    run.context += usage[1] + Math.min(filler / 4, 3000);
    yield line(run.id, run.parent, {
      event: "model_finished", ...who, iteration: run.iteration, model: MODELS[run.agent] ?? "vendor/small-4",
      stop: calls.length > 0 ? "tool_calls" : "end_turn", calls: calls.length,
      usage: { input_tokens: usage[0], output_tokens: usage[1], cache_read_tokens: usage[2], cache_write_tokens: usage[3] },
      usd: (usage[0] * 3 + usage[1] * 15 + usage[2] * 0.3) / 1e6, duration_ms: 300 + next() * 2000,
    });
    const parts = [{ type: "thinking", value: { text: words(30), opaque: null } }, { type: "text", value: calls.length > 0 ? words(14) : text(500) }];
    yield message(run, "assistant", [...parts, ...calls.map((call) => ({ type: "tool_call", value: { id: call.id, name: call.tool, arguments: JSON.stringify(call.arguments) } }))], run.agent);
    for (const call of calls) yield* tool(run, call);
    if (next() < 0.05) {
      made += 1;
      yield line(run.id, run.parent, {
        event: "effect_edited", ...who, effect: "summarize-old-results", edit: "replace_result", messages_before: 12, messages_after: 12,
        before: `${words(20)}\n${words(20)}\n${words(20)}`, after: `${words(20)}\n[summary of ${Math.floor(next() * 40)} lines]`,
      });
    }
  }

  function* tool(run, call) {
    const who = { agent: run.agent };
    const name = { call: call.id, tool: call.tool };
    yield line(run.id, run.parent, { event: "tool_started", ...who, ...name, origin: call.origin ?? "plugin filesystem", arguments: JSON.stringify(call.arguments).slice(0, 200) });
    made += 1;
    if (call.asks) {
      made += 1;
      yield line(run.id, run.parent, { event: "question_asked", ...who, id: run.calls, question: `May ${run.agent} change src/parser.rs?` });
      time += 4000 + next() * 6000;
      yield line(run.id, run.parent, { event: "question_answered", ...who, id: run.calls, question: `May ${run.agent} change src/parser.rs?`, outcome: call.asks, by: "person" });
    }
    if (call.body) yield* call.body(run, call);
    else time += 20 + next() * 900;
    const failed = call.fails === true;
    if (!call.body) {
      made += 1;
      yield line(run.id, run.parent, {
        event: "plugin_call", ...who, plugin: "filesystem", function: "call", outcome: failed && next() < 0.3 ? "trap" : "ok", duration_ms: 2 + next() * 40, cpu_ms: 1 + next() * 20,
        memory: 1048576 * (2 + Math.floor(next() * 30)), host_calls: 12, imports: [{ interface: "wasi:filesystem", calls: 11 }, { interface: "log", calls: 1 }],
        bytes_in: 240, bytes_out: filler,
      });
    }
    if (call.edits && !failed) {
      made += 1;
      const before = Array.from({ length: 12 }, () => words(7));
      const after = before.flatMap((one, at) => (at === 5 ? [words(7), words(6)] : at === 8 ? [] : [one]));
      yield line(run.id, run.parent, { event: "file_change", ...who, ...name, act: "edit", path: "src/parser.rs", added: 2, removed: 2, by: "person", before: before.join("\n"), after: after.join("\n") });
    }
    yield line(run.id, run.parent, { event: "tool_finished", ...who, ...name, is_error: failed, ...(failed ? { reason: "no such file: src/parsr.rs; did you mean src/parser.rs?" } : {}), bytes: filler, duration_ms: 20 + next() * 900 });
    const content = failed ? [{ type: "text", value: "no such file" }] : next() < 0.5
      ? [{ type: "text", value: call.text ?? text(filler) }] : [{ type: "json", value: JSON.stringify({ path: "src/parser.rs", lines: 42, text: text(filler) }) }];
    yield message(run, "tool", [{ type: "tool_result", value: { call_id: call.id, content, is_error: failed } }], call.tool);
  }

  /** An agent that reads and writes for some turns. */
  function* worker(run, turns, isOver = () => false) {
    yield run.start;
    yield line(run.id, run.parent, { event: "capability_decided", agent: run.agent, plugin: "filesystem", capability: "files: [{path: src, mode: read}]", allowed: true, rule: "agents.lead.plugins.filesystem" });
    made += 2;
    yield message(run, "user", [{ type: "text", value: run.start.task }]);
    made += 1;
    for (let at = 0; at < turns && !isOver(); at += 1) {
      const dice = next();
      const call = dice < 0.5 ? { tool: "read_file", arguments: { path: "src/parser.rs", from: at * 40, lines: 40 } }
        : dice < 0.7 ? { tool: "search_text", arguments: { pattern: "fn parse_(\\w+)", folder: "src", options: { case: false, most: 50 } } }
        : dice < 0.85 ? { tool: "edit_file", arguments: { path: "src/parser.rs", old: words(8), new: words(9) }, edits: true, asks: next() < 0.2 ? (next() < 0.7 ? "yes" : "no") : undefined }
        : dice < 0.9 ? { tool: "read_file", arguments: { path: "src/parsr.rs" }, fails: true }
        : { tool: "fetch_page", arguments: { url: "https://example.invalid/spec" }, origin: "mcp docs" };
      yield* turn(run, next() < 0.2 ? [call, { tool: "list_folder", arguments: { path: "src" } }] : [call]);
      if (next() < 0.04) {
        made += 1;
        yield line(run.id, run.parent, { event: "middleware_acted", agent: run.agent, middleware: "guard", action: next() < 0.5 ? "edit" : "deny", tool: "edit_file", reason: "paths outside of src are left alone", before: { path: "../x" }, after: { path: "src/x" } });
      }
      if (next() < 0.02) {
        made += 1;
        yield line(run.id, run.parent, { event: "plugin_request", agent: run.agent, plugin: "web", method: "GET", url: "https://example.invalid/spec", outcome: "answered", status: 200, hops: 0, duration_ms: 120 });
      }
    }
    yield* turn(run, []);
  }

  /** Runs generators at once: their events interleave, and time goes on with the slowest. */
  function* together(branches) {
    const starts = time;
    const left = branches.map((branch) => ({ branch, time: starts }));
    while (left.length > 0) {
      left.sort((a, b) => a.time - b.time);
      const head = left[0];
      time = head.time;
      const { value, done } = head.branch.next();
      head.time = time;
      if (done) {
        left.shift();
        head.ended = time;
      } else {
        yield value;
      }
      if (left.length > 0 && done) continue;
    }
  }

  /** A run in which all that has a name or a text has one that wants to do harm. */
  function* hostileRun() {
    const [script, markup, , hidden, link] = HOSTILE;
    const all = HOSTILE.join(" ");
    const call = { call: `call ${all}`, tool: all };
    yield line(lead.id, undefined, { event: "tool_started", agent: "lead", ...call, origin: `agent:${all}`, arguments: all });
    const run = begin(all, lead, `${all} ${"B".repeat(1024 * 1024)}`, 1, call.call);
    yield { ...run.start, configured: all, prefix: all, model: all };
    const events = [
      { event: "message_added", role: "user", message: { sender: all, role: "user", parts: [{ type: "text", value: all }, { type: "media", value: { media_type: all, name: hidden, source: { url: link } } }, { type: all, value: all }] } },
      { event: "model_started", iteration: 1, tokens: 10, parts: { [script]: 4, [hidden]: 6 }, window: 100 },
      { event: "model_delta", delta: { kind: "text", value: all } },
      { event: "model_waits", model: all, wait: all, detail: all },
      { event: "model_failed", model: all, reason: all, again: true },
      { event: "model_finished", iteration: 1, model: all, stop: all, calls: 1, usage: { input_tokens: 1, output_tokens: 1, cache_read_tokens: 0, cache_write_tokens: 0 }, duration_ms: 3 },
      { event: "tool_started", ...call, origin: all, arguments: all },
      { event: "tool_progress", call: call.call, done: 1, total: 2, message: `${all}${"C".repeat(1024 * 1024)}` },
      { event: "file_change", ...call, act: all, path: `${hidden}/${markup}`, to: `${script}/${hidden}`, added: 1, removed: 1, by: all, diff: `--- a/${all}\n+++ b/${all}\n@@ -1 +1 @@\n-${all}\n+${hidden}\n` },
      { event: "question_asked", id: 900, question: all },
      { event: "question_answered", id: 900, question: all, outcome: all, by: all },
      { event: "tool_finished", ...call, is_error: true, reason: all, bytes: 1, duration_ms: 1 },
      { event: "effect_edited", effect: all, edit: all, messages_before: 1, messages_after: 1, before: all, after: all },
      { event: "effect_refused", effect: all, edit: all, reason: all },
      { event: "middleware_acted", middleware: all, action: all, tool: all, reason: all },
      { event: "plugin_call", plugin: all, function: all, outcome: all, duration_ms: 1, cpu_ms: 1, memory: 1, host_calls: 1, imports: [{ interface: all, calls: 1 }], bytes_in: 1, bytes_out: 1 },
      { event: "plugin_request", plugin: all, method: all, url: link, outcome: all, reason: all, credential: all, hops: 0, duration_ms: 1 },
      { event: "plugin_log", plugin: all, level: all, message: `${all}\n${all}` },
      { event: "capability_decided", plugin: all, capability: all, allowed: false, rule: all },
      { event: "team_step", step: 0, members: [all, hidden], done: false, reasoning: all },
      { event: "member_replied", text: all },
      { event: "handed_over", to: all, reason: all },
      { event: "overspent", message: all },
    ];
    for (const event of events) yield line(run.id, run.parent, { agent: all, ...event });
    yield line(undefined, undefined, { event: "warning", message: all });
    yield end(run, all);
    yield line(lead.id, undefined, { event: "tool_finished", agent: "lead", ...call, is_error: true, reason: all, bytes: 1, duration_ms: 1 });
    made += events.length + 2;
  }

  const lead = begin("lead", null, "Make the parser report every error with its place, and update the tests", 0);
  yield* worker(lead, 3);
  if (hostile) {
    yield message(lead, "user", [{ type: "text", value: HOSTILE.join("\n") }], HOSTILE[1]);
    made += 1;
    yield* turn(lead, [{ tool: HOSTILE[0], arguments: { [HOSTILE[5]]: HOSTILE, path: HOSTILE[3] }, text: `${HOSTILE.join("\n")}\n${"A".repeat(1024 * 1024)}` }]);
    yield line(lead.id, undefined, { event: HOSTILE[1], message: HOSTILE[3], [HOSTILE[0]]: HOSTILE[2] });
    made += 1;
  }
  // A team: its members reply in turn.
  const team = begin("review-team", lead, "Review the plan", 1);
  yield team.start;
  made += 1;
  for (const [step, name] of ["reviewer", "tester"].entries()) {
    yield line(team.id, team.parent, { event: "team_step", agent: "review-team", step, members: [name], done: false, reasoning: words(12) });
    const member = begin(name, team, "Review the plan", 2);
    yield* worker(member, 2);
    yield end(member);
    yield line(team.id, team.parent, { event: "member_replied", agent: name, text: words(16) });
    made += 3;
  }
  yield line(team.id, team.parent, { event: "team_step", agent: "review-team", step: 2, members: [], done: true });
  yield end(team);
  made += 2;
  while (made < steps - 12) {
    const size = Math.max(1, Math.min(12, Math.floor((steps - made) / 16)));
    const names = ["researcher", "writer", "tester"].slice(0, 1 + Math.floor(next() * 3));
    lead.iteration += 1;
    const branches = names.map((name) => {
      const call = { tool: "delegate", origin: "delegation", arguments: { agent: name, task: words(10) }, id: `call_${lead.id}_${++lead.calls}` };
      return (function* branch() {
        yield line(lead.id, undefined, { event: "tool_started", agent: "lead", call: call.id, tool: `delegate to ${name}`, origin: "delegation", arguments: JSON.stringify(call.arguments) });
        const child = begin(name, lead, call.arguments.task, 1, call.id);
        yield* worker(child, size, () => made > steps - 12);
        const error = next() < 0.06 ? "budget of 20000 tokens is spent" : null;
        yield end(child, error);
        yield line(lead.id, undefined, { event: "tool_finished", agent: "lead", call: call.id, tool: `delegate to ${name}`, is_error: error !== null, ...(error ? { reason: error } : {}), bytes: 900, duration_ms: 10 });
        made += 2;
      })();
    });
    yield* together(branches);
  }
  if (hostile) yield* hostileRun();
  yield line(undefined, undefined, { event: "warning", message: "the price of vendor/small-4 is unknown" });
  yield* turn(lead, []);
  yield end(lead);
}

/** Packs lines into chunks as `shelly-host trace` does: whole lines, about 1 MiB each. */
export function* chunks(lines, size = 1024 * 1024) {
  let text = "";
  for (const line of lines) {
    text += `${JSON.stringify(line)}\n`;
    if (text.length >= size) {
      yield text;
      text = "";
    }
  }
  if (text) yield text;
}

/** Writes a page with these events. Returns the bytes of its events and of the file. */
export function writePage(path, options, meta = {}) {
  const page = readFileSync(PAGE, "utf8");
  const [head, tail] = page.split(MARKER);
  const blocks = [];
  let content = 0;
  let lines = 0;
  for (const text of chunks(events(options))) {
    content += Buffer.byteLength(text);
    lines += text.split("\n").length - 1;
    blocks.push(gzipSync(text, { level: 4 }).toString("base64"));
  }
  const file = openSync(path, "w");
  let written = 0;
  const write = (text) => { written += writeSync(file, text); };
  write(head);
  const data = JSON.stringify({ version: 1, title: "Report every error with its place", session: "20261127-090000-7f3a9c", chunks: blocks.length, lines, ...meta });
  write(`<script type="application/json" id="shelly-trace">${data.replaceAll("<", "\\u003c")}</script>\n`);
  blocks.forEach((block, at) => write(`<script type="application/json+gzip-base64" data-chunk="${at}">${block}</script>\n`));
  write(tail);
  closeSync(file);
  return { content, lines, written };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [steps = "200", mebibytes = "1", out = "trace-sample.html"] = process.argv.slice(2);
  const written = writePage(out, { steps: Number(steps), bytes: Number(mebibytes) * 1024 * 1024 });
  writeFileSync(1, `${out}: ${written.lines} lines, ${written.content} bytes of events, ${written.written} bytes\n`);
}
