#!/usr/bin/env python3
"""Telemetry against collectors that nobody here wrote. Run by hand; needs Python 3.10 and pip.

    cargo build -p shelly-host && python3 tests/interop/telemetry.py [--help]

Lanes:

rotel      `rotel` from PyPI, a collector of another author. It sends what it got to this script, which reads it with the types
           of OpenTelemetry (`opentelemetry-proto` from PyPI): traces, metrics and logs of a run, and what `trace` exports.
phoenix    `arize-phoenix` from PyPI: traces of a run.
collector  The OpenTelemetry Collector: `otelcol`, `otelcol-contrib` or `otelcol-core` in PATH, or the program that --otelcol
           names. It has no package in the registries of languages; without it the lane is skipped.

An agent delegates to another one; a server in this script plays the model. What the collector has afterwards is compared with
what docs/telemetry.md says. What is fetched is kept below target/interop/. Prints a line for each check and the counts, and
exits with 1 if one failed.
"""

import argparse
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
PHOENIX = "arize-phoenix==20.26.1"
ROTEL = ["rotel==0.0.1a15", "opentelemetry-proto==1.45.2"]
SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
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
            arguments = json.dumps({"tasks": [{"agent": "bob", "task": "hum", "context": "none"}]})
            call = {"id": "1", "type": "function", "function": {"name": "delegate", "arguments": arguments}}
            message, stop = {"tool_calls": [call]}, "tool_calls"
        # The last reply counts more than is left of the budget, which makes a log record.
        usage = {"prompt_tokens": 100 if self.server.replies < 3 else 90000, "completion_tokens": 10}
        body = json.dumps({"choices": [{"message": message, "finish_reason": stop}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def run(host, endpoint, protocol, variables, content=True, export=None):
    """Runs the agents with telemetry to this endpoint. With `export`, returns the session in that format of `trace`."""
    model, exported = Model(), None
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "providers": [
                {"name": "m", "kind": "openai", "model": "one", "base_url": f"http://127.0.0.1:{model.server_port}/v1"}
            ],
            "agents": [
                {"name": "lead", "options": {"max_delegation_depth": 1}, "budget": {"tokens": 80000}},
                {"name": "bob", "description": "hums"},
            ],
            "telemetry": {"content": content, "otlp": {"endpoint": endpoint, "protocol": protocol}},
        }
        # JSON is YAML.
        (pathlib.Path(folder) / "shelly.yaml").write_text(json.dumps(config))
        state = pathlib.Path(folder) / "state"
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "XDG_STATE_HOME": str(state), **variables}
        command = [host, "run", "--trust", "sing a tune"]
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        if export:
            command = [host, "trace", "last", "--format", export]
            exported = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=120).stdout
    model.shutdown()
    need(ran.returncode == 0 and "done" in ran.stdout, f"{ran.stdout}{ran.stderr}")
    need("telemetry" not in ran.stderr.replace("the collector of telemetry", ""), ran.stderr)
    return exported


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


class Sink(http.server.ThreadingHTTPServer):
    """Keeps the exports that it gets, each with the type that OpenTelemetry has for its path."""

    def __init__(self):
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.types = {
            "/v1/traces": ExportTraceServiceRequest,
            "/v1/metrics": ExportMetricsServiceRequest,
            "/v1/logs": ExportLogsServiceRequest,
        }
        self.got = []
        super().__init__(("127.0.0.1", 0), Kept)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def take(self, enough):
        """Waits until `enough` is true of the exports, and takes them."""
        for _ in range(100):
            if enough(self.got):
                break
            time.sleep(0.1)
        got, self.got = self.got, []
        return got


