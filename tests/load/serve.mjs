// Load on `shelly-host serve`: many watchers of one run, many runs at once, clients that never read and that reconnect all the time.
// `node tests/load/serve.mjs [watchers] [runs] [deaf] [reconnects]`; without a name all of them. SHELLY_HOST and SHELLY_PLUGINS are as in
// host/trace-page/test/program.mjs. It needs Linux, for /proc, and nothing but Node. It ends with 1 if an event or an answer is wrong.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { gate, project, provider, PROGRAM, serve, startModel } from "../../host/trace-page/test/program.mjs";

const WATCHERS = Number(process.env.WATCHERS ?? 500);
const RUNS = Number(process.env.RUNS ?? 200);
const PIECES = Number(process.env.PIECES ?? 2_000);
const LOUD_BYTES = 12 << 20;

let failed = 0;
function check(is, name, detail = "") {
  if (is) return;
  failed += 1;
  if (failed < 20) console.error(`FAILED: ${name}${detail ? `: ${detail}` : ""}`);
}
const figure = (name, value) => console.log(`${name.padEnd(64)} ${value}`);
const seconds = (since) => ((performance.now() - since) / 1_000);
const quantile = (values, share) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))];
const ms = (value) => `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;

/** Resident MiB now and at the peak, CPU seconds, open files. */
function usage(pid) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1]) / 1_024;
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return { now: field("VmRSS"), peak: field("VmHWM"), cpu: (Number(stat[11]) + Number(stat[12])) / 100 };
}

/** What the process uses while something is done; the peak is looked at every 50 ms. */
async function measured(pid, what) {
  const before = usage(pid);
  let peak = before.now;
  const timer = setInterval(() => { peak = Math.max(peak, usage(pid).now); }, 50);
  const began = performance.now();
  const value = await what();
  const took = seconds(began);
  clearInterval(timer);
  const after = usage(pid);
  peak = Math.max(peak, after.now);
  return { value, took, cpu: after.cpu - before.cpu, memory: `${before.now.toFixed(0)}, ${peak.toFixed(0)}, ${after.now.toFixed(0)} MiB` };
}

/**
 * Reads a stream of events by hand, with as little work as an event can be read with. `onEvent({ id, event, data })` returns `false`
 * to hang up. Resolves when the stream has ended.
 */
async function watch(server, path, { after = 0, onEvent, onOpen = () => {} }) {
  const socket = connect(server.port, "127.0.0.1");
  socket.setNoDelay(true);
  await once(socket, "connect");
  const resume = after > 0 ? `last-event-id: ${after}\r\n` : "";
  socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${server.headers.authorization}\r\nconnection: close\r\n${resume}\r\n`);
  let rest = "";
  let hasHead = false;
  let frame = { id: 0, event: "", data: "" };
  socket.setEncoding("utf8");
  try {
    for await (const text of socket) {
      rest += text;
      if (!hasHead) {
        const end = rest.indexOf("\r\n\r\n");
        if (end < 0) continue;
        if (!rest.startsWith("HTTP/1.1 200")) throw new Error(rest.slice(0, 300));
        hasHead = true;
        rest = rest.slice(end + 4);
        onOpen();
      }
      let from = 0;
      for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n", from)) {
        const line = rest.slice(from, end);
        from = end + 1;
        // Lines of chunks end with a carriage return; those of events do not.
        if (line.endsWith("\r")) continue;
        if (line.startsWith("data: ")) frame.data = line.slice(6);
        else if (line.startsWith("event: ")) frame.event = line.slice(7);
        else if (line.startsWith("id: ")) frame.id = Number(line.slice(4));
        else if (line === "" && frame.event) {
          const whole = frame;
          frame = { id: 0, event: "", data: "" };
          if (onEvent(whole) === false) return;
        }
      }
      rest = rest.slice(from);
    }
  } finally {
    socket.destroy();
  }
}

/** Checks that the events of a run come in order, each once; collects what they say. */
class Sequence {
  last = 0;
  count = 0;
  ends = 0;
  text = "";
  wrong = "";

  take({ event, data }) {
    if (event === "end") this.ends += 1;
    else if (event !== "run") this.wrong ||= `${event} ${data}`;
    else {
      this.count += 1;
      const number = Number(/"sequence":(\d+)/.exec(data)[1]);
      if (number !== this.last + 1) this.wrong ||= `${number} after ${this.last}`;
      this.last = number;
      const piece = /"value":"(w\d+ )"/.exec(data);
      if (piece && data.includes('"model_delta"')) this.text += piece[1];
    }
  }
}

const whole = Array.from({ length: PIECES }, (_, at) => `w${at} `).join("");
const gates = new Map();
const wait = (name) => gates.get(name) ?? gates.set(name, gate()).get(name);

