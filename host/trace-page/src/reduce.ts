/** Turns the lines of an event stream into the model, one line at a time. Pure: no clock, no document, no network. */

import {
  addUsage, noUsage, type Gap, type Kind, type LineRef, type Model, type Run, type Status, type Step, type Wait,
} from "./model";
import {
  costOf, messageSummary, number as asNumber, sharesOf, short, text as asText, toolCallsOf, toolResultsOf, usageOf, type Fields,
} from "./fields";
import { OpenDelegations } from "./delegations";
import { describe, list, withheld } from "./describe";
import { StreamNumbers } from "./numbers";

/** Characters of a reply that is still arriving that are kept for display. */
const PARTIAL_TEXT = 4_000;

interface OpenSteps {
  model: Step | null;
  /** The last request: the message with its reply belongs to it. */
  replied: Step | null;
  tools: Map<string, Step>;
  delegations: OpenDelegations;
  questions: Map<string, Step>;
  iteration: number;
}

/** One tool call by its id: the message that made it comes before its step, the one with its result after it. */
interface CallRecord {
  step: Step | null;
  /** Line with the whole arguments: the reply that made the call. */
  asked: LineRef | null;
}

export class Reducer {
  readonly model: Model = {
    runs: [], steps: [], roots: [], calls: [], plugins: new Map(), session: "", version: null, start: NaN, end: NaN,
    lines: 0, broken: 0, duplicates: 0, missed: 0, epochs: 0, revision: 0,
  };

  /** Step of each line by its chunk and number; -1 for a line that belongs to none. */
  readonly stepOfLine: number[][] = [];

  private readonly runById = new Map<string, Run>();
  private readonly runByAgent = new Map<string, Run>();
  private readonly open = new Map<number, OpenSteps>();
  private readonly callsById = new Map<string, CallRecord>();
  /** The wait of its parent for each run. */
  private readonly waitFor = new Map<number, Wait>();
  private readonly links = new Map<string, number>();
  private numbers = new StreamNumbers();
  /** Gaps of earlier streams. */
  private olderGaps: Gap[] = [];
  /** Index of the first run since the session was resumed. */
  private firstOfStream = 0;
  /** Line of a beginning after which no event has come yet. */
  private restart: LineRef | null = null;

  /** Adds one line: its JSON text, and its place. Lines that are no JSON objects are counted and kept as steps. */
  pushText(json: string, chunk: number, line: number, ref: LineRef): void {
    let fields: unknown;
    try {
      fields = JSON.parse(json);
    } catch {
      fields = null;
    }
    let step: Step | null;
    try {
      step = this.push(fields, ref);
    } catch {
      // Whatever a line says, the others are shown.
      this.model.broken += 1;
      step = this.note(ref, "fail", "A line that cannot be read", "", null, String(this.model.lines));
    }
    (this.stepOfLine[chunk] ??= [])[line] = step ? step.index : -1;
  }

  /** Returns the step to which the line belongs, if it belongs to one. */
  push(fields: unknown, ref: LineRef): Step | null {
    const model = this.model;
    model.revision += 1;
    model.lines += 1;
    if (typeof fields !== "object" || fields === null || Array.isArray(fields)) {
      model.broken += 1;
      return this.note(ref, "fail", "A line that is not a JSON object", "", null, String(model.lines));
    }
    let event = fields as Fields;
    // A stream over HTTP has the event as an object below `event`, with the fields of the stream around it.
    if (typeof event.event === "object" && event.event !== null) event = { ...event, ...(event.event as Fields) };
    const name = asText(event.event) || "?";
    if (name === "stream_started") return this.streamStarted(event, ref);
    if (model.epochs === 0) model.epochs = 1;
    const sequence = typeof event.sequence === "number" ? event.sequence : null;
    if (sequence !== null && this.restart !== null) this.beginEpoch(sequence, asText(event.time));
    if (sequence !== null && !this.numbers.add(sequence, asText(event.time), event)) {
      model.duplicates += 1;
      return null;
    }
    const parsed = Date.parse(asText(event.time));
    const time = Number.isNaN(parsed) ? (Number.isNaN(model.end) ? 0 : model.end) : parsed;
    if (!(time >= model.start)) model.start = time;
    if (!(time <= model.end)) model.end = time;
    if (typeof event.session === "string" && event.session) model.session ||= short(event.session, 200);
    return this.event(name, event, time, ref, this.linkOf(sequence));
  }

