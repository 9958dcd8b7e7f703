#!/usr/bin/env python3
"""Makes the release files of one target: an archive, a Python wheel, npm packages, and their checksums.

Usage, from anywhere: python3 dist/release.py [--target TRIPLE] [--profile PROFILE] [--output FOLDER]

Each file carries the same program, with all plugins in it. `--target` names the target of the compiler, by default that
of this machine; for another one the compiler needs its standard library and a linker. `--profile dev` builds faster and
makes a large, slow program: good for trying the files, not for a release. Files already in FOLDER stay, so that calls for
several targets fill one folder; SHA256SUMS covers all of it.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Not `target/dist`: cargo has its own files there, for the profile `dist`.
OUTPUT = ROOT / "target/release-files"
NAME = "shelly-host"
SUMMARY = "Runs LLM agents whose tools, effects, middleware and models are sandboxed WebAssembly components."
# The same time in all files, so that the same program gives the same bytes: 1980-01-01, the first that a zip can have.
TIME = 315532800

# What Python and npm call the targets. A wheel for Linux names its C library and the oldest version of it that will do.
TARGETS = {
    "x86_64-unknown-linux-gnu": {"wheel": "manylinux_{glibc}_x86_64", "os": "linux", "cpu": "x64", "libc": "glibc"},
    "aarch64-unknown-linux-gnu": {"wheel": "manylinux_{glibc}_aarch64", "os": "linux", "cpu": "arm64", "libc": "glibc"},
    "x86_64-apple-darwin": {"wheel": "macosx_10_12_x86_64", "os": "darwin", "cpu": "x64"},
    "aarch64-apple-darwin": {"wheel": "macosx_11_0_arm64", "os": "darwin", "cpu": "arm64"},
    "x86_64-pc-windows-msvc": {"wheel": "win_amd64", "os": "win32", "cpu": "x64"},
}


def fail(message, hint=""):
    sys.exit(f"release: {message}" + (f"\n  hint: {hint}" if hint else ""))


def run(*command, **options):
    """Runs a program in the repository; its failure ends this one, unless the options say otherwise."""
    try:
        return subprocess.run(command, **{"cwd": ROOT, "check": True, **options})
    except FileNotFoundError:
        fail(f"there is no program {command[0]}", f"install {command[0]}")
    except subprocess.CalledProcessError as error:
        fail(f"`{' '.join(map(str, command))}` failed with {error.returncode}")


def output_of(*command, **options):
    return run(*command, stdout=subprocess.PIPE, text=True, **options).stdout


def host_target():
    return re.search(r"^host: (\S+)$", output_of("rustc", "-vV"), re.M).group(1)


def package_version():
    return re.search(r'^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)


def program_name(target):
    return NAME + (".exe" if "windows" in target else "")


def archive_name(version, target):
    return f"{NAME}-{version}-{target}" + (".zip" if "windows" in target else ".tar.gz")


def wheel_base(version):
    return f"{NAME.replace('-', '_')}-{version}"


def wheel_tag(target, glibc):
    return f"py3-none-{TARGETS[target]['wheel'].format(glibc=glibc)}"


def npm_package(target):
    return f"{NAME}-{TARGETS[target]['os']}-{TARGETS[target]['cpu']}"


def build(target, profile):
    """Builds the program with its plugins, and returns its path."""
    # With `--package` its dependencies have the features that the program needs and no more. A build to try the files with
    # takes those of the whole workspace instead: these are built already where tests ran.
    selection = ["--bin", NAME] if profile == "dev" else ["--package", NAME]
    command = ["cargo", "build", "--locked", *selection, "--profile", profile, "--message-format", "json-render-diagnostics"]
    if target != host_target():
        command += ["--target", target]
    return executable_in(output_of(*command, env={**os.environ, "SHELLY_EMBED_PLUGINS": "1"}))


def executable_in(messages):
    """Returns the path of the program that cargo's messages name: only cargo knows which folder it builds in."""
    for line in messages.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["target"]["name"] == NAME and message["executable"]:
            return pathlib.Path(message["executable"])
    fail(f"cargo did not build a program {NAME}")


