// The Agent Client Protocol with the client of its authors, and with the schema that they publish. Run by hand; needs Node 20 and npm.
//
//     cargo build -p shelly-host && node tests/interop/acp/client.mjs [--host target/debug/shelly-host]
//
// A model of this script answers on a port of this machine. The client opens a project, sends a prompt whose answer needs a change of
// a file, sees its diff, allows it, sends an image and a file, chooses another agent, answers a question, cancels a prompt, and loads
// the conversation again in a second process. Each message of the program is checked against the schema. The packages are kept below
// target/interop/. Prints a line for each check and the counts, and exits with 1 if one failed.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { Readable, Transform, Writable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.resolve(HERE, "../../..");
const KEPT = path.join(ROOT, "target/interop/acp");
const SDK = path.join(KEPT, "node_modules/@agentclientprotocol/sdk");
const named = process.argv.indexOf("--host");
const PROGRAM = path.resolve(named > 0 ? process.argv[named + 1] : path.join(ROOT, "target/debug/shelly-host"));
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fs.mkdirSync(KEPT, { recursive: true });
fs.copyFileSync(path.join(HERE, "package.json"), path.join(KEPT, "package.json"));
execFileSync("npm", ["install", "--silent", "--no-audit", "--no-fund", "--prefix", KEPT], { stdio: "inherit" });
const acp = await import(pathToFileURL(path.join(SDK, "dist/v1/stable/acp.js")));
const Ajv = createRequire(path.join(KEPT, "package.json"))("ajv/dist/2020").default;

let passed = 0;
let failed = 0;

function check(holds, what) {
  console.log(`${holds ? "ok     " : "FAILED "} ${what}`);
  passed += holds ? 1 : 0;
  failed += holds ? 0 : 1;
}

/** Checks messages against the schema of the protocol: those of the program, by the requests of the client that they answer. */
class Checker {
  constructor() {
    this.schema = JSON.parse(fs.readFileSync(path.join(SDK, "schema/v1/schema.json"), "utf8"));
    this.ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
    this.ajv.addSchema(this.schema, "acp");
    this.asked = new Map();
    this.seen = 0;
    this.wrong = [];
  }

  /** The schema of what an agent sends (`side` is the receiver of requests) for a method: a request, response or notification. */
  named(method, ends) {
    const found = Object.entries(this.schema.$defs).find(([name, one]) => one["x-method"] === method && name.endsWith(ends));
    return found && `acp#/$defs/${found[0]}`;
  }

  sent(message) {
    if (message.method && message.id !== undefined) this.asked.set(message.id, message.method);
  }

  received(message) {
    this.seen += 1;
    const isRequest = message.method !== undefined && message.id !== undefined;
    const method = message.method ?? this.asked.get(message.id);
    const ends = message.method === undefined ? "Response" : isRequest ? "Request" : "Notification";
    const schema = message.error ? "acp#/$defs/Error" : this.named(method, ends);
    const content = message.error ?? message.result ?? message.params;
    if (message.jsonrpc !== "2.0" || !schema) this.wrong.push(`no such message: ${JSON.stringify(message)}`);
    else if (!this.ajv.validate(schema, content)) this.wrong.push(`${method}: ${this.ajv.errorsText()}`);
  }

  /** A stream that passes lines on, and gives each to `take`. */
  tap(take) {
    let rest = "";
    return new Transform({
      transform(chunk, _, done) {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line.trim()) take(JSON.parse(line));
        done(null, chunk);
      },
    });
  }
}

const checker = new Checker();

/** A model that writes a file once, answers, and leaves the prompt "wait" without an answer. */
function model() {
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const messages = JSON.parse(body || "{}").messages ?? [];
    const last = messages.at(-1);
    const text = JSON.stringify(last?.content ?? "");
    if (text.includes("wait")) return;
    const call = (name, given) => ({
      tool_calls: [{ id: `${messages.length}`, type: "function", function: { name, arguments: JSON.stringify(given) } }],
    });
    const message =
      last.role === "tool"
        ? { content: `Done.${text.includes("blue") ? " It is blue." : ""}${text.includes("+three") ? " You have three." : ""}` }
        : text.includes("read it")
          ? call("fs_read", { path: "note.txt" })
          : text.includes("write")
            ? call("fs_write", { path: "note.txt", content: "two\n" })
            : text.includes("ask me")
              ? call("ask_user", { question: "Which colour?", options: [{ label: "blue" }, { label: "red" }] })
              : { content: text.includes("image_url") && text.includes("A line.") ? "I see both." : "Done." };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ choices: [{ message, finish_reason: message.tool_calls ? "tool_calls" : "stop" }] }));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

/**
 * Starts the program and does `work` with a connection to it; `seen` gets the updates and the permissions. With `unsaved` the client
 * offers its files: `unsaved` has the texts of those that are open and not saved, by path.
 */
