// Opens the built page in Chromium with large and hostile traces; measures, checks, and takes pictures into target/trace-page.
// CHROMIUM names the browser if it is not /usr/bin/chromium. `node test/browser.mjs quick` leaves the large traces out,
// `only=keyboard` does one part.

import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { events, MARKER, writePage } from "./generate.mjs";
import { axeViolations, check, checkHarmless, figure, finish, open, out, showEverything } from "./harness.mjs";
import { checkServe } from "./serve.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const quick = process.argv.includes("quick");

const loaded = (page, timeout = 240_000) => page.waitForFunction(() => !document.querySelector(".loading"), undefined, { timeout });

/** Scrolls the list as a wheel does and returns the times between frames. */
const scrollFrames = (page, selector, distance) => page.evaluate(([selector, distance]) => new Promise((resolve) => {
  const list = document.querySelector(selector);
  const frames = [];
  let last = performance.now();
  let count = 0;
  const step = () => {
    const now = performance.now();
    frames.push(now - last);
    last = now;
    list.scrollTop += distance;
    count += 1;
    if (count < 90) requestAnimationFrame(step);
    else resolve(frames.slice(2).sort((a, b) => a - b));
  };
  requestAnimationFrame(step);
}), [selector, distance]);

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
const ms = (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

async function large(name, options, bounds) {
  const path = `${out}/${name}.html`;
  const written = writePage(path, options);
  const { page, seen, close } = await open(`file://${path}`);
  await page.waitForFunction(() => window.__first > 0, undefined, { timeout: 60_000 });
  const first = await page.evaluate(() => window.__first);
  await loaded(page);
  const all = await page.evaluate(() => performance.now());
  const steps = await page.evaluate(() => document.querySelector(".rows").textContent);
  const size = `${(statSync(path).size / 1048576).toFixed(1)} MiB`;
  figure(`${name}: file; events`, `${size}; ${(written.content / 1048576).toFixed(0)} MiB, ${written.lines} lines, ${steps}`);
  figure(`${name}: first view`, ms(first), `< ${bounds.first} ms`);
  check(first < bounds.first, `${name}: first view`, ms(first));
  figure(`${name}: all read`, ms(all));
  await page.waitForTimeout(300);
  for (const distance of [90, 4000]) {
    const frames = await scrollFrames(page, ".view .virtual", distance);
    figure(`${name}: scroll by ${distance} px a frame`, `median ${ms(quantile(frames, 0.5))}, 95 % ${ms(quantile(frames, 0.95))}, worst ${ms(frames.at(-1))}`, "median < 25 ms, 95 % < 70 ms");
    check(quantile(frames, 0.5) < 25 && quantile(frames, 0.95) < 70, `${name}: frames`, ms(quantile(frames, 0.95)));
  }
  const drawn = await page.locator(".view .row").count();
  figure(`${name}: rows drawn`, String(drawn), "< 80");
  check(drawn > 10 && drawn < 80, `${name}: rows drawn`, String(drawn));
  const timed = async (what, action, done) => {
    const began = Date.now();
    await action();
    await page.waitForFunction(done, undefined, { timeout: 60_000 });
    figure(`${name}: ${what}`, `${Date.now() - began} ms`);
  };
  await timed("a key moves the selection", () => page.keyboard.press("j"), () => document.querySelector("#detail h2") !== null);
  await timed("search in everything", () => page.fill("#search", "no such file"), () => /^\d[\d,]*$/.test(document.querySelector(".hits")?.textContent ?? ""));
  const hits = await page.textContent(".hits");
  check(Number(hits.replaceAll(",", "")) > 5, `${name}: search finds`, hits);
  await page.fill("#search", "");
  await page.waitForFunction(() => !document.querySelector(".hits"));
  await page.locator("h2").first().click();
  await timed("figures with plots", () => page.keyboard.press("2"), () => document.querySelectorAll(".plot canvas").length > 3);
  await timed("failures only", async () => { await page.keyboard.press("1"); await page.keyboard.press("f"); }, () => / of /.test(document.querySelector(".rows")?.textContent ?? ""));
  const memory = await page.evaluate(() => {
    window.gc?.();
    return performance.memory.usedJSHeapSize;
  });
  figure(`${name}: JavaScript heap afterwards`, `${(memory / 1048576).toFixed(0)} MiB`);
  check(seen.errors.length === 0, `${name}: errors`, seen.errors.join("; "));
  check(seen.requests.length === 0, `${name}: requests`, seen.requests.join("; "));
  await close();
}

/** A page shows its data by itself: nobody scrolls, presses a key or moves the pointer. */
async function layout() {
  for (const [name, steps] of [["tiny", 1], ["short", 40], ["long", 6_000]]) {
    const path = `${out}/layout-${name}.html`;
    writePage(path, { steps, bytes: 0 });
    const { page, seen, close } = await open(`file://${path}`, { slowFrames: 300 });
    const shown = await loaded(page, 20_000).then(() => true, () => false);
    check(shown, `layout, ${name}: the page does not stay at its loading`);
    if (!shown) { await close(); continue; }
    await page.waitForTimeout(700);
    const state = await page.evaluate(() => {
      const list = document.querySelector(".view .virtual");
      const bottom = Math.max(...[...list.querySelectorAll(".row")].map((row) => row.getBoundingClientRect().bottom));
      const all = Number(document.querySelector(".rows").textContent.replaceAll(",", "").match(/\d+/)[0]);
      const inked = [...document.querySelectorAll(".timeline canvas")].map((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.some((value, at) => value !== data[at % 4]);
      });
      return { all, rows: list.querySelectorAll(".row").length, isFull: bottom >= list.getBoundingClientRect().bottom - 1, lanes: document.querySelectorAll(".side .row, .side [role=treeitem]").length, inked, top: list.scrollTop };
    });
    check(state.all > 0 && state.rows > 0 && (state.isFull || state.rows === state.all), `layout, ${name}: the list is full without a scroll`, JSON.stringify(state));
    check(state.lanes > 0, `layout, ${name}: the tree of agents is there`, JSON.stringify(state));
    check(state.inked.length > 0 && state.inked.every(Boolean), `layout, ${name}: the timeline is drawn`, JSON.stringify(state));
    check(seen.errors.length === 0, `layout, ${name}: errors`, seen.errors.join("; "));
    figure(`layout: ${name}`, `${state.rows} of ${state.all} rows drawn`);
    await close();
  }
}

async function hostile(path) {
  const { page, seen, close } = await open(`file://${path}`);
  await loaded(page);
  const count = await page.evaluate(() => document.querySelectorAll(".view .row").length);
  check(count > 10, "hostile: rows");
  const shown = await showEverything(page);
  const state = await checkHarmless("hostile", page, seen, shown);
  check(seen.errors.length === 0, "hostile: errors", seen.errors.join("; "));
  figure("hostile text", `${seen.dialogs.length} dialogs, ${seen.requests.length} requests, ${state.images} images`, "0");
  // A long line is cut until a person asks for more.
  const cut = await page.evaluate(() => [...document.querySelectorAll("pre")].every((pre) => pre.textContent.length < 8_000_000));
  check(cut, "hostile: long lines are cut");
  // The document may connect to nothing, whatever runs in it.
  const refused = await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "answered", (error) => error.name));
  check(refused === "TypeError", "hostile: connections are refused", refused);
  await close();
}

