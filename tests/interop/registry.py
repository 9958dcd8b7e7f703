#!/usr/bin/env python3
"""Plugins in a registry that nobody here wrote, signed by the minisign of its author. Run by hand; needs Python 3.10 and Debian's
`docker-registry`, `skopeo` and `minisign`.

    apt-get install docker-registry skopeo minisign
    cargo build -p shelly-tests --bin shelly-host-under-test && python3 tests/interop/registry.py

The registry listens on this machine and asks for a login. An author publishes plugins; a person with another home and another
folder installs, updates and loads them, also after somebody has altered what the registry keeps. Where `wkg` is installed, it
pulls what was published, and its own artifact is installed. Where `wassette` and `openssl` are installed, it loads a component
without our contract from the same registry, over TLS, as it speaks nothing else. Prints a line for each check and exits with 1
if one failed.
"""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("REGISTRY_PROGRAM", ROOT / "target" / "debug" / "shelly-host-under-test"))
PLUGIN = ROOT / "target" / "plugins" / "count-text"
# A component of plain functions, built by the tests.
PLAIN = ROOT / "target" / "test-plugins" / "plain-counters"
# The password of a registry that lives as long as this script, for the user `author`.
PASSWORD = "only for this test"
# The checks with programs that not every machine can get.
OPTIONAL = ("wkg", "wassette")
CONFIG = (
    "providers: [{name: m, kind: ollama, model: m, context_window: 8192}]\n"
    "agents: [{name: a, plugins: {counter: }}]\n"
)


class Failed(Exception):
    """A check that failed, and why."""


def need(holds, why):
    if not holds:
        raise Failed(why)


def bcrypt(password):
    """The hash of a password as the registry reads it; by perl, since newer Pythons have no `crypt`."""
    script = 'print crypt($ARGV[0], q($2b$05$abcdefghijklmnopqrstuu))'
    found = subprocess.run(["perl", "-e", script, password], capture_output=True, text=True, check=True).stdout
    need(found.startswith("$2b$"), "perl's crypt knows no bcrypt here")
    return found


class Registry:
    """The registry of Docker's authors, with one user."""

    def __init__(self, folder):
        self.storage = folder / "storage"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        (folder / "users").write_text(f"author:{bcrypt(PASSWORD)}\n")
        config = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(self.storage)}},
            "http": {"addr": self.address},
            "auth": {"htpasswd": {"realm": "test", "path": str(folder / "users")}},
        }
        # JSON is YAML.
        (folder / "registry.yml").write_text(json.dumps(config))
        self.log = (folder / "registry.log").open("w")
        self.process = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "registry.yml")], stdout=self.log, stderr=self.log
        )
        self.wait()

    def wait(self):
        for _ in range(200):
            need(self.process.poll() is None, "docker-registry has ended: see registry.log")
            try:
                urllib.request.urlopen(f"http://{self.address}/v2/")
            except urllib.error.HTTPError as answer:
                need(answer.code == 401, f"the registry answers {answer.code} without a login")
                return
            except OSError:
                time.sleep(0.05)
        raise Failed("docker-registry does not listen within 10 s")

    def name(self, tag):
        return f"oci://{self.address}/me/{tag}"

    def blob(self, digest):
        return self.storage / "docker/registry/v2/blobs/sha256" / digest[:2] / digest / "data"

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class TlsRegistry:
    """A second server of the same storage, over TLS and for everybody."""

    def __init__(self, folder, registry):
        self.authority = folder / "authority.pem"
        key, request, certificate = folder / "server.key", folder / "server.csr", folder / "server.pem"
        run = {"check": True, "capture_output": True}
        openssl = lambda *arguments: subprocess.run(["openssl", *map(str, arguments)], **run)
        new_key = ["-newkey", "rsa:2048", "-nodes"]
        openssl("req", "-x509", *new_key, "-keyout", folder / "authority.key", "-out", self.authority, "-subj", "/CN=test")
        openssl("req", *new_key, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
        names = folder / "names"
        names.write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        signed_by = ["-CA", self.authority, "-CAkey", folder / "authority.key", "-CAcreateserial"]
        openssl("x509", "-req", "-in", request, *signed_by, "-extfile", names, "-out", certificate)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"localhost:{port}"
        config = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(registry.storage)}},
            "http": {"addr": f"127.0.0.1:{port}", "tls": {"certificate": str(certificate), "key": str(key)}},
        }
        (folder / "tls.yml").write_text(json.dumps(config))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(["docker-registry", "serve", str(folder / "tls.yml")], **quiet)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                time.sleep(0.05)
        raise Failed("docker-registry does not listen over TLS within 10 s")

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Person:
    """Somebody with a home and a project of their own."""

    def __init__(self, folder, name, registry=None):
        self.home, self.project = folder / name / "home", folder / name / "project"
        self.home.mkdir(parents=True)
        self.project.mkdir()
        (self.project / "shelly.yaml").write_text(CONFIG)
        if registry:
            login = base64.b64encode(f"author:{PASSWORD}".encode()).decode()
            (self.home / ".docker").mkdir()
            config = {"auths": {registry.address: {"auth": login}}}
            (self.home / ".docker/config.json").write_text(json.dumps(config))

    def environment(self):
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.home)}

    def run(self, *arguments, program=PROGRAM):
        return subprocess.run(
            [str(program), *arguments], cwd=self.project, env=self.environment(), capture_output=True, text=True, timeout=300
        )

    def fine(self, *arguments, program=PROGRAM):
        ran = self.run(*arguments, program=program)
        need(ran.returncode == 0, f"{' '.join(arguments)}: {ran.returncode}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def refused(self, *arguments, says):
        ran = self.run(*arguments)
        need(ran.returncode != 0, f"{' '.join(arguments)} is not refused: {ran.stdout}")
        for said in says:
            need(said in ran.stderr, f"{' '.join(arguments)} does not say `{said}`: {ran.stderr}")
        return next((line for line in ran.stderr.splitlines() if line.startswith("error")), ran.stderr)


def put(person, version, wants=""):
    """Writes the plugin `counter` of this version: a component that comes with the host, under another name."""
    folder = person.project / "counter"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    component = next(PLUGIN.glob("*.wasm"))
    shutil.copy(component, folder / "counter.wasm")
    manifest = f'id = "counter"\nversion = "{version}"\nkinds = ["tool"]\ncomponent = "counter.wasm"\n[wants]\n{wants}'
    (folder / "plugin.toml").write_text(manifest)
    return folder


def sign(person, folder, key):
    """Signs the files of a plugin as docs/installing-plugins.md says."""
    files = sorted(["counter.wasm", "plugin.toml"])
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in files]
    (folder / "SHA256SUMS").write_text("".join(lines))
    (folder / "SHA256SUMS.minisig").unlink(missing_ok=True)
    subprocess.run(
        ["minisign", "-S", "-s", str(key), "-m", "SHA256SUMS"], cwd=folder, check=True, capture_output=True, input=b"\n"
    )


