// A model that repeats what it is told.
import { params } from "./shelly-plugin/config.js";
import { PluginError, exportProvider, s, textOf } from "./shelly-plugin/index.js";
import { Streamed } from "./shelly-plugin/streamed.js";

// The params in the config.
const PARAMS = s.object({ prefix: s.string("The text before each answer.").default("") });

export const provider = exportProvider({
  complete(model, { messages }) {
    const said = messages.filter(({ role }) => role === "user").at(-1);
    if (said === undefined) throw new PluginError("invalid", "the conversation has no message of a user");
    // Each piece is shown as soon as it is added.
    const reply = new Streamed(model);
    reply.text(params(PARAMS).prefix);
    reply.text(textOf(said));
    const words = textOf(said).split(/\s+/).filter(Boolean).length;
    reply.usage({ inputTokens: words, outputTokens: words });
    return reply.finish();
  },
});
