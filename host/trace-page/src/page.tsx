/** The page of one trace. */

import { useEffect, useRef } from "preact/hooks";
import { Detail } from "./detail";
import { visible } from "./escape";
import { Figures } from "./figures";
import { count, duration, money, tokens } from "./format";
import { Help } from "./help";
import { StepList } from "./list";
import { addUsage, KINDS, noUsage, promptTokens, type Kind } from "./model";
import { handleKey } from "./keys";
import { PRESETS, useApp, type App } from "./state";
import { Highlight } from "./text";
import { theme } from "./theme";
import { Timeline } from "./timeline";
import { RunTree, stateOf, RUN_STATES } from "./tree";

function Summary({ app }: { app: App }) {
  const { model } = app;
  const usage = noUsage();
  let cost: number | null = null;
  let failures = 0;
  for (const run of model.runs) {
    addUsage(usage, run.usage);
    if (run.cost !== null) cost = (cost ?? 0) + run.cost;
    failures += run.failures;
  }
  const used = promptTokens(usage) + usage.output;
  const facts: [string, string][] = [
    [duration(model.end - model.start), "long"],
    [count(model.runs.length), model.runs.length === 1 ? "run" : "runs"],
    [count(model.steps.length), "steps"],
    [tokens(used), "tokens"],
  ];
  if (cost !== null) facts.push([money(cost), ""]);
  return (
    <p class="summary">
      {facts.map(([value, unit]) => <span key={unit}><b>{value}</b> {unit}</span>)}
      {failures > 0 && <button type="button" class="failures" aria-pressed={app.failures} onClick={() => app.update(() => { app.failures = !app.failures; })}>{count(failures)} failed</button>}
    </p>
  );
}

function Notices({ app }: { app: App }) {
  const { model } = app;
  const notices: string[] = [];
  if (app.damaged > 0) notices.push(`${app.damaged} blocks of this file could not be read; their events are missing.`);
  if (model.version !== null && model.version > 1) notices.push(`The events are of version ${model.version}, which is newer than this page; some may be shown as they are.`);
  if (model.missed > 0) notices.push(`${count(model.missed)} events were dropped before they were recorded.`);
  const gaps = app.isLoading ? [] : app.reducer.gaps();
  const absent = gaps.reduce((sum, gap) => sum + gap.to - gap.from + 1, 0);
  if (absent > 0) notices.push(`${count(absent)} numbers of events are absent in ${count(gaps.length)} ${gaps.length === 1 ? "place" : "places"}.`);
  if (model.broken > 0) notices.push(`${count(model.broken)} lines are not JSON objects.`);
  if (notices.length === 0) return null;
  return <div class="notices" role="note">{notices.map((notice) => <p key={notice}>{notice}</p>)}</div>;
}

function StateMark({ app }: { app: App }) {
  const root = app.model.runs[app.model.roots.at(-1) ?? -1];
  if (app.feed && app.feed.state !== "ended") {
    const names = { connecting: "connecting…", following: "live", broken: app.feed.detail, ended: "" };
    return <span class={`pill feed ${app.feed.state}`}>{visible(names[app.feed.state])}</span>;
  }
  if (!root || app.isLoading) return null;
  const state = stateOf(root);
  return <span class={`pill ${state}`}>{RUN_STATES[state]}</span>;
}

function Header({ app }: { app: App }) {
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  const { search } = app;
  const first = app.model.runs[app.model.roots[0] ?? -1];
  const title = visible(app.meta.title || first?.task || app.meta.session || "Trace");
  useEffect(() => { document.title = `${title.slice(0, 80)} · shelly-host trace`; }, [title]);
  return (
    <header class="top">
      <div class="top-title">
        <h1 title={title}>{title}</h1>
        <StateMark app={app} />
      </div>
      <Summary app={app} />
      <div class="top-tools">
        <div class="search" role="search">
          <input
            ref={input} id="search" type="search" placeholder="Search everything" aria-label="Search in everything" value={search.query}
            spellcheck={false} autocomplete="off"
            onInput={(event) => {
              const query = event.currentTarget.value;
              clearTimeout(timer.current);
              timer.current = setTimeout(() => void app.find(query), 180) as unknown as number;
            }}
            onKeyDown={(event) => {
              if (event.key === "Enter") {
                event.preventDefault();
                app.move(event.shiftKey ? -1 : 1);
              }
            }}
          />
          {search.matches ? <span class="hits">{count(search.matches.size)}{search.done < 1 ? "…" : ""}</span> : <kbd aria-hidden="true">/</kbd>}
        </div>
        <button type="button" class="quiet" title="Dark or light (d)" aria-label="Dark or light" onClick={() => app.update(() => theme.toggle())}>◐</button>
        <button type="button" class="quiet" title="Help (?)" aria-label="Help" onClick={() => app.update(() => { app.showsHelp = true; })}>?</button>
      </div>
      {app.isLoading && (
        <progress class="loading" aria-label="Reading the trace" value={app.chunksRead} max={Math.max(1, app.meta.chunks)} />
      )}
    </header>
  );
}

