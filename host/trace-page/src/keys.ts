/** The keys of the page. */

import type { App } from "./state";
import { theme } from "./theme";
import { panBy, zoomBy } from "./timeline";

function focusList(): void {
  document.querySelector<HTMLElement>(".view .virtual")?.focus({ preventScroll: true });
}

/** Selects the next step that failed, from the selected one on. */
function nextFailure(app: App): void {
  const { steps, rowOf } = app.currentRows();
  const from = app.selected >= 0 ? rowOf[app.selected]! : -1;
  for (let by = 1; by <= steps.length; by += 1) {
    const step = app.model.steps[steps[(from + by + steps.length) % steps.length]!]!;
    if (step.status === "fail") return app.select(step.index);
  }
}

function escape(app: App, target: HTMLElement): void {
  if (target.id === "search") {
    target.blur();
    focusList();
    if (app.search.query) void app.find("");
  } else if (app.selected >= 0) {
    app.select(-1);
    focusList();
  } else if (app.search.query) {
    void app.find("");
  } else if (app.run >= 0) {
    app.setRun(-1);
  }
}

export function handleKey(app: App, event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || app.showsHelp || event.defaultPrevented) return;
  const target = event.target as HTMLElement;
  if (event.key === "Escape") return escape(app, target);
  if (target.closest("input:not([type=checkbox]), textarea, select")) return;
  const isOnControl = target.closest("button, a, summary, [role=tab], input") !== null;
  const actions: Record<string, () => void> = {
    j: () => app.move(1),
    k: () => app.move(-1),
    g: () => app.select(app.currentRows().steps[0] ?? -1),
    G: () => app.select(app.currentRows().steps.at(-1) ?? -1),
    "/": () => document.getElementById("search")?.focus(),
    f: () => app.update(() => { app.failures = !app.failures; }),
    e: () => nextFailure(app),
    t: () => app.update(() => { app.nested = !app.nested; }),
    x: () => { if (app.step && app.step.run >= 0) app.toggleFold(app.step.run); },
    d: () => app.update(() => theme.toggle()),
    "?": () => app.update(() => { app.showsHelp = true; }),
    "+": () => zoomBy(app, 0.5),
    "=": () => zoomBy(app, 0.5),
    "-": () => zoomBy(app, 2),
    "0": () => app.update(() => { app.zoom = null; }),
    "[": () => panBy(app, -0.2),
    "]": () => panBy(app, 0.2),
    "1": () => app.update(() => { app.view = "steps"; }),
    "2": () => app.update(() => { app.view = "figures"; }),
  };
  if (event.key === "Enter") {
    if (isOnControl) return;
    if (app.selected < 0) app.move(1);
    document.getElementById("detail")?.focus();
    event.preventDefault();
    return;
  }
  const action = actions[event.key];
  if (!action) return;
  action();
  event.preventDefault();
}
