/** The start view of a server: what runs, what asks, what was, and a form to start a run. */

import { useEffect, useRef, useState } from "preact/hooks";
import { visible } from "../escape";
import { count, duration, money, tokens } from "../format";
import { Line } from "../text";
import { theme } from "../theme";
import {
  isOver, onceKey, rememberBudget, request, requestList, tokensOf,
  type Budget, type Question, type ServedAgent, type ServedRun, type ServedSession,
} from "./api";
import { errorText, Questions } from "./questions";

/** Milliseconds between two looks at the server. */
const LOOK_EVERY = 2_000;
/** Sessions change less often: every n-th look. */
const SESSIONS_EVERY = 8;
const LARGEST_FILE = 8 * 1024 * 1024;

export const STATE_CLASSES: Record<string, string> = {
  completed: "ok", answered: "ok", failed: "fail", unreadable: "fail", cancelled: "cut", interrupted: "cut", running: "open", preparing: "open", in_use: "open",
};

/** Time that passed since, as people say it. */
export function ago(time: string | undefined): string {
  const passed = Date.now() - Date.parse(time ?? "");
  if (!Number.isFinite(passed)) return "";
  if (passed < 60_000) return "just now";
  if (passed < 3_600_000) return `${Math.floor(passed / 60_000)} min ago`;
  if (passed < 86_400_000) return `${Math.floor(passed / 3_600_000)} h ago`;
  return (time ?? "").slice(0, 10);
}

interface Seen {
  runs: ServedRun[];
  questions: Question[];
  sessions: ServedSession[];
  agents: ServedAgent[];
  error: string;
  isReady: boolean;
}

/** Calls `look` at once and again and again, while the page is seen. */
export function useLooks(look: (number: number) => Promise<void>, every: number): () => void {
  const now = useRef<() => void>(() => {});
  useEffect(() => {
    let timer = 0;
    let number = 0;
    let isGone = false;
    let isBusy = false;
    const run = async () => {
      clearTimeout(timer);
      if (isGone || isBusy) return;
      isBusy = true;
      if (!document.hidden) await look(number++).catch(() => {});
      isBusy = false;
      if (!isGone) timer = setTimeout(run, every) as unknown as number;
    };
    now.current = () => void run();
    void run();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, []);
  return () => now.current();
}

/** The content of a file as base64. */
async function base64Of(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 32_768) binary += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(binary);
}

function StartForm({ agents, session, clearSession, started }: {
  agents: ServedAgent[]; session: string; clearSession: () => void; started: (run: string) => void;
}) {
  const [error, setError] = useState("");
  const [isSent, setSent] = useState(false);
  const key = useRef(onceKey());
  const form = useRef<HTMLFormElement>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isSent) return;
    setSent(true);
    setError("");
    try {
      const data = new FormData(form.current!);
      const value = (name: string): string => String(data.get(name) ?? "").trim();
      const budget: Budget = {};
      if (value("tokens")) budget.tokens = Number(value("tokens"));
      if (value("usd")) budget.usd = Number(value("usd"));
      if (value("time")) budget.time = value("time");
      const chosen = data.getAll("files").filter((file): file is File => file instanceof File && file.size > 0);
      const tooLarge = chosen.find((file) => file.size > LARGEST_FILE);
      if (tooLarge) throw new Error(`${tooLarge.name} has more than 8 MiB`);
      const files = await Promise.all(chosen.map(async (file) => ({ name: file.name, base64: await base64Of(file) })));
      const run = await request<{ run: string }>("POST", "/runs", {
        ...(value("task") ? { task: value("task") } : {}),
        ...(value("agent") ? { agent: value("agent") } : {}),
        ...(session ? { session } : {}),
        ...(files.length > 0 ? { files } : {}),
        ...(Object.keys(budget).length > 0 ? { budget } : {}),
      }, { "idempotency-key": key.current });
      key.current = onceKey();
      rememberBudget(run.run, budget);
      started(run.run);
    } catch (error) {
      setError(errorText(error));
    }
    setSent(false);
  };
  return (
    <form ref={form} class="card start" onSubmit={(event) => void submit(event)}>
      <h2>{session ? <>Continue <code>{visible(session)}</code> <button type="button" class="quiet" onClick={clearSession}>new session instead</button></> : "Start a run"}</h2>
      <label class="unseen" for="task">Task</label>
      <textarea
        id="task" name="task" rows={3} placeholder={session ? "What next? Leave empty to let an interrupted run go on." : "What should be done?"} required={!session}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.current?.requestSubmit();
        }}
      />
      <div class="fields">
        <label>Agent
          <select name="agent">
            <option value="">as configured</option>
            {agents.map((agent) => <option key={agent.name} value={agent.name}>{visible(agent.name)}{agent.kind === "team" ? " (team)" : ""}</option>)}
          </select>
        </label>
        <label>Tokens at most <input name="tokens" type="number" min="1" step="1" placeholder="no limit" /></label>
        <label>US dollars at most <input name="usd" type="number" min="0" step="any" placeholder="no limit" /></label>
        <label>Time at most <input name="time" type="text" pattern="[0-9]+(ms|s|m|h)" title="such as 90s, 10m or 1h" placeholder="10m" size={6} /></label>
        <label>Files <input name="files" type="file" multiple /></label>
        <button type="submit" class="primary" disabled={isSent}>{isSent ? "Starting…" : "Start"}</button>
      </div>
      {error && <p class="failure" role="alert"><Line text={error} /></p>}
    </form>
  );
}

