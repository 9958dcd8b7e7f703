/** Compares two texts by lines. */

export interface DiffLine {
  op: " " | "-" | "+" | "@";
  text: string;
}

/** Differing lines beyond which the texts are shown one after the other: the comparison takes their square. */
const MOST_EDITS = 600;

/** Lines of the shortest edit from `before` to `after` (Myers, 1986). */
export function diffLines(before: string, after: string): DiffLine[] {
  const a = before === "" ? [] : before.replace(/\n$/, "").split("\n");
  const b = after === "" ? [] : after.replace(/\n$/, "").split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const keep = (text: string): DiffLine => ({ op: " ", text });
  return [
    ...a.slice(0, head).map(keep),
    ...shortestEdit(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(keep),
  ];
}

function shortestEdit(a: string[], b: string[]): DiffLine[] {
  const all = (): DiffLine[] => [
    ...a.map((text): DiffLine => ({ op: "-", text })),
    ...b.map((text): DiffLine => ({ op: "+", text })),
  ];
  if (a.length === 0 || b.length === 0) return all();
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const reached = new Int32Array(2 * most + 3);
  const trace: Int32Array[] = [];
  const at = (k: number): number => k + most + 1;
  for (let edits = 0; edits <= most; edits += 1) {
    trace.push(reached.slice(at(-edits) - 1, at(edits) + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reached[at(k - 1)]! < reached[at(k + 1)]!);
      let x = down ? reached[at(k + 1)]! : reached[at(k - 1)]! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reached[at(k)] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, trace, edits);
    }
  }
  return all();
}

function walkBack(a: string[], b: string[], trace: Int32Array[], edits: number): DiffLine[] {
  const lines: DiffLine[] = [];
  let x = a.length;
  let y = b.length;
  for (let step = edits; step > 0; step -= 1) {
    const reached = trace[step]!;
    const at = (k: number): number => reached[k + step + 1]!;
    const k = x - y;
    const down = k === -step || (k !== step && at(k - 1) < at(k + 1));
    const fromX = down ? at(k + 1) : at(k - 1);
    const fromY = fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY && x > 0 && y > 0 && a[x - 1] === b[y - 1]) {
      lines.push({ op: " ", text: a[x - 1]! });
      x -= 1;
      y -= 1;
    }
    if (down) lines.push({ op: "+", text: b[y - 1]! });
    else lines.push({ op: "-", text: a[x - 1]! });
    x = fromX;
    y = fromY;
  }
  while (x > 0) {
    lines.push({ op: " ", text: a[x - 1]! });
    x -= 1;
  }
  return lines.reverse();
}

/** Leaves out the unchanged lines that are further than `context` lines from a change. */
export function foldContext(lines: DiffLine[], context: number): DiffLine[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.op !== " ") near.fill(1, Math.max(0, at - context), Math.min(lines.length, at + context + 1));
  });
  const folded: DiffLine[] = [];
  let skipped = 0;
  const skip = () => {
    if (skipped > 0) folded.push({ op: "@", text: `${skipped} unchanged ${skipped === 1 ? "line" : "lines"}` });
    skipped = 0;
  };
  lines.forEach((line, at) => {
    if (near[at]) {
      skip();
      folded.push(line);
    } else {
      skipped += 1;
    }
  });
  skip();
  return folded;
}

/** Lines of a diff that is already one, in the unified format. */
export function unifiedDiff(diff: string): DiffLine[] {
  return diff.replace(/\n$/, "").split("\n").map((line): DiffLine => {
    if (line.startsWith("@@") || line.startsWith("--- ") || line.startsWith("+++ ") || line.startsWith("\\")) return { op: "@", text: line };
    const op = line[0];
    return op === "+" || op === "-" ? { op, text: line.slice(1) } : { op: " ", text: line.replace(/^ /, "") };
  });
}
