// A model that repeats what it is told.
import { get as params } from "shelly:plugin/config@0.1.0";
import type { Guest } from "shelly:plugin/provider@0.1.0";
import { emit } from "shelly:plugin/sink@0.1.0";
import type { Error } from "shelly:plugin/types@0.1.0";

import { answer } from "./logic.js";

export const provider: Guest = {
  complete(model, request) {
    const said = request.messages.filter((message) => message.role === "user").at(-1);
    if (!said) throw { tag: "invalid", val: "the conversation has no message of a user" } satisfies Error;
    const { prefix = "" } = JSON.parse(params()) as { prefix?: string };
    const text = answer(prefix, said.parts.flatMap((part) => (part.tag === "text" ? [part.val] : [])));
    // Each piece is shown as soon as it is emitted. Together they must be the text that is returned.
    emit({ tag: "text", val: text });
    const words = BigInt(text.split(/\s+/).filter(Boolean).length);
    const usage = { inputTokens: words, outputTokens: words, cacheReadTokens: 0n, cacheWriteTokens: 0n };
    return { parts: [{ tag: "text", val: text }], stop: { tag: "end-turn" }, usage, model, meta: [] };
  },
};
