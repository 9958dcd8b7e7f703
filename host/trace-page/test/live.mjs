// Drives the page of the real program in Chromium: runs that are started, followed, answered, cancelled and written to, over
// connections that break and a server that ends. Pictures go into target/trace-page. `only=cancel` does one part. With
// SHELLY_PAGE=dist the page is that of dist in place of the one that the program was built with.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { axeViolations, check, figure, finish, open, out } from "./harness.mjs";
import { PAGE, policy } from "./serve.mjs";
import { gate, project, provider, serve, startModel, startRelay } from "./program.mjs";

const TOKEN = "cd".repeat(32);
const SIZES = [["wide", 1440, 900], ["middle", 820, 1180], ["narrow", 360, 740]];
const PIECES = 240;

/** What the models wait for, by the word in the task or message that they were asked with. */
const gates = new Map();
const wait = (name) => {
  const made = gates.get(name) ?? gate();
  gates.set(name, made);
  return made;
};

/** Plays all agents: each has one plan, which the words of its task and the results so far continue. */
async function play({ messages }) {
  const agent = /You are (\w+)/.exec(messages[0].content)?.[1];
  const words = messages.slice(1).map((message) => (typeof message.content === "string" ? message.content : JSON.stringify(message.content ?? ""))).join("\n");
  const results = messages.filter((message) => message.role === "tool");
  const last = String(results.at(-1)?.content ?? "");
  const named = /gate-\w+/.exec(words)?.[0];
  if (agent === "reader") {
    if (results.length === 0) return { calls: [["fs_read", { path: /\w+\.txt/.exec(words)[0] }]] };
    if (named) await wait(named).opened;
    return { calls: [["task_complete", { status: "completed", summary: `It says: ${last.slice(0, 80)}` }]] };
  }
  if (agent === "lead") {
    if (results.length > 0) return { text: `Both have read. ${last.match(/It says/g)?.length ?? 0} reports came.` };
    const task = (file) => ({ agent: "reader", task: `Read ${file}. ${named ?? ""}`, context: "The files are short." });
    return { calls: [["delegate", { tasks: [task("notes.txt"), task("plan.txt")] }]] };
  }
  if (agent === "asker") {
    if (results.length > 0) return { text: `The answer was: ${last}` };
    const options = [{ label: "red", description: "like a brick" }, { label: "blue", description: "like the sky" }];
    return { calls: [["ask_user", { question: "Which colour shall the door have?\nIt is painted **once**.", options }]] };
  }
  if (agent === "writer") {
    if (results.length > 0) return { text: `I was told: ${words.slice(words.indexOf(last))}` };
    return { calls: [["fs_edit", { path: "plan.txt", old_text: "paint the door", new_text: "paint the door blue\nlet it dry" }]] };
  }
  // The talker counts, or waits and then says what it was told meanwhile.
  if (/count/.test(words)) return { pieces: Array.from({ length: PIECES }, (_, at) => `w${at} `), pause: 10 };
  if (results.length === 0) {
    if (named) await wait(named).opened;
    return { calls: [["fs_list", { path: "." }]] };
  }
  return { text: /hurry/.test(words) ? "I was told to hurry." : "Nobody said anything." };
}

const model = await startModel(play);
const place = project({
  "notes.txt": "The door is old.\n", "plan.txt": "# Plan\n\nbuy paint\npaint the door\nopen it again\n", "token": TOKEN,
  "shelly.yaml": `${provider(model)}agents:
  - {name: lead, description: Leads., options: {max_delegation_depth: 1}}
  - {name: reader, description: Reads., toolboxes: [filesystem]}
  - {name: asker, description: Asks.}
  - {name: writer, description: Writes., toolboxes: [filesystem]}
  - {name: talker, description: Talks., toolboxes: [filesystem]}
`,
});
const start = () => serve(place.folder, ["--token-file", "token"], TOKEN);
let server = await start();
const relay = await startRelay(server.port);
const home = `http://127.0.0.1:${relay.port}/`;
const allow = (to) => to.startsWith(home);

