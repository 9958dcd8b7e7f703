/** What the page shows: runs, their steps, and figures. `reduce.ts` fills it from the lines of an event stream. */

/** Place of a line: its chunk and its number there, in one number. */
export type LineRef = number;

/** Lines that one chunk can hold; a chunk has about 1 MiB. */
const LINES_A_CHUNK = 1 << 21;

export const lineRef = (chunk: number, line: number): LineRef => chunk * LINES_A_CHUNK + line;
export const chunkOf = (ref: LineRef): number => Math.floor(ref / LINES_A_CHUNK);
export const lineOf = (ref: LineRef): number => ref % LINES_A_CHUNK;

/** Kinds of steps, in the order in which the filter shows them. */
export const KINDS = [
  "run", "message", "model", "tool", "file", "question", "capability", "effect", "middleware", "team", "plugin", "http",
  "log", "note", "other",
] as const;
export type Kind = (typeof KINDS)[number];

/** `cut`: the stream ended, or its run did, before the step was complete. */
export type Status = "ok" | "fail" | "warn" | "open" | "wait" | "cut";

export interface Usage {
  input: number;
  output: number;
  read: number;
  write: number;
}

/** A child run, or a person, that a run waited for. */
export interface Wait {
  start: number;
  end: number | null;
  /** Index of the child run; -1 for a question. */
  child: number;
}

export interface Run {
  index: number;
  id: string;
  agent: string;
  parent: number;
  /** Step of the parent during which this run began; -1 if unknown. */
  parentStep: number;
  children: number[];
  model: string;
  task: string;
  isTeam: boolean;
  start: number;
  end: number | null;
  status: Status;
  error: string | null;
  iterations: number;
  usage: Usage;
  cost: number | null;
  steps: number[];
  failures: number;
  waits: Wait[];
}

export interface Step {
  index: number;
  /** Number of the event that opened it, as links name it: `17`, or `2.17` in the second stream of a resumed session. */
  link: string;
  kind: Kind;
  /** Index of its run; -1 if it belongs to none. */
  run: number;
  start: number;
  end: number | null;
  status: Status;
  title: string;
  detail: string;
  refs: LineRef[];
  /** Iteration of the agent's loop; 0 before the first. */
  iteration: number;
  usage?: Usage;
  cost?: number;
  /** Tokens of a request by what they are, and the window of its model. */
  fills?: [string, number][];
  window?: number;
  cpu?: number;
  memory?: number;
  /** Text of a reply that is still arriving. */
  partial?: string;
  /** Tool call to which it belongs. */
  call?: string;
}

/** One request to a model, as the plots need it. */
export interface ModelCall {
  step: number;
  run: number;
  time: number;
  usage: Usage;
  cost: number | null;
}

export interface PluginFigures {
  plugin: string;
  calls: number;
  failures: number;
  cpu: number;
  duration: number;
  memory: number;
  bytesIn: number;
  bytesOut: number;
  requests: number;
}

/** Sequence numbers that did not arrive: from the first to the last of them. */
export interface Gap {
  epoch: number;
  from: number;
  to: number;
}

export interface Model {
  runs: Run[];
  steps: Step[];
  roots: number[];
  calls: ModelCall[];
  plugins: Map<string, PluginFigures>;
  session: string;
  version: number | null;
  /** Earliest and latest time; `NaN` while there is no line. */
  start: number;
  end: number;
  lines: number;
  broken: number;
  duplicates: number;
  missed: number;
  /** Streams that were joined: 2 if a session was resumed once. */
  epochs: number;
  /** Grows by one with each change. */
  revision: number;
}

export const noUsage = (): Usage => ({ input: 0, output: 0, read: 0, write: 0 });

export function addUsage(sum: Usage, more: Usage): void {
  sum.input += more.input;
  sum.output += more.output;
  sum.read += more.read;
  sum.write += more.write;
}

export const promptTokens = (usage: Usage): number => usage.input + usage.read + usage.write;

/** Share of the prompt that came from the vendor's cache, 0 to 1; `null` without a prompt. */
export function cacheShare(usage: Usage): number | null {
  const prompt = promptTokens(usage);
  return prompt > 0 ? usage.read / prompt : null;
}