class Kept(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.got.append(self.server.types[self.path].FromString(body))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def attributes(record):
    """The attributes of a record, without the types of their values."""

    def plain(value):
        kind = value.WhichOneof("value")
        return [plain(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)

    return {pair.key: plain(pair.value) for pair in record.attributes}


def scopes_of(got, resources, scopes):
    """The scopes of exports, each with its resource."""
    for export in got:
        for resource in getattr(export, resources, []):
            for scope in getattr(resource, scopes):
                yield resource, scope


def spans_of(got):
    return [span for _, scope in scopes_of(got, "resource_spans", "scope_spans") for span in scope.spans]


def has_entry(got):
    return any(span.name == "invoke_agent lead" for span in spans_of(got))


def check_spans(spans, content, session):
    """Checks the tree and the attributes of spans as docs/telemetry.md has them."""
    said = check_tree([(span.name, span.span_id, span.parent_span_id) for span in spans])
    for span in spans:
        has = attributes(span)
        operation = span.name.split(" ")[0]
        if operation != "plugin_call":
            need(has.get("gen_ai.operation.name") == operation, f"{span.name}: {has}")
            need(bool(has.get("gen_ai.conversation.id")) == session, f"{span.name}: {has}")
        need(span.end_time_unix_nano >= span.start_time_unix_nano > 0, f"{span.name} ends before it begins")
        if operation == "chat":
            counted = (has["gen_ai.usage.input_tokens"], has["gen_ai.usage.output_tokens"])
            need(counted in [(100, 10), (90000, 10)], f"{span.name}: {has}")
            need(has["gen_ai.request.model"] == "one" and has["gen_ai.response.finish_reasons"], f"{span.name}: {has}")
            need(("gen_ai.input.messages" in has) == content, f"{span.name}: {has}")
        if operation == "execute_tool":
            need(has["gen_ai.tool.name"] == "delegate" and has["gen_ai.tool.call.id"], f"{span.name}: {has}")
            need(("gen_ai.tool.call.arguments" in has) == content, f"{span.name}: {has}")
    return said


def rotel_lane(check, options):
    try:
        sink = Sink()
        import rotel
    except ImportError as error:
        raise Missing(f"{', '.join(ROTEL)} cannot be installed with pip: {error}")
    from google.protobuf import json_format

    port, grpc = free_port(), free_port()
    command = [str(pathlib.Path(rotel.__file__).parent / "rotel-agent"), "start", "--batch-timeout", "100ms"]
    command += ["--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"]
    command += ["--exporter", "otlp", "--otlp-exporter-protocol", "http"]
    command += ["--otlp-exporter-endpoint", f"http://127.0.0.1:{sink.server_port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def live(protocol):
        run(options.host, url, protocol, {})
        got = sink.take(lambda got: has_entry(got) and any(hasattr(one, "resource_metrics") for one in got))
        said = check_spans(spans_of(got), content=True, session=True)
        for resource, scope in scopes_of(got, "resource_spans", "scope_spans"):
            need(attributes(resource.resource)["service.name"] == "shelly-host", f"{resource.resource}")
            need(SCHEMA in (scope.schema_url, resource.schema_url), f"the schema is `{scope.schema_url}`")
        metrics = {one.name for _, scope in scopes_of(got, "resource_metrics", "scope_metrics") for one in scope.metrics}
        wanted = {"gen_ai.client.token.usage", "gen_ai.client.operation.duration", "shelly.plugin.calls", "shelly.plugin.cpu"}
        need(wanted <= metrics, f"metrics: {sorted(metrics)}")
        logs = [one for _, scope in scopes_of(got, "resource_logs", "scope_logs") for one in scope.log_records]
        need(any("budget" in one.body.string_value and one.severity_text == "WARN" for one in logs), f"log records: {logs}")
        return f"{said}, {len(metrics)} metrics, {len(logs)} log records"

    def without_content():
        run(options.host, url, "http/protobuf", {"TRACEPARENT": PARENT}, content=False)
        spans = spans_of(sink.take(has_entry))
        trace, parent = PARENT.split("-")[1:3]
        need({span.trace_id.hex() for span in spans} == {trace}, "other traces than that of TRACEPARENT")
        entry = next(span for span in spans if span.name == "invoke_agent lead")
        need(entry.parent_span_id.hex() == parent, entry.parent_span_id.hex())
        entry.parent_span_id = b""
        need("sing a tune" not in str(spans), "the task is exported")
        return check_spans(spans, content=False, session=True)

    def exported():
        document = run(options.host, url, "http/protobuf", {"OTEL_SDK_DISABLED": "true"}, export="otlp")
        # Unknown fields are refused. The JSON of OTLP has ids in hexadecimal digits, which base64 takes for something else.
        json_format.Parse(document, sink.types["/v1/traces"]())
        request = urllib.request.Request(url + "/v1/traces", document, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as response:
            need(response.status == 200, response.status)
        got = sink.take(has_entry)
        need(got, "nothing came through")
        return check_spans(spans_of(got), content=True, session=True)

    try:
        wait_for("rotel", process, lambda: socket.create_connection(("127.0.0.1", port), 1).close() or True)
        check("a delegating run over http/protobuf", lambda: live("http/protobuf"))
        check("a delegating run over http/json", lambda: live("http/json"))
        check("a run without content, in a larger trace", without_content)
        check("what `trace --format otlp` prints", exported)
    finally:
        process.terminate()
        process.wait()
        sink.shutdown()


def inside():
    """Runs this script with the Python in which the packages are installed, if they can be."""
    folder = KEPT / "telemetry"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *ROTEL]
    if subprocess.run(pip).returncode == 0:
        os.execv(python, [str(python), *sys.argv, "--inside"])


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


LANES = {"rotel": rotel_lane, "phoenix": phoenix_lane, "collector": collector_lane}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lanes", nargs="*", metavar="LANE", help=f"which of {', '.join(LANES)}; without one all")
    parser.add_argument("--host", default=str(ROOT / "target" / "debug" / "shelly-host"), help="the program")
    parser.add_argument("--otelcol", help="the program of the OpenTelemetry Collector")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.lanes) - set(LANES):
        parser.error(f"no such lane: {', '.join(unknown)}")
    if not os.access(options.host, os.X_OK):
        parser.error(f"{options.host} is not there; build it, or name it with --host")
    options.host = str(pathlib.Path(options.host).resolve())
    KEPT.mkdir(parents=True, exist_ok=True)
    if "rotel" in (options.lanes or LANES) and not options.inside:
        inside()
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}

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
            line(lane, "the lane", "skipped", missing)
        except (Failed, OSError) as error:
            line(lane, "the lane could be run", "FAILED", f"{type(error).__name__}: {error}")
    print("{ok} ok, {FAILED} failed, {skipped} skipped".format(**counts))
    sys.exit(1 if counts["FAILED"] else 0)


if __name__ == "__main__":
    main()