function Filters({ app }: { app: App }) {
  const counts = new Map<Kind, number>();
  for (const step of app.model.steps) counts.set(step.kind, (counts.get(step.kind) ?? 0) + 1);
  const shown = KINDS.filter((kind) => !app.hidden.has(kind));
  const isPreset = (kinds: readonly Kind[]): boolean => kinds.length === shown.length && kinds.every((kind) => shown.includes(kind));
  return (
    <div class="filters" role="group" aria-label="Filters">
      <div class="presets">
        {PRESETS.filter(({ kinds }) => kinds.some((kind) => counts.has(kind))).map(({ name, kinds }) => (
          <button type="button" key={name} class="chip" aria-pressed={isPreset(kinds)} onClick={() => app.setKinds(kinds)}>{name}</button>
        ))}
      </div>
      <div class="presets">
        <details class="kinds">
          <summary class="chip">Kinds</summary>
          <div class="kinds-list">
            {KINDS.filter((kind) => counts.has(kind)).map((kind) => (
              <label key={kind}>
                <input type="checkbox" checked={!app.hidden.has(kind)} onChange={() => app.toggleKind(kind)} /> {kind} <span class="muted">{count(counts.get(kind)!)}</span>
              </label>
            ))}
          </div>
        </details>
        <button type="button" class="chip" aria-pressed={app.failures} title="Only failures and warnings (f)" onClick={() => app.update(() => { app.failures = !app.failures; })}>Failures</button>
      </div>
    </div>
  );
}

function ListState({ app }: { app: App }) {
  const run = app.run >= 0 ? app.model.runs[app.run] : undefined;
  const rows = app.currentRows().steps.length;
  return (
    <div class="filters-end">
      {run && <button type="button" class="chip chosen" title="Show all agents" onClick={() => app.setRun(-1)}>{visible(run.agent)} ✕</button>}
      <span class="muted rows">{app.isFiltered ? `${count(rows)} of ${count(app.model.steps.length)}` : `${count(rows)} steps`}</span>
      <button type="button" class="chip" aria-pressed={app.nested} title="Steps of delegated runs below the step that delegated, or all by time (t)" onClick={() => app.update(() => { app.nested = !app.nested; })}>Nested</button>
      {app.feed?.state === "following" && <button type="button" class="chip" aria-pressed={app.follows} onClick={() => app.update(() => { app.follows = !app.follows; })}>Follow</button>}
    </div>
  );
}

export function TracePage({ app, extra }: { app: App; extra?: preact.ComponentChildren }) {
  useApp(app);
  useEffect(() => {
    const key = (event: KeyboardEvent) => handleKey(app, event);
    const link = () => app.readLink();
    const print = () => app.update(() => { app.isPrinting = true; });
    const printed = () => app.update(() => { app.isPrinting = false; });
    addEventListener("keydown", key);
    addEventListener("hashchange", link);
    addEventListener("beforeprint", print);
    addEventListener("afterprint", printed);
    return () => {
      removeEventListener("keydown", key);
      removeEventListener("hashchange", link);
      removeEventListener("beforeprint", print);
      removeEventListener("afterprint", printed);
    };
  }, [app]);
  return (
    <Highlight.Provider value={app.search.matches ? app.search.query : ""}>
      <div class={`page${app.step ? " has-detail" : ""}${app.nested ? " nested" : ""}`}>
        <Header app={app} />
        <Notices app={app} />
        {extra}
        <div class="body">
          <div class="side"><RunTree app={app} /></div>
          <main class="main">
            <Timeline app={app} />
            <div class="bar-row">
            <div class="tabs" role="tablist" aria-label="Views">
              {(["steps", "figures"] as const).map((view) => (
                <button
                  type="button" key={view} role="tab" id={`tab-${view}`} aria-selected={app.view === view} aria-controls="view"
                  tabIndex={app.view === view ? 0 : -1} onClick={() => app.update(() => { app.view = view; })}
                  onKeyDown={(event) => {
                    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
                    const other = view === "steps" ? "figures" : "steps";
                    app.update(() => { app.view = other; });
                    document.getElementById(`tab-${other}`)?.focus();
                  }}
                >{view === "steps" ? "Steps" : "Figures"}</button>
              ))}
            </div>
            {app.view === "steps" && <ListState app={app} />}
            </div>
            <div class="view" id="view" role="tabpanel" aria-labelledby={`tab-${app.view}`}>
              {app.view === "steps" ? <><Filters app={app} /><StepList app={app} /></> : <Figures app={app} />}
            </div>
          </main>
          <Detail app={app} />
        </div>
        {app.showsHelp && <Help close={() => app.update(() => { app.showsHelp = false; })} />}
        <div class="unseen" role="status">{app.message}</div>
      </div>
    </Highlight.Provider>
  );
}
