// A run middleware that asks again, once, when an answer is empty.
import { get as params } from "shelly:plugin/config@0.1.0";

import { isEmptyAnswer } from "./logic.js";

export const runMiddleware = {
  before(_cx, _input) {
    return { tag: "proceed", val: { state: new Uint8Array() } };
  },

  after(_cx, outcome, state) {
    if (outcome.attempt > 0 || outcome.reply.tag !== "ok") return { tag: "accept" };
    const { parts, meta } = outcome.reply.val;
    const texts = parts.flatMap((part) => (part.tag === "text" ? [part.val] : []));
    if (!isEmptyAnswer(texts, new Map(meta))) return { tag: "accept" };
    const { feedback = "Your answer was empty. Answer in words." } = JSON.parse(params());
    return { tag: "retry", val: { feedback, delayMs: 0n, state } };
  },
};
