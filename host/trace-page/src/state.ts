/** What the page shows now: the trace, the choice of steps, and what a person has selected. */

import { useLayoutEffect, useReducer } from "preact/hooks";
import { KINDS, lineRef, type Kind, type Model, type Step } from "./model";
import { LineStore } from "./lines";
import { Slices, type Meta } from "./loader";
import { Reducer } from "./reduce";
import { rowsOf, visibleRuns, type Rows } from "./rows";
import { matchingLines, needles } from "./search";
import type { FeedState } from "./feed";

export type View = "steps" | "figures";

/** Sets of kinds that are chosen together. */
export const PRESETS: { name: string; kinds: readonly Kind[] }[] = [
  { name: "Everything", kinds: KINDS },
  { name: "Conversation", kinds: ["run", "message", "model", "question", "team"] },
  { name: "Tools", kinds: ["tool", "file"] },
  { name: "Files", kinds: ["file"] },
  { name: "Decisions", kinds: ["question", "capability"] },
  { name: "Changes", kinds: ["effect", "middleware"] },
  { name: "Plugins", kinds: ["plugin", "http", "log"] },
];

export interface Search {
  query: string;
  /** Steps found so far; `null` without a query. */
  matches: Set<number> | null;
  /** Share of the lines that were looked at. */
  done: number;
}

/** Milliseconds between two drawings while a file is read. */
const DRAW_EVERY = 150;

export class App {
  /** The time of the newest event while the page shows a later one. */
  private lastEvent: number | null = null;
  readonly reducer = new Reducer();
  readonly store = new LineStore();
  readonly model: Model = this.reducer.model;

  meta: Meta = { version: 0, title: "", session: "", chunks: 0, lines: 0, live: "", serve: false };
  isLoading = true;
  chunksRead = 0;
  damaged = 0;
  feed: { state: FeedState; detail: string } | null = null;

  view: View = "steps";
  selected = -1;
  /** The list shows its newest row while a run goes on. */
  follows = false;
  run = -1;
  hidden: ReadonlySet<Kind> = new Set();
  failures = false;
  nested = true;
  folded: ReadonlySet<number> = new Set();
  search: Search = { query: "", matches: null, done: 1 };
  zoom: { start: number; end: number } | null = null;
  showsHelp = false;
  isPrinting = false;
  /** What a screen reader is told. */
  message = "";

  private readonly listeners = new Set<() => void>();
  private rows: { key: string; hidden: unknown; folded: unknown; matches: unknown; rows: Rows } | null = null;
  private wanted: { run: string; step: string } | null = null;
  private drawn = 0;
  private later = 0;
  private searchNumber = 0;

