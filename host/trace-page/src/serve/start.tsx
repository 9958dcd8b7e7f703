/** The page of a server: a start view, a run that is followed, or the trace of a session. */

import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { followFetch, textLines } from "../feed";
import { Slices } from "../loader";
import { TracePage } from "../page";
import { App } from "../state";
import { theme } from "../theme";
import { ApiError, address, authorization, hasToken, path, readToken, request, serverTime, setToken, type Problem } from "./api";
import { Home } from "./home";
import { errorText } from "./questions";
import { RunBar } from "./run";

interface Route {
  run: string;
  session: string;
}

function route(): Route {
  const part = new URLSearchParams(location.hash.slice(1));
  return { run: part.get("live") ?? "", session: part.get("session") ?? "" };
}

function TokenForm({ done }: { done: () => void }) {
  const isRefused = hasToken();
  return (
    <main class="home-body">
      <form class="card" onSubmit={(event) => {
        event.preventDefault();
        setToken(String(new FormData(event.currentTarget).get("token") ?? ""));
        done();
      }}>
        <h1>A token is needed</h1>
        {isRefused && <p class="failure" role="alert">The server does not accept this token. Each start makes a new one, unless a file keeps it.</p>}
        <p class="muted">`shelly-host serve` prints an address with it when it starts: open that, or put the token here.</p>
        <div class="answers">
          <input name="token" type="password" aria-label="Token" autocomplete="off" required />
          <button type="submit" class="primary">Go on</button>
        </div>
      </form>
    </main>
  );
}

interface ViewProps {
  home: () => void;
  unauthorized: () => void;
}

function RunView({ run, home, unauthorized }: ViewProps & { run: string }) {
  const app = useMemo(() => new App(), [run]);
  useEffect(() => {
    app.isLoading = false;
    app.follows = true;
    app.readLink();
    // What is open goes on while nothing happens, such as a question that waits.
    const clock = setInterval(() => {
      if (app.feed?.state === "following") app.passTime(serverTime());
    }, 1_000);
    const leave = followFetch(address(`/runs/${path(run)}/events`), authorization, {
      lines: (lines) => app.addLines(lines),
      state: (state, detail) => app.update(() => {
        app.feed = { state, detail };
        app.settleTime();
        if (state === "ended") app.reducer.finish();
      }),
    });
    return () => {
      clearInterval(clock);
      leave();
    };
  }, [app]);
  return <TracePage app={app} extra={<RunBar id={run} home={home} unauthorized={unauthorized} />} />;
}

/** How often a broken connection is tried again, and the milliseconds before. */
const MOST_TRIES = 5;
const PAUSE = 1_000;

/** Reads the recorded events of a session, one a line. A broken connection goes on after the last whole line. */
async function readSession(app: App, session: string, stop: AbortSignal): Promise<void> {
  const slices = new Slices();
  let last = 0;
  for (let tries = 1; ; tries += 1) {
    try {
      const answer = await fetch(address(`/sessions/${path(session)}/events?after=${last}`), { headers: authorization(), signal: stop });
      if (!answer.ok || !answer.body) throw new ApiError(answer.status, (await answer.json().catch(() => ({}))) as Problem);
      for await (const line of textLines(answer.body)) {
        if (line === "") continue;
        last += 1;
        tries = 1;
        await app.readLine(line, slices);
      }
      return;
    } catch (error) {
      const isFinal = error instanceof ApiError && error.status !== 429 && error.status !== 503;
      if (stop.aborted || isFinal || tries >= MOST_TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }
}

interface SessionDetail {
  title?: string;
}

function SessionView({ session, home, unauthorized }: ViewProps & { session: string }) {
  const app = useMemo(() => new App(), [session]);
  const [error, setError] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    app.isLoading = true;
    app.readLink();
    const read = async () => {
      const found = await request<SessionDetail>("GET", `/sessions/${path(session)}`);
      if (stop.signal.aborted) return;
      app.update(() => { app.meta = { ...app.meta, title: found.title ?? session, session }; });
      await readSession(app, session, stop.signal);
    };
    read().catch((error: unknown) => {
      if (stop.signal.aborted) return;
      if (error instanceof ApiError && error.status === 401) unauthorized();
      else setError(errorText(error));
    }).finally(() => {
      app.reducer.finish();
      app.update(() => { app.isLoading = false; });
    });
    return () => stop.abort();
  }, [app]);
  const bar = (
    <>
      <section class="run-bar" aria-label="The session"><button type="button" class="quiet" onClick={home}>‹ All runs</button></section>
      {error && <div class="notices" role="alert"><p>{error}</p></div>}
    </>
  );
  return <TracePage app={app} extra={bar} />;
}

function ServePage() {
  const [at, setAt] = useState(route);
  const [needsToken, setNeedsToken] = useState(false);
  const [, draw] = useState(0);
  useEffect(() => {
    const changed = () => {
      readToken();
      const next = route();
      setAt((at) => (at.run === next.run && at.session === next.session ? at : next));
    };
    addEventListener("hashchange", changed);
    addEventListener("popstate", changed);
    theme.start(() => draw((count) => count + 1));
    return () => {
      removeEventListener("hashchange", changed);
      removeEventListener("popstate", changed);
    };
  }, []);
  const go = (key: "live" | "session" | "", name: string) => {
    location.hash = key ? new URLSearchParams({ [key]: name }).toString() : "";
    setAt({ run: key === "live" ? name : "", session: key === "session" ? name : "" });
  };
  const unauthorized = () => setNeedsToken(true);
  const home = () => go("", "");
  if (needsToken) return <TokenForm done={() => setNeedsToken(false)} />;
  if (at.run) return <RunView key={at.run} run={at.run} home={home} unauthorized={unauthorized} />;
  if (at.session) return <SessionView key={at.session} session={at.session} home={home} unauthorized={unauthorized} />;
  return (
    <Home
      openRun={(run) => go("live", run)} openSession={(session) => go("session", session)} unauthorized={unauthorized}
      draw={() => draw((count) => count + 1)}
    />
  );
}

export function startServe(root: HTMLElement): void {
  readToken();
  render(<ServePage />, root);
}
