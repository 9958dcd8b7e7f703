// The error that a plugin throws, and that the host's functions throw in a plugin.
import { asInteger } from "./integers.js";

const KINDS = [
  ...["invalid", "denied", "not-found", "too-large", "exhausted"],
  ...["rate-limited", "unavailable", "timeout", "other"],
];
const RETRIED = ["rate-limited", "unavailable"];

export class PluginError extends Error {
  constructor(kind, message, afterMs) {
    if (!KINDS.includes(kind)) throw new TypeError(`unknown kind of error ${kind}; use one of ${KINDS.join(", ")}`);
    if (afterMs !== undefined && !RETRIED.includes(kind)) {
      throw new TypeError(`an error of kind ${kind} has no \`afterMs\`; only ${RETRIED.join(" and ")} have one`);
    }
    super(message);
    this.name = "PluginError";
    this.kind = kind;
    this.afterMs = afterMs;
  }

  /** The error as the contract has it. */
  toContract() {
    if (!RETRIED.includes(this.kind)) return { tag: this.kind, val: this.message };
    return { tag: this.kind, val: { message: this.message, afterMs: afterMs(this.afterMs) } };
  }

  static fromContract({ tag, val }) {
    if (!RETRIED.includes(tag)) return new PluginError(tag, val);
    // Some engines pass null for an option that is none.
    return new PluginError(tag, val.message, val.afterMs == null ? undefined : Number(val.afterMs));
  }
}

function afterMs(number) {
  return number === undefined ? undefined : asInteger(Math.ceil(number));
}

function isContractError(value) {
  return typeof value === "object" && value !== null && KINDS.includes(value.tag) && "val" in value;
}

/** Calls a function of the host, and throws its error as a `PluginError`. */
export function callHost(call, ...args) {
  try {
    return call(...args);
  } catch (error) {
    const payload = error?.payload ?? error;
    throw isContractError(payload) ? PluginError.fromContract(payload) : error;
  }
}

/** Calls a function of the plugin, and throws its error in the form of the contract. Any other exception is logged, too. */
export function answer(call) {
  try {
    return call();
  } catch (error) {
    if (error instanceof PluginError) throw error.toContract();
    const payload = error?.payload ?? error;
    if (isContractError(payload)) throw payload;
    // Not every engine has a console.
    globalThis.console?.error(error?.stack ? `${error}\n${error.stack}` : String(error));
    throw { tag: "other", val: `the plugin failed: ${error}` };
  }
}
