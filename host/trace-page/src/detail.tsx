/** Everything that is known about the selected step. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Block, Json, Line } from "./text";
import { Facts, MessageView, ToolArguments, ToolResultView } from "./parts";
import { visible } from "./escape";
import { clock, duration, offset } from "./format";
import { number, partsOf, text as asText, type Fields } from "./fields";
import type { Step } from "./model";
import { took } from "./list";
import type { App } from "./state";

/** Events of one step that are shown. */
const MOST_EVENTS = 120;

export interface SeenEvent {
  name: string;
  fields: Fields;
  raw: string;
}

function parse(raw: string): SeenEvent {
  try {
    let fields = JSON.parse(raw) as Fields;
    if (typeof fields.event === "object" && fields.event !== null) fields = { ...fields, ...(fields.event as Fields) };
    return { name: asText(fields.event) || "?", fields, raw };
  } catch {
    return { name: "not JSON", fields: {}, raw };
  }
}

/** Loads the lines of a step; `null` while they are read. */
function useEvents(app: App, step: Step | null): SeenEvent[] | null {
  const [loaded, setLoaded] = useState<{ key: string; events: SeenEvent[] } | null>(null);
  const key = step ? `${step.index}/${step.refs.length}` : "";
  useEffect(() => {
    if (!step) return;
    let isCurrent = true;
    const refs = [...new Set(step.refs)].sort((a, b) => a - b).slice(0, MOST_EVENTS);
    app.store.lines(refs).then(
      (lines) => { if (isCurrent) setLoaded({ key, events: lines.map(parse) }); },
      () => { if (isCurrent) setLoaded({ key, events: [] }); },
    );
    return () => { isCurrent = false; };
  }, [key]);
  // While more of the same step arrives, what is known is shown.
  return loaded && step && loaded.key.startsWith(`${step.index}/`) ? loaded.events : null;
}

export function Section({ title, children, closed, aside }: { title: string; children: ComponentChildren; closed?: boolean; aside?: string }) {
  return (
    <details class="section" open={!closed}>
      <summary><h3>{title}</h3>{aside && <span class="muted">{aside}</span>}</summary>
      <div class="section-body">{children}</div>
    </details>
  );
}

const EVENT_TITLES: Record<string, string> = {
  model_started: "Request", model_finished: "Reply", model_failed: "Failure", model_waits: "Wait", tool_started: "Call",
  tool_finished: "Outcome", tool_progress: "Progress", message_added: "Message", run_started: "Run", run_finished: "End",
  question_asked: "Question", question_answered: "Answer", file_change: "File", effect_edited: "Edit", effect_refused: "Refused edit",
  middleware_acted: "Middleware", capability_decided: "Capability", plugin_call: "Call of a plugin", plugin_request: "HTTP request",
};

/** Fields that are shown elsewhere. */
const SKIPPED: Record<string, string[]> = { run_started: ["prefix"], model_started: ["iteration"], model_finished: ["iteration"], file_change: ["call"] };

const titleOf = (name: string): string => EVENT_TITLES[name] ?? visible(name.replaceAll("_", " "));

function ToolBody({ step, events }: { step: Step; events: SeenEvent[] }) {
  let asked: string | null = null;
  let result: unknown = null;
  let origin = "";
  for (const { name, fields } of events) {
    if (name === "message_added") {
      for (const part of partsOf(fields.message)) {
        const value = part.value as Fields | null;
        if (part.type === "tool_call" && asText(value?.id) === step.call) asked = asText(value?.arguments);
        if (part.type === "tool_result" && asText(value?.call_id) === step.call) result = value;
      }
    } else if (name === "tool_started") {
      asked ??= asText(fields.arguments);
      origin = asText(fields.origin);
    }
  }
  const hidden = new Set(["tool_started", "message_added"]);
  const skip = ["arguments", "call", "tool", "origin"];
  return (
    <>
      {asked !== null && <Section title="Arguments" aside={origin ? `from ${visible(origin)}` : undefined}><ToolArguments json={asked} /></Section>}
      {events.filter((event) => !hidden.has(event.name)).map((event) => (
        <Section title={titleOf(event.name)} closed={event.name === "tool_progress"}><Facts fields={event.fields} skip={skip} /></Section>
      ))}
      {result !== null && <Section title="Result"><ToolResultView result={result as Fields} /></Section>}
      {events.filter((event) => event.name === "tool_started").map((event) => <Facts fields={event.fields} skip={skip} />)}
    </>
  );
}

