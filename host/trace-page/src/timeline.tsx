/** The timeline: a lane a run, what it did and for whom it waited, and how many runs were at work at once. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { oneLine, visible } from "./escape";
import { duration, offset } from "./format";
import type { Model, Step } from "./model";
import type { App } from "./state";
import { took } from "./list";
import { stateOf } from "./tree";

const LANE = 22;
const AXIS = 20;
/** Height of the strip that shows how many runs are at work. */
const CROWD = 18;
const MOST_HEIGHT = 230;
/** Shortest time that fills the width, in milliseconds. */
const SHORTEST = 2;

interface Scale {
  left: number;
  width: number;
  start: number;
  end: number;
  top: number;
}

const xOf = (scale: Scale, time: number): number =>
  scale.left + ((time - scale.start) / Math.max(1e-6, scale.end - scale.start)) * scale.width;

const timeOf = (scale: Scale, x: number): number =>
  scale.start + ((x - scale.left) / scale.width) * (scale.end - scale.start);

function span(app: App): { start: number; end: number } {
  if (app.zoom) return app.zoom;
  const { start, end } = app.model;
  if (!Number.isFinite(start)) return { start: 0, end: 1 };
  const margin = Math.max(1, (end - start) * 0.01);
  return { start: start - margin, end: end + margin };
}

function colours(element: Element): (name: string) => string {
  const style = getComputedStyle(element);
  const known = new Map<string, string>();
  return (name) => {
    let colour = known.get(name);
    if (colour === undefined) known.set(name, (colour = style.getPropertyValue(`--${name}`).trim()));
    return colour;
  };
}

function tickStep(range: number, room: number): number {
  const wanted = range / Math.max(1, room);
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];
  return steps.find((step) => step >= wanted) ?? Math.ceil(wanted / 864e5) * 864e5;
}

function laneColour(step: Step): string {
  if (step.status === "fail") return "fail";
  if (step.kind === "question") return "kind-question";
  return step.kind === "model" || step.kind === "tool" ? `kind-${step.kind}` : "";
}

/** Draws one lane: waits, then what has a duration, then marks for failures, questions and files. */
function drawLane(context: CanvasRenderingContext2D, app: App, index: number, y: number, scale: Scale, colour: (name: string) => string): void {
  const { model } = app;
  const run = model.runs[index]!;
  const right = scale.left + scale.width;
  const bar = (from: number, to: number, top: number, height: number, fill: string, alpha = 1) => {
    if (to < scale.start || from > scale.end) return;
    const x = Math.max(scale.left, xOf(scale, from));
    const end = Math.min(right, Math.max(xOf(scale, to), x + 1.5));
    context.globalAlpha = alpha;
    context.fillStyle = fill;
    context.fillRect(x, top, end - x, height);
    context.globalAlpha = 1;
  };
  bar(run.start, run.end ?? model.end, y + LANE / 2 - 0.5, 1, colour("muted"), 0.6);
  for (const wait of run.waits) {
    const fill = wait.child < 0 ? colour("kind-question") : colour("lane-wait");
    bar(wait.start, wait.end ?? model.end, y + 4, LANE - 8, fill, wait.child < 0 ? 0.3 : 1);
  }
  // A call that delegated is time that the run waited: the child's lane shows what was done in it.
  const delegating = new Set(run.children.map((child) => model.runs[child]!.parentStep));
  // Bars that would lie in the pixel that the last one of their colour has filled are left out.
  const filled = new Map<string, number>();
  for (const at of run.steps) {
    const step = model.steps[at]!;
    const name = laneColour(step);
    if (!name || step.start > scale.end || (delegating.has(at) && step.status !== "fail")) continue;
    const end = step.end ?? model.end;
    if (end < scale.start) continue;
    const x = xOf(scale, end);
    if (x < (filled.get(name) ?? -1)) continue;
    filled.set(name, Math.floor(x) + 1);
    if (step.kind === "model" || step.kind === "tool" || step.kind === "question") bar(step.start, end, y + 6, LANE - 12, colour(name));
    else bar(step.start, step.start, y + 3, LANE - 6, colour(name));
  }
}

