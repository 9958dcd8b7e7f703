// A host for unit tests, in plain Node: no component is built, and nothing is reached.
import { concatenate } from "./bytes.js";
import { PluginError } from "./errors.js";
import { toJson } from "./tool.js";

const HOST = Symbol.for("shelly-plugin.host");
const MOST_ASKS = 8;
const MOST_KEY = 512;
const MOST_VALUE = 1 << 20;
const MOST_LISTED = 1_000;
const MOST_ENTRIES = 1_024;
const MOST_READ = 1 << 20;
// 2025-01-01.
const BEGINNING = 1_735_689_600_000n;

const bytesOf = (text) => (typeof text === "string" ? new TextEncoder().encode(text) : text);

/** Returns the value that the host throws for an error. */
function thrown(error) {
  return error instanceof PluginError ? error.toContract() : error;
}

function refused(tag, val) {
  return { tag, val };
}

/** Compares two texts by the bytes of their UTF-8, as the host sorts keys. JavaScript compares texts by their UTF-16. */
function compareBytes(left, right) {
  const [first, second] = [bytesOf(left), bytesOf(right)];
  const at = first.findIndex((byte, index) => byte !== second[index]);
  return at < 0 || at >= second.length ? first.length - second.length : first[at] - second[at];
}

/** Removes and returns the next value that a test has prepared for a key; throws it if it is an error. */
function prepared(map, key, missing) {
  const [next, ...rest] = map.get(key) ?? [];
  if (next === undefined) throw new Error(missing);
  map.set(key, rest);
  if (next instanceof PluginError) throw thrown(next);
  return next;
}

function add(map, key, value) {
  map.set(key, [...(map.get(key) ?? []), value]);
}

class Host {
  #interfaces;
  #messages;
  #nowMs = BEGINNING;
  #monotonicNs = 0n;
  #responses = new Map();
  #outputs = new Map();
  #replies = [];
  #revision = 0n;
  #random = 0;

