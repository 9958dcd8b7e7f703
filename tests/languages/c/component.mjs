// Makes a component of a core module: node component.mjs CORE WORLD OUT WIT…
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The library lies where the script installed it, not beside this file.
const installed = createRequire(`${process.cwd()}/`).resolve("@bytecodealliance/jco");
const { componentEmbed, componentNew, preview1AdapterReactorPath } = await import(pathToFileURL(installed));

const [core, world, out, ...wit] = process.argv.slice(2);
const texts = await Promise.all(wit.map((path) => readFile(path, "utf8")));
const binary = await readFile(core);
const embedded = await componentEmbed({ binary, witSource: texts.join("\n"), world });
// What is compiled for WASI's first version is joined with what makes the second of it.
const isWasi = WebAssembly.Module.imports(new WebAssembly.Module(binary)).length > 0;
const adapters = isWasi ? [["wasi_snapshot_preview1", await readFile(preview1AdapterReactorPath())]] : [];
await writeFile(out, await componentNew(embedded, adapters));
