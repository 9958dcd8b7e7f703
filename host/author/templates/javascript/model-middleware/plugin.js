// A model middleware that refuses requests that are larger than allowed.
import { get as params } from "shelly:plugin/config@0.1.0";

import { refusal } from "./logic.js";

export const modelMiddleware = {
  before(_cx, sending) {
    const { max_tokens = 100_000 } = JSON.parse(params());
    const why = refusal(sending.tokens, BigInt(max_tokens));
    if (why !== undefined) return { tag: "reject", val: { tag: "too-large", val: why } };
    return { tag: "proceed", val: { state: new Uint8Array() } };
  },

  after(_cx, _sending, _reply, _state) {
    return { tag: "accept" };
  },
};
