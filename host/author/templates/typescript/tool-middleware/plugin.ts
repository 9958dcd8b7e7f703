// A tool middleware that asks a person before each call of a tool that may change something.
import { params } from "./shelly-plugin/config.js";
import { exportToolMiddleware, s } from "./shelly-plugin/index.js";

// The params in the config.
const PARAMS = s.object({ allow: s.array(s.string(), "Tools that are called without a question.").default([]) });

export const toolMiddleware = exportToolMiddleware({
  before(_cx, { name }, { hints }) {
    const state = new Uint8Array();
    if (hints.readOnly || params(PARAMS).allow.includes(name)) return { verdict: { tag: "allow" }, state };
    // After "yes, for this session" the host does not ask again for the same topic.
    const question = { text: `\`${name}\` may change something`, topic: name };
    return { verdict: { tag: "ask", val: question }, state };
  },
});
