#!/usr/bin/env python3
"""The HTTP API of `shelly-host serve` against its own description, read by programs that nobody here wrote. Run by hand; needs
Python 3.10 and pip.

    cargo build -p shelly-host && python3 tests/interop/openapi_document.py [--help]

Lanes:

document     `openapi-spec-validator` from PyPI: `/openapi.json` is a document of OpenAPI 3.1.
walk         Each operation is called with what it is for; the status, the content type and each field of the JSON are in the
             document. So are refusals. `prometheus-client` from PyPI reads the metrics.
schemathesis `schemathesis` from PyPI makes requests from the document, right and wrong ones: no answer is a 500, or one that
             the document has not.

The model is a server in this script. What is fetched is kept below target/interop/. Prints a line for each check and the
counts, and exits with 1 if one failed.
"""

import argparse
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "target" / "interop" / "openapi"
PACKAGES = ["openapi-spec-validator==0.9.0", "schemathesis==4.32.5", "jsonschema==4.26.0", "prometheus-client==0.26.0"]
SECRET = "0123456789abcdef"
# How long a run may take to get into a state, in seconds.
PATIENCE = 30
# That every body that fits its schema is accepted is not among the checks of schemathesis: a schema cannot say that a session
# exists, or that an answer to a question is one of four.
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "ignored_auth",
]


class Failed(Exception):
    """A check that failed, and why."""


def need(holds, why):
    if not holds:
        raise Failed(why)


class Reply(http.server.BaseHTTPRequestHandler):
    """A model: it answers, asks the user for `ask me`, and leaves `wait` without an answer until the script ends."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][-1]
        message, stop = {"content": "Four."}, "stop"
        if asked["role"] == "user" and "ask me" in json.dumps(asked):
            call = {"name": "ask_user", "arguments": json.dumps({"question": "Which colour?"})}
            message, stop = {"tool_calls": [{"id": "1", "type": "function", "function": call}]}, "tool_calls"
        elif "wait" in json.dumps(asked):
            self.server.end.wait(PATIENCE)
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        body = json.dumps({"choices": [{"message": message, "finish_reason": stop}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *_):
        pass


class Served:
    """`shelly-host serve` in a folder, with its document."""

    def __init__(self, program, folder):
        self.model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Reply)
        self.model.end = threading.Event()
        threading.Thread(target=self.model.serve_forever, daemon=True).start()
        config = {
            "providers": [
                {
                    "name": "m",
                    "kind": "openai",
                    "model": "m",
                    "base_url": f"http://127.0.0.1:{self.model.server_port}/v1",
                    "context_window": 32768,
                    "retries": 0,
                }
            ],
            "agents": [{"name": "helper", "description": "Helps."}],
            "triggers": [
                {"name": "hook", "webhook": {"secret": {"env": "HOOK"}, "signature": "github"}, "task": "Say {{body.what}}."}
            ],
        }
        # JSON is YAML.
        (folder / "shelly.yaml").write_text(json.dumps(config))
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "HOOK": SECRET}
        command = [program, "serve", "--config", "shelly.yaml", "--listen", ":0", "--triggers", "--max-runs", "64"]
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in self.process.stderr:
            said += line
            if found := re.match(r"serving at (http://(127[.\d]+):(\d+))/#token=(\w+)", line):
                self.url, self.host, self.port, self.token = found[1], found[2], int(found[3]), found[4]
                break
        else:
            raise Failed(f"the server does not start: {said}")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.document = json.loads(self.send("GET", "/openapi.json")[2])

    def send(self, method, path, body=None, headers=None):
        """Sends a request. Returns the status, the content type and the body of the answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        headers = {"authorization": f"Bearer {self.token}", **(headers or {})}
        if isinstance(body, dict):
            body, headers = json.dumps(body), {"content-type": "application/json", **headers}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers.get_content_type(), content

    def end(self):
        self.model.end.set()
        self.process.terminate()
        self.process.wait()
        self.model.shutdown()


