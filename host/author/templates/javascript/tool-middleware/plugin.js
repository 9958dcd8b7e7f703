// A tool middleware that asks a person before each call of a tool that may change something.
import { get as params } from "shelly:plugin/config@0.1.0";

import { question } from "./logic.js";

export const toolMiddleware = {
  before(_cx, call, target) {
    // Tools that are called without a question.
    const { allow = [] } = JSON.parse(params());
    const text = question(call.name, target.hints.readOnly ?? false, allow);
    // After "yes, for this session" the host does not ask again for the same topic.
    const verdict = text === undefined ? { tag: "allow" } : { tag: "ask", val: { text, topic: call.name } };
    return { verdict, state: new Uint8Array() };
  },

  after(_cx, _call, _outcome, _state) {
    return undefined;
  },
};
