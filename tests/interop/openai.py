#!/usr/bin/env python3
"""OpenAI's own clients, those of chat pages and of AG-UI, against `shelly-host serve`. Run by hand; needs Python 3.10, pip, and
for three lanes Node 20 and npm.

    cargo build -p shelly-host && python3 tests/interop/openai.py [--help]

Lanes:

python  The package `openai` from PyPI: models, chat completions and responses, whole and streamed, errors.
js      The package `openai` from npm: the same.
ai-sdk  The packages `ai` and `@ai-sdk/…` from npm, on which many chat pages are built; they check each chunk.
ag-ui   The package `@ag-ui/client` from npm, which checks the order of events.

The model is a server in this script. What is fetched is kept below target/interop/. Prints a line for each check and the
counts, and exits with 1 if one failed.
"""

import argparse
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "target" / "interop"
NPM = ["openai@6.49.0", "@ag-ui/client@1.0.0", "ai@6.0.326", "@ai-sdk/openai@3.0.141", "@ai-sdk/openai-compatible@2.0.92"]
PYPI = ["openai==3.57.0"]


class Model(http.server.BaseHTTPRequestHandler):
    """Calls a tool once for `make a note` and for `ask me`, and else says how many messages of the user it has read."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        roles = [message["role"] for message in asked["messages"]]
        text = json.dumps([message["content"] for message in asked["messages"] if message["role"] == "user"])
        if "fail please" in text:
            self.reply(400, "application/json", json.dumps({"error": {"message": "no"}}))
            return
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        if "make a note" in text and "tool" not in roles and any(
            tool["function"]["name"] == "write_note" for tool in asked.get("tools", [])
        ):
            call = {"name": "write_note", "arguments": json.dumps({"name": "n", "content": "one"})}
            deltas, finish = [{"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}]}], "tool_calls"
        elif "ask me" in text and "tool" not in roles:
            call = {"name": "ask_user", "arguments": json.dumps({"question": "Which colour?"})}
            deltas, finish = [{"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}]}], "tool_calls"
        elif "JSON Schema" in text:
            deltas, finish = [{"content": '{"count": 4}'}], "stop"
        else:
            pieces = ["You ", "said ", str(roles.count("user")), " things."]
            deltas, finish = [{"reasoning_content": "hm"}] + [{"content": piece} for piece in pieces], "stop"
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage})
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.reply(200, "text/event-stream", body)

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


PYTHON = '''
import json
import time

import openai

client = openai.OpenAI()


def check(name, is_so, seen):
    print(("ok      " if is_so else "FAILED  ") + name + ("" if is_so else f": {seen!r}"))


models = [model.id for model in client.models.list()]
check("models", models == ["helper"], models)
user = [{"role": "user", "content": "hi"}]
reply = client.chat.completions.create(model="helper", messages=user)
check("chat", reply.choices[0].message.content == "You said 1 things.", reply)
check("usage", reply.usage.total_tokens == 10, reply.usage)
history = user + [{"role": "assistant", "content": "Hello."}] + user
text, usage = "", None
options = {"include_usage": True}
for chunk in client.chat.completions.create(model="helper", messages=history, stream=True, stream_options=options):
    text += "".join(choice.delta.content or "" for choice in chunk.choices)
    usage = chunk.usage or usage
check("chat stream", text == "You said 2 things.", text)
check("chat stream usage", usage is not None and usage.completion_tokens == 3, usage)
first = client.responses.create(model="helper", input="one")
check("response", first.output_text == "You said 1 things.", first)
second = client.responses.create(model="helper", input="two", previous_response_id=first.id)
check("previous response", second.output_text == "You said 2 things.", second)
try:
    begun = client.responses.create(model="helper", input="one", background=True)
    for _ in range(100):
        if (got := client.responses.retrieve(begun.id)).status == "completed":
            break
        time.sleep(0.1)
    check("background response", got.output_text == "You said 1 things.", got)
    client.responses.delete(begun.id)
    try:
        check("deleted response", False, client.responses.retrieve(begun.id))
    except openai.NotFoundError:
        check("deleted response", True, None)
except openai.BadRequestError as error:
    print("skipped background response:", error)
with client.responses.stream(model="helper", input="one") as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_response()
check("response stream", final.output_text == "You said 1 things.", (kinds, final))
check("response stream ends", (kinds[0], kinds[-1]) == ("response.created", "response.completed"), kinds)
check("thought", any(item.type == "reasoning" for item in final.output), final.output)
check("stored", first.store is True and final.status == "completed", first)
instructed = client.responses.create(model="helper", input="one", instructions="Be brief.", store=False)
check("not stored", instructed.store is False and instructed.output_text, instructed)
pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
file = {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}
seen = client.chat.completions.create(model="helper", messages=[{"role": "user", "content": [
    {"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": pixel}}, {"type": "file", "file": file}]}])
check("image and file", seen.choices[0].message.content == "You said 1 things.", seen)
raw = client.chat.completions.with_raw_response.create(model="helper", messages=user)
check("run of a request", raw.headers["x-request-id"].startswith("run-"), dict(raw.headers))
try:
    from pydantic import BaseModel

    class Count(BaseModel):
        count: int

    parsed = client.chat.completions.parse(model="helper", messages=user, response_format=Count)
    check("schema", parsed.choices[0].message.parsed == Count(count=4), parsed)
    parsed = client.responses.parse(model="helper", input="hi", text_format=Count)
    check("response schema", parsed.output_parsed == Count(count=4), parsed)
except ImportError as error:
    print("skipped schema:", error)
for name, kind, call in [
    ("unknown model", openai.NotFoundError, lambda: client.chat.completions.create(model="gpt-5", messages=user)),
    ("tools", openai.BadRequestError, lambda: client.chat.completions.create(
        model="helper", messages=user, tools=[{"type": "function", "function": {"name": "look", "parameters": {}}}])),
    ("failed run", openai.InternalServerError, lambda: client.responses.create(model="helper", input="fail please")),
    ("wrong key", openai.AuthenticationError, lambda: openai.OpenAI(api_key="no").models.list()),
    ("failed stream", openai.APIError, lambda: list(client.chat.completions.create(
        model="helper", messages=[{"role": "user", "content": "fail please"}], stream=True))),
]:
    try:
        check(name, False, call())
    except kind as error:
        check(name, True, error)
'''

JS = '''
import OpenAI from "openai";

const client = new OpenAI();
const check = (name, isSo, seen) =>
  console.log((isSo ? "ok      " : "FAILED  ") + name + (isSo ? "" : ": " + JSON.stringify(seen)));

const models = (await client.models.list()).data.map((model) => model.id);
check("models", models.join() === "helper", models);
const messages = [{ role: "user", content: "hi" }];
const reply = await client.chat.completions.create({ model: "helper", messages });
check("chat", reply.choices[0].message.content === "You said 1 things.", reply);
let text = "";
for await (const chunk of await client.chat.completions.create({ model: "helper", messages, stream: true })) {
  text += chunk.choices[0]?.delta.content ?? "";
}
check("chat stream", text === "You said 1 things.", text);
const run = client.chat.completions.stream({ model: "helper", messages });
check("chat stream helper", (await run.finalContent()) === "You said 1 things.", null);
const first = await client.responses.create({ model: "helper", input: "one" });
const second = await client.responses.create({ model: "helper", input: "two", previous_response_id: first.id });
check("previous response", second.output_text === "You said 2 things.", second);
const final = await client.responses.stream({ model: "helper", input: "one" }).finalResponse();
check("response stream", final.output_text === "You said 1 things.", final);
const kinds = [];
const stream = await client.responses.create({ model: "helper", input: "one", stream: true });
for await (const event of stream) kinds.push(event.type);
check("response events", kinds[0] === "response.created" && kinds.at(-1) === "response.completed", kinds);
const format = { type: "json_schema", name: "count", schema: { type: "object", properties: { count: { type: "integer" } } } };
const counted = await client.responses.parse({ model: "helper", input: "hi", text: { format } });
check("response schema", JSON.parse(counted.output_text).count === 4, counted);
try {
  check("failed run", false, await client.responses.create({ model: "helper", input: "fail please" }));
} catch (error) {
  check("failed run", error instanceof OpenAI.APIError && error.status === 502, error);
}
'''

AI_SDK = '''
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, Output, streamText } from "ai";

const check = (name, isSo, seen) =>
  console.log((isSo ? "ok      " : "FAILED  ") + name + (isSo ? "" : ": " + JSON.stringify(seen)));
const [baseURL, apiKey] = [process.env.OPENAI_BASE_URL, process.env.OPENAI_API_KEY];
const compatible = createOpenAICompatible({ name: "shelly", baseURL, apiKey, includeUsage: true });
const openai = createOpenAI({ baseURL, apiKey });
const properties = { count: { type: "integer" } };
const schema = jsonSchema({ type: "object", properties, required: ["count"], additionalProperties: false });
for (const [name, model] of [
  ["compatible", compatible.chatModel("helper")],
  ["chat", openai.chat("helper")],
  ["responses", openai.responses("helper")],
]) {
  try {
    const whole = await generateText({ model, prompt: "hi", system: "Be brief." });
    check(name, whole.text === "You said 1 things." && whole.finishReason === "stop", whole.text);
    let [text, failure] = ["", null];
    const stream = streamText({ model, prompt: "hi", onError: ({ error }) => void (failure = String(error)) });
    for await (const piece of stream.textStream) text += piece;
    check(`${name} stream`, text === "You said 1 things." && failure === null, [text, failure]);
    check(`${name} stream usage`, (await stream.usage).totalTokens === 10, await stream.usage);
    if (name === "compatible") continue;
    const counted = await generateText({ model, prompt: "hi", output: Output.object({ schema }) });
    check(`${name} schema`, counted.output.count === 4, counted.text);
  } catch (error) {
    check(name, false, String(error));
  }
}
'''

AG_UI = '''
import { HttpAgent } from "@ag-ui/client";

const check = (name, isSo, seen) =>
  console.log((isSo ? "ok      " : "FAILED  ") + name + (isSo ? "" : ": " + JSON.stringify(seen)));
const headers = { authorization: `Bearer ${process.env.OPENAI_API_KEY}` };
const url = process.env.OPENAI_BASE_URL.replace("/v1", "/ag-ui/helper");
const agent = new HttpAgent({ url, headers, threadId: "t" });
const events = [];
agent.subscribe({ onEvent: ({ event }) => void events.push(event.type) });
for (const content of ["make a note", "hi"]) {
  agent.messages.push({ id: crypto.randomUUID(), role: "user", content });
  try {
    await agent.runAgent();
    check(content, agent.messages.at(-1).role === "assistant", agent.messages);
  } catch (error) {
    check(content, false, String(error));
  }
}
const wanted = ["RUN_STARTED", "STATE_SNAPSHOT", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
  "REASONING_START", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];
check("events", wanted.every((type) => events.includes(type)), events);
check("answer", agent.messages.at(-1).content === "You said 2 things.", agent.messages);
check("tool messages", agent.messages.some((message) => message.role === "tool"), agent.messages);
check("state", agent.state.shelly?.questions?.length === 0, agent.state);
const asking = new HttpAgent({ url, headers, threadId: "w" });
asking.messages.push({ id: crypto.randomUUID(), role: "user", content: "ask me" });
const asked = [];
asking.subscribe({
  onStateChanged: ({ state }) => {
    const question = state.shelly?.questions?.[0];
    if (!question || asked.includes(question.id)) return;
    asked.push(question.id);
    const answers = url.replace("/ag-ui/helper", `/api/v1/questions/${question.id}`);
    const body = JSON.stringify({ text: "blue" });
    fetch(answers, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body });
  },
});
await asking.runAgent();
const result = asking.messages.find((message) => message.role === "tool");
check("question", asked.length === 1 && result?.content.includes("blue"), [asked, asking.messages]);
check("question is over", asking.state.shelly?.questions?.length === 0, asking.state);
let failure = null;
const failing = new HttpAgent({ url, headers, threadId: "u" });
failing.messages.push({ id: crypto.randomUUID(), role: "user", content: "fail please" });
failing.subscribe({ onRunErrorEvent: ({ event }) => void (failure = event) });
await failing.runAgent().catch(() => {});
check("failed run", failure?.message, failure);
const refused = new HttpAgent({ url: url.replace("helper", "nobody"), headers, threadId: "v" });
refused.messages.push({ id: crypto.randomUUID(), role: "user", content: "hi" });
check("unknown agent", String(await refused.runAgent().catch((error) => error)).includes("404"), null);
'''


def python_lane(environment):
    folder = KEPT / "openai-python"
    program = folder / "bin" / "python"
    if not program.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([program, "-m", "pip", "install", "--quiet", *PYPI], check=True)
    return subprocess.run([program, "-c", PYTHON], env=environment, capture_output=True, text=True)


def node_lane(environment, script):
    folder = KEPT / "openai-js"
    folder.mkdir(parents=True, exist_ok=True)
    if not all((folder / "node_modules" / name.rpartition("@")[0]).exists() for name in NPM):
        subprocess.run(["npm", "install", "--silent", "--prefix", folder, *NPM], check=True)
    path = folder / "check.mjs"
    path.write_text(script)
    return subprocess.run(["node", path], env=environment, capture_output=True, text=True)


LANES = {
    "python": python_lane,
    "js": lambda environment: node_lane(environment, JS),
    "ai-sdk": lambda environment: node_lane(environment, AI_SDK),
    "ag-ui": lambda environment: node_lane(environment, AG_UI),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lane", choices=LANES, action="append", help="the lanes (default: all)")
    parser.add_argument("--host", default=ROOT / "target" / "debug" / "shelly-host", help="the program")
    arguments = parser.parse_args()
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    with tempfile.TemporaryDirectory() as place:
        config = pathlib.Path(place, "shelly.yaml")
        url = f"http://127.0.0.1:{model.server_port}/v1"
        config.write_text(
            f"providers: [{{name: local, kind: openai, base_url: '{url}', model: m, context_window: 32768, retries: 0}}]\n"
            "agents: [{name: helper, toolboxes: [notes]}]\n"
        )
        command = [arguments.host, "serve", "--config", config, "--listen", ":0"]
        served = subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True, env={**os.environ, "HOME": place})
        try:
            for line in served.stderr:
                if found := re.match(r"serving at (http://[^/]+)/#token=(\w+)", line):
                    break
            else:
                sys.exit("the server has not started")
            threading.Thread(target=served.stderr.read, daemon=True).start()
            environment = {**os.environ, "OPENAI_BASE_URL": f"{found[1]}/v1", "OPENAI_API_KEY": found[2]}
            for lane in arguments.lane or LANES:
                print(f"{lane}:")
                if lane != "python" and not shutil.which("npm"):
                    lines = ["skipped npm is not there"]
                else:
                    done = LANES[lane](environment)
                    lines = done.stdout.splitlines()
                    if done.returncode != 0 or not lines:
                        lines.append(f"FAILED  the lane has ended with {done.returncode}: {done.stderr}")
                print("\n".join(lines), flush=True)
                for outcome in counts:
                    counts[outcome] += sum(line.startswith(outcome) for line in lines)
        finally:
            served.terminate()
            served.wait()
    print("{ok} ok, {FAILED} failed, {skipped} skipped".format(**counts))
    sys.exit(1 if counts["FAILED"] else 0)


if __name__ == "__main__":
    main()