  /** Applies `change` and draws. */
  update(change: () => void): void {
    change();
    for (const listener of this.listeners) listener();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Draws, but not more often than a person sees. */
  updateSoon(): void {
    const wait = this.drawn + DRAW_EVERY - performance.now();
    if (wait <= 0) this.draw();
    else this.later ||= setTimeout(() => this.draw(), wait) as unknown as number;
  }

  private draw(): void {
    clearTimeout(this.later);
    this.later = 0;
    this.drawn = performance.now();
    this.followLink();
    this.update(() => {});
  }

  addLines(lines: readonly string[]): void {
    this.settleTime();
    for (const text of lines) this.addLine(text);
    this.followLink();
    this.update(() => {});
  }

  /** Lets what is open last until `now`, a time of the server, although no event came. */
  passTime(now: number): void {
    if (this.model.steps.length === 0 || !(now > this.model.end)) return;
    this.lastEvent ??= this.model.end;
    this.update(() => { this.model.end = now; });
  }

  /** Takes back what `passTime` has shown: the times of events are exact. */
  settleTime(): void {
    if (this.lastEvent !== null) this.model.end = this.lastEvent;
    this.lastEvent = null;
  }

  /** Adds one of many lines that are there already; the page draws now and then. */
  async readLine(text: string, slices: Slices): Promise<void> {
    this.addLine(text);
    this.updateSoon();
    await slices.rest();
  }

  private addLine(text: string): void {
    const { chunk, line } = this.store.addLine(text);
    this.reducer.pushText(text, chunk, line, lineRef(chunk, line));
  }

  currentRows(): Rows {
    const key = [this.model.steps.length, this.model.revision, this.failures, this.nested, this.run, this.search.matches?.size ?? -1].join();
    const known = this.rows;
    if (known && known.key === key && known.hidden === this.hidden && known.folded === this.folded && known.matches === this.search.matches) {
      return known.rows;
    }
    const rows = rowsOf(this.model, {
      nested: this.nested, folded: this.folded, hidden: this.hidden, failures: this.failures, run: this.run, matches: this.search.matches,
    });
    this.rows = { key, hidden: this.hidden, folded: this.folded, matches: this.search.matches, rows };
    return rows;
  }

  get step(): Step | null {
    return this.model.steps[this.selected] ?? null;
  }

  select(step: number): void {
    this.update(() => {
      this.selected = step;
      if (this.view === "figures" && step >= 0) this.view = "steps";
      this.follows = false;
    });
    this.writeLink();
  }

  /** Moves the selection by rows of the list. */
  move(by: number): void {
    const { steps, rowOf } = this.currentRows();
    if (steps.length === 0) return;
    const row = this.selected >= 0 ? rowOf[this.selected]! : -1;
    const next = row < 0 ? (by > 0 ? 0 : steps.length - 1) : Math.max(0, Math.min(steps.length - 1, row + by));
    this.select(steps[next]!);
  }

  setRun(run: number): void {
    this.update(() => {
      this.run = run;
      this.view = this.view === "figures" ? "figures" : "steps";
    });
    this.writeLink();
  }

  toggleFold(run: number): void {
    this.update(() => {
      const folded = new Set(this.folded);
      if (!folded.delete(run)) folded.add(run);
      this.folded = folded;
    });
  }

  foldAll(fold: boolean): void {
    this.update(() => {
      this.folded = fold ? new Set(this.model.runs.filter((run) => run.parent >= 0).map((run) => run.index)) : new Set();
    });
  }

  setKinds(kinds: readonly Kind[]): void {
    this.update(() => { this.hidden = new Set(KINDS.filter((kind) => !kinds.includes(kind))); });
  }

  toggleKind(kind: Kind): void {
    this.update(() => {
      const hidden = new Set(this.hidden);
      if (!hidden.delete(kind)) hidden.add(kind);
      this.hidden = hidden;
    });
  }

  clearFilters(): void {
    void this.find("");
    this.update(() => {
      this.hidden = new Set();
      this.failures = false;
      this.run = -1;
      this.zoom = null;
    });
    this.writeLink();
  }

  get isFiltered(): boolean {
    return this.hidden.size > 0 || this.failures || this.run >= 0 || this.search.matches !== null;
  }

  /** Looks for a text in all lines, and shows what was found so far. */
  async find(query: string): Promise<void> {
    this.searchNumber += 1;
    const number = this.searchNumber;
    const wanted = query.trim();
    if (wanted === "") {
      this.update(() => { this.search = { query, matches: null, done: 1 }; });
      return;
    }
    const found = new Set<number>();
    const lower = wanted.toLowerCase();
    for (const step of this.model.steps) {
      if (step.title.toLowerCase().includes(lower) || step.detail.toLowerCase().includes(lower)) found.add(step.index);
    }
    this.update(() => { this.search = { query, matches: found, done: 0 }; });
    const slices = new Slices();
    for (let chunk = 0; chunk < this.store.count; chunk += 1) {
      const text = await this.store.text(chunk, true).catch(() => "");
      if (number !== this.searchNumber) return;
      const stepOf = this.reducer.stepOfLine[chunk] ?? [];
      const before = found.size;
      for (const line of matchingLines(text, needles(wanted))) {
        const step = stepOf[line];
        if (step !== undefined && step >= 0) found.add(step);
      }
      this.search.done = (chunk + 1) / Math.max(1, this.store.count);
      // A new set: lists compare sets by identity.
      if (found.size !== before) this.search.matches = new Set(found);
      this.updateSoon();
      await slices.rest();
      if (number !== this.searchNumber) return;
    }
    this.update(() => {
      this.search = { query, matches: found, done: 1 };
      this.message = `${found.size} steps found`;
    });
  }

  laneRuns(): { run: number; depth: number }[] {
    return visibleRuns(this.model, this.folded);
  }

  /** The link to what is shown: `#run=…&step=…`. */
  link(step: Step | null): string {
    const part = new URLSearchParams();
    const now = new URLSearchParams(location.hash.slice(1));
    for (const key of ["live", "session"]) if (now.has(key)) part.set(key, now.get(key)!);
    const run = step && step.run >= 0 ? this.model.runs[step.run]! : this.model.runs[this.run];
    if (run) part.set("run", run.id);
    if (step) part.set("step", step.link);
    return `#${part.toString()}`;
  }

  writeLink(): void {
    history.replaceState(null, "", this.link(this.step));
  }

  /** Takes over what the address names, as soon as it has been read. */
  readLink(): void {
    const part = new URLSearchParams(location.hash.slice(1));
    this.wanted = { run: part.get("run") ?? "", step: part.get("step") ?? "" };
    this.followLink();
    this.update(() => {});
  }

  private followLink(): void {
    if (!this.wanted) return;
    const { run, step } = this.wanted;
    if (step) {
      const found = this.reducer.stepOfLink(step);
      if (found < 0) return;
      this.selected = found;
    } else if (run) {
      const found = this.reducer.runOfId(run);
      if (found < 0) return;
      this.selected = this.model.runs[found]!.steps[0] ?? -1;
    }
    this.wanted = null;
  }
}

/**
 * Draws the component whenever the page's state changes. It listens before the browser draws: a small trace is read before
 * that, and nothing would ever be drawn of it.
 */
export function useApp(app: App): void {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useLayoutEffect(() => app.listen(() => draw(0)), [app]);
}
