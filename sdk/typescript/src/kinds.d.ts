import type { Guest as Coordinator } from "shelly:plugin/coordinator@0.2.0";
import type { Guest as Effect } from "shelly:plugin/effect@0.2.0";
import type { Guest as ModelMiddleware } from "shelly:plugin/model-middleware@0.2.0";
import type { Guest as Provider } from "shelly:plugin/provider@0.2.0";
import type { Guest as RunMiddleware } from "shelly:plugin/run-middleware@0.2.0";
import type { Guest as ToolMiddleware } from "shelly:plugin/tool-middleware@0.2.0";
import type { Message, Part } from "shelly:plugin/types@0.2.0";

/** Returns the text parts of a message or a completion, concatenated. */
export function textOf(message: { parts: Part[] }): string;

/** Returns true if the reply that a run middleware receives is an answer: not that of an agent that hands over or failed. */
export function isAnswer(message: Message): boolean;

/** Returns what a plugin exports as `effect`. */
export function exportEffect(functions: Effect): Effect;

/** Returns what a plugin exports as `runMiddleware`. A function that is left out lets the run pass. */
export function exportRunMiddleware(functions: Partial<RunMiddleware>): RunMiddleware;

/** Returns what a plugin exports as `modelMiddleware`. A function that is left out lets the request or reply pass. */
export function exportModelMiddleware(functions: Partial<ModelMiddleware>): ModelMiddleware;

/** Returns what a plugin exports as `toolMiddleware`. A function that is left out lets the call or result pass. */
export function exportToolMiddleware(functions: Partial<ToolMiddleware>): ToolMiddleware;

/** Returns what a plugin exports as `provider`. */
export function exportProvider(functions: Provider): Provider;

/** Returns what a plugin exports as `coordinator`. */
export function exportCoordinator(functions: Coordinator): Coordinator;