async function keyboard(path) {
  const { page, seen, close } = await open(`file://${path}`);
  await loaded(page);
  const selected = () => page.evaluate(() => document.querySelector(".row.selected .title")?.textContent ?? null);
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
    await page.waitForTimeout(60);
  };
  await press("j", "j", "j", "k");
  const second = await selected();
  check(second !== null, "keys: j and k select");
  check(/step=/.test(page.url()), "keys: the address names the step", page.url());
  await press("Enter");
  check(await page.evaluate(() => document.activeElement?.id) === "detail", "keys: Enter goes to the step");
  await press("Escape");
  check(await selected() === null && !(await page.isVisible("#detail")), "keys: Esc closes the step");
  await press("/");
  check(await page.evaluate(() => document.activeElement?.id) === "search", "keys: / goes to the search");
  await page.keyboard.type("parsr");
  await page.waitForFunction(() => /^\d+$/.test(document.querySelector(".hits")?.textContent ?? ""));
  await press("Enter");
  check(await page.locator("mark").count() > 0, "search: what was found is marked");
  await page.locator("#search").focus();
  await press("Escape");
  check(await page.evaluate(() => document.querySelector("#search").value) === "", "keys: Esc clears the search");
  await press("f");
  check(/ of /.test(await page.textContent(".rows")), "keys: f shows failures only");
  await press("f", "?");
  check(await page.isVisible("dialog"), "keys: ? shows the help");
  await press("Escape");
  check(!(await page.isVisible("dialog")), "keys: Esc closes the help");
  await press("G");
  const last = await selected();
  await press("g");
  check(last !== await selected(), "keys: g and G go to the ends");
  const before = await page.textContent(".rows");
  await press("x");
  check(before !== await page.textContent(".rows"), "keys: x folds");
  await press("x", "t", "+", "+", "]", "0", "2");
  check(await page.isVisible(".plot"), "keys: 2 shows the figures");
  await press("1", "e");
  check(await page.locator(".row.selected.status-fail").count() === 1, "keys: e goes to a failure");
  // Everything that takes a click can be reached by Tab.
  const reached = new Set();
  await page.evaluate(() => document.activeElement?.blur());
  for (let at = 0; at < 60; at += 1) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent?.slice(0, 30)));
  }
  for (const name of ["Search in everything", "Steps", "Agents and their delegated runs", "Zoom in", "Help", "Close the step"]) {
    check(reached.has(name), `keys: Tab reaches ${name}`, [...reached].join(", "));
  }
  check(seen.errors.length === 0, "keys: errors", seen.errors.join("; "));
  await close();
  // A link opens the step that it names.
  const links = await page.evaluate(() => 0).catch(() => 0);
  check(links === 0, "closed");
  const deep = await open(`file://${path}#run=run-7f3a9c&step=26`);
  await loaded(deep.page);
  await deep.page.waitForSelector("#detail .section");
  check((await deep.page.textContent("#detail .facts-line")).includes("event 26"), "links: the step is open");
  check(await deep.page.locator(".row.selected").count() === 1, "links: its row is in view");
  await deep.page.evaluate(() => { location.hash = "#run=run-7f3a9c.2"; });
  await deep.page.waitForTimeout(200);
  check((await deep.page.textContent("#detail h2")).includes("reviewer"), "links: a run is found", await deep.page.textContent("#detail h2"));
  await deep.close();
  figure("keyboard and links", "all as in the help");
}

