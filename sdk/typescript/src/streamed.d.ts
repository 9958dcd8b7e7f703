import type { Completion } from "shelly:plugin/types@0.2.0";

/** The tokens that a completion used. What is left out is 0. */
export interface TokenCounts {
  inputTokens?: number;
  outputTokens?: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
}

/**
 * A reply that is put together while it arrives. Each piece is shown to people as soon as it is added. Bounds: 16 MiB, 1,024
 * tool calls (`too-large`).
 */
export class Streamed {
  constructor(model: string);
  /** Adds text. */
  text(piece: string): void;
  /** Adds reasoning. */
  thinking(piece: string): void;
  /** Adds a whole tool call. The host replaces an empty id. */
  call(id: string, name: string, args: string): void;
  /** Sets the usage so far. The host charges it if the call ends without a reply. */
  usage(total: TokenCounts): void;
  /** Returns the reply. A reason that the contract does not have is passed on in the vendor's words. */
  finish(stop?: string): Completion;
}
