/** Reads the data of a trace out of the page, in slices, while the browser still reads the file. */

import { lineRef } from "./model";
import { bytesOfBase64, gunzip, type LineStore } from "./lines";
import type { Reducer } from "./reduce";

export interface Meta {
  version: number;
  title: string;
  session: string;
  chunks: number;
  lines: number;
  /** Address of an event stream that the page follows. */
  live: string;
  serve: boolean;
}

/** Milliseconds that the page works before it lets the browser draw. */
const SLICE = 12;

const DATA = 'script[type="application/json+gzip-base64"]';

/** Returns the block that says what the file holds; `null` while the browser has not read it. */
export function readMeta(): Meta | null {
  const text = document.getElementById("shelly-trace")?.textContent;
  if (!text) return null;
  let parsed: Record<string, unknown> = {};
  try {
    parsed = JSON.parse(text) as Record<string, unknown>;
  } catch {
    // A damaged block has no title; the chunks may be whole.
  }
  const string = (key: string): string => (typeof parsed[key] === "string" ? (parsed[key] as string) : "");
  const number = (key: string): number => (typeof parsed[key] === "number" ? (parsed[key] as number) : 0);
  return {
    version: number("version"), title: string("title"), session: string("session"), chunks: number("chunks"),
    lines: number("lines"), live: string("live"), serve: parsed.serve === true,
  };
}

export const pause = (): Promise<void> => new Promise((resolve) => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    channel.port1.close();
    resolve();
  };
  channel.port2.postMessage(null);
});

/** Lets the browser draw whenever a slice is over. */
export class Slices {
  private began = performance.now();

  async rest(): Promise<void> {
    if (performance.now() - this.began < SLICE) return;
    await pause();
    this.began = performance.now();
  }
}

/** Resolves when the browser has read the file up to behind the element, or to its end. */
function whole(element: Element | null): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.readyState !== "loading" || element?.nextElementSibling) resolve();
      else setTimeout(look, 20);
    };
    look();
  });
}

/** The next block of data that the browser has read completely; `null` after the last. */
async function nextBlock(): Promise<Element | null> {
  for (;;) {
    const block = document.querySelector(DATA);
    if (block) {
      await whole(block);
      return block;
    }
    if (document.readyState !== "loading") return null;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Reads all chunks. `progress` is called after each, with the number of chunks that could not be read. */
export async function loadChunks(store: LineStore, reducer: Reducer, progress: (damaged: number) => void): Promise<void> {
  const slices = new Slices();
  let damaged = 0;
  for (let block = await nextBlock(); block; block = await nextBlock()) {
    const text = block.textContent ?? "";
    // Its bytes are kept, its text need not be.
    block.remove();
    let lines = "";
    let bytes: Uint8Array<ArrayBuffer> = new Uint8Array();
    try {
      bytes = bytesOfBase64(text.trim());
      lines = await gunzip(bytes);
    } catch {
      damaged += 1;
    }
    const chunk = store.addChunk(bytes);
    await slices.rest();
    let line = 0;
    for (let from = 0; from < lines.length; line += 1) {
      const end = lines.indexOf("\n", from);
      const json = lines.slice(from, end < 0 ? undefined : end);
      if (json.trim() !== "") {
        reducer.pushText(json, chunk, line, lineRef(chunk, line));
        await slices.rest();
      }
      if (end < 0) break;
      from = end + 1;
    }
    progress(damaged);
  }
}
