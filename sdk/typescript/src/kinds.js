// The exports of all kinds except tools: the functions of the contract, with errors converted to the form of the contract.
import { answer } from "./errors.js";

const NO_STATE = new Uint8Array();

/** Returns the functions, each with its errors converted. */
function exported(functions) {
  const wrapped = (call) => (...args) => answer(() => call.apply(functions, args));
  return Object.fromEntries(Object.entries(functions).map(([name, call]) => [name, wrapped(call)]));
}

/** Returns the text parts of a message or a completion, concatenated. */
export function textOf({ parts }) {
  return parts.map((part) => (part.tag === "text" ? part.val : "")).join("");
}

/** Returns true if the reply that a run middleware receives is an answer: not that of an agent that hands over or failed. */
export function isAnswer(message) {
  const ending = new Map(message.meta).get("shelly.ending");
  return ending !== "handed-over" && ending !== "failed";
}

export function exportEffect(functions) {
  return exported(functions);
}

export function exportRunMiddleware(functions) {
  const before = () => ({ tag: "proceed", val: { state: NO_STATE } });
  return exported({ before, after: () => ({ tag: "accept" }), ...functions });
}

export function exportModelMiddleware(functions) {
  const before = () => ({ tag: "proceed", val: { state: NO_STATE } });
  return exported({ before, after: () => ({ tag: "accept" }), ...functions });
}

export function exportToolMiddleware(functions) {
  const before = () => ({ verdict: { tag: "allow" }, state: NO_STATE });
  return exported({ before, after: () => undefined, ...functions });
}

export function exportProvider(functions) {
  return exported(functions);
}

export function exportCoordinator(functions) {
  return exported(functions);
}
