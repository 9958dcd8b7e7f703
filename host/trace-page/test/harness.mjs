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

/** Opens a page that notes all that must not happen: dialogs, requests, errors, refusals of the policy. `page` is shown in place of what the server sends.
 * With `slowFrames` the first frame comes so many milliseconds late: what waits for it comes after all that does not. */
export async function open(url, { width = 1440, height = 900, scheme = "light", allow = () => false, page: shown = null, slowFrames = 0 } = {}) {
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
  await page.addInitScript((late) => {
    if (late > 0) {
      const frame = window.requestAnimationFrame.bind(window);
      const began = performance.now();
      window.requestAnimationFrame = (draw) => (performance.now() - began < late ? window.setTimeout(() => frame(draw), late) : frame(draw));
      const timeout = window.setTimeout.bind(window);
      // Preact runs effects after a frame, or after a short time without one.
      window.setTimeout = (run, time, ...more) => timeout(run, performance.now() - began < late && time > 20 && time < late ? late : time, ...more);
    }
    window.__first = 0;
    const look = () => {
      if (document.querySelector(".row")) window.__first = performance.now();
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, slowFrames);
  await page.goto(url, { waitUntil: "commit" });
  return { page, seen, close: () => context.close() };
}

/** Opens the first and the last steps one after the other, with all of their texts, and the figures. Returns what was shown. */
export async function showEverything(page, most = 60) {
  let shown = "";
  for (const [first, next] of [["g", "j"], ["G", "k"]]) {
    await page.keyboard.press(first);
    for (let at = 0; at < most; at += 1) {
      await page.waitForSelector("#detail .section");
      await page.evaluate(() => { for (const section of document.querySelectorAll("#detail details")) section.open = true; });
      // A button that a click has taken away with its text is not waited for.
      for (const more of await page.locator("#detail .more").all()) await more.click({ timeout: 1_000 }).catch(() => {});
      shown += await page.evaluate(() => document.querySelector("#detail").textContent.slice(0, 60_000));
      await page.keyboard.press(next);
    }
  }
  await page.keyboard.press("2");
  await page.waitForSelector(".plot");
  shown += await page.evaluate(() => document.body.innerText.slice(0, 60_000));
  await page.keyboard.press("1");
  await page.waitForSelector(".view .row");
  return shown;
}

/** Checks that no text of a trace has become more than text. */
export async function checkHarmless(name, page, seen, shown) {
  const state = await page.evaluate(() => ({
    harm: window.__harm,
    scripts: document.querySelectorAll("script").length,
    images: document.querySelectorAll("img, svg[onload], iframe, object, embed, a[href^='javascript:']").length,
    raw: /[\u202a-\u202e\u2066-\u2069\u200b\u0000-\u0008\u001b\u{e0041}\ud800]/u.test(document.body.innerText),
    title: document.title,
    hidden: /[\u202a-\u202e\u2066-\u2069\u200b]/.test([...document.querySelectorAll("*")].flatMap((element) => [...element.attributes].map((one) => one.value)).join("") + document.title),
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    polluted: {}.path !== undefined,
  }));
  check(state.harm === undefined, `${name}: no script of a text has run`);
  check(state.scripts <= 2 && state.images === 0, `${name}: no element of a text`, JSON.stringify(state));
  check(!state.raw && !/[\u202a-\u202e\u2066-\u2069\u200b\u001b]/.test(shown), `${name}: hidden characters are escapes`);
  check(!state.hidden, `${name}: hidden characters of tooltips, labels and the title are escapes`);
  check(!state.title.includes("stolen") && !state.polluted, `${name}: no data of a text`, state.title);
  check(state.wide <= 0, `${name}: long names do not widen the page`, String(state.wide));
  check(shown.includes("<img src=x onerror=") && shown.includes("\\u202e") && shown.includes("\\x1b"), `${name}: texts are shown as text`);
  check(seen.dialogs.length === 0, `${name}: dialogs`, seen.dialogs.join());
  check(seen.requests.length === 0, `${name}: requests`, seen.requests.join());
  return state;
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