  /** Returns the index of the step that a link names. */
  stepOfLink(link: string): number {
    return this.links.get(link) ?? -1;
  }

  runOfId(id: string): number {
    return this.runById.get(id)?.index ?? -1;
  }

  /** Numbers of events that did not arrive. */
  gaps(): Gap[] {
    return [...this.olderGaps, ...this.numbers.gaps().map(([from, to]) => ({ epoch: this.model.epochs, from, to }))];
  }

  /** Marks what is still open as cut off: no further line will come. */
  finish(): void {
    for (const run of this.model.runs) {
      if (run.end === null) this.closeRun(run, this.model.end, "cut");
    }
    this.model.revision += 1;
  }

  private linkOf(sequence: number | null): string {
    const number = sequence ?? `l${this.model.lines}`;
    return this.model.epochs > 1 ? `${this.model.epochs}.${number}` : String(number);
  }

  /** A stream begins with this line. It may come again: when a session is resumed, or a reader connects anew. */
  private streamStarted(event: Fields, ref: LineRef): Step | null {
    const model = this.model;
    model.version = Math.max(model.version ?? 0, asNumber(event.version) ?? 0);
    if (typeof event.session === "string") model.session ||= short(event.session, 200);
    const sequence = asNumber(event.sequence);
    const time = asText(event.time);
    const isFirst = model.epochs === 0;
    if (isFirst) model.epochs = 1;
    if (sequence === null) {
      // The numbers of the next events tell which it is.
      if (!isFirst) this.restart = ref;
      return null;
    }
    if (this.numbers.knows(sequence, time)) {
      model.duplicates += 1;
      return null;
    }
    const goesOn = isFirst || sequence > this.numbers.last;
    const note = isFirst ? null : this.resume(ref, !goesOn, goesOn ? this.linkOf(sequence) : "");
    this.numbers.add(sequence, time, event);
    return note;
  }

  /** A further process goes on with the session: what was open is not, and ids of runs occur again. */
  private resume(ref: LineRef, countsAnew: boolean, link: string): Step {
    const model = this.model;
    for (const run of model.runs) {
      if (run.end === null) this.closeRun(run, model.end, "cut");
    }
    this.firstOfStream = model.runs.length;
    this.restart = null;
    if (countsAnew) {
      this.olderGaps = this.gaps();
      model.epochs += 1;
      this.numbers = new StreamNumbers();
    }
    return this.note(ref, "warn", "The session was resumed", "", null, link || `${model.epochs}.0`);
  }

  /** Decides by the first event after a beginning whether a new stream has begun, whose numbers count from 1 again. */
  private beginEpoch(sequence: number, time: string): void {
    const ref = this.restart;
    this.restart = null;
    if (ref !== null && sequence <= this.numbers.last && !this.numbers.knows(sequence, time)) this.resume(ref, true, "");
  }