def plugins_in_repository():
    return {re.search(r'^id = "([^"]+)"', path.read_text(), re.M).group(1) for path in (ROOT / "plugins").glob("*/plugin.toml")}


def check_plugins(program):
    """Ends this program if the one that was built lacks plugins. Its folder must have no other file of a build."""
    with tempfile.TemporaryDirectory() as home:
        # Without the plugins and the config of the person.
        environment = {**os.environ, "HOME": home, **dict.fromkeys(["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"], home)}
        listed = run(program, "plugin", "list", "--output", "json", cwd=home, env=environment, check=False,
                     stdout=subprocess.PIPE, text=True)
    usable = {each["id"] for each in json.loads(listed.stdout) if "error" not in each} if listed.returncode == 0 else set()
    missing = sorted(plugins_in_repository() - usable)
    if missing:
        fail(f"the program does not have the plugins {', '.join(missing)}", "see above for what cargo and the program say")


def glibc(program):
    """Returns the oldest version of the C library that has what the program asks for, as wheels write it."""
    minors = re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", program.read_bytes())
    return f"2_{max(map(int, minors), default=17)}"


def third_party(target):
    """Returns the text with the licences of everything that is part of the program."""
    metadata = json.loads(output_of("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    # What is only needed to build or to test is not in the program; plugins are, and what they use.
    in_program = [package["id"] for package in packages.values()
                  if package["name"] == NAME or (ROOT / "plugins") in pathlib.Path(package["manifest_path"]).parents]
    reached = set()
    while in_program:
        package = in_program.pop()
        if package in reached:
            continue
        reached.add(package)
        in_program += [dependency["pkg"] for dependency in nodes[package]["deps"]
                       if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
    texts, missing = {}, []
    for package in sorted((packages[package] for package in reached), key=lambda it: (it["name"], it["version"])):
        if package["source"] is None:
            continue
        name = f"{package['name']} {package['version']} ({package['license'] or 'see its text'})"
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted(path for path in folder.iterdir()
                       if re.match(r"(?i)(licen[cs]e|copying|notice|unlicense)", path.name) and path.is_file())
        if not files:
            missing.append(name)
        for path in files:
            text = path.read_text(errors="replace").strip()
            texts.setdefault(text, []).append(name)
    parts = ["# Licences of third parties", "", f"{NAME} contains these packages. Each text follows the packages that it is of.", ""]
    for text, names in sorted(texts.items(), key=lambda item: item[1]):
        parts += [*(f"- {name}" for name in dict.fromkeys(names)), "", "```", text.replace("```", "'''"), "```", ""]
    if missing:
        parts += ["These bring no text of their own; the name of the licence stands behind them:", "",
                  *(f"- {name}" for name in missing), ""]
    highlighting = output_of("cargo", "run", "--quiet", "--locked", "--example", "highlighting_licences")
    return "\n".join([*parts, "# Syntax definitions and themes", "", highlighting])


def completions_and_pages(program, target):
    """Returns the files that the program writes about itself: completions of shells, and manual pages."""
    files = {}
    if target != host_target():
        print(f"release: no completions and manual pages: this machine cannot run a program for {target}", file=sys.stderr)
        return files
    for shell in ["bash", "zsh", "fish", "powershell"]:
        files[f"completions/{NAME}.{shell}"] = output_of(program, "completions", shell).encode()
    with tempfile.TemporaryDirectory() as folder:
        run(program, "man", folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for page in sorted(pathlib.Path(folder).iterdir()):
            files[f"man/{page.name}"] = page.read_bytes()
    return files


def write_tar(path, files, top):
    """Writes a compressed tar of these files, of which programs can be executed, below the folder `top`."""
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=TIME) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, (content, is_program) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), TIME, 0o755 if is_program else 0o644
            tar.addfile(entry, io.BytesIO(content))


def write_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, is_program) in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


def write_archive(output, version, target, program, documents):
    path = output / archive_name(version, target)
    top = f"{NAME}-{version}-{target}"
    files = {program.name: (program.read_bytes(), True), **{name: (content, False) for name, content in documents.items()}}
    if "windows" in target:
        write_zip(path, {f"{top}/{name}": entry for name, entry in sorted(files.items())})
    else:
        write_tar(path, files, top)
    return path


def write_wheel(output, version, target, program, documents):
    """Writes a wheel whose only content is the program: `pip install` puts it where scripts are."""
    tag, base = wheel_tag(target, glibc(program)), wheel_base(version)
    metadata = (f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: Apache-2.0\n"
                f"License-File: LICENSE\nLicense-File: THIRD-PARTY.md\nRequires-Python: >=3.8\n"
                f"Description-Content-Type: text/markdown\n\n{documents['README.md'].decode()}")
    wheel = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = {
        f"{base}.data/scripts/{program.name}": (program.read_bytes(), True),
        f"{base}.dist-info/METADATA": (metadata.encode(), False),
        f"{base}.dist-info/WHEEL": (wheel.encode(), False),
        **{f"{base}.dist-info/licenses/{name}": (documents[name], False) for name in ["LICENSE", "THIRD-PARTY.md"]},
    }
    rows = []
    for name, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}")
    record = f"{base}.dist-info/RECORD"
    files[record] = ("\n".join([*rows, f"{record},,"]) + "\n").encode(), False
    path = output / f"{base}-{tag}.whl"
    write_zip(path, files)
    return path


