/** The tree of delegation: which agent works for which. */

import { visible } from "./escape";
import { count, duration, money, tokens } from "./format";
import { promptTokens, type Run } from "./model";
import type { App } from "./state";
import { VirtualList, type RowStyle } from "./virtual";

const HEIGHT = 40;

export const RUN_STATES = { ok: "finished", fail: "failed", open: "running", wait: "waiting", warn: "warned", cut: "cut off" };

/** `wait`: a question of the run is open. */
export function stateOf(run: Run): Run["status"] {
  return run.status === "open" && run.waits.some((wait) => wait.child < 0 && wait.end === null) ? "wait" : run.status;
}

export function RunTree({ app }: { app: App }) {
  const { model } = app;
  const lanes = app.laneRuns();
  const current = lanes.findIndex((lane) => lane.run === app.run);
  const keys = (event: KeyboardEvent) => {
    const at = lanes[current];
    const go = (row: number) => app.setRun(lanes[Math.max(0, Math.min(lanes.length - 1, row))]?.run ?? -1);
    if (event.key === "ArrowDown") go(current + 1);
    else if (event.key === "ArrowUp") go(current < 0 ? 0 : current - 1);
    else if (event.key === "ArrowLeft" && at) {
      if (model.runs[at.run]!.children.length > 0 && !app.folded.has(at.run)) app.toggleFold(at.run);
      else if (model.runs[at.run]!.parent >= 0) app.setRun(model.runs[at.run]!.parent);
    } else if (event.key === "ArrowRight" && at && app.folded.has(at.run)) app.toggleFold(at.run);
    else if ((event.key === "Enter" || event.key === " ") && at) app.select(model.runs[at.run]!.steps[0] ?? -1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const line = (row: number, style: RowStyle) => {
    const { run: index, depth } = lanes[row]!;
    const run = model.runs[index]!;
    const state = stateOf(run);
    const isFolded = app.folded.has(index);
    const used = promptTokens(run.usage) + run.usage.output;
    const facts = [
      duration((run.end ?? model.end) - run.start), used > 0 ? `${tokens(used)} tok` : "", run.cost === null ? "" : money(run.cost),
    ].filter(Boolean);
    return (
      <div
        key={index} id={`run-${index}`} class={`run status-${state}${app.run === index ? " selected" : ""}`} style={style}
        role="treeitem" aria-level={depth + 1} aria-selected={app.run === index} aria-setsize={lanes.length} aria-posinset={row + 1}
        aria-expanded={run.children.length > 0 ? !isFolded : undefined}
        title={visible(run.task)}
        onClick={() => app.setRun(app.run === index ? -1 : index)}
      >
        <span class="rail" style={{ width: `${Math.min(depth, 8) * 14}px` }} />
        <span
          class={run.children.length > 0 ? "fold" : "fold none"}
          onClick={(event) => {
            if (run.children.length === 0) return;
            event.stopPropagation();
            app.toggleFold(index);
          }}
          aria-hidden="true"
        >{run.children.length > 0 ? (isFolded ? "▸" : "▾") : ""}</span>
        <span class="dot"><span class="unseen">{RUN_STATES[state]}</span></span>
        <span class="run-text">
          <span class="run-name">{visible(run.agent)}{run.isTeam && <span class="tag">team</span>}</span>
          <span class="run-facts">{facts.join(" · ")}</span>
        </span>
        {run.failures > 0 && <span class="run-failed"><span aria-hidden="true">✕ {count(run.failures)}</span><span class="unseen">{count(run.failures)} failed</span></span>}
      </div>
    );
  };
  return (
    <section class="tree" aria-label="Agents">
      <header>
        <h2>Agents</h2>
        <span class="muted">{count(model.runs.length)}</span>
        {model.runs.length > 1 && (
          <button type="button" class="quiet" onClick={() => app.foldAll(app.folded.size === 0)}>
            {app.folded.size > 0 ? "Unfold all" : "Fold all"}
          </button>
        )}
      </header>
      <VirtualList count={lanes.length} height={HEIGHT} current={current} label="Agents and their delegated runs" active={`run-${app.run}`} onKeyDown={keys} row={line} />
    </section>
  );
}