  private event(name: string, event: Fields, time: number, ref: LineRef, link: string): Step | null {
    if (name === "run_started") return this.runStarted(event, time, ref, link);
    const run = this.runOf(event);
    const step = (kind: Kind, title: string, detail = "", status: Status = "ok"): Step =>
      this.addStep({ kind, run, time, ref, link, title, detail, status });
    const lasting = (made: Step): Step => {
      const duration = asNumber(event.duration_ms);
      if (duration !== null && duration > 0) made.start = Math.max(made.start - duration, run?.start ?? this.model.start);
      return made;
    };
    const agent = asText(event.agent);
    switch (name) {
      case "run_finished": return run ? this.runFinished(run, event, time, ref, link) : step("run", `${agent} ended`);
      case "message_added": return this.messageAdded(event, run, ref, step);
      case "model_started": return this.modelStarted(event, run, step);
      case "model_delta": return this.modelDelta(event, run, ref);
      case "model_waits": return this.modelWaits(event, run, ref, step);
      case "model_failed": return this.modelFailed(event, run, time, ref, step);
      case "model_finished": return this.modelFinished(event, run, time, ref, step);
      case "tool_started": return this.toolStarted(event, run, step);
      case "tool_progress": return this.toolProgress(event, run, ref, step);
      case "tool_finished": return this.toolFinished(event, run, time, ref, step);
      case "file_change": {
        const to = event.to ? ` → ${short(asText(event.to), 200)}` : "";
        const counts = [event.added, event.removed].map(asNumber);
        const lines = counts[0] === null && counts[1] === null ? "" : `+${counts[0] ?? 0} −${counts[1] ?? 0}`;
        return this.inCall(step("file", `${asText(event.act)} ${short(asText(event.path), 200)}${to}`, lines), event);
      }
      case "plugin_call": return this.pluginCall(event, lasting, step);
      case "plugin_request": {
        const figures = this.figures(asText(event.plugin));
        figures.requests += 1;
        const outcome = asText(event.outcome);
        const status = outcome === "answered" ? ((asNumber(event.status) ?? 0) >= 400 ? "warn" : "ok") : "fail";
        const answer = outcome === "answered" ? asText(event.status) : `${outcome}: ${short(asText(event.reason), 120)}`;
        return lasting(step("http", `${asText(event.method)} ${short(asText(event.url), 200)}`, answer, status));
      }
      case "team_step": {
        if (run) run.isTeam = true;
        const title = event.done ? "The team is done" : `Next: ${list(event.members)}`;
        return step("team", title, short(asText(event.reasoning), 200));
      }
      case "question_asked": return this.questionAsked(event, run, time, step);
      case "question_answered": return this.questionAnswered(event, run, time, ref, step);
      case "missed": {
        this.model.missed += asNumber(event.count) ?? 0;
        return step("note", "Events were dropped", `${asNumber(event.count) ?? "some"} events`, "warn");
      }
      default: {
        const { kind, title, detail, status } = describe(name, event);
        return lasting(step(kind, title, detail, status));
      }
    }
  }

  private runOf(event: Fields): Run | null {
    const id = asText(event.run);
    if (id) {
      const known = this.runById.get(id);
      if (known) return known;
    }
    const agent = asText(event.agent);
    if (!id) return this.runByAgent.get(agent) ?? null;
    // Its beginning is missing: it is shown all the same.
    const time = Date.parse(asText(event.time));
    return this.addRun(id, agent || "?", asText(event.parent), Number.isNaN(time) ? this.model.end : time);
  }

  private addRun(id: string, agent: string, parentId: string, time: number): Run {
    const parent = parentId ? (this.runById.get(parentId) ?? this.runByAgent.get(parentId)) : undefined;
    const run: Run = {
      index: this.model.runs.length, id: short(id, 200), agent: short(agent, 100), parent: parent?.index ?? -1, parentStep: -1,
      children: [], model: "", task: "", isTeam: false, start: time, end: null, status: "open", error: null, iterations: 0,
      usage: noUsage(), cost: null, steps: [], failures: 0, waits: [],
    };
    this.model.runs.push(run);
    this.runById.set(id, run);
    this.runByAgent.set(agent, run);
    this.open.set(run.index, {
      model: null, replied: null, tools: new Map(), delegations: new OpenDelegations(), questions: new Map(), iteration: 0,
    });
    if (parent) {
      parent.children.push(run.index);
      const wait: Wait = { start: time, end: null, child: run.index };
      parent.waits.push(wait);
      this.waitFor.set(run.index, wait);
    } else {
      this.model.roots.push(run.index);
    }
    return run;
  }

  private addStep(made: {
    kind: Kind; run: Run | null; time: number; ref: LineRef; link: string; title: string; detail: string; status: Status;
  }): Step {
    const { kind, run, time, ref, link, title, detail, status } = made;
    const step: Step = {
      index: this.model.steps.length, link, kind, run: run?.index ?? -1, start: time, end: time, status, title, detail,
      refs: [ref], iteration: run ? this.open.get(run.index)!.iteration : 0,
    };
    this.model.steps.push(step);
    this.links.set(link, step.index);
    if (run) {
      run.steps.push(step.index);
      if (status === "fail") run.failures += 1;
    }
    return step;
  }

  private note(ref: LineRef, status: Status, title: string, detail: string, run: Run | null, link: string): Step {
    const time = Number.isNaN(this.model.end) ? 0 : this.model.end;
    return this.addStep({ kind: "note", run, time, ref, link, title, detail, status });
  }

  private fail(step: Step, detail: string): void {
    if (step.status !== "fail" && step.run >= 0) this.model.runs[step.run]!.failures += 1;
    step.status = "fail";
    if (detail) step.detail = short(detail, 200);
  }

