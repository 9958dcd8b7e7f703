#!/usr/bin/env python3
"""Telemetry against collectors that nobody here wrote. Run by hand; needs Python 3.10 and pip.

    cargo build -p shelly-host && python3 tests/interop/telemetry.py [--help]

Lanes:

collector  The OpenTelemetry Collector: `otelcol`, `otelcol-contrib` or `otelcol-core` in PATH, or the program that --otelcol
           names. It has no package in the registries of languages; without it the lane says so and is not counted.
phoenix    `arize-phoenix` from PyPI, installed below target/interop/.

An agent delegates to another one; a server in this script plays the model. What the collector has afterwards is compared with
what docs/telemetry.md says. Prints a line for each check and exits with 1 if one failed.
"""

import argparse
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
PHOENIX = "arize-phoenix"
COLLECTORS = ["otelcol", "otelcol-contrib", "otelcol-core"]
# The spans of one run, each with the name of its parent.
TREE = {
    "invoke_agent lead": None,
    "execute_tool delegate": "invoke_agent lead",
    "invoke_agent bob": "execute_tool delegate",
}


class Failed(Exception):
    """A check that failed, and why."""


class Missing(Exception):
    """What a lane needs and is not there."""


def need(holds, why):
    if not holds:
        raise Failed(why)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Model(http.server.ThreadingHTTPServer):
    """A model: its first reply delegates a task, every later one is the answer."""

    def __init__(self):
        self.replies = 0
        super().__init__(("127.0.0.1", 0), Reply)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Reply(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.replies += 1
        message, stop = {"content": "done"}, "stop"
        if self.server.replies == 1:
            arguments = json.dumps({"tasks": [{"agent": "bob", "task": "hum"}]})
            call = {"id": "1", "type": "function", "function": {"name": "delegate", "arguments": arguments}}
            message, stop = {"tool_calls": [call]}, "tool_calls"
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        body = json.dumps({"choices": [{"message": message, "finish_reason": stop}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def run(host, endpoint, protocol, variables):
    """Runs the agents with telemetry to this endpoint."""
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "providers": [
                {"name": "m", "kind": "openai", "model": "one", "base_url": f"http://127.0.0.1:{model.server_port}/v1"}
            ],
            "agents": [{"name": "lead", "options": {"max_delegation_depth": 1}}, {"name": "bob", "description": "hums"}],
            "telemetry": {"content": True, "otlp": {"endpoint": endpoint, "protocol": protocol}},
        }
        # JSON is YAML.
        (pathlib.Path(folder) / "shelly.yaml").write_text(json.dumps(config))
        state = pathlib.Path(folder) / "state"
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "XDG_STATE_HOME": str(state), **variables}
        command = [host, "run", "--trust", "--no-session", "sing a tune"]
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    model.shutdown()
    need(ran.returncode == 0 and "done" in ran.stdout, f"{ran.stdout}{ran.stderr}")
    need("telemetry" not in ran.stderr.replace("the collector of telemetry", ""), ran.stderr)


def check_tree(spans):
    """Checks spans, each a triple of name, id and id of its parent."""
    by_id = {span: name for name, span, _ in spans}
    found = {name: by_id.get(parent) for name, _, parent in spans}
    for name, parent in TREE.items():
        need(name in found, f"no span `{name}` in {sorted(found)}")
        need(found[name] == parent, f"`{name}` is below `{found[name]}`, not below `{parent}`")
    chats = [name for name, _, _ in spans if name == "chat one"]
    need(len(chats) == 3, f"{len(chats)} requests to the model")
    return f"{len(spans)} spans"


def wait_for(what, process, look):
    """Waits until `look` returns something, while the process lives."""
    for _ in range(600):
        need(process.poll() is None, f"{what} has ended")
        try:
            if found := look():
                return found
        except (OSError, ValueError):
            pass
        time.sleep(0.2)
    raise Failed(f"{what} has not answered within two minutes")


def collector_lane(check, options):
    program = options.otelcol or next(filter(None, map(shutil.which, COLLECTORS)), None)
    if not program:
        raise Missing(f"none of {', '.join(COLLECTORS)} is in PATH; name one with --otelcol")
    with tempfile.TemporaryDirectory() as folder:
        port, out = free_port(), pathlib.Path(folder) / "out.json"
        signals = ["traces", "metrics", "logs"]
        config = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
            "exporters": {"file": {"path": str(out), "flush_interval": "100ms"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {signal: {"receivers": ["otlp"], "exporters": ["file"]} for signal in signals},
            },
        }
        path = pathlib.Path(folder) / "config.yaml"
        path.write_text(json.dumps(config))
        process = subprocess.Popen([program, "--config", str(path)], stderr=subprocess.DEVNULL)
        try:
            wait_for("the collector", process, lambda: socket.create_connection(("127.0.0.1", port), 1).close() or True)
            for protocol in ["http/protobuf", "http/json"]:

                def checked(protocol=protocol):
                    out.write_text("")
                    run(options.host, f"http://127.0.0.1:{port}", protocol, {})
                    time.sleep(1)
                    lines = [json.loads(line) for line in out.read_text().splitlines() if line.strip("\0 ")]
                    scopes = [scope for line in lines for one in line.get("resourceSpans", []) for scope in one["scopeSpans"]]
                    spans = [span for scope in scopes for span in scope["spans"]]
                    metrics = {
                        metric["name"]
                        for line in lines
                        for one in line.get("resourceMetrics", [])
                        for scope in one["scopeMetrics"]
                        for metric in scope["metrics"]
                    }
                    need("gen_ai.client.token.usage" in metrics, f"metrics: {sorted(metrics)}")
                    return check_tree([(s["name"], s["spanId"], s.get("parentSpanId")) for s in spans])

                check(f"a delegating run over {protocol}", checked)
        finally:
            process.terminate()
            process.wait()


def phoenix_lane(check, options):
    folder = KEPT / "phoenix"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PHOENIX]
    if subprocess.run(pip).returncode != 0:
        raise Missing(f"{PHOENIX} cannot be installed with pip")
    port, grpc = free_port(), free_port()
    with tempfile.TemporaryDirectory() as work:
        environment = {
            **os.environ,
            "PHOENIX_WORKING_DIR": work,
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(grpc),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }
        base = f"http://127.0.0.1:{port}"
        log = open(KEPT / "phoenix.log", "w")
        process = subprocess.Popen(
            [str(python), "-m", "phoenix.server.main", "serve"], env=environment, stdout=log, stderr=log
        )

        def get(path):
            with urllib.request.urlopen(base + path, timeout=10) as response:
                return json.load(response)

        def checked():
            # It takes traces alone, and Protocol Buffers alone.
            run(options.host, base, "http/protobuf", {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"})
            # It writes them down in the background.
            found = wait_for("phoenix", process, lambda: get("/v1/projects/default/spans?limit=100")["data"])
            time.sleep(2)
            found = get("/v1/projects/default/spans?limit=100")["data"]
            return check_tree([(s["name"], s["context"]["span_id"], s.get("parent_id")) for s in found])

        try:
            wait_for("phoenix", process, lambda: get("/v1/projects"))
            check("a delegating run over http/protobuf", checked)
        finally:
            process.terminate()
            process.wait()
            log.close()


LANES = {"collector": collector_lane, "phoenix": phoenix_lane}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lanes", nargs="*", metavar="LANE", help=f"which of {', '.join(LANES)}; without one all")
    parser.add_argument("--host", default=str(ROOT / "target" / "debug" / "shelly-host"), help="the program")
    parser.add_argument("--otelcol", help="the program of the OpenTelemetry Collector")
    options = parser.parse_args()
    if unknown := set(options.lanes) - set(LANES):
        parser.error(f"no such lane: {', '.join(unknown)}")
    if not os.access(options.host, os.X_OK):
        parser.error(f"{options.host} is not there; build it, or name it with --host")
    options.host = str(pathlib.Path(options.host).resolve())
    KEPT.mkdir(parents=True, exist_ok=True)
    counts = {"ok": 0, "FAILED": 0, "not run": 0}

    def line(lane, what, outcome, said):
        counts[outcome] += 1
        print(f"{lane:10} {what:40} {outcome:8} {said}", flush=True)

    for lane in options.lanes or LANES:

        def check(what, body, lane=lane):
            try:
                line(lane, what, "ok", body())
            except (Failed, OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
                line(lane, what, "FAILED", f"{type(error).__name__}: {error}")

        try:
            LANES[lane](check, options)
        except Missing as missing:
            line(lane, "the lane", "not run", missing)
        except (Failed, OSError) as error:
            line(lane, "the lane could be run", "FAILED", f"{type(error).__name__}: {error}")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    sys.exit(1 if counts["FAILED"] else 0)


if __name__ == "__main__":
    main()