/** Draws lines from the parent's lane to where a child's begins and ends. */
function drawDelegation(context: CanvasRenderingContext2D, model: Model, lanes: number[], scale: Scale, colour: (name: string) => string): void {
  const rowOf = new Map(lanes.map((run, row) => [run, row]));
  context.strokeStyle = colour("muted");
  context.globalAlpha = 0.35;
  context.lineWidth = 1;
  context.beginPath();
  const height = context.canvas.clientHeight;
  lanes.forEach((index, row) => {
    const run = model.runs[index]!;
    const parent = rowOf.get(run.parent);
    if (parent === undefined) return;
    const from = scale.top + parent * LANE + LANE - 5;
    const to = scale.top + row * LANE + LANE / 2;
    if (to < 0 || from > height) return;
    for (const time of [run.start, run.end]) {
      if (time === null || time < scale.start || time > scale.end) continue;
      const x = Math.round(xOf(scale, time)) + 0.5;
      context.moveTo(x, from);
      context.lineTo(x, to);
    }
  });
  context.stroke();
  context.globalAlpha = 1;
}

/** The last counts of each model: every movement of the pointer draws. */
const crowds = new WeakMap<Model, { revision: number; crowd: { time: number; count: number }[] }>();

/** How many runs are there at once, whenever that changes. */
function crowdOf(model: Model): { time: number; count: number }[] {
  const known = crowds.get(model);
  if (known && known.revision === model.revision) return known.crowd;
  const changes: [number, number][] = [];
  for (const run of model.runs) {
    changes.push([run.start, 1], [run.end ?? model.end, -1]);
  }
  changes.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  const found: { time: number; count: number }[] = [];
  let now = 0;
  for (const [time, by] of changes) {
    now += by;
    const last = found.at(-1);
    if (last?.time === time) last.count = now;
    else found.push({ time, count: now });
  }
  crowds.set(model, { revision: model.revision, crowd: found });
  return found;
}

function drawCrowd(context: CanvasRenderingContext2D, crowd: { time: number; count: number }[], scale: Scale, colour: (name: string) => string): void {
  const most = crowd.reduce((most, at) => Math.max(most, at.count), 1);
  const right = scale.left + scale.width;
  context.fillStyle = colour("crowd");
  crowd.forEach((at, index) => {
    const x = Math.max(scale.left, xOf(scale, at.time));
    const end = Math.min(right, xOf(scale, crowd[index + 1]?.time ?? at.time));
    const height = (at.count / most) * (CROWD - 4);
    if (end > x) context.fillRect(x, AXIS + CROWD - 2 - height, end - x, height);
  });
  context.fillStyle = colour("muted");
  context.fillText(scale.left < 100 ? `up to ${most}` : `at once: up to ${most}`, 10, AXIS + CROWD - 5);
}

/** Draws the times and a line through all lanes for each. */
function drawAxis(context: CanvasRenderingContext2D, base: number, scale: Scale, colour: (name: string) => string): void {
  const step = tickStep(scale.end - scale.start, scale.width / 90);
  const right = scale.left + scale.width;
  for (let time = base + Math.ceil((scale.start - base) / step) * step; time <= scale.end; time += step) {
    const x = xOf(scale, time);
    if (x < scale.left) continue;
    context.fillStyle = colour("line");
    context.fillRect(Math.round(x), AXIS - 4, 1, MOST_HEIGHT);
    context.fillStyle = colour("muted");
    context.fillText(step < 100 ? `${Math.round(time - base)} ms` : offset(time - base), Math.min(x + 3, right - 36), 12);
  }
}

interface DrawInput {
  canvas: HTMLCanvasElement;
  app: App;
  lanes: { run: number; depth: number }[];
  scale: Scale;
  height: number;
  width: number;
}