  private runStarted(event: Fields, time: number, ref: LineRef, link: string): Step {
    const id = asText(event.run) || `${asText(event.agent)}#${this.model.runs.length}`;
    let run = this.runById.get(id);
    // Ids of runs are counted, and a resumed session counts anew.
    if (run && run.index < this.firstOfStream) run = undefined;
    const again = run !== undefined && run.steps.length > 0;
    if (!run) run = this.addRun(id, asText(event.agent), asText(event.parent ?? event.parent_agent), time);
    if (run.end !== null) {
      run.end = null;
      run.status = "open";
      const wait = this.waitFor.get(run.index);
      if (wait) wait.end = null;
    }
    if (typeof event.agent === "string") run.agent = short(event.agent, 100);
    run.model = short(asText(event.model), 100);
    run.task = short(asText(event.task), 300);
    if (run.parent >= 0 && run.parentStep < 0) run.parentStep = this.callThatStarted(run, event);
    return this.addStep({
      kind: "run", run, time, ref, link, title: again ? `${run.agent} goes on` : run.agent, detail: run.task, status: "ok",
    });
  }

  /** Index of the step of the parent's call for which this run works; -1 if there is none. */
  private callThatStarted(run: Run, event: Fields): number {
    const call = asText(event.parent_call);
    if (call) return this.callsById.get(callKey(this.model.runs[run.parent]!, call))?.step?.index ?? -1;
    return this.open.get(run.parent)!.delegations.take(asText(event.configured) || asText(event.agent));
  }

  private runFinished(run: Run, event: Fields, time: number, ref: LineRef, link: string): Step {
    const error = typeof event.error === "string" ? event.error : null;
    run.iterations = asNumber(event.iterations) ?? run.iterations;
    const usage = usageOf(event.usage);
    if (usage) run.usage = usage;
    run.cost = costOf(event) ?? run.cost;
    run.error = error === null ? null : short(error, 1_000);
    this.closeRun(run, time, error === null ? "ok" : "fail");
    const step = this.addStep({
      kind: "run", run, time, ref, link, title: `${run.agent} ${error === null ? "finished" : "failed"}`,
      detail: short(error ?? "", 200), status: error === null ? "ok" : "fail",
    });
    return step;
  }

  private closeRun(run: Run, time: number, status: Status): void {
    run.end = time;
    run.status = status;
    const open = this.open.get(run.index)!;
    const left = [open.model, ...open.tools.values(), ...open.questions.values()];
    for (const step of left) {
      if (step && (step.status === "open" || step.status === "wait")) {
        step.status = "cut";
        step.end = time;
        delete step.partial;
      }
    }
    open.model = null;
    open.tools.clear();
    open.delegations.clear();
    open.questions.clear();
    for (const wait of run.waits) wait.end ??= time;
    const waited = this.waitFor.get(run.index);
    if (waited) waited.end ??= time;
  }

  private messageAdded(event: Fields, run: Run | null, ref: LineRef, step: MakeStep): Step | null {
    const open = run ? this.open.get(run.index)! : null;
    const role = asText(event.role);
    for (const id of toolCallsOf(event.message)) {
      const key = callKey(run, id);
      const known = this.callsById.get(key);
      if (known?.step) known.step.refs.push(ref);
      else this.callsById.set(key, { step: null, asked: ref });
    }
    if (role === "assistant" && open?.replied) {
      open.replied.refs.push(ref);
      const summary = messageSummary(event.message);
      if (summary) open.replied.detail = summary;
      const replied = open.replied;
      open.replied = null;
      return replied;
    }
    if (role === "tool") {
      let found: Step | null = null;
      for (const result of toolResultsOf(event.message)) {
        const of = this.callsById.get(callKey(run, result.id))?.step;
        if (!of) continue;
        of.refs.push(ref);
        if (result.summary && of.status !== "fail") of.detail = result.summary;
        found ??= of;
      }
      if (found) return found;
    }
    const summary = messageSummary(event.message);
    return step("message", role || "message", withheld(event) ?? summary);
  }

