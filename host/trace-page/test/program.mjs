// The program as a server, in a project of its own, with a model that answers what a test says; a relay whose connections a test
// breaks. SHELLY_HOST names the program if it is not target/debug/shelly-host, SHELLY_PLUGINS the folder of plugins if it is not
// target/plugins.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect, createServer as createRelay } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
export const PROGRAM = process.env.SHELLY_HOST ?? join(ROOT, "target/debug/shelly-host");
export const PLUGINS = process.env.SHELLY_PLUGINS ?? join(ROOT, "target/plugins");

const loopback = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", 4_096, () => resolve(server.address().port)));

/** A promise and the function that fulfils it. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => { open = resolve; });
  return { open, opened };
}

/**
 * A server of OpenAI's chat protocol. `reply(request)` returns `{ text }`, `{ pieces, pause }` or `{ calls: [[tool, arguments]] }`, or a
 * promise of one; each is sent as a stream.
 */
export async function startModel(reply) {
  const model = { requests: 0, port: 0, close: () => { server.closeAllConnections(); server.close(); } };
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    model.requests += 1;
    const answer = await reply(JSON.parse(body));
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (event) => response.write(`data: ${JSON.stringify(event)}\n\n`);
    const delta = (delta, finish_reason = null) => send({ choices: [{ index: 0, delta, finish_reason }] });
    for (const piece of answer.pieces ?? (answer.text ? [answer.text] : [])) {
      if (response.destroyed) return;
      delta({ content: piece });
      if (answer.pause) await new Promise((resolve) => setTimeout(resolve, answer.pause));
    }
    const calls = answer.calls ?? [];
    calls.forEach(([name, args], index) => delta({
      tool_calls: [{ index, id: `c${model.requests}_${index}`, type: "function", function: { name, arguments: JSON.stringify(args) } }],
    }));
    delta({}, calls.length > 0 ? "tool_calls" : "stop");
    send({ choices: [], usage: { prompt_tokens: 1_200, completion_tokens: 80, total_tokens: 1_280 } });
    response.end("data: [DONE]\n\n");
  });
  server.keepAliveTimeout = 60_000;
  model.port = await loopback(server);
  return model;
}

/** The provider entry of a config for a model of `startModel`. */
export const provider = (model) =>
  `providers: [{name: local, kind: openai, base_url: "http://127.0.0.1:${model.port}/v1", model: m, context_window: 32768, retries: 0}]\n`;

/** A folder with these files, which nobody else can read, for one server after the other. */
export function project(files) {
  const folder = mkdtempSync(join(tmpdir(), "shelly-served-"));
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content, { mode: 0o600 });
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Starts the server in a folder; `known` is its token if it does not print one. Its home is there too, so that nothing of this machine's user is read or written. */
export async function serve(folder, args = [], known = "") {
  if (!existsSync(PROGRAM)) throw new Error(`there is no ${PROGRAM}: run \`cargo build\`, or name the program in SHELLY_HOST`);
  const plugins = existsSync(PLUGINS) ? ["--plugins", PLUGINS] : [];
  const child = spawn(PROGRAM, ["serve", "--listen", ":0", "--config", "shelly.yaml", ...plugins, ...args], {
    cwd: folder, env: { HOME: join(folder, ".home"), PATH: process.env.PATH }, stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));
  let said = "";
  const [address, token] = await new Promise((resolve, reject) => {
    child.stderr.setEncoding("utf8").on("data", (text) => {
      said += text;
      const found = /^serving at (http:\/\/[^/]+)\/(?:#token=(\S+))?.*\n/m.exec(said);
      if (found) resolve([found[1], found[2] ?? known]);
    });
    void ended.then((code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    setTimeout(() => reject(new Error(`the server says no address: ${said}`)), 60_000).unref();
  });
  const headers = { authorization: `Bearer ${token}` };
  const request = async (method, path, body, more = {}) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(address + path, { method, headers: { ...headers, "content-type": "application/json", ...more }, ...sent });
    const text = await answer.text();
    return { status: answer.status, body: /json/.test(answer.headers.get("content-type") ?? "") ? JSON.parse(text) : text };
  };
  return {
    address, token, port: Number(new URL(address).port), pid: child.pid, headers, request, ended, said: () => said,
    /** Ends it as Ctrl-C or a service manager does. Returns the exit code. */
    stop: () => {
      child.kill("SIGTERM");
      return ended;
    },
  };
}

/** Passes connections on to a port that may change, and breaks them when it is told to. */
export async function startRelay(target) {
  const pairs = new Set();
  const relay = { target, port: 0, passed: 0, refuses: false };
  const server = createRelay((client) => {
    if (relay.refuses) return client.destroy();
    relay.passed += 1;
    const inner = connect(relay.target, "127.0.0.1");
    const pair = () => {
      client.destroy();
      inner.destroy();
      pairs.delete(pair);
    };
    pairs.add(pair);
    for (const side of [client, inner]) side.on("error", pair).on("close", pair);
    client.pipe(inner).pipe(client);
  });
  relay.port = await loopback(server);
  /** Breaks all connections that are open. */
  relay.cut = () => [...pairs].forEach((pair) => pair());
  relay.close = () => {
    relay.cut();
    server.close();
  };
  return relay;
}
