#!/usr/bin/env node
// Starts the program of this platform's package, with the arguments, the terminal and the exit code of this process.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `shelly-host-${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "shelly-host.exe" : "shelly-host";

let program;
try {
  program = require.resolve(`${name}/bin/${file}`);
} catch {
  console.error(`error: the package ${name} is not installed
  cause: there is no release for this platform, or npm was told to leave out optional dependencies
  hint:  install again without --omit=optional; elsewhere build the program with cargo install`);
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });

// The terminal sends Ctrl-C to both: the program decides how it ends, and this process waits for it.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));

child.on("error", (error) => {
  console.error(`error: cannot start ${program}\n  cause: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