async function withAgent(folder, state, work, unsaved) {
  const env = { PATH: process.env.PATH, HOME: state, XDG_STATE_HOME: state, SHELLY_CACHE_DIR: path.join(state, "cache") };
  const child = spawn(PROGRAM, ["acp", "--trust"], { cwd: state, env, stdio: ["pipe", "pipe", "inherit"] });
  const seen = { updates: [], permissions: [] };
  const output = checker.tap((message) => checker.sent(message));
  output.pipe(child.stdin);
  const input = child.stdout.pipe(checker.tap((message) => checker.received(message)));
  const stream = acp.ndJsonStream(Writable.toWeb(output), Readable.toWeb(input));
  const client = acp
    .client({ name: "interop" })
    .onNotification(acp.methods.client.session.update, ({ params }) => void seen.updates.push(params.update))
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      seen.permissions.push(params);
      const allow =
        params.options.find((option) => option.name === "blue") ?? params.options.find((option) => option.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: allow.optionId } };
    });
  if (unsaved) {
    client
      .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => ({
        content: unsaved[params.path] ?? fs.readFileSync(params.path, "utf8"),
      }))
      .onRequest(acp.methods.client.fs.writeTextFile, ({ params }) => {
        delete unsaved[params.path];
        fs.writeFileSync(params.path, params.content);
        return {};
      });
  }
  const result = await client.connectWith(stream, async (agent) => {
    const greeting = await agent.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: unsaved ? { fs: { readTextFile: true, writeTextFile: true } } : {},
    });
    check(greeting.protocolVersion === acp.PROTOCOL_VERSION, "the versions agree");
    return work(agent, seen, greeting);
  });
  output.end();
  const [code] = child.exitCode === null ? await once(child, "exit") : [child.exitCode];
  check(code === 0, "the program ends when the client hangs up");
  return result;
}

const text = (updates, kind) =>
  updates.filter((update) => update.sessionUpdate === kind).map((update) => update.content.text).join("");

async function main() {
  const folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "acp-")));
  const state = fs.mkdtempSync(path.join(os.tmpdir(), "acp-state-"));
  const server = await model();
  const url = `http://127.0.0.1:${server.address().port}/v1`;
  fs.writeFileSync(
    path.join(folder, "shelly.yaml"),
    `providers: [{name: m, kind: openai, base_url: '${url}', model: m}]\nagents: [{name: ada, toolboxes: [filesystem]}, {name: bob, description: hums}]\n`,
  );
  fs.mkdirSync(path.join(folder, ".shelly/commands"), { recursive: true });
  fs.writeFileSync(path.join(folder, ".shelly/commands/review.md"), "Review the changes.\n");
  const session = await withAgent(folder, state, async (agent, seen, greeting) => {
    const made = await agent.request(acp.methods.agent.session.new, { cwd: folder, mcpServers: [] });
    const { sessionId } = made;
    const prompt = (words, ...more) =>
      agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: words }, ...more] });
    const said = () => text(seen.updates.splice(0), "agent_message_chunk");
    const answer = await prompt("Please write the note.");
    check(answer.stopReason === "end_turn", "the prompt is answered");
    check(text(seen.updates, "agent_message_chunk") === "Done.", "the answer is shown once");
    const diffs = seen.permissions.flatMap((asked) => asked.toolCall.content ?? []).filter((part) => part.type === "diff");
    check(diffs.some((diff) => diff.newText === "two\n" && diff.path === path.join(folder, "note.txt")), "a diff is asked about");
    check(fs.readFileSync(path.join(folder, "note.txt"), "utf8") === "two\n", "the change is made");
    const calls = seen.updates.filter((update) => update.sessionUpdate === "tool_call");
    check(calls.length === 1 && calls[0].kind === "edit", "the call is shown as an edit");
    const commands = seen.updates.filter((update) => update.sessionUpdate === "available_commands_update").at(-1);
    check(commands?.availableCommands.some((command) => command.name === "review"), "the command of the project is offered");
    said();
    check(greeting.agentCapabilities.promptCapabilities.image, "images are taken");
    const image = { type: "image", mimeType: "image/png", data: PIXEL };
    const file = { type: "resource", resource: { uri: `file://${folder}/a.txt`, mimeType: "text/plain", text: "A line." } };
    await prompt("Look.", image, file);
    check(said() === "I see both.", "an image and a file reach the model");
    await prompt("Please ask me.");
    check(said().includes("It is blue."), "a question with options is answered");
    check(made.modes?.currentModeId === "ada", "the agents are the modes");
    await agent.request(acp.methods.agent.session.setMode, { sessionId, modeId: "bob" });
    await prompt("Hum.");
    check(said() === "Done.", "another agent answers");
    const wrong = { sessionId: "none", prompt: [{ type: "text", text: "Hum." }] };
    const refused = await agent.request(acp.methods.agent.session.prompt, wrong).catch((error) => error);
    check(refused instanceof Error && refused.message, "an unknown session is refused");
    const waiting = prompt("wait");
    setTimeout(() => agent.notify(acp.methods.agent.session.cancel, { sessionId }), 1000);
    check((await waiting).stopReason === "cancelled", "a cancelled prompt says so");
    return sessionId;
  });
  await withAgent(folder, state, async (agent, seen) => {
    const { sessions } = await agent.request(acp.methods.agent.session.list, { cwd: folder });
    check(sessions.some((listed) => listed.sessionId === session), "the session is listed");
    await agent.request(acp.methods.agent.session.load, { sessionId: session, cwd: folder, mcpServers: [] });
    check(text(seen.updates, "user_message_chunk").startsWith("Please write the note."), "the conversation is shown again");
  });
  const note = path.join(folder, "note.txt");
  const unsaved = { [note]: "three\n" };
  await withAgent(
    folder,
    state,
    async (agent, seen) => {
      const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd: folder, mcpServers: [] });
      const prompt = [{ type: "text", text: "Please read it." }];
      await agent.request(acp.methods.agent.session.prompt, { sessionId, prompt });
      check(text(seen.updates, "agent_message_chunk").includes("You have three."), "unsaved changes of the editor are seen");
      check(fs.readFileSync(note, "utf8") === "two\n" && unsaved[note], "a file that is read is not saved");
    },
    unsaved,
  );
  check(checker.seen > 10 && checker.wrong.length === 0, `${checker.seen} messages fit the schema ${checker.wrong.join("; ")}`);
  server.closeAllConnections();
  server.close();
}

await main().catch((error) => check(false, error.stack));
console.log(`${passed} ok, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
