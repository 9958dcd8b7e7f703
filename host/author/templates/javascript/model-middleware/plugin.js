// A model middleware that refuses requests that are larger than allowed.
import { params } from "./shelly-plugin/config.js";
import { PluginError, exportModelMiddleware, s } from "./shelly-plugin/index.js";

// The params in the config.
const PARAMS = s.object({ max_tokens: s.integer("The estimated tokens of the largest request.").default(100_000) });

export const modelMiddleware = exportModelMiddleware({
  before(_cx, { tokens }) {
    const most = params(PARAMS).max_tokens;
    if (tokens > most) {
      const error = new PluginError("too-large", `the request has about ${tokens} tokens, ${most} are allowed`);
      return { tag: "reject", val: error.toContract() };
    }
    return { tag: "proceed", val: { state: new Uint8Array() } };
  },
});