def closed(schema, is_part=False):
    """Returns a schema in which an object has the fields that it names alone. A part of a larger schema is left open."""
    if isinstance(schema, list):
        return [closed(one, is_part) for one in schema]
    if not isinstance(schema, dict):
        return schema
    names_fields = isinstance(schema.get("properties"), dict)
    made = {
        key: closed(value, key in ("allOf", "anyOf", "oneOf") and (names_fields or is_part)) for key, value in schema.items()
    }
    if names_fields and "additionalProperties" not in schema and not is_part:
        made["unevaluatedProperties"] = False
    return made


class Walk:
    """Calls operations, and checks each answer against the document."""

    def __init__(self, served):
        self.served = served
        self.called = set()
        self.components = closed(served.document["components"])

    def call(self, method, path, expected, body=None, headers=None, query="", **parts):
        """Calls the operation of a path of the document, whose answer has the expected status. Returns its content."""
        from jsonschema import Draft202012Validator

        operation = self.served.document["paths"][path][method.lower()]
        status, kind, content = self.served.send(method, path.format(**parts) + query, body, headers)
        what = f"{method} {path}: {status} {kind} {content[:300]}"
        need(status in (expected if isinstance(expected, tuple) else (expected,)), f"{what}: not {expected}")
        described = operation["responses"].get(str(status), operation["responses"]["default"])
        need(status < 300 or kind == "application/problem+json", f"{what}: no problem details")
        need(kind in described["content"], f"{what}: the document has {', '.join(described['content'])}")
        if status < 300:
            self.called.add((method, path))
        if kind != "application/json" and not kind.endswith("+json"):
            return content
        value = json.loads(content)
        schema = {**closed(described["content"][kind]["schema"]), "components": self.components}
        if path != "/openapi.json":
            for error in Draft202012Validator(schema).iter_errors(value):
                raise Failed(f"{what}: {error.message} at {error.json_path}")
        return value

    def start(self, body, expected=201, headers=None):
        return self.call("POST", "/api/v1/runs", expected, body, headers)["run"]

    def wait(self, run, holds):
        """Waits until something holds of a run."""
        deadline = time.monotonic() + PATIENCE
        while not holds(seen := self.call("GET", "/api/v1/runs/{run}", 200, run=run)):
            need(time.monotonic() < deadline, f"the run stays so: {seen}")
            time.sleep(0.05)
        return seen


def document_lane(served, check):
    def valid():
        from openapi_spec_validator import OpenAPIV31SpecValidator

        errors = list(OpenAPIV31SpecValidator(served.document).iter_errors())
        need(not errors, f"{errors[:3]}")
        return f"{len(served.document['paths'])} paths"

    check("the document is of OpenAPI 3.1", valid)