  private modelStarted(event: Fields, run: Run | null, step: MakeStep): Step {
    const open = run ? this.open.get(run.index)! : null;
    const iteration = asNumber(event.iteration) ?? 0;
    if (open) open.iteration = iteration;
    const made = step("model", run?.model || "model", "", "open");
    made.end = null;
    made.iteration = iteration;
    const tokens = asNumber(event.tokens);
    const fills = sharesOf(event.parts);
    if (fills) made.fills = fills.slice(0, 12);
    const window = asNumber(event.window);
    if (window !== null) made.window = window;
    if (tokens !== null) made.detail = `about ${tokens.toLocaleString("en")} tokens`;
    if (open) {
      if (open.model && open.model.status === "open") {
        open.model.status = "cut";
        open.model.end = made.start;
      }
      open.model = made;
      open.replied = null;
    }
    return made;
  }

  private openModel(run: Run | null): Step | null {
    return run ? this.open.get(run.index)!.model : null;
  }

  private modelDelta(event: Fields, run: Run | null, ref: LineRef): Step | null {
    const step = this.openModel(run);
    if (!step) return null;
    const delta = event.delta as Fields | null;
    if (delta && typeof delta === "object" && typeof delta.value === "string" && delta.kind !== "tool_call") {
      step.partial = ((step.partial ?? "") + delta.value).slice(-PARTIAL_TEXT);
    }
    // The first and the last are enough to find them all.
    if (step.refs.length < 64) step.refs.push(ref);
    return step;
  }

  private modelWaits(event: Fields, run: Run | null, ref: LineRef, step: MakeStep): Step {
    const of = this.openModel(run);
    const detail = `${asText(event.wait).replace("_", " ")}: ${short(asText(event.detail), 160)}`;
    if (!of) return step("model", asText(event.model), detail, "wait");
    of.refs.push(ref);
    of.detail = detail;
    return of;
  }

  private modelFailed(event: Fields, run: Run | null, time: number, ref: LineRef, step: MakeStep): Step {
    const reason = asText(event.reason);
    const of = this.openModel(run);
    if (!of) return step("model", short(asText(event.model), 80), short(reason, 200), event.again ? "warn" : "fail");
    of.refs.push(ref);
    delete of.partial;
    if (event.again) {
      of.detail = short(`sent again: ${reason}`, 200);
      return of;
    }
    of.title = short(asText(event.model), 80) || of.title;
    of.end = time;
    this.fail(of, reason);
    this.open.get(run!.index)!.model = null;
    return of;
  }

  private modelFinished(event: Fields, run: Run | null, time: number, ref: LineRef, step: MakeStep): Step {
    const open = run ? this.open.get(run.index)! : null;
    const of = open?.model ?? step("model", "model");
    if (of.refs.at(-1) !== ref) of.refs.push(ref);
    const duration = asNumber(event.duration_ms);
    if (!open?.model && duration !== null) of.start = time - duration;
    of.end = time;
    of.status = "ok";
    of.title = short(asText(event.model), 80) || of.title;
    of.iteration = asNumber(event.iteration) ?? of.iteration;
    delete of.partial;
    const stop = typeof event.stop === "string" ? event.stop : short(JSON.stringify(event.stop ?? null), 60);
    const calls = asNumber(event.calls) ?? 0;
    of.detail = calls > 0 ? `${calls} tool ${calls === 1 ? "call" : "calls"}` : stop.replace("_", " ");
    if (stop === "refusal" || stop === "max_tokens") of.status = "warn";
    const usage = usageOf(event.usage) ?? noUsage();
    of.usage = usage;
    const cost = costOf(event);
    if (cost !== null) of.cost = cost;
    if (run) {
      addUsage(run.usage, usage);
      run.iterations = Math.max(run.iterations, of.iteration);
      if (cost !== null) run.cost = (run.cost ?? 0) + cost;
      this.model.calls.push({ step: of.index, run: run.index, time, usage, cost });
    }
    if (open) {
      open.model = null;
      open.replied = of;
    }
    return of;
  }

  private toolStarted(event: Fields, run: Run | null, step: MakeStep): Step {
    const call = asText(event.call);
    const made = step("tool", short(asText(event.tool), 80), short(asText(event.arguments), 200), "open");
    made.end = null;
    made.call = call;
    const key = callKey(run, call);
    const record = this.callsById.get(key);
    if (record?.asked != null) made.refs.push(record.asked);
    this.callsById.set(key, { step: made, asked: record?.asked ?? null });
    if (run) {
      const open = this.open.get(run.index)!;
      open.tools.set(call, made);
      open.delegations.begin(call, made.index, asText(event.tool), asText(event.origin));
    }
    return made;
  }

