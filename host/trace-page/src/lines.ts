/** Keeps the lines of a trace compressed, and gives out those that are looked at. */

import { chunkOf, lineOf, type LineRef } from "./model";

/** Bytes of a chunk as text beyond which it is not read: it was made to fill the memory. */
const LONGEST_CHUNK = 256 * 1024 * 1024;
/** Decompressed chunks that are kept, of about 1 MiB each. */
const KEPT_CHUNKS = 16;
/** Characters of live lines after which they are compressed as a chunk. */
const LIVE_CHUNK = 1024 * 1024;

interface Base64Bytes {
  fromBase64?: (text: string) => Uint8Array<ArrayBuffer>;
}

export function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as Base64Bytes).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array<ArrayBuffer>[]> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const reader = stream.getReader();
  let length = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    length += next.value.length;
    if (length > LONGEST_CHUNK) {
      await reader.cancel();
      throw new Error("a chunk is too long");
    }
    parts.push(next.value as Uint8Array<ArrayBuffer>);
  }
  return parts;
}

function through(bytes: Uint8Array<ArrayBuffer>, transform: CompressionStream | DecompressionStream): Promise<Uint8Array<ArrayBuffer>[]> {
  const source = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      controller.enqueue(bytes);
      controller.close();
    },
  });
  return collect(source.pipeThrough(transform as ReadableWritablePair<Uint8Array, Uint8Array<ArrayBuffer>>));
}

export async function gunzip(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const decoder = new TextDecoder();
  const parts = await through(bytes, new DecompressionStream("gzip"));
  return parts.map((part) => decoder.decode(part, { stream: true })).join("") + decoder.decode();
}

async function gzip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const parts = await through(new TextEncoder().encode(text), new CompressionStream("gzip"));
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export class LineStore {
  private readonly chunks: (Uint8Array<ArrayBuffer> | string)[] = [];
  private readonly kept = new Map<number, string>();
  private live: string[] = [];
  private liveLength = 0;

  /** Chunks that are complete, and the one that grows. */
  get count(): number {
    return this.chunks.length + (this.live.length > 0 ? 1 : 0);
  }

  addChunk(bytes: Uint8Array<ArrayBuffer>): number {
    return this.chunks.push(bytes) - 1;
  }

  /** Adds a line of a stream; returns its chunk and its number there. */
  addLine(line: string): { chunk: number; line: number } {
    if (this.liveLength > LIVE_CHUNK) this.closeChunk();
    const place = { chunk: this.chunks.length, line: this.live.length };
    this.live.push(line);
    this.liveLength += line.length;
    return place;
  }

  private closeChunk(): void {
    const text = this.live.join("\n");
    const chunk = this.chunks.push(text) - 1;
    this.live = [];
    this.liveLength = 0;
    gzip(text).then((bytes) => { this.chunks[chunk] = bytes; }, () => {});
  }

  /** The text of a chunk. `once`: it is not looked at again soon. */
  async text(chunk: number, once = false): Promise<string> {
    if (chunk === this.chunks.length) return this.live.join("\n");
    const stored = this.chunks[chunk];
    if (stored === undefined) throw new Error(`there is no chunk ${chunk}`);
    if (typeof stored === "string") return stored;
    const known = this.kept.get(chunk);
    if (known !== undefined) {
      this.kept.delete(chunk);
      this.kept.set(chunk, known);
      return known;
    }
    const text = await gunzip(stored);
    if (!once) {
      this.kept.set(chunk, text);
      for (const oldest of this.kept.keys()) {
        if (this.kept.size <= KEPT_CHUNKS) break;
        this.kept.delete(oldest);
      }
    }
    return text;
  }

  /** The lines, in the order of `refs`. */
  async lines(refs: readonly LineRef[]): Promise<string[]> {
    const found: string[] = [];
    for (const ref of refs) {
      const text = await this.text(chunkOf(ref));
      found.push(lineAt(text, lineOf(ref)));
    }
    return found;
  }
}

/** Returns a line of a text by its number, from 0; empty if there is none. */
export function lineAt(text: string, line: number): string {
  let from = 0;
  for (let at = 0; at < line; at += 1) {
    const end = text.indexOf("\n", from);
    if (end < 0) return "";
    from = end + 1;
  }
  const end = text.indexOf("\n", from);
  return text.slice(from, end < 0 ? undefined : end);
}