function draw({ canvas, app, lanes, scale, height, width }: DrawInput): void {
  const context = canvas.getContext("2d");
  if (!context || width <= 0) return;
  const density = Math.min(3, window.devicePixelRatio || 1);
  if (canvas.width !== Math.round(width * density) || canvas.height !== Math.round(height * density)) {
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(height * density);
  }
  context.setTransform(density, 0, 0, density, 0, 0);
  const colour = colours(canvas);
  context.clearRect(0, 0, width, height);
  context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  const { model } = app;
  const bodyTop = AXIS + CROWD;
  context.save();
  context.beginPath();
  context.rect(0, bodyTop, width, height - bodyTop);
  context.clip();
  const inView = (row: number): boolean => scale.top + (row + 1) * LANE >= bodyTop && scale.top + row * LANE <= height;
  lanes.forEach(({ run }, row) => {
    if (!inView(row) || (run !== app.run && row % 2 === 0)) return;
    context.fillStyle = colour(run === app.run ? "chosen" : "stripe");
    context.fillRect(0, scale.top + row * LANE, width, LANE);
  });
  context.restore();
  drawAxis(context, model.start, scale, colour);
  context.save();
  context.beginPath();
  context.rect(0, bodyTop, width, height - bodyTop);
  context.clip();
  lanes.forEach(({ run: index, depth }, row) => {
    const y = scale.top + row * LANE;
    if (!inView(row)) return;
    const run = model.runs[index]!;
    const name = visible(oneLine(run.agent));
    context.fillStyle = stateOf(run) === "fail" ? colour("fail-text") : colour("text");
    const room = scale.left - 14 - Math.min(depth, 5) * 8;
    let shown = name;
    while (shown.length > 1 && context.measureText(shown).width > room) shown = shown.slice(0, -2);
    context.fillText(shown === name ? name : `${shown}…`, 8 + Math.min(depth, 5) * 8, y + LANE / 2 + 4);
    drawLane(context, app, index, y, scale, colour);
  });
  drawDelegation(context, model, lanes.map((lane) => lane.run), scale, colour);
  const chosen = app.step;
  if (chosen) {
    const x = xOf(scale, chosen.start);
    const end = Math.max(x + 2, xOf(scale, chosen.end ?? model.end));
    context.strokeStyle = colour("accent");
    context.lineWidth = 2;
    const row = lanes.findIndex((lane) => lane.run === chosen.run);
    if (end >= scale.left && x <= width) {
      context.globalAlpha = 0.35;
      context.fillStyle = colour("accent");
      context.fillRect(Math.max(scale.left, x), bodyTop, 1, height - bodyTop);
      context.globalAlpha = 1;
      if (row >= 0) {
        const from = Math.max(scale.left, x - 1);
        context.strokeRect(from, scale.top + row * LANE + 3, Math.min(width, end + 1) - from, LANE - 6);
      }
    }
  }
  context.restore();
  drawCrowd(context, crowdOf(model), scale, colour);
}

/** The step that is drawn at a place: the shortest of those there, else the nearest. */
function stepAt(model: Model, run: number, time: number, reach: number): Step | null {
  let best: Step | null = null;
  let distance = reach;
  for (const index of model.runs[run]!.steps) {
    const step = model.steps[index]!;
    const end = step.end ?? model.end;
    const away = time < step.start ? step.start - time : time > end ? time - end : 0;
    const isBar = laneColour(step) !== "" || away > 0;
    if (away < distance || (away === distance && isBar && best !== null && end - step.start <= (best.end ?? model.end) - best.start)) {
      best = step;
      distance = away;
    }
  }
  return best;
}

export function zoomBy(app: App, factor: number, around?: number): void {
  const { start, end } = span(app);
  const whole = Math.max(1, app.model.end - app.model.start);
  const middle = around ?? app.step?.start ?? (start + end) / 2;
  const pivot = middle >= start && middle <= end ? middle : (start + end) / 2;
  const from = pivot - (pivot - start) * factor;
  const to = pivot + (end - pivot) * factor;
  if (to - from < SHORTEST) return;
  app.update(() => { app.zoom = to - from > whole * 1.02 ? null : { start: from, end: to }; });
}

export function panBy(app: App, share: number): void {
  const { start, end } = span(app);
  if (!app.zoom) return;
  const whole = { start: app.model.start, end: app.model.end };
  const by = Math.max(whole.start - end + (end - start) * 0.1, Math.min(whole.end - start - (end - start) * 0.1, (end - start) * share));
  app.update(() => { app.zoom = { start: start + by, end: end + by }; });
}