  private toolProgress(event: Fields, run: Run | null, ref: LineRef, step: MakeStep): Step {
    const of = run ? this.open.get(run.index)!.tools.get(asText(event.call)) : undefined;
    if (!of) return step("tool", "progress", short(asText(event.message), 160));
    if (of.refs.length < 200) of.refs.push(ref);
    return of;
  }

  private toolFinished(event: Fields, run: Run | null, time: number, ref: LineRef, step: MakeStep): Step {
    const call = asText(event.call);
    const open = run ? this.open.get(run.index)! : null;
    const of = open?.tools.get(call) ?? step("tool", short(asText(event.tool), 80));
    open?.tools.delete(call);
    open?.delegations.end(call);
    if (of.refs.at(-1) !== ref) of.refs.push(ref);
    const duration = asNumber(event.duration_ms);
    if (of.end === null) of.end = time;
    else if (duration !== null) of.start = time - duration;
    of.status = "ok";
    of.call = call;
    const key = callKey(run, call);
    this.callsById.set(key, { step: of, asked: this.callsById.get(key)?.asked ?? null });
    if (event.is_error) this.fail(of, asText(event.reason) || "failed");
    return of;
  }

  private inCall(step: Step, event: Fields): Step {
    if (typeof event.call === "string") step.call = event.call;
    return step;
  }

  private figures(plugin: string): PluginFiguresOf {
    const name = short(plugin, 100);
    let figures = this.model.plugins.get(name);
    if (!figures) {
      figures = {
        plugin: name, calls: 0, failures: 0, cpu: 0, duration: 0, memory: 0, bytesIn: 0, bytesOut: 0, requests: 0,
      };
      this.model.plugins.set(name, figures);
    }
    return figures;
  }

  private pluginCall(event: Fields, lasting: (step: Step) => Step, step: MakeStep): Step {
    const figures = this.figures(asText(event.plugin));
    const outcome = asText(event.outcome) || "ok";
    const failed = outcome !== "ok";
    const cpu = asNumber(event.cpu_ms) ?? 0;
    const memory = asNumber(event.memory) ?? 0;
    figures.calls += 1;
    if (failed) figures.failures += 1;
    figures.cpu += cpu;
    figures.duration += asNumber(event.duration_ms) ?? 0;
    figures.memory = Math.max(figures.memory, memory);
    figures.bytesIn += asNumber(event.bytes_in) ?? 0;
    figures.bytesOut += asNumber(event.bytes_out) ?? 0;
    const made = lasting(step("plugin", short(asText(event.plugin), 80), asText(event.function), failed ? "fail" : "ok"));
    if (failed) made.detail += ` · ${short(outcome, 80)}`;
    made.cpu = cpu;
    made.memory = memory;
    return made;
  }

  private questionAsked(event: Fields, run: Run | null, time: number, step: MakeStep): Step {
    const made = step("question", short(asText(event.question), 200), "waits for an answer", "wait");
    made.end = null;
    if (run) {
      this.open.get(run.index)!.questions.set(asText(event.id), made);
      run.waits.push({ start: time, end: null, child: -1 });
    }
    return made;
  }

  private questionAnswered(event: Fields, run: Run | null, time: number, ref: LineRef, step: MakeStep): Step {
    const questions = run ? this.open.get(run.index)!.questions : null;
    const of = questions?.get(asText(event.id)) ?? step("question", short(asText(event.question), 200));
    if (of.refs.at(-1) !== ref) of.refs.push(ref);
    questions?.delete(asText(event.id));
    of.end = time;
    const outcome = asText(event.outcome);
    of.status = outcome === "no" || outcome === "declined" || outcome === "nobody" ? "warn" : "ok";
    const by = asText(event.by);
    of.detail = `${outcome}${by ? ` · by ${by}` : ""}`;
    const wait = run?.waits.findLast((wait) => wait.child === -1 && wait.end === null && wait.start === of.start);
    if (wait) wait.end = time;
    return of;
  }
}

type MakeStep = (kind: Kind, title: string, detail?: string, status?: Status) => Step;
type PluginFiguresOf = Model["plugins"] extends Map<string, infer F> ? F : never;

const callKey = (run: Run | null, call: string): string => `${run?.index ?? -1}/${call}`;
