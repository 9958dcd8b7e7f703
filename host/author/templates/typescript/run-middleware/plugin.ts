// A run middleware that asks again, once, when an answer is empty.
import { params } from "./shelly-plugin/config.js";
import { exportRunMiddleware, isAnswer, s, textOf } from "./shelly-plugin/index.js";

// The params in the config.
const PARAMS = s.object({
  feedback: s.string("What the agent is told after an empty answer.").default("Your answer was empty. Answer in words."),
});

export const runMiddleware = exportRunMiddleware({
  after(_cx, { reply, attempt }, state) {
    // The message of an agent that hands over or has failed is no answer.
    const isEmpty = reply.tag === "ok" && isAnswer(reply.val) && textOf(reply.val).trim() === "";
    if (!isEmpty || attempt > 0) return { tag: "accept" };
    return { tag: "retry", val: { feedback: params(PARAMS).feedback, delayMs: 0n, state } };
  },
});
