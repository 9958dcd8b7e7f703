#!/usr/bin/env python3
"""What `shelly-host` writes for other programs, read by those programs. Run by hand; needs Python 3.10 and pip.

    cargo build -p shelly-host && python3 tests/interop/exports.py [--help]

Lanes:

events   Each line of `run --output events`, of `trace --format jsonl` and of the stream of `serve` fits
         docs/events.schema.json, as `jsonschema` from PyPI reads it; no line has a field that the schema does not name.
inspect  `inspect_ai` from PyPI reads what `trace --format inspect` writes, and has the messages, calls and tokens of the run.

What `trace --format otlp` writes is tried by telemetry.py. The runs are an answer, a tool call with its diff, a delegation, a
run that fails and a team; a server in this script plays the model. What is fetched is kept below target/interop/. Prints a line
for each check and the counts, and exits with 1 if one failed.
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
import time
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "target" / "interop" / "exports"
PACKAGES = ["jsonschema==4.26.0", "inspect_ai==0.3.285"]
SCHEMA = ROOT / "docs" / "events.schema.json"
# The runs by name: the agent, the task, and events that the run must have.
RUNS = {
    "an answer": ("lead", "Say four.", {"model_delta", "message_added", "run_finished"}),
    "a change of a file": ("lead", "Please write it.", {"tool_started", "tool_finished", "question_answered", "file_change"}),
    "a delegation": ("lead", "Please delegate it.", {"run_started", "tool_finished"}),
    "a failure": ("lead", "Please fail.", {"model_failed", "run_finished"}),
    "a team": ("pair", "Say four.", {"team_step", "member_replied"}),
}
# The fields that recorded lines have besides, as docs/trace.md says.
RECORDED = {
    "stream_started": ["sequence", "time"],
    "model_finished": ["usd"],
    "run_finished": ["usd", "of_children_usd"],
    "message_added": ["omitted_bytes"],
}


class Failed(Exception):
    """A check that failed, and why."""


def need(holds, why):
    if not holds:
        raise Failed(why)


class Reply(http.server.BaseHTTPRequestHandler):
    """A model that streams; the task says which tool it calls first."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"]
        text = json.dumps([message["content"] for message in asked if message["role"] == "user"])
        calls = {
            "write it": ("fs_write", {"path": "note.txt", "content": f"{time.time()}\n"}),
            "delegate it": ("delegate", {"tasks": [{"agent": "bob", "task": "Hum.", "context": "Softly."}]}),
        }
        called = next((call for words, call in calls.items() if words in text), None)
        if "Please fail" in text:
            return self.reply(400, "application/json", json.dumps({"error": {"message": "no"}}))
        if called and asked[-1]["role"] != "tool":
            call = {"name": called[0], "arguments": json.dumps(called[1])}
            deltas, finish = [{"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}]}], "tool_calls"
        else:
            deltas, finish = [{"reasoning_content": "hm"}, {"content": "Fo"}, {"content": "ur."}], "stop"
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage})
        self.reply(200, "text/event-stream", "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n")

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class Project:
    """A folder with a config, and the program in it."""

    def __init__(self, program, folder, model):
        self.program, self.folder = program, folder
        provider = {"name": "m", "kind": "openai", "model": "m", "base_url": f"http://127.0.0.1:{model.server_port}/v1"}
        config = {
            "providers": [{**provider, "context_window": 32768, "retries": 0, "price": {"input": 1, "output": 2}}],
            "agents": [
                {"name": "lead", "toolboxes": ["filesystem"], "options": {"max_delegation_depth": 1}},
                {"name": "bob", "description": "hums"},
                {"name": "eve", "description": "sings"},
            ],
            "teams": [{"name": "pair", "members": ["bob", "eve"]}],
        }
        # JSON is YAML.
        (folder / "shelly.yaml").write_text(json.dumps(config))
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}

    def command(self, *arguments):
        command = [self.program, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )

    def run(self, agent, task):
        """Runs an agent. Returns the lines of the stream."""
        ran = self.command("run", "--trust", "--approve", "all", "--agent", agent, "--output", "events", task)
        need('"run_started"' in ran.stdout, f"{ran.returncode}: {ran.stderr}")
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def served(self, agent, task):
        """Runs an agent in a server. Returns the events of its stream."""
        command = [self.program, "serve", "--trust", "--approve", "all", "--listen", ":0"]
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stderr=subprocess.PIPE, text=True)
        try:
            found = next(filter(None, (re.match(r"serving at (\S+)/#token=(\w+)", line) for line in process.stderr)), None)
            need(found, "the server does not start")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            headers = {"authorization": f"Bearer {found[2]}", "content-type": "application/json"}

            def send(path, body=None):
                request = urllib.request.Request(found[1] + path, body and json.dumps(body).encode(), headers)
                with urllib.request.urlopen(request, timeout=60) as response:
                    return response.read().decode()

            run = json.loads(send("/api/v1/runs", {"agent": agent, "task": task}))["run"]
            stream = send(f"/api/v1/runs/{run}/events").split("\n\n")
            frames = [dict(re.findall(r"^(\w+): (.*)$", frame, re.M)) for frame in stream]
            need(frames[-2].get("event") == "end", f"the stream ends with {frames[-2:]}")
            return [json.loads(frame["data"]) for frame in frames if frame.get("event") == "run"]
        finally:
            process.terminate()
            process.wait()


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