def write_npm(output, version, target, program, documents):
    """Writes two packages: one with the program for this target, and one that starts the program of whoever installs it."""
    known = TARGETS[target]
    common = {"version": version, "license": "Apache-2.0"}
    name = npm_package(target)
    manifest = {"name": name, "description": f"The program of {NAME} for {known['os']} on {known['cpu']}.", **common,
                "os": [known["os"]], "cpu": [known["cpu"]], **({"libc": [known["libc"]]} if "libc" in known else {}),
                "preferUnplugged": True}
    notices = {name: (documents[name], False) for name in ["LICENSE", "THIRD-PARTY.md"]}
    of_target = output / f"{name}-{version}.tgz"
    files = {"package.json": (json.dumps(manifest, indent=2).encode(), False), f"bin/{program.name}": (program.read_bytes(), True)}
    write_tar(of_target, {**files, **notices}, "package")

    every = sorted(map(npm_package, TARGETS))
    manifest = {"name": NAME, "description": SUMMARY, **common, "bin": {NAME: "start.js"}, "engines": {"node": ">=18"},
                "optionalDependencies": {each: version for each in every}}
    starter = output / f"{NAME}-{version}.tgz"
    files = {"package.json": json.dumps(manifest, indent=2).encode(), "start.js": (ROOT / "dist/npm/start.js").read_bytes(),
             "README.md": documents["README.md"], "LICENSE": documents["LICENSE"]}
    write_tar(starter, {name: (content, name == "start.js") for name, content in files.items()}, "package")
    return [starter, of_target]


def write_checksums(output):
    files = sorted(path for path in output.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (output / "SHA256SUMS").write_text("".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", help="the target of the compiler; default: this machine")
    parser.add_argument("--profile", default="dist", help="the cargo profile; default: dist")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT, help="default: target/release-files")
    arguments = parser.parse_args()
    target = arguments.target or host_target()
    if target not in TARGETS:
        fail(f"the target {target} has no names for Python and npm", f"use one of {', '.join(TARGETS)}, or add it to TARGETS")
    version = package_version()

    built = build(target, arguments.profile)
    documents = {name: (ROOT / name).read_bytes() for name in ["README.md", "LICENSE", "CHANGELOG.md"]}
    documents["THIRD-PARTY.md"] = third_party(target).encode()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # A development build has symbols, which nobody needs in a package.
        program = pathlib.Path(folder) / built.name
        shutil.copy2(built, program)
        if arguments.profile == "dev" and shutil.which("strip"):
            run("strip", program)
        if target == host_target():
            check_plugins(program)
        written = [write_archive(arguments.output, version, target, program, {**documents, **completions_and_pages(built, target)}),
                   write_wheel(arguments.output, version, target, program, documents),
                   *write_npm(arguments.output, version, target, program, documents)]
    write_checksums(arguments.output)
    for path in written:
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")


if __name__ == "__main__":
    main()
