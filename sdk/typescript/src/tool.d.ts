import type { Content, ToolCall, ToolHints, ToolSpec } from "shelly:plugin/types@0.2.0";

import type { ObjectType, Type } from "./schema.js";

/** The hints of a tool that only computes from its arguments. */
export const PURE: Readonly<Required<ToolHints>>;

/** A result of several pieces of content: `new Reply({ tag: "text", val: "two rows" }, …)`. */
export class Reply {
  constructor(...content: Content[]);
  readonly content: Content[];
}

/**
 * Returns the result of a tool that cannot work without reading this folder, given by its absolute path. If the config lets
 * the host ask a person and the person agrees, the host repeats the call with the folder.
 */
export function needsFolder(path: string): Reply;

/** Returns the result of a tool that cannot work without this server, like `needsFolder`. */
export function needsServer(url: string): Reply;

/** Returns a value as JSON. */
export function toJson(value: unknown): string;

/** Facts about a call besides its arguments. The id stays the same when the host repeats the call. */
export interface Call {
  readonly id: string;
}

/** A tool that a model can call. */
export interface Tool<A, R> {
  readonly name: string;
  /** Returns the description for the model. */
  spec(): ToolSpec;
  /** The function itself. */
  run(args: A, call: Call): R;
  /** Runs the tool with arguments as a model writes them. Throws a `PluginError` that names each wrong one. */
  call(args: string | Record<string, unknown>, call?: Call): Content[];
}

/**
 * Makes a tool. A string that it returns is a text for the model, a `Reply` several pieces of content, nothing an empty
 * result, and any other value is returned as JSON.
 */
export function defineTool<A, R>(tool: {
  /** 1 to 64 of `A-Z a-z 0-9 _ -`. */
  name: string;
  /** Its purpose, when to use it, and what it returns. The model reads it. */
  description: string;
  args: ObjectType<A>;
  /** The hints on what the tool changes. Without them the host treats it with the most care. */
  hints?: ToolHints;
  /** A name for people. */
  title?: string;
  /** The type of the JSON that the tool always returns. */
  output?: Type<unknown>;
  run(args: A, call: Call): R;
}): Tool<A, R>;

/** Returns what a plugin exports as `tool`. */
export function exportTools(...tools: Tool<any, any>[]): {
  specs(): ToolSpec[];
  call(call: ToolCall): Content[];
};