const api = async (method, path, body) => {
  const { status, body: answer } = await server.request(method, `/api/v1${path}`, body);
  if (status >= 400) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`);
  return answer;
};
const started = async (agent, task) => (await api("POST", "/runs", { agent, task })).run;
const over = async (run) => {
  for (;;) {
    const found = await api("GET", `/runs/${run}`);
    if (found.state !== "running" && found.state !== "preparing") return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};
const dist = process.env.SHELLY_PAGE === "dist" ? { page: { body: PAGE, headers: { "content-type": "text/html; charset=utf-8", "content-security-policy": policy() } } } : {};
const view = (at = "", options = {}) => open(`${home}#token=${TOKEN}${at ? `&${at}` : ""}`, { allow, ...dist, ...options });
const runOf = (page) => new URLSearchParams(new URL(page.url()).hash.slice(1)).get("live");
const pill = (page, state) => page.waitForFunction((state) => document.querySelector(".run-bar .pill")?.textContent === state, state);
const texts = (page, selector) => page.locator(selector).allTextContents();

/** Closes a page in which nothing went wrong but what `expected` describes. */
async function closed({ page, seen, close }, name, expected = /^$/) {
  const errors = seen.errors.filter((error) => !expected.test(error));
  check(errors.length === 0, `${name}: errors`, errors.join("; "));
  check(seen.dialogs.length === 0 && seen.requests.length === 0, `${name}: nothing else is asked for`, [...seen.dialogs, ...seen.requests].join());
  check(!page.url().includes(TOKEN.slice(0, 8)), `${name}: the token is not in the address`);
  await close();
}

async function wrongToken() {
  const opened = await open(`${home}#token=${"ef".repeat(32)}`, { allow, ...dist });
  const { page } = opened;
  await page.waitForSelector("input[name=token]");
  check(/does not accept/.test(await page.textContent("form")), "wrong token: the page says that it is wrong", await page.textContent("form"));
  await page.fill("input[name=token]", "still wrong");
  await page.click("button[type=submit]");
  await page.waitForSelector("form [role=alert]");
  await page.fill("input[name=token]", TOKEN);
  await page.click("button[type=submit]");
  await page.waitForSelector("#task");
  await closed(opened, "wrong token", /status of 401/);
}

/** A run that is started in the page delegates, and is followed until it ends. */
/** The sums and the tree of a page, without its times. */
async function shape(page) {
  const parts = [await page.textContent(".summary"), await page.textContent(".side")];
  return parts.join(" ").replace(/[\d.]+\s*(ms|s|min)\b/g, "TIME");
}

async function delegation() {
  const opened = await view();
  const { page } = opened;
  await page.waitForFunction(() => [...document.querySelectorAll("select[name=agent] option")].some((option) => option.value === "lead"));
  await page.selectOption("select[name=agent]", "lead");
  await page.fill("#task", "Let both files be read. gate-readers");
  await page.fill("input[name=tokens]", "50000");
  await page.click(".start button[type=submit]");
  await page.waitForFunction(() => document.querySelectorAll(".side [role=treeitem], .side li").length >= 3);
  await pill(page, "running");
  check((await page.textContent(".top .feed")) === "live", "delegation: it is live");
  const before = await page.locator(".view .row").count();
  check(before >= 3, "delegation: its steps are there while it works", String(before));
  check((await page.textContent(".side")).match(/reader/g)?.length >= 2, "delegation: both readers are in the tree", await page.textContent(".side"));
  wait("gate-readers").open();
  await pill(page, "completed");
  await page.waitForFunction(() => !document.querySelector(".feed"));
  // The list follows its end.
  await page.waitForSelector(".view .row .title:has-text('lead finished')");
  await page.click(".answer summary");
  check((await page.textContent(".answer")).includes("Both have read."), "delegation: its answer is shown", await page.textContent(".answer"));
  check(/of 50,000 tokens left/.test(await page.textContent(".run-bar")), "delegation: what is left of the budget", await page.textContent(".run-bar"));
  const run = await api("GET", `/runs/${runOf(page)}`);
  check(run.result.text === "Both have read. 2 reports came.", "delegation: its answer", run.result.text);
  // A reader who comes late sees the same.
  const late = await view(`live=${run.run}`);
  await late.page.waitForFunction(() => document.querySelector(".top .pill")?.textContent === "finished");
  const [live, later] = [await shape(page), await shape(late.page)];
  check(live === later, "delegation: a late reader sees the same", `${live} | ${later}`);
  await closed(late, "delegation, late");
  await closed(opened, "delegation");
  figure("delegation", `${before} rows and more, followed live`);
}

async function openQuestion() {
  const run = await started("asker", "Ask me about the door.");
  const opened = await view(`live=${run}`);
  const { page } = opened;
  await page.waitForSelector(".question .options");
  check((await page.textContent(".question")).includes("Which colour shall the door have?"), "question: its text");
  // The time goes on while the agent waits.
  await page.waitForFunction(() => /^[1-9][\d.]* s/.test(document.querySelector(".summary b")?.textContent ?? ""));
  await page.click(".options label:has-text('blue')");
  await page.click(".question button[type=submit]");
  await page.waitForFunction(() => !document.querySelector(".card.question"));
  await pill(page, "completed");
  const { result } = await over(run);
  check(/blue/.test(result.text) && !/red/.test(result.text), "question: the agent gets the answer", result.text);
  await closed(opened, "question");
  const other = await started("asker", "Ask me again.");
  const second = await view();
  await second.page.waitForSelector(".question .options");
  check(/waiting for you/.test(await second.page.textContent(".top")), "question: the start view says that something waits");
  await second.page.fill(".question input[type=text]", "green, with a stripe");
  await second.page.click(".question button[type=submit]");
  await second.page.waitForFunction(() => !document.querySelector(".card.question"));
  check(/green, with a stripe/.test((await over(other)).result.text), "question: an answer in one's own words");
  await closed(second, "question in the start view");
}

async function permission() {
  const plan = () => readFileSync(join(place.folder, "plan.txt"), "utf8");
  const before = plan();
  for (const verdict of ["no", "yes"]) {
    const run = await started("writer", "Write into the plan which colour it is.");
    const opened = await view(`live=${run}`);
    const { page } = opened;
    await page.waitForSelector(".question .diff-added");
    const shown = [await texts(page, ".question .diff-removed"), await texts(page, ".question .diff-added")].map((lines) => lines.join("|"));
    check(/paint the door/.test(shown[0]) && /paint the door blue/.test(shown[1]) && /let it dry/.test(shown[1]), "permission: the diff", shown.join(" // "));
    check(plan() === before, "permission: nothing has changed before");
    if (verdict === "no") await page.fill("input[placeholder='What to do instead']", "ask the neighbours first");
    await page.click(verdict === "no" ? ".question .danger" : ".question .primary");
    await pill(page, "completed");
    const { result } = await over(run);
    if (verdict === "no") {
      check(plan() === before, "permission: a refused change is not made");
      check(/ask the neighbours first/.test(result.text), "permission: the agent gets the words", result.text);
    } else {
      check(plan().includes("paint the door blue\nlet it dry\n"), "permission: an accepted change is made", plan());
    }
    await closed(opened, `permission: ${verdict}`);
  }
}

async function cancel() {
  const run = await started("talker", "Wait for gate-never.");
  const opened = await view(`live=${run}`);
  const { page } = opened;
  await pill(page, "running");
  await page.click(".run-bar .danger");
  await pill(page, "cancelled");
  await page.waitForFunction(() => !document.querySelector(".feed"));
  check((await page.locator(".say").count()) === 0, "cancel: nothing can be written to it any more");
  check((await over(run)).state === "cancelled", "cancel: the server says so");
  await closed(opened, "cancel");
}

async function message() {
  const run = await started("talker", "Wait for gate-talker.");
  const opened = await view(`live=${run}`);
  const { page } = opened;
  await pill(page, "running");
  await page.fill(".say input", "please hurry");
  await page.click(".say button");
  await page.waitForFunction(() => document.querySelector(".say input").value === "");
  wait("gate-talker").open();
  await pill(page, "completed");
  check((await over(run)).result.text === "I was told to hurry.", "message: the agent reads it", (await over(run)).result.text);
  await closed(opened, "message");
}

/** Breaks the connection while a reply arrives; all of it is shown, once. */
async function reconnect() {
  const run = await started("talker", "Please count.");
  const opened = await view(`live=${run}`);
  const { page } = opened;
  const resumed = [];
  page.on("request", (request) => {
    if (request.url().endsWith("/events")) resumed.push(request.headers()["last-event-id"] ?? "");
  });
  await page.waitForFunction(() => /w1\d /.test(document.querySelector(".view")?.textContent ?? ""));
  for (let cuts = 1; cuts <= 2; cuts += 1) {
    relay.cut();
    await page.waitForFunction(() => document.querySelector(".feed")?.textContent === "connecting…");
    await page.waitForFunction(() => document.querySelector(".feed")?.textContent !== "connecting…", undefined, { timeout: 20_000 });
  }
  await pill(page, "completed");
  await page.waitForFunction(() => !document.querySelector(".feed"), undefined, { timeout: 20_000 });
  check(resumed.length >= 2 && resumed.slice(-2).every((last) => Number(last) > 0), "reconnect: it goes on after the last event", resumed.join());
  check((await page.locator(".notices").count()) === 0, "reconnect: nothing is missing", (await texts(page, ".notices")).join());
  const late = await view(`live=${run}`);
  await late.page.waitForFunction(() => document.querySelector(".top .pill")?.textContent === "finished");
  const [live, later] = [await texts(page, ".view .row .title"), await texts(late.page, ".view .row .title")];
  check(live.length > 2 && JSON.stringify(live) === JSON.stringify(later), "reconnect: nothing is shown twice", `${live.length}, ${later.length}`);
  await page.click(".answer summary");
  const words = (await page.textContent(".answer-body")).trim().split(/\s+/);
  check(words.length === PIECES && words.every((word, at) => word === `w${at}`), "reconnect: the whole reply, once", `${words.length} words`);
  await closed(late, "reconnect, late");
  await closed(opened, "reconnect", /net::ERR/);
  figure("reconnect", `${PIECES} pieces, resumed after ${resumed.filter(Boolean).join(" and ")}`);
}

/** The server ends while a run works, and another one at the same address takes its session up. */
async function restart() {
  const run = await started("talker", "Wait for gate-restart.");
  const opened = await view(`live=${run}`);
  const entry = await view();
  const { page } = opened;
  await pill(page, "running");
  await entry.page.waitForSelector(".entry");
  const code = await server.stop();
  check(code === 143, "restart: the server ends by the signal", String(code));
  await page.waitForFunction(() => !document.querySelector(".feed"));
  await page.waitForFunction(() => /does not answer/.test(document.querySelector(".run-bar")?.textContent ?? ""));
  await entry.page.waitForSelector(".notices[role=alert]");
  await page.screenshot({ path: `${out}/wide-light-live-stopped-run.png` });
  await entry.page.screenshot({ path: `${out}/wide-light-live-stopped.png` });
  server = await start();
  relay.target = server.port;
  await entry.page.waitForFunction(() => !document.querySelector(".notices"), undefined, { timeout: 20_000 });
  await entry.page.reload();
  await entry.page.waitForSelector(".entries .entry:has-text('interrupted')");
  await page.waitForFunction(() => /does not know this run/.test(document.querySelector(".run-bar")?.textContent ?? ""), undefined, { timeout: 20_000 });
  await page.screenshot({ path: `${out}/wide-light-live-restarted-run.png` });
  // Its session goes on from the page, without another task.
  await entry.page.click(".entries li:has-text('interrupted') button:has-text('Continue')");
  await entry.page.click(".start button[type=submit]");
  wait("gate-restart").open();
  await pill(entry.page, "completed");
  const again = await over(runOf(entry.page));
  check(again.result.text === "Nobody said anything.", "restart: the session goes on", again.result.text);
  await closed(entry, "restart, start view", /net::ERR|status of 50\d/);
  await closed(opened, "restart, run", /net::ERR|status of (404|50\d)/);
}

async function pictures() {
  const asking = await started("asker", "Ask me about the door.");
  const writing = await started("writer", "Write into the plan which colour it is.");
  const leading = await started("lead", "Let both files be read. gate-pictures");
  for (const scheme of ["light", "dark"]) {
    for (const [name, width, height] of SIZES) {
      for (const [what, at, ready] of [
        ["start", "", () => document.querySelectorAll(".card.question").length === 2],
        ["question", `live=${asking}`, () => document.querySelector(".question .options") !== null],
        ["permission", `live=${writing}`, () => document.querySelector(".question .diff-added") !== null],
        ["delegation", `live=${leading}`, () => document.querySelectorAll(".view .row").length > 4],
      ]) {
        const opened = await view(at, { width, height, scheme });
        await opened.page.waitForFunction(ready);
        await opened.page.waitForTimeout(200);
        await opened.page.screenshot({ path: `${out}/${name}-${scheme}-live-${what}.png` });
        const wide = await opened.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        check(wide <= 0, `${what}: ${name} does not scroll sideways`, String(wide));
        figure(`axe: ${name}, ${scheme}, live ${what}`, await axeViolations(opened.page, `${name} ${scheme} live ${what}`), "0 serious");
        await closed(opened, `pictures: ${what}`);
      }
    }
  }
  wait("gate-pictures").open();
  await over(leading);
  for (const run of [asking, writing]) await api("POST", `/runs/${run}/cancel`);
}

const only = process.argv.find((name) => name.startsWith("only="))?.slice(5);
const parts = { wrongToken, delegation, openQuestion, permission, cancel, message, reconnect, pictures, restart };
for (const [name, part] of Object.entries(parts)) {
  if (only && only !== name) continue;
  const began = Date.now();
  // One that does not come about must not keep the others from being tried.
  await part().catch((error) => check(false, name, error.stack ?? String(error)));
  figure(`took: ${name}`, `${((Date.now() - began) / 1_000).toFixed(1)} s`);
}
const code = await server.stop();
check(code === 143, "the server ends by the signal", `${code}: ${server.said()}`);
relay.close();
model.close();
place.remove();
await finish();
