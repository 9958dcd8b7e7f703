#!/usr/bin/env python3
"""OpenAI's own clients, and the one of AG-UI, against `shelly-host serve`. Run by hand; needs Python 3.10, pip, and for
two lanes Node 20 and npm.

    cargo build -p shelly-host && python3 tests/interop/openai.py [--lane python|js|ag-ui] [--host target/debug/shelly-host]

Lanes:

python  The package `openai` from PyPI: models, chat completions and responses, whole and streamed, errors.
js      The package `openai` from npm: the same.
ag-ui   The package `@ag-ui/client` from npm, which checks the order of events.

The model is a server in this script. What is fetched is kept below target/interop/. Prints a line for each check and exits
with 1 if one failed.
"""

import argparse
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "target" / "interop"
NPM = ["openai@6.49.0", "@ag-ui/client@1.0.0"]
PYPI = ["openai"]


class Model(http.server.BaseHTTPRequestHandler):
    """Calls the tool `write_note` once for a task with `note`, and else says how many messages of the user it has read."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        roles = [message["role"] for message in asked["messages"]]
        text = json.dumps(asked["messages"])
        if "fail please" in text:
            self.reply(400, "application/json", json.dumps({"error": {"message": "no"}}))
            return
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        if "note" in text and "tool" not in roles and any(
            tool["function"]["name"] == "write_note" for tool in asked.get("tools", [])
        ):
            call = {"name": "write_note", "arguments": json.dumps({"name": "n", "content": "one"})}
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
with client.responses.stream(model="helper", input="one") as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_response()
check("response stream", final.output_text == "You said 1 things.", (kinds, final))
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
try {
  check("failed run", false, await client.responses.create({ model: "helper", input: "fail please" }));
} catch (error) {
  check("failed run", error instanceof OpenAI.APIError && error.status === 502, error);
}
'''

AG_UI = '''
import { HttpAgent } from "@ag-ui/client";

const check = (name, isSo, seen) =>
  console.log((isSo ? "ok      " : "FAILED  ") + name + (isSo ? "" : ": " + JSON.stringify(seen)));
const headers = { authorization: `Bearer ${process.env.OPENAI_API_KEY}` };
const url = process.env.OPENAI_BASE_URL.replace("/v1", "/ag-ui/helper");
const agent = new HttpAgent({ url, headers, threadId: "t" });
for (const content of ["make a note", "hi"]) {
  agent.messages.push({ id: crypto.randomUUID(), role: "user", content });
  try {
    await agent.runAgent();
    check(content, agent.messages.at(-1).role === "assistant", agent.messages);
  } catch (error) {
    check(content, false, String(error));
  }
}
check("tool messages", agent.messages.some((message) => message.role === "tool"), agent.messages);
check("state", agent.state.shelly?.questions?.length === 0, agent.state);
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
    if not (folder / "node_modules" / "openai").exists():
        subprocess.run(["npm", "install", "--silent", "--prefix", folder, *NPM], check=True)
    path = folder / "check.mjs"
    path.write_text(script)
    return subprocess.run(["node", path], env=environment, capture_output=True, text=True)


LANES = {
    "python": python_lane,
    "js": lambda environment: node_lane(environment, JS),
    "ag-ui": lambda environment: node_lane(environment, AG_UI),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lane", choices=LANES, action="append", help="the lanes (default: all)")
    parser.add_argument("--host", default=ROOT / "target" / "debug" / "shelly-host", help="the program")
    arguments = parser.parse_args()
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    failed = False
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
                done = LANES[lane](environment)
                print(done.stdout, end="")
                failed |= "FAILED" in done.stdout or done.returncode != 0
                if done.returncode != 0:
                    print(done.stderr)
        finally:
            served.terminate()
            served.wait()
    sys.exit(failed)


if __name__ == "__main__":
    main()
