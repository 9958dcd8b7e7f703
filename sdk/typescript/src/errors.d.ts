import type { Error as ContractError } from "shelly:plugin/types@0.2.0";

/**
 * The kinds of errors. `invalid` is for the model: say what is wrong and what would be right. `rate-limited` and
 * `unavailable` may be tried again.
 */
export type ErrorKind =
  | "invalid"
  | "denied"
  | "not-found"
  | "too-large"
  | "exhausted"
  | "rate-limited"
  | "unavailable"
  | "timeout"
  | "other";

/** A failure. Put no secrets into its message. */
export class PluginError extends Error {
  constructor(kind: ErrorKind, message: string, afterMs?: number);
  readonly kind: ErrorKind;
  /** The milliseconds to wait before another attempt, for `rate-limited` and `unavailable`. */
  readonly afterMs: number | undefined;
  toContract(): ContractError;
  static fromContract(error: ContractError): PluginError;
}