def walk_lane(served, check):
    walk = Walk(served)

    def pages():
        for path in ["/", "/healthz", "/metrics", "/openapi.json"]:
            walk.call("GET", path, 200)
        for path in ["agents", "plugins", "triggers", "questions", "sessions", "runs"]:
            walk.call("GET", f"/api/v1/{path}", 200)

    def run():
        files = [{"name": "a.txt", "text": "x" * 5000}]
        body = {"task": "What is two and two?", "session": "first", "files": files, "budget": {"tokens": 100000}}
        again = {"idempotency-key": "one"}
        begun = walk.start(body, headers=again)
        need(walk.start(body, 200, again) == begun, "a repeated request began another run")
        walk.call("POST", "/api/v1/runs", 409, {"task": "Another."}, again)
        seen = walk.wait(begun, lambda seen: seen["state"] == "completed")
        need(seen["result"]["text"] == "Four.", f"{seen}")
        need(b"event: end" in walk.call("GET", "/api/v1/runs/{run}/events", 200, run=begun), "the stream has no end")
        walk.call("POST", "/api/v1/runs/{run}/cancel", 200, run=begun)
        walk.call("GET", "/api/v1/runs", 200)

    def session():
        listed = walk.call("GET", "/api/v1/sessions", 200)["sessions"]
        need(listed[0]["session"] == "first", f"{listed}")
        seen = walk.call("GET", "/api/v1/sessions/{session}", 200, session="first")
        need(seen["attachments"], f"no attachments: {seen}")
        for one in seen["attachments"]:
            found = walk.call(
                "GET", "/api/v1/sessions/{session}/attachments/{digest}", 200, session="first", digest=one["digest"]
            )
            need(len(found) == one["bytes"], f"{one}: {len(found)}")
        if "/api/v1/sessions/{session}/events" in served.document["paths"]:
            walk.call("GET", "/api/v1/sessions/{session}/events", 200, session="first")

    def question():
        begun = walk.start({"task": "Please ask me."})
        seen = walk.wait(begun, lambda seen: seen["questions"])
        asked = walk.call("GET", "/api/v1/questions", 200)["questions"]
        need([one["text"] for one in asked] == ["Which colour?"], f"{asked}")
        number = seen["questions"][0]
        path = "/api/v1/questions/{question}"
        walk.call("POST", path, 400, {"verdict": "yes"}, question=number)
        walk.call("POST", path, 200, {"text": "blue"}, question=number)
        walk.call("POST", path, 404, {"text": "blue"}, question=number)
        walk.wait(begun, lambda seen: seen["state"] == "completed")

    def cancelled():
        begun = walk.start({"task": "Please wait."})
        walk.call("POST", "/api/v1/runs/{run}/messages", 202, {"text": "Hurry."}, run=begun)
        walk.call("POST", "/api/v1/runs/{run}/cancel", 202, run=begun)
        # It may have ended meanwhile.
        walk.call("POST", "/api/v1/runs/{run}/cancel", (202, 200), run=begun)
        walk.wait(begun, lambda seen: seen["state"] == "cancelled")
        walk.call("POST", "/api/v1/runs/{run}/messages", 409, {"text": "Hurry."}, run=begun)

    def failed():
        begun = walk.start({"task": "Say it.", "budget": {"tokens": 1}})
        walk.wait(begun, lambda seen: seen["state"] in ("failed", "completed"))
        walk.call("GET", "/api/v1/runs", 200)

    def triggered():
        walk.call("POST", "/api/v1/triggers/{trigger}/fire", 202, trigger="hook")
        body = b'{"what": "so"}'
        signature = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {"content-type": "application/json", "x-hub-signature-256": signature, "x-github-delivery": "1"}
        walk.call("POST", "/hooks/{trigger}", 202, body, headers, trigger="hook")
        walk.call("POST", "/hooks/{trigger}", 403, body, {**headers, "x-hub-signature-256": "sha256=00"}, trigger="hook")
        walk.call("GET", "/api/v1/triggers", 200)

    def refused():
        runs, one = "/api/v1/runs", "/api/v1/runs/{run}"
        walk.call("GET", runs, 401, headers={"authorization": "Bearer no"})
        walk.call("GET", runs, 403, headers={"host": "elsewhere.example"})
        walk.call("GET", runs, 403, headers={"origin": "https://elsewhere.example"})
        walk.call("GET", one, 404, run="none")
        walk.call("POST", runs, 400, {"tsak": "hi"})
        walk.call("POST", runs, 415, b"task=hi", {"content-type": "application/x-www-form-urlencoded"})
        walk.call("POST", runs, 413, b"", {"content-type": "application/json", "content-length": "1000000000"})
        walk.call("POST", runs, 422, {"task": "hi", "agent": "nobody"})
        walk.call("POST", runs, 422, {"session": "none"})
        walk.call("GET", "/api/v1/sessions/{session}", 404, session="none")
        walk.call("GET", "/api/v1/sessions/{session}", 404, session="none")

    def metrics():
        from prometheus_client.parser import text_string_to_metric_families

        families = {one.name: one for one in text_string_to_metric_families(walk.call("GET", "/metrics", 200).decode())}
        ended = {sample.labels["state"]: sample.value for sample in families["shelly_runs_ended"].samples}
        need(ended["completed"] >= 2 and ended["cancelled"] == 1, f"{ended}")
        need(all(one.documentation and one.type != "unknown" for one in families.values()), f"{sorted(families)}")
        return f"{len(families)} families"

    def bounds():
        need(len(walk.call("GET", "/api/v1/sessions", 200, query="?limit=1")["sessions"]) == 1, "more than one session")
        walk.call("GET", "/api/v1/sessions", 400, query="?limit=-1")
        need(walk.call("GET", "/api/v1/questions", 200, query="?run=none")["questions"] == [], "questions of another run")

    def whole():
        operations = {
            (method.upper(), path) for path, methods in served.document["paths"].items() for method in methods
        }
        need(not operations - walk.called, f"not called: {sorted(operations - walk.called)}")
        return f"{len(operations)} operations"

    check("pages and lists", pages)
    check("a run, its repetition and its events", run)
    check("its session and its attachment", session)
    check("a question", question)
    check("a message and a cancellation", cancelled)
    check("a run without enough budget", failed)
    check("a trigger and a webhook", triggered)
    check("metrics", metrics)
    check("parameters of a query", bounds)
    check("refusals", refused)
    check("each operation was called", whole)


