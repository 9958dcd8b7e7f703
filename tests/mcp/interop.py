#!/usr/bin/env python3
"""Our client and our server of the Model Context Protocol against programs that nobody here wrote. Run by hand.

    python3 tests/mcp/interop.py [--help]

Needs what conformance.py needs. Lanes:

everything  npm's server-everything over pipes and over HTTP: text, images, structured content, progress, failures, resources,
            sampling, forms, folders.
filesystem  npm's server-filesystem, which may see what we say are its folders, and is told when they change; several edits of
            one file in one reply of a model.
memory      npm's server-memory: a tool whose result the next call finds; a dozen calls in one reply of a model.
changing    a server of the official SDK whose tools change while it runs.
inspector   npm's inspector, from its command line, against `shelly-host mcp` over pipes and over HTTP.

The client is driven by `shelly-mcp-fixture drive`; replies with several calls are those of the plugin `scripted-model` in
`shelly-host run`. Prints a line for each check and exits with 1 if one failed.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import pathlib

from common import FIXTURE, HERE, KEPT, PROGRAM, SHIPPED, Served, build, install, node, serving

PACKAGES = {
    "everything": "@modelcontextprotocol/server-everything@2026.8.31",
    "filesystem": "@modelcontextprotocol/server-filesystem@2026.8.31",
    "memory": "@modelcontextprotocol/server-memory@2026.8.31",
    "inspector": "@modelcontextprotocol/inspector@2.12.0",
}
TIME = 60  # Seconds that one answer may take.


class Failed(Exception):
    """A check that failed, and why."""


def need(holds, why):
    if not holds:
        raise Failed(why if isinstance(why, str) else json.dumps(why)[:600])


class Client:
    """Our client, step by step."""

    def __init__(self, server, **given):
        self.process = subprocess.Popen([FIXTURE, "drive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.listing = self.step({"connect": {**server, **given}})
        need("tools" in self.listing, self.listing)

    def step(self, step):
        self.process.stdin.write(json.dumps(step) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        need(line, f"the client has ended after {step}")
        return json.loads(line)

    def call(self, tool, **arguments):
        return self.step({"call": {"tool": tool, "arguments": arguments}})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=TIME)
        except subprocess.TimeoutExpired:
            self.process.kill()


def everything(server, check):
    """All that server-everything can do. `server` is where it is."""
    form = {"name": "Ada", "integer": 7, "check": True}
    with Client(server, roots=["file:///one"], reply="Four.", form=form) as client:

        def text():
            said = client.call("echo", message="27 °C, „clear“ 🌍")
            need(said["text"] == "Echo: 27 °C, „clear“ 🌍" and not said["is_error"], said)

        def image():
            kinds = [piece["type"] for piece in client.call("get-tiny-image")["content"]]
            need(kinds == ["text", "media", "text"], kinds)

        def structured():
            said = client.call("get-structured-content", location="Chicago")["content"]
            need([piece["type"] for piece in said] == ["json"], said)
            need(json.loads(said[0]["value"])["humidity"] == 82, said)

        def failure():
            said = client.call("get-structured-content", location="Paris")
            need(said["is_error"] and "location" in said["text"], said)

        def progress():
            said = client.call("trigger-long-running-operation", duration=1, steps=3)
            need([report["done"] for report in said["progress"]] == [1, 2, 3], said)

        def annotations():
            said = client.call("get-annotated-message", messageType="error", includeImage=True)["content"]
            need([piece["type"] for piece in said] == ["text", "other", "media", "other"], said)

        def resources():
            said = client.call("get-resource-reference", resourceType="Text", resourceId=1)["content"]
            need("mcp.resource" in [piece["value"].get("kind") for piece in said if piece["type"] == "other"], said)
            said = client.call("get-resource-links", count=2)["content"]
            links = [piece for piece in said if piece["type"] == "other" and piece["value"]["kind"] == "mcp.resource_link"]
            need(len(links) == 2, said)

        def sampling():
            said = client.call("trigger-sampling-request", prompt="two and two?", maxTokens=20)
            need("Four." in said["text"] and not said["is_error"], said)
            need("two and two?" in said["asked"][0]["sampling"][0] and said["asked"][0]["max_tokens"] == 20, said)

        def elicitation():
            said = client.call("trigger-elicitation-request")
            need("Ada" in said["text"] and "dark and stormy" in said["text"] and len(said["asked"]) == 1, said)

        def folders():
            need("file:///one" in client.call("get-roots-list")["text"], "they are not told")
            client.step({"roots": ["file:///two", "file:///three"]})
            for _ in range(50):
                said = client.call("get-roots-list")["text"]
                if "file:///three" in said and "file:///one" not in said:
                    return
            need(False, said)

        for one in [text, image, structured, failure, progress, annotations, resources, sampling, elicitation, folders]:
            check(one.__name__, one)
    with Client(server) as client:

        def nothing_granted():
            asking = {"trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"}
            need(not asking & set(client.listing["tools"]), client.listing)
            need("hi" in client.call("echo", message="hi")["text"], "it does not echo")

        check("nothing granted", nothing_granted)


def reply(server, folder, calls):
    """Has an agent with this server make all these calls in one reply of its model."""
    command, arguments, environment = server
    script = [{"calls": [{"tool": f"s__{tool}", "arguments": given} for tool, given in calls]}, "done"]
    config = {
        "providers": [{"name": "m", "kind": "plugin", "plugin": "scripted-model", "params": {"replies": script}}],
        "mcp_servers": [{"name": "s", "command": command, "args": arguments, "env": environment}],
        "agents": [{"name": "a", "toolboxes": [{"name": "s", "confirm": False}]}],
    }
    path = pathlib.Path(folder) / "shelly.yaml"
    path.write_text(json.dumps(config))  # which is YAML, too
    command = [PROGRAM, "run", "--config", path, "--plugins", SHIPPED, "--no-session", "--trust", "--output", "events", "go"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIME, cwd=folder, env=serving()[1])
    need(ran.returncode == 0, ran.stdout + ran.stderr)
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    ended = [event for event in events if event.get("event") == "tool_finished"]
    need(len(ended) == len(calls) and not any(event["is_error"] for event in ended), ran.stdout)


@contextlib.contextmanager
def everything_over_http(found, modules):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    script = modules / "@modelcontextprotocol/server-everything/dist/index.js"
    command = [found, script, "streamableHttp"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    server = subprocess.Popen(command, env={**os.environ, "PORT": str(port)}, **pipes)
    try:
        for line in server.stderr:
            if str(port) in line:
                break
        yield {"url": f"http://127.0.0.1:{port}/mcp"}
    finally:
        server.terminate()
        server.wait(timeout=TIME)


def filesystem(found, modules, check):
    script = modules / "@modelcontextprotocol/server-filesystem/dist/index.js"
    with tempfile.TemporaryDirectory() as folder:
        one, two = [pathlib.Path(folder).resolve() / name for name in ("one", "two")]
        for place in (one, two):
            place.mkdir()
            (place / "note.txt").write_text(f"I am in {place.name}.")
        server = {"program": [found, str(script), str(one)], "folder": folder}
        with Client(server, roots=[one.as_uri()]) as client:

            def read():
                need("I am in one." in client.call("read_text_file", path=str(one / "note.txt"))["text"], "it cannot read")
                said = client.call("read_text_file", path=str(two / "note.txt"))
                need(said["is_error"] and "I am in two" not in said["text"], said)

            def moved():
                client.step({"roots": [two.as_uri()]})
                for _ in range(50):
                    said = client.call("read_text_file", path=str(two / "note.txt"))
                    if "I am in two." in said["text"]:
                        break
                need("I am in two." in said["text"], said)
                said = client.call("read_text_file", path=str(one / "note.txt"))
                need(said["is_error"] and "I am in one" not in said["text"], said)

            def written():
                said = client.call("write_file", path=str(two / "new.txt"), content="Grüße")
                need(not said["is_error"] and (two / "new.txt").read_text() == "Grüße", said)

            for what, one_check in [("reads its folder alone", read), ("follows its folders", moved), ("writes", written)]:
                check(what, one_check)

        def edited():
            for _ in range(5):
                words = ["one", "two", "three", "four"]
                (one / "list.txt").write_text("\n".join(words))
                edit = lambda word: {"path": str(one / "list.txt"), "edits": [{"oldText": word, "newText": word.upper()}]}
                reply((found, [str(script), str(one)], {}), folder, [("edit_file", edit(word)) for word in words])
                said = (one / "list.txt").read_text().split()
                need(said == [word.upper() for word in words], f"of four edits in one reply {said} are left")

        check("edits in one reply", edited)


def memory(found, modules, check):
    script = modules / "@modelcontextprotocol/server-memory/dist/index.js"
    with tempfile.TemporaryDirectory() as folder:
        # It would keep what it is told beside its own files.
        variable = f"MEMORY_FILE_PATH={folder}/memory.json"
        server = {"program": ["env", variable, found, str(script)], "folder": folder}
        with Client(server) as client:

            def remembers():
                ada = {"name": "Ada", "entityType": "person", "observations": ["likes engines"]}
                need(not client.call("create_entities", entities=[ada])["is_error"], "it does not take it")
                said = client.call("search_nodes", query="engines")["content"]
                need(json.loads(said[-1]["value"])["entities"][0]["name"] == "Ada", said)

            check("finds what it was told", remembers)

        def keeps_all():
            for times in range(5):
                kept = pathlib.Path(folder) / f"kept-{times}.json"
                named = [{"name": f"e{at}", "entityType": "thing", "observations": [str(at)]} for at in range(12)]
                calls = [("create_entities", {"entities": [entity]}) for entity in named]
                reply((found, [str(script)], {"MEMORY_FILE_PATH": str(kept)}), folder, calls)
                lines = [json.loads(line) for line in kept.read_text().splitlines()]
                names = [line["name"] for line in lines if line["type"] == "entity"]
                need(names == [entity["name"] for entity in named], f"of twelve in one reply {names} are kept")

        check("keeps all of one reply", keeps_all)


def changing(found, modules, check):
    # It looks for its packages above itself.
    script = shutil.copy(HERE / "changing.mjs", modules.parent)
    with Client({"program": [found, str(script)]}) as client:

        def grows():
            need(client.listing["tools"] == ["grow"], client.listing)
            need(client.call("grow")["text"] == "Grown.", "it does not grow")
            need(client.step("changed")["tools"] == ["grow", "grown_1"], "the list is not what it should be")
            need(client.call("grown_1")["text"] == "I am 1.", "the new tool cannot be called")

        check("its new tool is found", grows)


def inspector(found, modules, server, check):
    """`server` is what the inspector is told of where ours is."""
    script = modules / ".bin" / "mcp-inspector"

    def ask(*arguments):
        command = [found, script, "--cli", *server, *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TIME, cwd=HERE / "project", env=serving()[1])
        need(ran.returncode == 0, ran.stdout + ran.stderr)
        return json.loads(ran.stdout)

    def listed():
        names = [tool["name"] for tool in ask("--method", "tools/list")["tools"]]
        need("test_simple_text" in names and "test_elicitation" in names, names)

    def called():
        said = ask("--method", "tools/call", "--tool-name", "test_simple_text")
        need(said["content"] == [{"type": "text", "text": "done"}], said)

    def image():
        said = ask("--method", "tools/call", "--tool-name", "test_image_content")["content"]
        need(said[0]["type"] == "image" and said[0]["mimeType"] == "image/png", said)

    def prompts():
        names = [prompt["name"] for prompt in ask("--method", "prompts/list")["prompts"]]
        need("test_simple_prompt" in names, names)
        said = ask("--method", "prompts/get", "--prompt-name", "test_simple_prompt")["messages"]
        need("plain words" in json.dumps(said), said)

    for one in [listed, called, image, prompts]:
        check(one.__name__, one)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    lanes = ["everything", "filesystem", "memory", "changing", "inspector"]
    parser.add_argument("--lane", choices=lanes, help="only this one")
    parser.add_argument("--built", action="store_true", help="the program is built: do not build it")
    options = parser.parse_args()
    found, npm = node()
    if not options.built:
        build()
    modules = install(npm, *PACKAGES.values())
    counts = {"ok": 0, "FAILED": 0}

    def checker(lane):
        def check(what, one):
            try:
                one()
                how, why = "ok", ""
            except Failed as failed:
                how, why = "FAILED", " ".join(str(failed).split())[:600]
            except Exception as error:  # a bug in here, or a program that is not there: the other checks go on
                how, why = "FAILED", f"{type(error).__name__}: {error}"
            counts[how] += 1
            print(f"{lane:18} {what:28} {how:7} {why}".rstrip(), flush=True)

        return check

    def over_http():
        with everything_over_http(found, modules) as server:
            everything(server, checker("everything, HTTP"))

    def inspector_over_http():
        with Served() as url:
            inspector(found, modules, [url, "--transport", "http"], checker("inspector, HTTP"))

    script = str(modules / "@modelcontextprotocol/server-everything/dist/index.js")
    parts = [
        ("everything", lambda: everything({"program": [found, script, "stdio"]}, checker("everything, pipes"))),
        ("everything", over_http),
        ("filesystem", lambda: filesystem(found, modules, checker("filesystem"))),
        ("memory", lambda: memory(found, modules, checker("memory"))),
        ("changing", lambda: changing(found, modules, checker("changing"))),
        ("inspector", lambda: inspector(found, modules, list(map(str, serving()[0])), checker("inspector, pipes"))),
        ("inspector", inspector_over_http),
    ]
    for lane, part in parts:
        if options.lane in (None, lane):
            # What cannot even begin is a check that failed.
            try:
                part()
            except Failed as failed:
                counts["FAILED"] += 1
                print(f"{lane:18} {'begins':28} FAILED  {failed}", flush=True)
    print(", ".join(f"{count} {how}" for how, count in counts.items()))
    sys.exit(1 if counts["FAILED"] else 0)


if __name__ == "__main__":
    main()