function StepBody({ step, events }: { step: Step; events: SeenEvent[] }) {
  if (step.kind === "tool") return <ToolBody step={step} events={events} />;
  const deltas = events.filter((event) => event.name === "model_delta").length;
  return (
    <>
      {step.partial && <Section title="Reply so far"><Block text={step.partial} plain /></Section>}
      {events.filter((event) => event.name !== "model_delta").map((event) => {
        if (event.name === "message_added") {
          return <Section title={`Message of ${asText(event.fields.role) || "the agent"}`}><MessageView message={event.fields.message} omitted={number(event.fields.omitted_bytes)} /></Section>;
        }
        return <Section title={titleOf(event.name)}><Facts fields={event.fields} skip={SKIPPED[event.name]} /></Section>;
      })}
      {deltas > 0 && <p class="muted">The reply arrived in pieces; {deltas} of them are below.</p>}
    </>
  );
}

/** Steps that belong to the same: those of the call, the runs that it began, the call that began this run. */
function related(app: App, step: Step): { label: string; step: number }[] {
  const { model } = app;
  const run = model.runs[step.run];
  if (!run) return [];
  const found: { label: string; step: number }[] = [];
  if (run.parentStep >= 0 && step.kind === "run") found.push({ label: "delegated by", step: run.parentStep });
  for (const child of run.children) {
    if (model.runs[child]!.parentStep === step.index) found.push({ label: "delegated to", step: model.runs[child]!.steps[0] ?? -1 });
  }
  if (step.call) {
    for (const index of run.steps) {
      const other = model.steps[index]!;
      if (other.call === step.call && index !== step.index) found.push({ label: other.kind, step: index });
    }
  }
  return found.filter((entry) => entry.step >= 0).slice(0, 40);
}

export function Detail({ app }: { app: App }) {
  const step = app.step;
  const events = useEvents(app, step);
  const box = useRef<HTMLElement>(null);
  useEffect(() => { if (box.current) box.current.scrollTop = 0; }, [app.selected]);
  const links = useMemo(() => (step ? related(app, step) : []), [app.selected, app.model.revision]);
  if (!step) return null;
  const run = step.run >= 0 ? app.model.runs[step.run]! : null;
  const href = app.link(step);
  return (
    <aside ref={box} class="detail-panel" id="detail" tabIndex={-1} aria-label="Step">
      <header class={`kind-${step.kind} status-${step.status}`}>
        <div class="detail-head">
          <span class="kind">{step.kind}</span>
          {step.status !== "ok" && <span class={`pill ${step.status}`}>{STATUS[step.status]}</span>}
          <span class="spacer" />
          <button type="button" class="quiet" title="Previous step (k)" aria-label="Previous step" onClick={() => app.move(-1)}>↑</button>
          <button type="button" class="quiet" title="Next step (j)" aria-label="Next step" onClick={() => app.move(1)}>↓</button>
          <a class="quiet button" href={href} title="Link to this step" onClick={(event) => {
            event.preventDefault();
            app.writeLink();
            void navigator.clipboard?.writeText(location.href).then(() => app.update(() => { app.message = "link copied"; }), () => {});
          }}>Link</a>
          <button type="button" class="quiet" title="Close (Esc)" aria-label="Close the step" onClick={() => app.select(-1)}>✕</button>
        </div>
        <h2><Line text={step.title} /></h2>
        <p class="muted facts-line">
          {run && <button type="button" class="link" title={`Only steps of this run`} onClick={() => app.setRun(run.index)}>{visible(run.agent)}</button>}
          {step.iteration > 0 && <span>turn {step.iteration}</span>}
          <span title={clock(step.start)}>at {offset(step.start - app.model.start)}</span>
          {took(step, app.model) !== null && <span>took {duration(took(step, app.model))}</span>}
          <span>event {step.link}</span>
        </p>
        {step.status === "fail" && step.detail && <p class="failure"><Line text={step.detail} /></p>}
      </header>
      {links.length > 0 && (
        <nav class="related" aria-label="Related steps">
          {links.map((link) => {
            const to = app.model.steps[link.step]!;
            return (
              <button type="button" key={link.step} class="chip" onClick={() => app.select(link.step)}>
                <span class="muted">{link.label}</span> <Line text={to.title.slice(0, 80)} />
              </button>
            );
          })}
        </nav>
      )}
      {events === null ? <p class="muted">Reading…</p> : (
        <div key={step.index}>
          <StepBody step={step} events={events} />
          <Section title="Events as recorded" aside={String(events.length)} closed>
            {events.map((event) => <Json text={event.raw} />)}
          </Section>
        </div>
      )}
    </aside>
  );
}

const STATUS = { ok: "", fail: "failed", warn: "attention", open: "in progress", wait: "waiting", cut: "not completed" };
