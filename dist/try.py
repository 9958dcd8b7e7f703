#!/usr/bin/env python3
"""Installs each release file of this machine into a clean environment and runs an agent with what was installed.

Usage: python3 dist/try.py [FOLDER]     FOLDER has what dist/release.py made; default: target/dist

The environment has an empty home and nothing of the repository in it but the config of the quick start and the file that
it reads. A way to install whose program (pip, npm) is not on this machine is named and left out.
"""

import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TASK = "How many words are in README.md, and which are its five longest lines?"


def run(command, folder, path):
    """Runs a command with an empty home and this search path; returns what it printed."""
    environment = {"HOME": str(folder / "home"), "PATH": path, "TERM": "dumb", "npm_config_cache": str(folder / "npm-cache")}
    # Where packages come from is set up on each machine in its own way; these need none, since each is here as a file.
    ran = subprocess.run(command, cwd=folder / "project", env=environment, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        sys.exit(f"try: `{' '.join(map(str, command))}` ended with {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
    return ran.stdout + ran.stderr


def check_sums(folder):
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ", 1)
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            sys.exit(f"try: {name} is not what SHA256SUMS says")


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"try: there are {len(found)} files {pattern} in {folder}, not one; run dist/release.py first")
    return found[0]


def from_archive(folder, files):
    triple = f"{platform.machine()}-*"
    with tarfile.open(only(files, f"shelly-host-*-{triple}.tar.gz")) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    return only(folder / "unpacked", "*/shelly-host")


def from_wheel(folder, files):
    wheel = only(files, f"shelly_host-*_{platform.machine()}.whl")
    run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder / "wheel"),
         str(wheel)], folder, os.environ["PATH"])
    return folder / "wheel/bin/shelly-host"


def from_npm(folder, files):
    cpu = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    # The starter's other packages are for other platforms, and are not here.
    packages = [only(files, f"shelly-host-linux-{cpu}-*.tgz"), only(files, "shelly-host-[0-9]*.tgz")]
    run(["npm", "install", "--silent", "--offline", "--no-audit", "--no-fund", "--omit=optional", "--prefix",
         str(folder / "node"), *map(str, packages)], folder, os.environ["PATH"])
    return folder / "node/node_modules/.bin/shelly-host"


def check(install, files):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for each in ["home", "project"]:
            (folder / each).mkdir()
        shutil.copy(ROOT / "README.md", folder / "project")
        # The files that the quick start grants are those of the folder above its own.
        (folder / "project/examples/01-quick-start").mkdir(parents=True)
        shutil.copy(ROOT / "examples/01-quick-start/shelly.yaml", folder / "project/examples/01-quick-start")
        program = str(install(folder, files))
        # Of the machine's own programs only what starts a script.
        path = os.pathsep.join(dict.fromkeys(os.path.dirname(found) for found in map(shutil.which, ["node", "env"]) if found))
        version = run([program, "--version"], folder, path).splitlines()[0]
        listed = run([program, "plugin", "list"], folder, path)
        answer = run([program, "run", "--config", "examples/01-quick-start/shelly.yaml", "--trust", TASK], folder, path)
        if "count-text" not in listed or "README.md" not in answer:
            sys.exit(f"try: the installed program does not have its plugins\n{listed}\n{answer}")
        print(f"{install.__name__.removeprefix('from_')}: {version}, {len(listed.splitlines()) - 1} plugins, and an answer")


def main():
    files = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/dist").resolve()
    check_sums(files)
    has_pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0
    for install, is_possible in [(from_archive, True), (from_wheel, has_pip), (from_npm, shutil.which("npm"))]:
        if is_possible:
            check(install, files)
        else:
            print(f"{install.__name__.removeprefix('from_')}: not tried, since its installer is not on this machine")


if __name__ == "__main__":
    main()
