/** Reads fields of events, which may be absent or of another type: nothing that a line says is trusted. */

import type { Usage } from "./model";

export type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null;

export function text(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export const number = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);

/**
 * Returns at most `length` characters. The result is a copy: a slice would keep the whole text in memory from which it was
 * cut.
 */
export function short(value: string, length: number): string {
  if (value.length <= length) return value;
  const cut = value.slice(0, length);
  return `${JSON.parse(JSON.stringify(cut)) as string}…`;
}

export function usageOf(value: unknown): Usage | null {
  if (typeof value !== "object" || value === null) return null;
  const usage = value as Fields;
  return {
    input: number(usage.input_tokens) ?? 0,
    output: number(usage.output_tokens) ?? 0,
    read: number(usage.cache_read_tokens) ?? 0,
    write: number(usage.cache_write_tokens) ?? 0,
  };
}

/** The cost in US dollars; `null` if the event tells none. */
export const costOf = (event: Fields): number | null => number(event.usd ?? event.cost_usd ?? event.cost);

/**
 * `[{"kind": "system", "tokens": 12}, …]` or `{"system": 12, …}` as names with numbers; `null` if it is neither.
 */
export function sharesOf(value: unknown): [string, number][] | null {
  const entries: [string, number | null][] = [];
  if (Array.isArray(value)) {
    for (const item of value) {
      if (!isFields(item)) return null;
      const words = Object.values(item).filter((word) => typeof word === "string");
      entries.push([short(words.join(" "), 80), number(item.tokens ?? item.calls ?? item.bytes)]);
    }
  } else if (isFields(value)) {
    for (const [name, size] of Object.entries(value)) entries.push([short(name.replaceAll("_", " "), 80), number(size)]);
  }
  return entries.length > 0 && entries.every(([, size]) => size !== null) ? (entries as [string, number][]) : null;
}

export interface MessagePart {
  type: string;
  value: unknown;
}

/** The parts of a message, whatever else it is. */
export function partsOf(message: unknown): MessagePart[] {
  if (typeof message !== "object" || message === null) return [];
  const parts = (message as Fields).parts;
  if (!Array.isArray(parts)) return [];
  return parts
    .filter((part): part is Fields => typeof part === "object" && part !== null)
    .map((part) => ({ type: text(part.type), value: part.value }));
}

/** One line for a list: the beginning of its text, else the names of the tools that it calls. */
export function messageSummary(message: unknown): string {
  const calls: string[] = [];
  for (const part of partsOf(message)) {
    if (part.type === "text" && typeof part.value === "string" && part.value.trim()) return short(part.value, 200);
    if (part.type === "tool_call" && isFields(part.value)) calls.push(text(part.value.name));
  }
  if (calls.length > 0) return short(`calls ${calls.join(", ")}`, 200);
  const first = partsOf(message)[0];
  if (!first) return "";
  if (first.type === "thinking" && isFields(first.value)) return short(text(first.value.text), 200);
  if (first.type === "tool_result") return toolResultsOf(message)[0]?.summary ?? "";
  return first.type;
}

/** The ids of the tool calls in a message. */
export function toolCallsOf(message: unknown): string[] {
  return partsOf(message)
    .filter((part) => part.type === "tool_call" && isFields(part.value))
    .map((part) => text((part.value as Fields).id));
}

export function toolResultsOf(message: unknown): { id: string; summary: string }[] {
  return partsOf(message)
    .filter((part) => part.type === "tool_result" && isFields(part.value))
    .map((part) => {
      const value = part.value as Fields;
      const content = Array.isArray(value.content) ? value.content : [];
      const first = content.find(isFields);
      const summary = first && typeof first.value === "string" ? short(first.value, 200) : first ? text(first.type) : "";
      return { id: text(value.call_id), summary };
    });
}