async function pictures(path) {
  const sizes = [["wide", 1440, 900], ["middle", 1024, 768], ["narrow", 360, 740]];
  for (const scheme of ["light", "dark"]) {
    for (const [name, width, height] of sizes) {
      const { page, seen, close } = await open(`file://${path}`, { width, height, scheme });
      await loaded(page);
      await page.waitForTimeout(200);
      const shot = (what) => page.screenshot({ path: `${out}/${name}-${scheme}-${what}.png` });
      await shot("steps");
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      check(wide <= 0, `pictures: ${name} does not scroll sideways`, String(wide));
      figure(`axe: ${name}, ${scheme}, steps`, await axeViolations(page, `${name} ${scheme} steps`), "0 serious");
      await page.evaluate(() => { location.hash = "#step=26"; });
      await page.waitForSelector("#detail .section");
      await page.waitForTimeout(150);
      await shot("step");
      figure(`axe: ${name}, ${scheme}, a step`, await axeViolations(page, `${name} ${scheme} step`), "0 serious");
      await page.keyboard.press("Escape");
      await page.keyboard.press("2");
      await page.waitForTimeout(250);
      await shot("figures");
      figure(`axe: ${name}, ${scheme}, figures`, await axeViolations(page, `${name} ${scheme} figures`), "0 serious");
      await page.keyboard.press("?");
      await page.waitForTimeout(100);
      await shot("help");
      await axeViolations(page, `${name} ${scheme} help`);
      check(seen.errors.length === 0, `pictures: ${name} ${scheme} errors`, seen.errors.join("; "));
      await close();
    }
  }
  const { page, close } = await open(`file://${path}#step=26`);
  await loaded(page);
  await page.pdf({ path: `${out}/printed.pdf`, format: "A4" });
  figure("printed", `${(statSync(`${out}/printed.pdf`).size / 1024).toFixed(0)} KiB`);
  await close();
}