const model = await startModel(async ({ messages }) => {
  const words = messages.slice(1).map((message) => String(message.content ?? "")).join("\n");
  const number = /answer (\d+)/.exec(words)?.[1];
  // The answer of a run, after a call of a tool; all runs are at work before the first one goes on.
  if (number !== undefined) {
    if (!messages.some((message) => message.role === "tool")) return { calls: [["read_notes", {}]] };
    await wait("runs").opened;
    return { text: `The answer is ${Number(number) * 7}.` };
  }
  if (words.includes("loud")) return { pieces: Array.from({ length: LOUD_BYTES >> 15 }, () => "x".repeat(1 << 15)) };
  await wait(/gate-\w+/.exec(words)?.[0] ?? "").opened;
  return { pieces: Array.from({ length: PIECES }, (_, at) => `w${at} `), pause: 1 };
});
const place = project({ "shelly.yaml": `${provider(model)}agents: [{name: helper, description: Helps., toolboxes: [notes]}]\n` });
const server = await serve(place.folder, ["--max-runs", String(RUNS)]);
const started = async (task) => {
  const { status, body } = await server.request("POST", "/api/v1/runs", { task });
  if (status !== 201) throw new Error(`${status} ${JSON.stringify(body)}`);
  return body.run;
};
const found = async (run) => (await server.request("GET", `/api/v1/runs/${run}`)).body;
async function over(run) {
  for (;;) {
    const now = await found(run);
    if (now.state !== "running" && now.state !== "preparing") return now;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
const metric = async (name) => Number(new RegExp(`^${name} (\\d+)`, "m").exec((await server.request("GET", "/metrics")).body)?.[1]);

async function watchers() {
  const run = await started("gate-watchers");
  const path = `/api/v1/runs/${run}/events`;
  const alone = usage(server.pid).now;
  let isOpen = 0;
  const firsts = [];
  const readers = Array.from({ length: WATCHERS }, () => new Sequence());
  const all = readers.map((reader) => {
    const began = performance.now();
    return watch(server, path, {
      onOpen: () => { isOpen += 1; },
      onEvent: (event) => {
        if (reader.count === 0) firsts.push(performance.now() - began);
        reader.take(event);
      },
    }).catch((error) => { reader.wrong ||= error.message; });
  });
  const opening = performance.now();
  while (isOpen < WATCHERS && seconds(opening) < 30) await new Promise((resolve) => setTimeout(resolve, 20));
  figure(`${WATCHERS} watchers of one run: connected after`, `${seconds(opening).toFixed(2)} s`);
  figure("… time to the first event, of a connection: median, 99 %, longest", [0.5, 0.99, 1].map((share) => ms(quantile(firsts, share))).join(", "));
  const { took, cpu, memory } = await measured(server.pid, async () => {
    wait("gate-watchers").open();
    await Promise.all(all);
  });
  // The reader and the model are this one process: what a second holds is no more than it can read.
  const count = readers.reduce((sum, reader) => sum + reader.count, 0);
  const first = readers[0];
  readers.forEach((reader, at) => {
    check(reader.wrong === "" && reader.ends === 1, `watcher ${at}: each event once and in order`, reader.wrong);
    check(reader.count === first.count && reader.text === whole, `watcher ${at}: the whole reply`, `${reader.count} events, ${reader.text.length} of ${whole.length} characters`);
  });
  check((await over(run)).result?.text === whole.trimEnd() || (await over(run)).result?.text === whole, "the answer of the watched run");
  figure(`… events of the run; events sent, a second`, `${first.count}; ${count}, ${Math.round(count / took)}`);
  figure("… CPU of the server; of one event sent", `${cpu.toFixed(1)} s of ${took.toFixed(1)} s; ${((cpu / count) * 1e6).toFixed(0)} µs`);
  figure("… memory before they connect; with all of them, at the peak, after", `${alone.toFixed(0)}; ${memory}`);
  check((await metric("shelly_event_streams")) === 0, "no stream is left");
}

async function runs() {
  const { value, took, cpu, memory } = await measured(server.pid, async () => {
    const begun = [];
    const ids = await Promise.all(Array.from({ length: RUNS }, async (_, at) => {
      const began = performance.now();
      const run = await started(`answer ${at}`);
      begun.push(performance.now() - began);
      return run;
    }));
    let isOpen = 0;
    const follows = ids.map(async (run) => {
      const reader = new Sequence();
      await watch(server, `/api/v1/runs/${run}/events`, { onOpen: () => { isOpen += 1; }, onEvent: (event) => reader.take(event) });
      return reader;
    });
    while (isOpen < RUNS) await new Promise((resolve) => setTimeout(resolve, 20));
    const began = performance.now();
    wait("runs").open();
    const readers = await Promise.all(follows);
    return { ids, readers, begun, following: seconds(began) };
  });
  check(new Set(value.ids).size === RUNS, "each run has its own id");
  value.readers.forEach((reader, at) => check(reader.wrong === "" && reader.ends === 1, `run ${at}: each event once and in order`, reader.wrong));
  for (const [at, run] of value.ids.entries()) {
    // Those that ended first may be forgotten: the newest hundred are remembered.
    const { state, result, status } = await found(run);
    check(status === 404 || (state === "completed" && result.text === `The answer is ${at * 7}.`), `run ${at}: its answer`, JSON.stringify({ state, result }));
  }
  const sessions = (await server.request("GET", "/api/v1/sessions?limit=200")).body.sessions;
  const answered = sessions.filter((session) => /^answer \d+$/.test(session.title) && session.state === "answered");
  check(new Set(answered.map((session) => session.title)).size === Math.min(RUNS, 200), "each run has its session", String(answered.length));
  figure(`${RUNS} runs at once: all at work, until all have ended`, `${(took - value.following).toFixed(1)} s, ${value.following.toFixed(1)} s`);
  figure("… answer to the request that starts one: median, longest", [0.5, 1].map((share) => ms(quantile(value.begun, share))).join(", "));
  figure("… CPU of the server, of one run", `${cpu.toFixed(1)} s, ${ms((cpu / RUNS) * 1e3)}`);
  figure("… memory before, at the peak, after", memory);
}

async function deaf() {
  // Without a watcher first: what the run needs by itself.
  const alone = await measured(server.pid, async () => over(await started("loud, alone")));
  check(alone.value.state === "completed", "the loud run ends", JSON.stringify(alone.value.error));
  const sockets = [];
  const beside = await measured(server.pid, async () => {
    const run = await started("loud, with clients that do not read");
    for (let at = 0; at < 50; at += 1) {
      const socket = connect(server.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.pause();
      socket.write(`GET /api/v1/runs/${run}/events HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${server.headers.authorization}\r\n\r\n`);
      sockets.push(socket);
    }
    return over(run);
  });
  check(beside.value.state === "completed", "the loud run ends beside clients that do not read", JSON.stringify(beside.value.error));
  figure(`a run of ${LOUD_BYTES >> 20} MiB alone: time; memory before, at the peak, after`, `${alone.took.toFixed(1)} s; ${alone.memory}`);
  figure("… with 50 clients that never read", `${beside.took.toFixed(1)} s; ${beside.memory}`);
  sockets.forEach((socket) => socket.destroy());
}

async function reconnects() {
  const run = await started("gate-reconnects");
  const path = `/api/v1/runs/${run}/events`;
  const clients = 20;
  const { value, took, cpu } = await measured(server.pid, async () => {
    wait("gate-reconnects").open();
    return Promise.all(Array.from({ length: clients }, async (_, client) => {
      const reader = new Sequence();
      let connections = 0;
      while (reader.ends === 0) {
        connections += 1;
        let left = 1 + ((connections * 7 + client * 3) % 23);
        let resume = reader.last;
        await watch(server, path, {
          after: resume,
          onEvent: (event) => {
            reader.take(event);
            left -= 1;
            return left > 0;
          },
        });
      }
      return { reader, connections };
    }));
  });
  value.forEach(({ reader }, at) => {
    check(reader.wrong === "", `client ${at} that reconnects: each event once and in order`, reader.wrong);
    check(reader.text === whole, `client ${at} that reconnects: the whole reply`, `${reader.text.length} of ${whole.length}`);
  });
  const connections = value.reduce((sum, { connections }) => sum + connections, 0);
  figure(`${clients} clients that reconnect after 1 to 23 events: connections, a second`, `${connections}, ${Math.round(connections / took)}`);
  figure("… CPU of the server, of one connection", `${cpu.toFixed(1)} s, ${ms((cpu / connections) * 1e3)}`);
}

const all = { watchers, runs, deaf, reconnects };
const named = process.argv.slice(2);
const version = readFileSync("/proc/loadavg", "utf8").split(" ")[0];
figure("the program", PROGRAM);
figure("load of the machine before", version);
for (const [name, part] of Object.entries(all)) {
  if (named.length > 0 && !named.includes(name)) continue;
  await part().catch((error) => check(false, name, error.stack ?? String(error)));
}
figure("resident at the peak of all", `${usage(server.pid).peak.toFixed(0)} MiB`);
const code = await server.stop();
check(code === 143 && server.said().endsWith("stopped\n"), "the server ends by the signal", `${code}: ${server.said()}`);
model.close();
place.remove();
console.log(failed === 0 ? "nothing was lost, repeated or wrong" : `${failed} checks failed`);
process.exit(failed === 0 ? 0 : 1);
