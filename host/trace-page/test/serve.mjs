// A server with the API of `shelly-host serve`, and what a person does with its page.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { events, HOSTILE } from "./generate.mjs";

export const PAGE = readFileSync(fileURLToPath(new URL("../dist/trace.html", import.meta.url)), "utf8");
const TOKEN = "ab".repeat(32);

const DIFF = `--- a/src/parser.rs
+++ b/src/parser.rs
@@ -1,3 +1,3 @@
 fn parse(line: &str) {
-    old(line)
+    new(line)
 }
`;

/** The header with which the host serves the page: hashes of its own elements. */
export function policy() {
  const digests = (element) => [...PAGE.matchAll(new RegExp(`<${element}>([^]*?)</${element}>`, "g"))]
    .map(([, content]) => `'sha256-${createHash("sha256").update(content).digest("base64")}'`).join(" ");
  return `default-src 'none'; script-src ${digests("script")}; style-src ${digests("style")}; img-src data:; font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

function fakeServer() {
  const now = new Date().toISOString();
  const usage = { completions: 3, input_tokens: 3000, output_tokens: 500, cache_read_tokens: 9000, cache_write_tokens: 0 };
  const state = {
    asked: [], bodies: [], unauthorized: 0, broken: 0,
    runs: [
      { run: "run-1", state: "completed", agent: "lead", model: "m", session: "s-1", task: "Count the lines of all files", started: now, finished: now, questions: [], last_event: 9, usage, cost_usd: 0.0123, agents: [], result: { text: "There are 42.", ending: "answered", iterations: 2 }, warnings: [] },
      { run: "run-0", state: "failed", agent: "lead", task: HOSTILE[0] + HOSTILE[3], started: now, finished: now, usage, cost_usd: null, error: { title: "no such model", detail: HOSTILE[1], code: "config", status: 0 }, warnings: [] },
    ],
    sessions: [
      { session: "s-1", title: "Count the lines of all files", agent: "lead", model: "m", state: "answered", created: now, modified: now, own: true },
      { session: "s-0", title: HOSTILE[1], agent: HOSTILE[2], state: "interrupted", created: now, modified: now, own: true },
    ],
    questions: [
      { id: 1, run: "run-2", agent: "writer", kind: "permission", asked: now, expires: new Date(Date.now() + 3_000_000).toISOString(), action: "change files, as `edit_file` of `filesystem` proposes", subject: { kind: "change" }, detail: DIFF },
      { id: 2, run: "run-2", agent: HOSTILE[1], kind: "open", asked: now, expires: now, header: "Which format?", text: `Pick one.\n${HOSTILE.join("\n")}`, options: [{ label: "JSON", description: "for programs" }, { label: HOSTILE[0], description: HOSTILE[3] }], multi_select: true, max_selections: 2 },
    ],
  };
  const lines = [...events({ steps: 120 })].slice(1);
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://x");
    if (request.method === "GET" && pathname === "/") {
      response.writeHead(200, { "content-type": "text/html; charset=utf-8", "content-security-policy": policy(), "referrer-policy": "no-referrer" });
      response.end(PAGE);
      return;
    }
    state.asked.push(request.url);
    const json = (status, value) => {
      response.writeHead(status, { "content-type": status < 400 ? "application/json" : "application/problem+json", "cache-control": "no-store" });
      response.end(JSON.stringify(value));
    };
    if (request.headers.authorization !== `Bearer ${TOKEN}`) {
      state.unauthorized += 1;
      return json(401, { title: "a token is needed", status: 401, code: "token" });
    }
    let body = "";
    for await (const part of request) body += part;
    const parsed = body ? JSON.parse(body) : {};
    const at = `${request.method} ${pathname.replace("/api/v1", "")}`;
    if (request.method === "POST") state.bodies.push([at, parsed, request.headers["idempotency-key"] ?? ""]);
    if (at === "GET /runs") return json(200, { runs: state.runs });
    if (at === "GET /sessions") return json(200, { sessions: state.sessions });
    if (at === "GET /questions") return json(200, { questions: state.questions });
    if (at === "GET /agents") return json(200, { agents: [{ name: "lead", kind: "agent", entry: true }, { name: "review-team", kind: "team", entry: true }, { name: "inner", entry: false }] });
    if (at === "POST /runs") {
      if (parsed.task === "refuse") return json(422, { title: "the run cannot start", status: 422, code: "unprocessable", detail: "no such agent", mend: "name one of: lead" });
      state.runs.unshift({ run: "run-2", state: "running", agent: parsed.agent ?? "lead", session: "s-2", task: parsed.task, started: now, usage, cost_usd: 0.02, warnings: [] });
      return json(201, { run: "run-2", session: "s-2" });
    }
    const question = /^POST \/questions\/(\d+)$/.exec(at);
    if (question) {
      state.questions = state.questions.filter((one) => one.id !== Number(question[1]));
      return json(200, {});
    }
    const run = /^(GET|POST) \/runs\/([^/]+)(\/\w+)?$/.exec(at);
    if (run) {
      const found = state.runs.find((one) => one.run === run[2]);
      if (!found) return json(404, { title: "no such run", status: 404 });
      if (run[3] === "/cancel") {
        found.state = "cancelled";
        return json(202, found);
      }
      if (run[3] === "/messages") return json(202, {});
      if (run[3] !== "/events") return json(200, found);
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("retry: 1000\n\n: keep-alive\n\n");
      const after = Number(request.headers["last-event-id"] ?? 0);
      for (const line of lines) if (line.sequence > after) response.write(`id: ${line.sequence}\nevent: run\ndata: ${JSON.stringify(line)}\n\n`);
      const timer = setInterval(() => {
        if (found.state === "running") return response.write(": keep-alive\n\n");
        clearInterval(timer);
        response.end(`event: end\ndata: ${JSON.stringify({ state: found.state })}\n\n`);
      }, 50);
      request.on("close", () => clearInterval(timer));
      return;
    }
    if (at === "GET /sessions/s-1/events") {
      const after = Number(new URL(request.url, "http://x").searchParams.get("after") ?? 0);
      const rest = lines.map((line, index) => JSON.stringify({ session: "s-1", ...line, sequence: index + 1 })).slice(after);
      response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
      if (state.broken > 0) return response.end(rest.join("\n") + "\n");
      // The connection breaks once, in the middle of a line.
      state.broken = Math.floor(rest.length / 2);
      response.write(rest.slice(0, state.broken).join("\n") + "\n" + rest[state.broken].slice(0, 20));
      return setTimeout(() => request.socket.destroy(), 200);
    }
    if (at === "GET /sessions/s-1") return json(200, { ...state.sessions[0], messages: [{ role: "user", text: "Count" }, { role: "assistant", agent: "lead", text: HOSTILE.join(" ") }] });
    json(404, { title: "there is no such thing", status: 404, code: "not_found" });
  });
  return { server, state };
}

export async function checkServe({ open, check, checkHarmless, figure, axeViolations, out, showEverything }) {
  const { server, state } = fakeServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}/`;
  const allow = (to) => to.startsWith(url);
  // Without a token it asks for one.
  const locked = await open(url, { allow });
  await locked.page.fill("input[name=token]", TOKEN);
  await locked.page.click("button[type=submit]");
  await locked.page.waitForSelector(".entry");
  await locked.close();

  for (const scheme of ["light", "dark"]) {
    for (const [name, width, height] of [["wide", 1440, 900], ["narrow", 360, 740]]) {
      const { page, close } = await open(`${url}#token=${TOKEN}`, { allow, scheme, width, height });
      await page.waitForSelector(".question");
      await page.screenshot({ path: `${out}/${name}-${scheme}-serve.png` });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      check(wide <= 0, `serve: ${name} does not scroll sideways`, String(wide));
      figure(`axe: ${name}, ${scheme}, start view`, await axeViolations(page, `${name} ${scheme} serve`), "0 serious");
      await close();
    }
  }

  const { page, seen, close } = await open(`${url}#token=${TOKEN}`, { allow });
  await page.waitForSelector(".entry");
  check(!page.url().includes(TOKEN.slice(0, 8)), "serve: the token leaves the address", page.url());
  await page.waitForSelector(".diff-added");
  await page.fill("input[placeholder='What to do instead']", "only the test");
  await page.click(".danger");
  await page.waitForFunction(() => document.querySelectorAll(".question").length === 1);
  await page.click(".options label:first-of-type");
  await page.click(".question button[type=submit]");
  await page.waitForFunction(() => document.querySelectorAll(".question").length === 0);
  await page.fill("#task", "refuse");
  await page.click(".start button[type=submit]");
  await page.waitForSelector(".start .failure");
  check((await page.textContent(".start .failure")).includes("name one of: lead"), "serve: a refusal says what to do");
  await page.fill("#task", "Count again");
  await page.selectOption("select[name=agent]", "review-team");
  await page.fill("input[name=tokens]", "20000");
  await page.fill("input[name=time]", "10m");
  await page.setInputFiles("input[name=files]", { name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("hi") });
  await page.click(".start button[type=submit]");
  await page.waitForSelector(".run-bar .pill");
  await page.waitForSelector(".row");
  check((await page.textContent(".run-bar")).includes("7,500 of 20,000 tokens left"), "serve: what is left of the budget", await page.textContent(".run-bar"));
  await page.fill(".say input", "faster");
  await page.click(".say button");
  await page.waitForFunction(() => document.querySelector(".say input").value === "");
  await page.keyboard.press("Escape");
  await page.locator(".view .virtual").focus();
  await page.keyboard.press("j");
  check(/live=run-2/.test(page.url()) && /step=/.test(page.url()), "serve: a link names the run and the step", page.url());
  await page.screenshot({ path: `${out}/wide-light-serve-run.png` });
  await axeViolations(page, "serve run");
  await checkHarmless("serve, a run", page, seen, await showEverything(page));
  await page.click(".run-bar .danger");
  await page.waitForFunction(() => document.querySelector(".run-bar .pill")?.textContent === "cancelled");
  await page.waitForFunction(() => !document.querySelector(".feed"));
  await page.click("text=All runs");
  await page.waitForSelector(".entries");
  await page.click(".entries li .entry:has-text('answered')");
  await page.waitForSelector(".row");
  await page.waitForFunction(() => !document.querySelector(".loading"));
  const asked = state.asked.filter((asked) => asked.includes("/s-1/events")).map((asked) => asked.split("after=")[1]);
  check(asked.join() === `0,${state.broken}`, "serve: a session is read on after a break", asked.join());
  check((await page.locator(".notices").count()) === 0, "serve: no event of a session is missing", (await page.locator(".notices").allTextContents()).join());
  await page.screenshot({ path: `${out}/wide-light-serve-session.png` });
  await page.goBack();
  await page.waitForSelector(".start");
  const posts = new Map(state.bodies.map(([at, body, key]) => [at, { body, key }]));
  const equal = (at, wanted) => check(JSON.stringify(posts.get(at)?.body) === JSON.stringify(wanted), `serve: ${at}`, JSON.stringify(posts.get(at)?.body));
  equal("POST /questions/1", { verdict: "no", message: "only the test" });
  equal("POST /questions/2", { chosen: ["JSON"] });
  equal("POST /runs", { task: "Count again", agent: "review-team", files: [{ name: "note.txt", base64: "aGk=" }], budget: { tokens: 20000, time: "10m" } });
  equal("POST /runs/run-2/messages", { text: "faster" });
  check(posts.get("POST /runs")?.key.length === 32, "serve: a run is started once");
  check(!state.asked.some((asked) => asked.includes(TOKEN)), "serve: no address has the token");
  check(seen.dialogs.length === 0 && seen.requests.length === 0, "serve: nothing else is asked for", [...seen.dialogs, ...seen.requests].join());
  check(await page.evaluate(() => window.__harm === undefined && document.querySelectorAll("img").length === 0), "serve: hostile text is text");
  const errors = seen.errors.filter((error) => !/status of 422|ERR_INCOMPLETE_CHUNKED_ENCODING/.test(error));
  check(errors.length === 0, "serve: errors", errors.join("; "));
  figure("serve", `${state.asked.length} requests, ${state.unauthorized} without a token (before it was given)`);
  await close();
  server.closeAllConnections();
  server.close();
}