/** A server that sends the events of a run piece by piece, and drops the connection once. */
async function live() {
  const page = readFileSync(here("../dist/trace.html"), "utf8");
  const lines = [...events({ steps: 400 })];
  const asked = [];
  const server = createServer((request, response) => {
    if (request.url === "/") {
      response.setHeader("content-type", "text/html");
      response.end(page.replace(MARKER, () => '<script type="application/json" id="shelly-trace">{"version":1,"live":"/events"}</script>'));
      return;
    }
    asked.push(request.headers["last-event-id"] ?? "");
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.write("retry: 50\n\n");
    let from = Number(request.headers["last-event-id"] ?? 0);
    const isFirst = asked.length === 1;
    // A reader that comes back gets the beginning of the stream, and one event twice.
    if (!isFirst) response.write(`data: ${JSON.stringify(lines[0])}\n\nid: ${from}\ndata: ${JSON.stringify(lines[from - 1])}\n\n`);
    const timer = setInterval(() => {
      for (let at = 0; at < 20 && from < lines.length; at += 1, from += 1) {
        response.write(`id: ${lines[from].sequence}\ndata: ${JSON.stringify(lines[from])}\n\n`);
      }
      if (isFirst && from > lines.length / 2) {
        clearInterval(timer);
        response.destroy();
      } else if (from >= lines.length) {
        clearInterval(timer);
        response.end("event: end\ndata: {\"state\":\"completed\"}\n\n");
      }
    }, 20);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}/`;
  const opened = await open(url, { allow: (to) => to === `${url}events` });
  await opened.page.waitForSelector(".row");
  check((await opened.page.textContent(".feed")) !== "", "live: its state is shown");
  await opened.page.waitForFunction(() => document.querySelector(".top .pill")?.textContent === "finished", undefined, { timeout: 20_000 });
  const expected = writePage(`${out}/live.html`, { steps: 400 });
  const file = await open(`file://${out}/live.html`);
  await loaded(file.page);
  const steps = await opened.page.textContent(".rows");
  const inFile = await file.page.textContent(".rows");
  check(steps === inFile, "live: the same steps as in a file", `${steps}, ${inFile}`);
  check(asked.length === 2 && Number(asked[1]) > 0, "live: it goes on where it was", asked.join());
  check((await opened.page.locator(".notices").count()) === 0, "live: nothing is missing");
  await checkHarmless("live", opened.page, opened.seen, await showEverything(opened.page));
  check(opened.seen.errors.filter((error) => !error.includes("net::ERR")).length === 0, "live: errors", opened.seen.errors.join("; "));
  figure("live", `${expected.lines} lines, connected ${asked.length} times, ${steps}`);
  await file.close();
  await opened.close();
  server.closeAllConnections();
  server.close();
}

const small = `${out}/small.html`;
writePage(small, { steps: 300, bytes: 1024 * 1024 });
const only = process.argv.find((name) => name.startsWith("only="))?.slice(5);
const parts = {
  layout,
  hostile: () => hostile(small),
  keyboard: () => keyboard(small),
  live,
  serve: () => checkServe({ open, check, checkHarmless, figure, axeViolations, out, showEverything }),
  pictures: () => pictures(small),
};
for (const [name, part] of Object.entries(parts)) if (!only || only === name) await part();
if (!quick && !only) {
  await large("5,000 steps".replace(/\W/g, ""), { steps: 5_000, bytes: 20 * 1048576 }, { first: 1_000 });
  await large("50,000 steps".replace(/\W/g, ""), { steps: 50_000, bytes: 60 * 1048576 }, { first: 1_000 });
  await large("200 MB".replace(/\W/g, ""), { steps: 20_000, bytes: 195 * 1048576 }, { first: 1_000 });
}
await finish();