def events_lane(project, check):
    from jsonschema import Draft202012Validator

    schema = json.loads(SCHEMA.read_text())

    def fits(lines):
        for line in lines:
            for error in validator.iter_errors(line):
                raise Failed(f"{json.dumps(line)[:300]}: {error.message[:300]} at {error.json_path}")
        sequences = [line["sequence"] for line in lines if "sequence" in line]
        need(sequences == sorted(sequences), "the sequence goes back")
        return f"{len(lines)} lines"

    def printed(agent, task, wanted):
        lines = project.run(agent, task)
        need(wanted <= {line["event"] for line in lines}, f"no {wanted - {line['event'] for line in lines}}")
        need((lines[0]["event"], lines[-1]["event"]) == ("stream_started", "result"), f"{lines[0]} … {lines[-1]}")
        said = fits(lines)
        traced = project.command("trace", "last", "--format", "jsonl").stdout
        need(traced, "there is no trace")
        recorded = [json.loads(line) for line in traced.splitlines()]
        need([line["sequence"] for line in recorded] == list(range(1, len(recorded) + 1)), "the lines are not numbered")
        for line in recorded:
            for field in RECORDED.get(line["event"], []):
                line.pop(field, None)
        return f"{said}, of the session {fits(recorded)}"

    def served(agent, task, wanted):
        lines = project.served(agent, task)
        need(wanted <= {line["event"] for line in lines}, f"no {wanted - {line['event'] for line in lines}}")
        return fits(lines)

    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(closed(schema))
    for name, run in RUNS.items():
        check(f"{name}, printed and recorded", lambda run=run: printed(*run))
        check(f"{name}, served", lambda run=run: served(*run))

    def wrong():
        line = {"event": "warning", "message": 7, "sequence": 1}
        need(list(validator.iter_errors(line)), "a wrong line fits the schema")

    check("a wrong line does not fit", wrong)


def inspect_lane(project, check):
    from inspect_ai.log import read_eval_log

    def read(name, agent, task):
        project.run(agent, task)
        path = project.folder / "log.json"
        wrote = project.command("trace", "last", "--format", "inspect", "--out", str(path))
        need(wrote.returncode == 0, wrote.stderr)
        log = read_eval_log(str(path), resolve_attachments=True)
        need(log.status == ("error" if name == "a failure" else "success"), f"the status is {log.status}")
        need(len(log.samples) == 1, f"{len(log.samples)} samples")
        [sample] = log.samples
        kinds = [event.event for event in sample.events]
        need(sample.messages[0].role == "user" and task in sample.messages[0].text, f"{sample.messages}")
        if name != "a failure":
            need(sample.messages[-1].role == "assistant" and "Four." in sample.messages[-1].text, f"{sample.messages[-1]}")
            need(sum(used.total_tokens for used in log.stats.model_usage.values()) % 10 == 0, f"{log.stats.model_usage}")
            need("model" in kinds, f"{kinds}")
        if name == "a change of a file":
            need([event.function for event in sample.events if event.event == "tool"] == ["fs_write"], f"{kinds}")
        for event in sample.events:
            heard = len(event.input) if event.event == "model" else 1
            need(heard or name == "a failure", "a request without its messages")
            need(event.event != "model" or "attachment://" not in event.model_dump_json(), f"{event}")
        need(len({message.id for message in sample.messages}) == len(sample.messages), f"{sample.messages}")
        need(kinds.count("span_begin") == kinds.count("span_end"), f"{kinds}")
        return f"{len(sample.messages)} messages, {len(kinds)} events"

    for name, (agent, task, _) in RUNS.items():
        check(name, lambda name=name, agent=agent, task=task: read(name, agent, task))


LANES = {"events": events_lane, "inspect": inspect_lane}


def inside():
    """Runs this script with the Python in which the packages are installed."""
    python = KEPT / "bin" / "python"
    if not python.exists():
        venv.create(KEPT, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
    # Isolated: `openai.py` beside this file must not be taken for the package of that name.
    os.execv(python, [str(python), "-I", *sys.argv, "--inside"])


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
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Reply)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    counts = {"ok": 0, "FAILED": 0}

    def line(lane, what, outcome, said):
        counts[outcome] += 1
        print(f"{lane:8} {what:42} {outcome:8} {said or ''}".rstrip(), flush=True)

    for lane in options.lanes or LANES:

        def check(what, body, lane=lane):
            try:
                line(lane, what, "ok", body())
            except Exception as error:
                line(lane, what, "FAILED", f"{type(error).__name__}: {error}")

        with tempfile.TemporaryDirectory() as folder:
            project = Project(str(pathlib.Path(options.host).resolve()), pathlib.Path(folder), model)
            try:
                LANES[lane](project, check)
            except Exception as error:
                line(lane, "the lane could be run", "FAILED", f"{type(error).__name__}: {error}")
    print("{ok} ok, {FAILED} failed, 0 skipped".format(**counts))
    sys.exit(1 if counts["FAILED"] else 0)


if __name__ == "__main__":
    main()