def schemathesis_lane(served, check):
    walk = Walk(served)
    run = walk.start({"task": "What is two and two?", "session": "second"})
    walk.wait(run, lambda seen: seen["state"] == "completed")
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "schemathesis.toml")
        config.write_text(f'[parameters]\nrun = "{run}"\nsession = "second"\ntrigger = "hook"\n')
        document = pathlib.Path(folder, "openapi.json")
        document.write_text(json.dumps(served.document))

        def made():
            program = pathlib.Path(sys.executable).parent / "schemathesis"
            command = [program, "--config-file", config, "run", document, "--url", served.url, "--seed", "1", "--no-color"]
            command += ["--header", f"Authorization: Bearer {served.token}", "--checks", ",".join(CHECKS)]
            command += ["--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--max-response-time", "10"]
            # The stream of a run that works has no end.
            command += ["--exclude-path", "/api/v1/runs/{run}/events"]
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
            need(ran.returncode == 0, ran.stdout[-4000:] + ran.stderr)
            found = re.search(r"(\d+) generated", ran.stdout)
            need(found and int(found[1]) > 100, ran.stdout[-2000:])
            return f"{found[1]} requests"

        check("requests made from the document", made)


LANES = {"document": document_lane, "walk": walk_lane, "schemathesis": schemathesis_lane}


def inside():
    """Runs this script with the Python in which the packages are installed."""
    python = KEPT / "bin" / "python"
    if not python.exists():
        venv.create(KEPT, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
    os.execv(python, [str(python), *sys.argv, "--inside"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lanes", nargs="*", metavar="LANE", help=f"which of {', '.join(LANES)}; without one all")
    parser.add_argument("--host", default=str(ROOT / "target" / "debug" / "shelly-host"), help="the program")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.lanes) - set(LANES):
        parser.error(f"no such lane: {', '.join(unknown)}")
    if not os.access(options.host, os.X_OK):
        parser.error(f"{options.host} is not there; build it, or name it with --host")
    if not options.inside:
        inside()
    counts = {"ok": 0, "FAILED": 0}

    def line(lane, what, outcome, said):
        counts[outcome] += 1
        print(f"{lane:13} {what:40} {outcome:8} {said or ''}".rstrip(), flush=True)

    for lane in options.lanes or LANES:

        def check(what, body, lane=lane):
            try:
                line(lane, what, "ok", body())
            except Exception as error:
                line(lane, what, "FAILED", f"{type(error).__name__}: {error}")

        with tempfile.TemporaryDirectory() as folder:
            try:
                served = Served(str(pathlib.Path(options.host).resolve()), pathlib.Path(folder))
            except Failed as error:
                line(lane, "the lane could be run", "FAILED", error)
                continue
            try:
                LANES[lane](served, check)
            except Exception as error:
                line(lane, "the lane could be run", "FAILED", f"{type(error).__name__}: {error}")
            finally:
                served.end()
    print("{ok} ok, {FAILED} failed, 0 skipped".format(**counts))
    sys.exit(1 if counts["FAILED"] else 0)


if __name__ == "__main__":
    main()
