// Builds dist/trace.html, checks that it is what the source makes (--check), or builds the tests (--tests).

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const target = here("dist/trace.html");

// The same for each build: no dates, no paths, no map.
const common = {
  absWorkingDir: here("."),
  bundle: true,
  write: false,
  format: "iife",
  target: ["chrome117", "firefox120", "safari17"],
  minify: true,
  legalComments: "none",
  charset: "ascii",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
};

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

async function page() {
  const script = await build({ ...common, entryPoints: ["src/main.tsx"] });
  const style = await build({ ...common, entryPoints: ["src/all.css"] });
  const code = script.outputFiles[0].text.trim();
  const css = style.outputFiles[0].text.trim();
  if (/<\/script|<!--/i.test(code) || /<\/style/i.test(css)) throw new Error("the program would end its element");
  const policy = [
    "default-src 'none'", `script-src ${hash(code)}`, `style-src ${hash(css)}`, "img-src data:", "connect-src 'self'",
    "base-uri 'none'", "form-action 'none'",
  ].join("; ");
  const parts = { policy, style: css, script: code };
  return readFileSync(here("src/template.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
}

async function tests() {
  rmSync(here("build/tests"), { recursive: true, force: true });
  const names = readdirSync(here("test")).filter((name) => name.endsWith(".test.ts"));
  await build({
    ...common, minify: false, write: true, format: "esm", platform: "node", target: "node20", outdir: here("build/tests"), outExtension: { ".js": ".mjs" },
    entryPoints: names.map((name) => `test/${name}`),
  });
}

if (process.argv.includes("--tests")) {
  await tests();
} else {
  const built = await page();
  if (process.argv.includes("--check")) {
    let there = "";
    try {
      there = readFileSync(target, "utf8");
    } catch {
      // It is not there.
    }
    if (there !== built) {
      console.error("dist/trace.html is not what src makes; run `npm run build` and commit it");
      process.exit(1);
    }
    console.log(`dist/trace.html is what src makes: ${Buffer.byteLength(built)} bytes`);
  } else {
    mkdirSync(here("dist"), { recursive: true });
    writeFileSync(target, built);
    console.log(`dist/trace.html: ${Buffer.byteLength(built)} bytes`);
  }
}
