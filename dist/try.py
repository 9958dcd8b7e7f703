#!/usr/bin/env python3
"""Installs each release file for this machine into a clean environment and runs an agent with what was installed.

Usage: python3 dist/try.py [FOLDER]     FOLDER has what dist/release.py made; default: target/release-files

FOLDER may also have files for other targets and of other versions. The environment has an empty home and nothing of the
repository in it but the config of the quick start and the file that it reads. A way to install whose program (pip, npm) is
not on this machine is named and left out.
"""

import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import release
from release import NAME, ROOT

TASK = "How many words are in README.md, and which are its five longest lines?"


def run(command, folder, path):
    """Runs a command with an empty home and this search path; returns its standard output."""
    environment = {"HOME": str(folder / "home"), "PATH": path, "TERM": "dumb", "npm_config_cache": str(folder / "npm-cache")}
    # Where packages come from is set up on each machine in its own way; these need none, since each is here as a file.
    ran = subprocess.run(command, cwd=folder / "project", env=environment, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        sys.exit(f"try: `{' '.join(map(str, command))}` ended with {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
    return ran.stdout


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


def native_target(system, machine):
    """Returns the target of a machine, by the names that Python has for its system and its processor."""
    cpu = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(machine.lower())
    for target, known in release.TARGETS.items():
        if (known["os"], known["cpu"]) == (system, cpu):
            return target
    sys.exit(f"try: there are no release files for {system} on {machine}")


def archive_in(files, version, target):
    return only(files, release.archive_name(version, target))


def wheel_in(files, version, target):
    # The name of a wheel for Linux has the version of the C library that it needs.
    return only(files, f"{release.wheel_base(version)}-{release.wheel_tag(target, '*')}.whl")


def npm_packages_in(files, version, target):
    """Returns the package with the program for this target, and the one that starts it."""
    return [only(files, f"{name}-{version}.tgz") for name in [release.npm_package(target), NAME]]


def program_in(folder):
    """Returns the program in a folder of programs."""
    program = shutil.which(NAME, path=str(folder))
    if not program:
        sys.exit(f"try: there is no program {NAME} in {folder}")
    return program


def from_archive(folder, files, version, target):
    path = archive_in(files, version, target)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder / "unpacked")
    else:
        with tarfile.open(path) as archive:
            archive.extractall(folder / "unpacked", filter="data")
    return program_in(folder / "unpacked" / f"{NAME}-{version}-{target}")


def from_wheel(folder, files, version, target):
    run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder / "wheel"),
         str(wheel_in(files, version, target))], folder, os.environ["PATH"])
    return program_in(folder / "wheel/bin")


def from_npm(folder, files, version, target):
    # The starter's other packages are for other platforms, and are not here.
    run(["npm", "install", "--silent", "--offline", "--no-audit", "--no-fund", "--omit=optional", "--prefix",
         str(folder / "node"), *map(str, npm_packages_in(files, version, target))], folder, os.environ["PATH"])
    return program_in(folder / "node/node_modules/.bin")


def check(install, files, version, target):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for each in ["home", "project"]:
            (folder / each).mkdir()
        shutil.copy(ROOT / "README.md", folder / "project")
        # The files that the quick start grants are those of the folder above its own.
        (folder / "project/examples/01-quick-start").mkdir(parents=True)
        shutil.copy(ROOT / "examples/01-quick-start/shelly.yaml", folder / "project/examples/01-quick-start")
        program = install(folder, files, version, target)
        # Of the machine's own programs only what starts a script.
        path = os.pathsep.join(dict.fromkeys(os.path.dirname(found) for found in map(shutil.which, ["node", "env"]) if found))
        shown = run([program, "--version"], folder, path).splitlines()[0]
        listed = json.loads(run([program, "plugin", "list", "--output", "json"], folder, path))
        missing = release.plugins_in_repository() - {plugin["id"] for plugin in listed}
        answer = run([program, "run", "--config", "examples/01-quick-start/shelly.yaml", "--trust", TASK], folder, path)
        if shown != f"{NAME} {version}" or missing or "README.md" not in answer:
            sys.exit(f"try: the installed program is {shown}, lacks the plugins {sorted(missing)}, and answers:\n{answer}")
        print(f"{install.__name__.removeprefix('from_')}: {shown}, {len(listed)} plugins, and an answer")


def main():
    files = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else release.OUTPUT).resolve()
    version, target = release.package_version(), native_target(sys.platform, platform.machine())
    check_sums(files)
    has_pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0
    for install, is_possible in [(from_archive, True), (from_wheel, has_pip), (from_npm, shutil.which("npm"))]:
        if is_possible:
            check(install, files, version, target)
        else:
            print(f"{install.__name__.removeprefix('from_')}: not tried, since its installer is not on this machine")


if __name__ == "__main__":
    main()