def checks(folder, registry):
    author, person, stranger = (
        Person(folder, "author", registry), Person(folder, "person", registry), Person(folder, "stranger")
    )
    key = folder / "ada.key"
    subprocess.run(
        ["minisign", "-G", "-W", "-p", str(folder / "ada.pub"), "-s", str(key)], check=True, capture_output=True, input=b"\n"
    )
    public = (folder / "ada.pub").read_text().splitlines()[1]
    load = ("config", "check", "--load", "--trust")

    def publishes():
        plugin = put(author, "1.0.0")
        sign(author, plugin, key)
        said = author.fine("plugin", "publish", "counter", registry.name("counter:1.0.0"))
        return said.splitlines()[0]

    def without_login():
        return stranger.refused("plugin", "install", registry.name("counter:1.0.0"), says=["docker login"])

    def pulled_by_skopeo():
        target = folder / "pulled"
        person.fine(
            "copy", "--src-tls-verify=false", f"docker://{registry.address}/me/counter:1.0.0", f"dir:{target}",
            program="skopeo",
        )
        manifest = json.loads((target / "manifest.json").read_text())
        layer = manifest["layers"][0]["digest"].removeprefix("sha256:")
        component = (author.project / "counter/counter.wasm").read_bytes()
        need((target / layer).read_bytes() == component, "the layer is not the component")
        return f"{len(component):,} bytes"

    def installs():
        person.fine("plugin", "install", registry.name("counter:1.0.0"))
        person.fine(*load)
        lock = (person.project / "shelly.lock").read_text()
        need("1.0.0" in lock and registry.address in lock, lock)

    def signature_is_asked_for():
        config = CONFIG + f"plugin_signatures: {{require: [{{name: ada, key: {public}}}]}}\n"
        (person.project / "shelly.yaml").write_text(config)
        person.fine(*load)
        plugin = put(author, "1.0.1")
        author.fine("plugin", "publish", str(plugin), registry.name("counter:1.0.1"))
        said = person.refused("plugin", "update", "--yes", says=["ada"])
        person.fine(*load)
        return said

    def signature_of_another():
        other = folder / "eve.key"
        subprocess.run(
            ["minisign", "-G", "-W", "-p", str(folder / "eve.pub"), "-s", str(other)], check=True, capture_output=True,
            input=b"\n",
        )
        plugin = put(author, "1.0.2")
        sign(author, plugin, other)
        author.fine("plugin", "publish", str(plugin), registry.name("counter:1.0.2"))
        return person.refused("plugin", "update", "--yes", says=["ada"])

    def grown():
        plugin = put(author, "1.1.0", "random = true\n")
        sign(author, plugin, key)
        author.fine("plugin", "publish", str(plugin), registry.name("counter:1.1.0"))
        said = person.refused("plugin", "update", says=["can do more", "+ want random"])
        person.fine("plugin", "update", "--yes")
        return said

    def rolled_back():
        return person.refused("plugin", "install", registry.name("counter:1.0.0"), says=["older than the installed 1.1.0"])

    def altered():
        component = (author.project / "counter/counter.wasm").read_bytes()
        blob = registry.blob(hashlib.sha256(component).hexdigest())
        need(blob.exists(), f"{blob} is not there")
        blob.write_bytes(component[:-1] + bytes([component[-1] ^ 1]))
        other = Person(folder, "other", registry)
        said = other.refused("plugin", "install", registry.name("counter:1.1.0"), says=["sha256:"])
        blob.write_bytes(component)
        need(not (other.project / "shelly.lock").exists(), "a lock file was written")
        return said

    def without_network():
        registry.stop()
        person.fine(*load)
        person.fine("plugin", "vendor")
        said = person.refused("plugin", "update", says=[registry.address])
        registry.process = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "registry.yml")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        registry.log = open(os.devnull, "w")
        registry.wait()
        return said

    def wkg():
        program = shutil.which("wkg") or ROOT / "target/interop/bin/wkg"
        if not pathlib.Path(program).exists():
            return None
        config = folder / "wkg.toml"
        config.write_text("")
        target = folder / "by-wkg.wasm"
        name = f"{registry.address}/me/counter:1.1.0"
        author.fine("oci", "pull", "--insecure", registry.address, name, "-o", str(target), program=program)
        component = author.project / "counter/counter.wasm"
        need(target.read_bytes() == component.read_bytes(), "wkg pulls another component")
        pushed = f"{registry.address}/me/pushed:1.0.0"
        author.fine("oci", "push", "--insecure", registry.address, pushed, str(component), program=program)
        return person.fine("plugin", "install", registry.name("pushed:1.0.0"), "--id", "pushed").splitlines()[0]

    def wassette():
        if not shutil.which("wassette") or not shutil.which("openssl"):
            return None
        author.fine("plugin", "publish", str(PLAIN), registry.name("plain:1.0.0"))
        tls = TlsRegistry(folder, registry)
        try:
            environment = {**stranger.environment(), "SSL_CERT_FILE": str(tls.authority)}
            ran = subprocess.run(
                ["wassette", "component", "load", f"oci://{tls.address}/me/plain:1.0.0"],
                env=environment, capture_output=True, text=True, timeout=300,
            )
        finally:
            tls.stop()
        need(ran.returncode == 0, f"{ran.stdout}{ran.stderr}")
        tools = json.loads(ran.stdout)["tools"]
        need(any("sum" in tool for tool in tools), f"it offers {tools}")
        return f"{len(tools)} tools"

    return [
        ("an author publishes a signed plugin", publishes),
        ("without a login it is refused", without_login),
        ("skopeo pulls the component", pulled_by_skopeo),
        ("another person installs and loads it", installs),
        ("an unsigned version is refused", signature_is_asked_for),
        ("a version that another key signed is refused", signature_of_another),
        ("a version that can do more is refused without consent", grown),
        ("an older version is refused", rolled_back),
        ("an altered blob is refused", altered),
        ("an installed plugin needs no registry", without_network),
        ("wkg pulls it, and what wkg pushes is installed", wkg),
        ("wassette loads a component without our contract", wassette),
    ]


def main():
    missing = [name for name in ("docker-registry", "skopeo", "minisign", "perl") if not shutil.which(name)]
    if missing or not PROGRAM.exists() or not PLUGIN.exists() or not PLAIN.exists():
        sys.exit(f"missing: {', '.join(missing) or PROGRAM}: see the first lines of {sys.argv[0]}")
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        registry = Registry(folder)
        try:
            for name, check in checks(folder, registry):
                try:
                    detail = check()
                    how = "skipped" if check.__name__ in OPTIONAL and detail is None else "ok"
                except Failed as failed:
                    how, detail = "FAILED", failed
                except subprocess.CalledProcessError as error:
                    how, detail = "FAILED", f"{error}: {error.stderr}"
                counts[how] += 1
                print(f"{name:56} {how:8} {' '.join(str(detail or '').split())[:600]}".rstrip(), flush=True)
        finally:
            registry.stop()
    print(", ".join(f"{count} {how}" for how, count in counts.items()))
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
