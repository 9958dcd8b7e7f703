import type { Type } from "./schema.js";

/** Returns the params of the config, checked: `params(s.object({ turns: s.integer().default(10) }))`. */
export function params<T>(shape: Type<T>): T;
/** Returns the params of the config. */
export function params(): Record<string, unknown>;
