// A tool that counts the words, lines and characters of a text.
import type { Guest } from "shelly:plugin/tool@0.1.0";
import type { Error } from "shelly:plugin/types@0.1.0";

import { counts } from "./logic.js";

const name = "@{tool}";
// The arguments: the model reads the descriptions.
const inputSchema = JSON.stringify({
  type: "object",
  properties: { text: { type: "string", description: "The text to count in." } },
  required: ["text"],
});
// It only computes from its arguments.
const hints = { readOnly: true, nonDestructive: true, idempotent: true, closedWorld: true };

export const tool: Guest = {
  specs() {
    const description = "Counts the words, lines and characters of a text.";
    return [{ name, description, inputSchema, hints, meta: [] }];
  },

  call(call) {
    if (call.name !== name) {
      throw { tag: "not-found", val: `unknown tool \`${call.name}\`; available tools: ${name}` } satisfies Error;
    }
    const { text } = JSON.parse(call.arguments) as { text?: unknown };
    if (typeof text !== "string" || text === "") {
      // The model reads the error and tries again: say what would be right.
      throw { tag: "invalid", val: "`text` must be a string that is not empty" } satisfies Error;
    }
    return [{ tag: "json", val: JSON.stringify(counts(text)) }];
  },
};
