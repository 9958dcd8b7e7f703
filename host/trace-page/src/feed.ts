/** Follows the events of a run at a server. */

export type FeedState = "connecting" | "following" | "ended" | "broken";

export interface FeedHandlers {
  lines(lines: string[]): void;
  state(state: FeedState, detail: string): void;
}

/** Events that wait to be drawn; beyond that they are handed on at once. */
const MOST_WAITING = 5_000;

/** Milliseconds before the first and the longest pause before a connection is tried again. */
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 15_000;

/** Hands lines on once a frame. */
class FrameBatch {
  private waiting: string[] = [];
  private frame = 0;

  constructor(private readonly handlers: FeedHandlers) {}

  add(line: string): void {
    this.waiting.push(line);
    if (this.waiting.length > MOST_WAITING) this.flush();
    // A page that is hidden gets no frames.
    else if (!this.frame) this.frame = document.hidden ? setTimeout(() => this.flush(), 250) as unknown as number : requestAnimationFrame(() => this.flush());
  }

  flush(): void {
    this.frame = 0;
    if (this.waiting.length === 0) return;
    const lines = this.waiting;
    this.waiting = [];
    this.handlers.lines(lines);
  }
}

/** Follows an address by the browser's event source, which connects again by itself. Returns the function that ends it. */
export function followSource(address: string, handlers: FeedHandlers): () => void {
  const batch = new FrameBatch(handlers);
  const source = new EventSource(address);
  handlers.state("connecting", "");
  const message = (event: MessageEvent) => batch.add(String(event.data));
  source.addEventListener("message", message);
  source.addEventListener("run", message);
  source.addEventListener("gap", (event) => batch.add(gapLine((event as MessageEvent).data)));
  source.addEventListener("end", () => {
    batch.flush();
    source.close();
    handlers.state("ended", "");
  });
  source.onopen = () => handlers.state("following", "");
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) handlers.state("broken", "the server closed the stream");
    else handlers.state("connecting", "");
  };
  return () => source.close();
}

/** Follows an address with a header that an event source cannot send. Returns the function that ends it. */
export function followFetch(address: string, headers: () => Record<string, string>, handlers: FeedHandlers): () => void {
  const stop = new AbortController();
  void follow(address, headers, handlers, stop.signal);
  return () => stop.abort();
}

async function follow(address: string, headers: () => Record<string, string>, handlers: FeedHandlers, stop: AbortSignal): Promise<void> {
  const batch = new FrameBatch(handlers);
  let last = "";
  let wait = FIRST_PAUSE;
  while (!stop.aborted) {
    handlers.state("connecting", "");
    try {
      const answer = await fetch(address, { headers: { ...headers(), accept: "text/event-stream", ...(last ? { "last-event-id": last } : {}) }, signal: stop });
      if (!answer.ok || !answer.body) {
        if (answer.status >= 400 && answer.status < 500 && answer.status !== 429 && answer.status !== 408) {
          return handlers.state("broken", `the server answered ${answer.status}`);
        }
        throw new Error(String(answer.status));
      }
      handlers.state("following", "");
      wait = FIRST_PAUSE;
      for await (const frame of sseFrames(answer.body)) {
        if (frame.id) last = frame.id;
        if (frame.event === "end") {
          batch.flush();
          return handlers.state("ended", "");
        }
        if (frame.event === "gap") batch.add(gapLine(frame.data));
        else if ((frame.event === "" || frame.event === "message" || frame.event === "run") && frame.data) batch.add(frame.data);
        if (frame.event === "shutdown" || frame.event === "behind") break;
      }
    } catch {
      // It is tried again below; the state says so.
    }
    batch.flush();
    if (stop.aborted) return;
    handlers.state("connecting", "");
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, LONGEST_PAUSE);
  }
}

/** A gap that the server knows of, as the event that says so in a file. */
function gapLine(data: string): string {
  try {
    const { from, to } = JSON.parse(data) as { from: number; to: number };
    return JSON.stringify({ event: "missed", count: to - from + 1 });
  } catch {
    return JSON.stringify({ event: "missed" });
  }
}

export interface SseFrame {
  id: string;
  event: string;
  data: string;
}

/** Splits a body into its lines, without their ends. */
export async function* textLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      rest += decoder.decode(next.value, { stream: true });
      let from = 0;
      for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n", from)) {
        yield rest.slice(from, rest[end - 1] === "\r" ? end - 1 : end);
        from = end + 1;
      }
      rest = rest.slice(from);
    }
    if (rest) yield rest;
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Splits a text/event-stream into its frames. One that its end cuts off is left out, as the format says. */
export async function* sseFrames(body: ReadableStream<Uint8Array>): AsyncGenerator<SseFrame> {
  let frame: SseFrame = { id: "", event: "", data: "" };
  let hasData = false;
  for await (const line of textLines(body)) {
    if (line === "") {
      if (hasData) yield frame;
      frame = { id: "", event: "", data: "" };
      hasData = false;
      continue;
    }
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") {
      frame.data = hasData ? `${frame.data}\n${value}` : value;
      hasData = true;
    } else if (name === "id" || name === "event") {
      frame[name] = value;
    }
  }
}
