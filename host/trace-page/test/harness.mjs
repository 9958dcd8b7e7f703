// What the tests in a browser share: Chromium, pages that note what must not happen, checks, and figures.
// CHROMIUM names the browser if it is not /usr/bin/chromium, TRACE_PAGE_OUT the folder of the pictures if it is not target/trace-page.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const out = process.env.TRACE_PAGE_OUT ?? fileURLToPath(new URL("../../../target/trace-page", import.meta.url));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
mkdirSync(out, { recursive: true });

const rows = [];
let failed = 0;
export const figure = (name, value, bound = "") => rows.push([name, value, bound]);

/** Notes a condition; the run goes on to show all that fail. */
export function check(is, name, detail = "") {
  if (!is) {
    failed += 1;
    console.error(`FAILED: ${name}${detail ? `: ${detail}` : ""}`);
  }
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--enable-precise-memory-info", "--js-flags=--expose-gc"],
});

/** Opens a page that notes all that must not happen: dialogs, requests, errors, refusals of the policy. `page` is shown in place of what the server sends. */
export async function open(url, { width = 1440, height = 900, scheme = "light", allow = () => false, page: shown = null } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
  if (shown) await context.route((to) => to.pathname === "/", (route) => route.fulfill(shown));
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const seen = { dialogs: [], requests: [], errors: [] };
  page.on("dialog", (dialog) => {
    seen.dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const to = request.url();
    if (to.split("#")[0] !== url.split("#")[0] && !to.startsWith("data:") && !allow(to)) seen.requests.push(to);
  });
  page.on("pageerror", (error) => seen.errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") seen.errors.push(message.text());
  });
  await page.addInitScript(() => {
    window.__first = 0;
    const look = () => {
      if (document.querySelector(".row")) window.__first = performance.now();
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await page.goto(url, { waitUntil: "commit" });
  return { page, seen, close: () => context.close() };
}

export async function axeViolations(page, name) {
  // The policy forbids the page to run it; this session of the browser may.
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter((violation) => violation.impact === "serious" || violation.impact === "critical");
  for (const violation of serious) {
    check(false, `axe, ${name}`, `${violation.id}: ${violation.help}; ${violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  }
  const minor = found.violations.filter((violation) => !serious.includes(violation)).map((violation) => violation.id);
  return `${serious.length} serious, ${minor.length} minor${minor.length > 0 ? `: ${minor.join(", ")}` : ""}`;
}

/** Says the figures and ends the process: with 1 if a check has failed. */
export async function finish() {
  await browser.close();
  const width = [0, 1].map((at) => Math.max(0, ...rows.map((row) => row[at].length)));
  for (const [name, value, bound] of rows) console.log(`${name.padEnd(width[0])}  ${value.padEnd(width[1])}  ${bound}`.trimEnd());
  console.log(failed === 0 ? "all checks passed" : `${failed} checks failed`);
  process.exit(failed === 0 ? 0 : 1);
}
