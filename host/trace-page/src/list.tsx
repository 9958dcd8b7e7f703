/** The list of steps. */

import { Line } from "./text";
import { duration, offset, tokens } from "./format";
import { visible } from "./escape";
import { promptTokens, type Model, type Step } from "./model";
import { isRunHead } from "./rows";
import type { App } from "./state";
import { VirtualList, type RowStyle } from "./virtual";

export const ROW_HEIGHT = 30;
/** Steps of a printed list. */
const MOST_PRINTED = 2_000;

const STATUS_MARKS = { ok: "", fail: "✕", warn: "!", open: "●", wait: "◔", cut: "◌" };
const STATUS_NAMES = { ok: "", fail: "failed", warn: "needs attention", open: "in progress", wait: "waiting", cut: "not completed" };

export const took = (step: Step, model: Model): number | null =>
  step.end === null ? model.end - step.start : step.end > step.start ? step.end - step.start : null;

interface RowProps {
  app: App;
  step: Step;
  depth: number;
  row: number;
  count: number;
  style: RowStyle;
}

function StepRow({ app, step, depth, row, count, style }: RowProps) {
  const { model } = app;
  const run = step.run >= 0 ? model.runs[step.run]! : null;
  const isHead = isRunHead(model, step);
  const canFold = isHead && run !== null;
  const isFolded = canFold && app.folded.has(step.run);
  const isSelected = step.index === app.selected;
  const classes = ["row", `kind-${step.kind}`, `status-${step.status}`, isHead ? "head" : "", isSelected ? "selected" : ""];
  return (
    <div
      key={step.index} id={`row-${step.index}`} class={classes.filter(Boolean).join(" ")} style={style} role="treeitem"
      aria-level={depth + 1} aria-setsize={count} aria-posinset={row + 1}
      aria-selected={isSelected} aria-expanded={canFold ? !isFolded : undefined}
      onClick={() => app.select(step.index)}
    >
      <span class="time">{offset(step.start - model.start)}</span>
      <span class="rail" style={{ width: `${Math.min(depth, 12) * 16}px` }} />
      <span
        class={canFold ? "fold" : "fold none"}
        onClick={(event) => {
          if (!canFold) return;
          event.stopPropagation();
          app.toggleFold(step.run);
        }}
        aria-hidden="true"
      >{canFold ? (isFolded ? "▸" : "▾") : ""}</span>
      <span class="kind">{step.kind}</span>
      <span class="mark"><span aria-hidden="true">{STATUS_MARKS[step.status]}</span><span class="unseen">{STATUS_NAMES[step.status]}</span></span>
      <span class="title"><Line text={step.title} /></span>
      <span class="detail"><Line text={step.partial ? step.partial.slice(-160) : step.detail} /></span>
      <span class="agent">{run && !isHead ? visible(run.agent) : ""}</span>
      <span class="figure">{step.usage ? tokens(promptTokens(step.usage) + step.usage.output) : ""}</span>
      <span class="took">{duration(took(step, model))}</span>
    </div>
  );
}

export function StepList({ app }: { app: App }) {
  const { model } = app;
  const { steps, depths, rowOf } = app.currentRows();
  const keys = (event: KeyboardEvent) => {
    const step = app.step;
    const page = 12;
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -steps.length, End: steps.length };
    const by = moves[event.key];
    if (by !== undefined) app.move(by);
    else if (event.key === "ArrowLeft" && step && step.run >= 0) {
      if (isRunHead(model, step) && !app.folded.has(step.run)) app.toggleFold(step.run);
      else {
        const run = model.runs[step.run]!;
        const head = run.steps[0] === step.index ? model.runs[run.parent]?.steps[0] : run.steps[0];
        if (head !== undefined) app.select(head);
      }
    } else if (event.key === "ArrowRight" && step && app.folded.has(step.run)) app.toggleFold(step.run);
    else return;
    event.preventDefault();
  };
  const line = (row: number, style: RowStyle) => {
    const step = model.steps[steps[row]!]!;
    return <StepRow app={app} step={step} depth={depths[row]!} row={row} count={steps.length} style={style} />;
  };
  if (steps.length === 0) {
    return (
      <div class="blank">
        {model.steps.length > 0 ? (
          <>
            <p>No step matches.</p>
            <button type="button" onClick={() => app.clearFilters()}>Clear search and filters</button>
          </>
        ) : <p>{app.isLoading ? "Reading the trace…" : app.feed ? "Waiting for the first event…" : "There are no events in this trace."}</p>}
      </div>
    );
  }
  if (app.isPrinting) {
    return (
      <div class="printed" role="tree" aria-label="Steps">
        {Array.from({ length: Math.min(steps.length, MOST_PRINTED) }, (_, row) => line(row, {}))}
        {steps.length > MOST_PRINTED && <p>{steps.length - MOST_PRINTED} further steps are not printed; filter the list to print them.</p>}
      </div>
    );
  }
  return (
    <VirtualList
      count={steps.length} height={ROW_HEIGHT} current={app.selected >= 0 ? rowOf[app.selected]! : -1} follows={app.follows}
      label="Steps" active={`row-${app.selected}`} onKeyDown={keys} row={line}
    />
  );
}