  constructor({ params = {}, chat = [], tools = [], attachments = {}, outgoing, credentials = [] }) {
    this.#messages = chat;
    this.stored = new Map();
    this.requests = [];
    this.commands = [];
    this.asked = [];
    this.log = [];
    this.progress = [];
    this.emitted = [];

    this.#interfaces = {
      config: { get: () => toJson(params) },
      log: { write: (level, message) => void this.log.push([level, message]) },
      progress: { report: (done, total, message) => void this.progress.push({ done, total, message }) },
      sink: { emit: (delta) => void this.emitted.push(delta) },
      clock: { now: () => this.#nowMs, monotonic: () => this.#monotonicNs },
      random: { bytes: (length) => Uint8Array.from({ length }, () => this.#nextByte()) },
      outgoing: {
        get: () => {
          if (outgoing === undefined) throw new Error("no request is set; pass it as `outgoing`");
          return outgoing;
        },
      },
      attachments: {
        read: (id, offset, max) => {
          if (attachments[id] === undefined) throw refused("not-found", `there is no attachment \`${id}\``);
          const start = Number(offset);
          return bytesOf(attachments[id]).slice(start, start + Math.min(max, MOST_READ));
        },
      },
      kv: this.#store(),
      chat: this.#chat(tools),
      http: {
        send: (request, body) => this.#send(request, body),
        begin: (request) => {
          const pieces = [];
          const write = (piece) => void pieces.push(piece);
          return { write, finish: () => this.#send(request, concatenate(pieces)) };
        },
        credentials: () => credentials,
      },
      process: {
        run: (command) => {
          this.commands.push(command);
          const missing = `no output is prepared for the program ${command.program}; prepare it with host.setOutput`;
          return prepared(this.#outputs, command.program, missing);
        },
      },
    };
  }

  /** Returns the interfaces of the contract that a host answers, as hooks.js calls them. */
  static interfacesOf(host) {
    return host.#interfaces;
  }

  respond(method, url, response = {}) {
    add(this.#responses, `${method} ${url}`, response);
  }

  setOutput(program, output) {
    const whole = { status: 0, stdout: "", stderr: "", cut: false, ...output };
    const converted = { ...whole, stdout: bytesOf(whole.stdout), stderr: bytesOf(whole.stderr) };
    add(this.#outputs, program, output instanceof PluginError ? output : converted);
  }

  reply(reply) {
    this.#replies.push(reply);
  }

  advance(milliseconds) {
    this.#nowMs += BigInt(milliseconds);
    this.#monotonicNs += BigInt(milliseconds) * 1_000_000n;
  }

  /** The text that a provider has passed on. */
  get text() {
    return this.emitted.map((delta) => (delta.tag === "text" ? delta.val : "")).join("");
  }

  eval(effect, input = {}, state = new Uint8Array()) {
    const cx = { run: "run", agent: "agent", depth: 0 };
    const none = { inputTokens: 0n, outputTokens: 0n, cacheReadTokens: 0n, cacheWriteTokens: 0n };
    const times = { runUsage: none, modelMs: 0n, elapsedMs: 0n, requestTokens: 0n };
    const whole = { cx, phase: { tag: "before-model" }, iteration: 0, messages: this.#messages.length, ...times, ...input };
    return this.#asking((now, kept) => effect.eval(now, kept), whole, state);
  }

  next(coordinator, input = {}, state = new Uint8Array()) {
    const cx = { run: "run", agent: "agent", depth: 0 };
    const whole = { cx, step: 0, members: [], reports: [], ...input };
    return this.#asking((now, kept) => coordinator.next(now, kept), whole, state);
  }

  /** Calls a step, and again with the prepared reply of a model for as long as it asks for one. */
  #asking(call, first, firstState) {
    let [input, state] = [first, firstState];
    for (let asks = 0; asks <= MOST_ASKS; asks++) {
      const step = call(input, state);
      if (step.action.tag !== "ask-model") return step;
      this.asked.push(step.action.val);
      const reply = this.#replies.shift();
      if (reply === undefined) throw new Error("no reply of a model is prepared; prepare it with host.reply");
      const isError = reply instanceof PluginError;
      const result = isError ? { tag: "err", val: thrown(reply) } : { tag: "ok", val: completion(reply) };
      [input, state] = [{ ...input, reply: result }, step.state];
    }
    throw new PluginError("exhausted", `the plugin asked a model more than ${MOST_ASKS} times in a row`);
  }

  #send(request, body) {
    this.requests.push({ ...request, headers: Object.fromEntries(request.headers), body });
    const key = `${request.method} ${request.url}`;
    const missing = `no response is prepared for ${key}; prepare it with host.respond`;
    const { status = 200, headers = {}, json, body: content = "" } = prepared(this.#responses, key, missing);
    const pieces = (json === undefined ? [content].flat() : [toJson(json)])
      .map((piece) => (piece instanceof PluginError ? piece : bytesOf(piece)))
      // No piece is empty: that is the end of a body.
      .filter((piece) => piece instanceof PluginError || piece.length > 0);
    const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
    return { status, headers: lower, body: { read: (most) => readPiece(pieces, most) } };
  }

  #store() {
    const check = (key) => {
      const length = bytesOf(key).length;
      if (length < 1 || length > MOST_KEY) throw refused("invalid", `a key has 1 to ${MOST_KEY} bytes, this one ${length}`);
    };
    const revisions = new Map();
    const get = (key) => {
      check(key);
      const value = this.stored.get(key);
      return value === undefined ? undefined : { value, revision: revisions.get(key) ?? 0n };
    };
    const set = (key, value) => {
      check(key);
      if (value === undefined) return void this.stored.delete(key);
      if (value.length > MOST_VALUE) throw refused("too-large", `a value has at most ${MOST_VALUE} bytes`);
      this.#revision += 1n;
      revisions.set(key, this.#revision);
      this.stored.set(key, value);
    };
    const compareAndSwap = (key, expected, value) => {
      const isExpected = get(key)?.revision === expected;
      if (isExpected) set(key, value);
      return isExpected;
    };
    const keys = (prefix, after) => {
      const isAfter = (key) => after === undefined || compareBytes(key, after) > 0;
      const found = [...this.stored.keys()].filter((key) => key.startsWith(prefix) && isAfter(key));
      return found.sort(compareBytes).slice(0, MOST_LISTED);
    };
    return { get, set, compareAndSwap, keys };
  }

  #chat(tools) {
    const entries = () => {
      let group;
      return this.#messages.map(({ role, parts, meta }, position) => {
        const id = BigInt(position) + 1n;
        const results = parts.filter((part) => part.tag === "tool-result").map((part) => part.val);
        const traits = {
          calls: parts.some((part) => part.tag === "tool-call"),
          results: results.length > 0,
          failed: results.some((result) => result.isError),
          media: parts.some((part) => part.tag === "media"),
          note: meta.some(([key]) => key === "shelly.note"),
          edited: false,
        };
        group = traits.calls ? id : traits.results ? group : undefined;
        // About four bytes a token, as the host estimates text.
        return { id, role, traits, group, tokens: Math.ceil(toJson(parts).length / 4) };
      });
    };
    return {
      length: () => this.#messages.length,
      entries: (start, end) => entries().slice(start, end).slice(0, MOST_ENTRIES),
      read: (start, end) => this.#messages.slice(start, end),
      find: (id) => (id >= 1n && id <= this.#messages.length ? Number(id) - 1 : undefined),
      tools: () => tools,
    };
  }

  /** The same bytes in each test. */
  #nextByte() {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#random >>> 24;
  }
}

function completion(reply) {
  if (typeof reply !== "string") return reply;
  const usage = { inputTokens: 0n, outputTokens: 0n, cacheReadTokens: 0n, cacheWriteTokens: 0n };
  return { parts: [{ tag: "text", val: reply }], stop: { tag: "end-turn" }, usage, model: "model", meta: [] };
}

function readPiece(pieces, most) {
  const piece = pieces.shift();
  if (piece === undefined) return new Uint8Array();
  if (piece instanceof PluginError) throw thrown(piece);
  if (piece.length > most) pieces.unshift(piece.slice(most));
  return piece.slice(0, most);
}

/** Returns a message with one text. */
export function message(role, text, meta = []) {
  return { sender: "", role, parts: [{ tag: "text", val: text }], meta };
}

export function withHost(options, body) {
  if (globalThis[HOST] !== undefined) throw new Error("there is a host already; end its withHost before the next");
  const host = new Host(options);
  globalThis[HOST] = Host.interfacesOf(host);
  const end = () => delete globalThis[HOST];
  let result;
  try {
    result = body(host);
  } catch (error) {
    end();
    throw error;
  }
  if (typeof result?.then === "function") return result.finally(end);
  end();
  return result;
}
