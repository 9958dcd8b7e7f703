// The Agent Client Protocol with the client of its authors, which checks each message that it gets. Run by hand; needs Node 20.
//
//     cargo build -p shelly-tests --bin shelly-host-under-test
//     cd tests/interop/acp && npm install && node client.mjs
//
// A model of this script answers on a port of this machine. The client opens a project, sends a prompt whose answer needs a change of
// a file, sees its diff, allows it, cancels another prompt, and loads the conversation again in a second process. ACP_PROGRAM names
// another program. Prints a line for each check and exits with 1 if one failed.

import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

import * as acp from "@agentclientprotocol/sdk";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const PROGRAM = process.env.ACP_PROGRAM ?? path.join(ROOT, "target/debug/shelly-host-under-test");

let failed = 0;

function check(holds, what) {
  console.log(`${holds ? "ok" : "FAILED"}: ${what}`);
  failed += holds ? 0 : 1;
}

/** A model that writes a file once, answers, and leaves the prompt "wait" without an answer. */
function model() {
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const messages = JSON.parse(body || "{}").messages ?? [];
    const last = messages.at(-1);
    const text = JSON.stringify(last?.content ?? "");
    if (text.includes("wait")) return;
    const call = { name: "fs_write", arguments: JSON.stringify({ path: "note.txt", content: "two\n" }) };
    const message = text.includes("write")
      ? { tool_calls: [{ id: "1", type: "function", function: call }] }
      : { content: "Done." };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ choices: [{ message, finish_reason: message.tool_calls ? "tool_calls" : "stop" }] }));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

/** Starts the program and does `work` with a connection to it; `seen` gets the updates and the permissions. */
async function withAgent(folder, state, work) {
  const env = { PATH: process.env.PATH, HOME: state, XDG_STATE_HOME: state, SHELLY_CACHE_DIR: path.join(state, "cache") };
  const child = spawn(PROGRAM, ["acp", "--trust"], { cwd: state, env, stdio: ["pipe", "pipe", "inherit"] });
  const seen = { updates: [], permissions: [] };
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const client = acp
    .client({ name: "interop" })
    .onNotification(acp.methods.client.session.update, ({ params }) => void seen.updates.push(params.update))
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      seen.permissions.push(params);
      const allow = params.options.find((option) => option.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: allow.optionId } };
    });
  const result = await client.connectWith(stream, async (agent) => {
    const greeting = await agent.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
    });
    check(greeting.protocolVersion === acp.PROTOCOL_VERSION, "the versions agree");
    return work(agent, seen);
  });
  child.stdin.end();
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
    `providers: [{name: m, kind: openai, base_url: '${url}', model: m}]\nagents: [{name: ada, toolboxes: [filesystem]}]\n`,
  );
  const session = await withAgent(folder, state, async (agent, seen) => {
    const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd: folder, mcpServers: [] });
    const prompt = (words) =>
      agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });
    const answer = await prompt("Please write the note.");
    check(answer.stopReason === "end_turn", "the prompt is answered");
    check(text(seen.updates, "agent_message_chunk") === "Done.", "the answer is shown once");
    const diffs = seen.permissions.flatMap((asked) => asked.toolCall.content ?? []).filter((part) => part.type === "diff");
    check(diffs.some((diff) => diff.newText === "two\n" && diff.path === path.join(folder, "note.txt")), "a diff is asked about");
    check(fs.readFileSync(path.join(folder, "note.txt"), "utf8") === "two\n", "the change is made");
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
  server.closeAllConnections();
  server.close();
}

await main();
process.exit(failed ? 1 : 0);