function RunLine({ run, open }: { run: ServedRun; open: (run: string) => void }) {
  const used = tokensOf(run.usage);
  const began = Date.parse(run.started ?? "");
  const ended = run.finished ? Date.parse(run.finished) : Date.now();
  const facts = [
    run.agent ?? "", Number.isFinite(ended - began) ? duration(ended - began) : "", used > 0 ? `${tokens(used)} tokens` : "",
    typeof run.cost_usd === "number" ? money(run.cost_usd) : "", ago(run.started),
  ];
  return (
    <li>
      <button type="button" class="entry" onClick={() => open(run.run)}>
        <span class={`pill ${STATE_CLASSES[run.state] ?? ""}`}>{visible(run.state)}</span>
        <span class="entry-title"><Line text={(run.task || run.run).slice(0, 300)} /></span>
        <span class="muted entry-facts">{facts.filter(Boolean).map(visible).join(" · ")}</span>
      </button>
    </li>
  );
}

export interface HomeProps {
  openRun: (run: string) => void;
  openSession: (session: string) => void;
  unauthorized: () => void;
  draw: () => void;
}

export function Home({ openRun, openSession, unauthorized, draw }: HomeProps) {
  const [seen, setSeen] = useState<Seen>({ runs: [], questions: [], sessions: [], agents: [], error: "", isReady: false });
  const [session, setSession] = useState("");
  const lookNow = useLooks(async (number) => {
    try {
      const [runs, questions] = await Promise.all([requestList<ServedRun>("/runs", "runs"), requestList<Question>("/questions", "questions")]);
      const sessions = number % SESSIONS_EVERY === 0 ? await requestList<ServedSession>("/sessions?limit=100", "sessions") : null;
      const agents = number === 0 ? await requestList<ServedAgent>("/agents", "agents").catch(() => []) : null;
      setSeen((seen) => ({ runs, questions, sessions: sessions ?? seen.sessions, agents: agents ?? seen.agents, error: "", isReady: true }));
    } catch (error) {
      if ((error as { status?: number }).status === 401) unauthorized();
      else setSeen((seen) => ({ ...seen, error: errorText(error) }));
    }
  }, LOOK_EVERY);
  const active = seen.runs.filter((run) => !isOver(run.state));
  const ended = seen.runs.filter((run) => isOver(run.state));
  useEffect(() => {
    document.title = `${seen.questions.length > 0 ? `(${seen.questions.length}) ` : ""}shelly-host`;
  }, [seen.questions.length]);
  return (
    <div class="home">
      <header class="top">
        <div class="top-title"><h1>shelly-host</h1>
          {seen.isReady && <span class="muted">{count(active.length)} at work{seen.questions.length > 0 ? `, ${seen.questions.length} waiting for you` : ""}</span>}
        </div>
        <div class="top-tools">
          <button type="button" class="quiet" title="Dark or light" aria-label="Dark or light" onClick={() => { theme.toggle(); draw(); }}>◐</button>
        </div>
      </header>
      {seen.error && <div class="notices" role="alert"><p>The server does not answer: <Line text={seen.error} /></p></div>}
      <main class="home-body">
        <Questions questions={seen.questions} answered={lookNow} />
        <StartForm agents={seen.agents} session={session} clearSession={() => setSession("")} started={openRun} />
        {seen.runs.length > 0 && (
          <section>
            <h2>Runs</h2>
            <ul class="entries">{[...active, ...ended].slice(0, 100).map((run) => <RunLine key={run.run} run={run} open={openRun} />)}</ul>
          </section>
        )}
        <section>
          <h2>Sessions</h2>
          {seen.isReady && seen.sessions.length === 0 && <p class="muted">There are none yet.</p>}
          <ul class="entries">
            {seen.sessions.map((one) => (
              <li key={one.session}>
                <button type="button" class="entry" onClick={() => openSession(one.session)}>
                  <span class={`pill ${STATE_CLASSES[one.state ?? ""] ?? ""}`}>{visible((one.state ?? "").replaceAll("_", " "))}</span>
                  <span class="entry-title"><Line text={(one.title || one.session).slice(0, 300)} /></span>
                  <span class="muted entry-facts">{[one.agent ?? "", ago(one.modified ?? one.created)].filter(Boolean).map(visible).join(" · ")}</span>
                </button>
                <button
                  type="button" class="quiet" aria-label={`Continue ${visible(one.title || one.session)}`}
                  onClick={() => {
                    setSession(one.session);
                    document.getElementById("task")?.focus();
                    scrollTo({ top: 0 });
                  }}
                >Continue</button>
              </li>
            ))}
          </ul>
        </section>
      </main>
    </div>
  );
}
