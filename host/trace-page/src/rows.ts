/** Which steps the list shows, in which order, and how far indented. */

import { type Kind, type Model, type Step } from "./model";

export interface RowOptions {
  /** Steps of a delegated run stand below the step that delegated; else all stand by time. */
  nested: boolean;
  folded: ReadonlySet<number>;
  hidden: ReadonlySet<Kind>;
  failures: boolean;
  /** Only this run and those below it; -1: all. */
  run: number;
  /** Only these steps; `null`: all. */
  matches: ReadonlySet<number> | null;
}

export interface Rows {
  steps: Int32Array;
  depths: Uint8Array;
  /** Row of each step; -1 if it is not shown. */
  rowOf: Int32Array;
}

/** Deeper runs are not indented further. */
const DEEPEST = 200;

/** Runs in the order of the tree, without those below folded ones. */
export function visibleRuns(model: Model, folded: ReadonlySet<number>): { run: number; depth: number }[] {
  const found: { run: number; depth: number }[] = [];
  const left = model.roots.toReversed().map((run) => ({ run, depth: 0 }));
  for (let next = left.pop(); next; next = left.pop()) {
    found.push(next);
    if (folded.has(next.run)) continue;
    const children = model.runs[next.run]!.children;
    for (let at = children.length - 1; at >= 0; at -= 1) left.push({ run: children[at]!, depth: Math.min(next.depth + 1, DEEPEST) });
  }
  return found;
}

/** Returns the run and all below it; `null` for all runs. */
export function runsBelow(model: Model, run: number): Set<number> | null {
  if (run < 0) return null;
  const found = new Set<number>([run]);
  // A child comes after its parent.
  for (let at = run + 1; at < model.runs.length; at += 1) if (found.has(model.runs[at]!.parent)) found.add(at);
  return found;
}

/** The first step of a run bears its fold mark. */
export const isRunHead = (model: Model, step: Step): boolean =>
  step.kind === "run" && step.run >= 0 && model.runs[step.run]!.steps[0] === step.index;

export function rowsOf(model: Model, options: RowOptions): Rows {
  const within = runsBelow(model, options.run);
  const steps = new Int32Array(model.steps.length);
  const depths = new Uint8Array(model.steps.length);
  const rowOf = new Int32Array(model.steps.length).fill(-1);
  let count = 0;
  const emit = (index: number, depth: number) => {
    const step = model.steps[index]!;
    if (within && !within.has(step.run)) return;
    if (options.hidden.has(step.kind)) return;
    if (options.failures && step.status !== "fail" && step.status !== "warn") return;
    if (options.matches && !options.matches.has(index)) return;
    rowOf[index] = count;
    steps[count] = index;
    depths[count] = depth;
    count += 1;
  };
  if (options.nested) emitNested(model, options, emit);
  else emitByTime(model, options, emit);
  return { steps: steps.subarray(0, count), depths: depths.subarray(0, count), rowOf };
}

type Emit = (step: number, depth: number) => void;

function emitByTime(model: Model, options: RowOptions, emit: Emit): void {
  const shown = new Map(visibleRuns(model, options.folded).map((entry) => [entry.run, entry.depth]));
  for (const step of model.steps) {
    if (step.run < 0) emit(step.index, 0);
    else if (shown.has(step.run) && (!options.folded.has(step.run) || isRunHead(model, step))) emit(step.index, 0);
  }
}

/** A walk over the tree without recursion: how deep it is, the stream says. */
function emitNested(model: Model, options: RowOptions, emit: Emit): void {
  interface Frame {
    run: number;
    depth: number;
    at: number;
    child: number;
    children: number[];
  }
  const first = (run: number): number => model.runs[run]!.steps[0] ?? Infinity;
  const frame = (run: number, depth: number): Frame => {
    const children = model.runs[run]!.children;
    const after = (child: number): number => {
      const step = model.runs[child]!.parentStep;
      return step >= 0 ? step + 0.5 : first(child);
    };
    // By the step that they stand below, those of one step by their beginning.
    return { run, depth, at: 0, child: 0, children: children.toSorted((a, b) => after(a) - after(b) || a - b) };
  };
  const loose = model.steps.filter((step) => step.run < 0);
  let nextLoose = 0;
  for (const root of model.roots) {
    for (; nextLoose < loose.length && loose[nextLoose]!.index < first(root); nextLoose += 1) emit(loose[nextLoose]!.index, 0);
    const stack = [frame(root, 0)];
    while (stack.length > 0) {
      const top = stack.at(-1)!;
      const run = model.runs[top.run]!;
      const isFolded = options.folded.has(top.run);
      const child = top.children[top.child];
      const step = run.steps[top.at];
      const under = child === undefined ? Infinity : model.runs[child]!.parentStep >= 0 ? model.runs[child]!.parentStep + 0.5 : first(child);
      if (!isFolded && child !== undefined && (step === undefined || under < step)) {
        top.child += 1;
        stack.push(frame(child, Math.min(top.depth + 1, DEEPEST)));
      } else if (step !== undefined) {
        top.at += 1;
        if (!isFolded || isRunHead(model, model.steps[step]!)) emit(step, top.depth);
      } else {
        stack.pop();
      }
    }
  }
  for (; nextLoose < loose.length; nextLoose += 1) emit(loose[nextLoose]!.index, 0);
}