export function Timeline({ app }: { app: App }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [scroll, setScroll] = useState(0);
  const [hover, setHover] = useState<{ x: number; y: number; step: Step } | null>(null);
  const drag = useRef<{ x: number; moved: boolean } | null>(null);
  const lanes = app.laneRuns();
  const whole = AXIS + CROWD + lanes.length * LANE + 6;
  const height = Math.min(MOST_HEIGHT, Math.max(whole, AXIS + CROWD + LANE));
  const most = Math.max(0, whole - height);
  const top = Math.min(scroll, most);
  const left = width < 520 ? 84 : 150;
  const scale: Scale = { left, width: Math.max(10, width - left - 8), ...span(app), top: AXIS + CROWD - top };

  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    observer.observe(box.current!);
    setWidth(box.current!.clientWidth);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (canvas.current) draw({ canvas: canvas.current, app, lanes, scale, height, width });
  });
  // The selected step's lane is brought into view.
  useEffect(() => {
    const row = app.step ? lanes.findIndex((lane) => lane.run === app.step!.run) : -1;
    if (row < 0) return;
    const y = row * LANE;
    const room = height - AXIS - CROWD;
    if (y < top) setScroll(y);
    else if (y + LANE > top + room) setScroll(Math.min(most, y + LANE - room + 6));
  }, [app.selected]);
  useEffect(() => {
    const element = box.current!;
    const wheel = (event: WheelEvent) => {
      const rect = element.getBoundingClientRect();
      const around = timeOf(scaleNow.current, event.clientX - rect.left);
      if (event.ctrlKey || event.metaKey) zoomBy(app, Math.exp(event.deltaY * 0.003), around);
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) panBy(app, (event.deltaX || event.deltaY) / scaleNow.current.width);
      else if (mostNow.current > 0) setScroll((scroll) => Math.max(0, Math.min(mostNow.current, scroll + event.deltaY)));
      else return;
      event.preventDefault();
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);
  const scaleNow = useRef(scale);
  scaleNow.current = scale;
  const mostNow = useRef(most);
  mostNow.current = most;

  const find = (event: PointerEvent): Step | null => {
    const rect = box.current!.getBoundingClientRect();
    const x = event.clientX - rect.left;
    const lane = lanes[Math.floor((event.clientY - rect.top - scale.top) / LANE)];
    if (!lane || event.clientY - rect.top < AXIS + CROWD) return null;
    if (x < left) return app.model.steps[app.model.runs[lane.run]!.steps[0] ?? -1] ?? null;
    return stepAt(app.model, lane.run, timeOf(scale, x), ((scale.end - scale.start) / scale.width) * 6);
  };
  const keys = (event: KeyboardEvent) => {
    const pans: Record<string, number> = { ArrowLeft: -0.2, ArrowRight: 0.2 };
    const by = pans[event.key];
    if (by !== undefined) panBy(app, by);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") setScroll(Math.max(0, Math.min(most, top + (event.key === "ArrowDown" ? LANE : -LANE))));
    else return;
    event.preventDefault();
  };
  const bars = app.model.runs.length;
  return (
    <section class="timeline" aria-label="Timeline">
      <div
        ref={box} class="timeline-box" role="group" tabIndex={0} onKeyDown={keys}
        aria-label={`Timeline of ${bars} ${bars === 1 ? "run" : "runs"} over ${duration(app.model.end - app.model.start)}. Arrow keys pan, plus and minus zoom, zero shows all. The list of steps has the same content.`}
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, moved: false };
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          const held = drag.current;
          if (held) {
            const by = event.clientX - held.x;
            if (Math.abs(by) > 3 || held.moved) {
              held.moved = true;
              panBy(app, -by / scale.width);
              held.x = event.clientX;
            }
            return;
          }
          const step = find(event);
          const rect = box.current!.getBoundingClientRect();
          setHover(step ? { x: event.clientX - rect.left, y: event.clientY - rect.top, step } : null);
        }}
        onPointerUp={(event) => {
          const held = drag.current;
          drag.current = null;
          if (held?.moved) return;
          const step = find(event);
          if (step) app.select(step.index);
        }}
        onPointerLeave={() => setHover(null)}
        onDblClick={(event) => zoomBy(app, 0.4, timeOf(scale, event.clientX - box.current!.getBoundingClientRect().left))}
      >
        <canvas ref={canvas} aria-hidden="true" style={{ width: `${width}px`, height: `${height}px` }} />
        {hover && (
          <div class="tip" style={{ left: `${Math.max(4, Math.min(hover.x + 12, width - 280))}px`, top: `${Math.min(hover.y + 14, height - 30)}px` }}>
            <b>{visible(oneLine(hover.step.title)).slice(0, 60)}</b> {hover.step.kind} · {offset(hover.step.start - app.model.start)} {duration(took(hover.step, app.model))}
          </div>
        )}
      </div>
      <div class="zoom">
        <span class="legend" aria-hidden="true">
          {["model", "tool", "waits", "question", "failed"].map((name) => <span key={name}><i class={`swatch ${name}`} />{name}</span>)}
        </span>
        <button type="button" aria-label="Zoom out" title="Zoom out (−)" onClick={() => zoomBy(app, 2)}>−</button>
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoomBy(app, 0.5)}>+</button>
        <button type="button" title="Show all (0)" disabled={!app.zoom} onClick={() => app.update(() => { app.zoom = null; })}>All</button>
      </div>
    </section>
  );
}
