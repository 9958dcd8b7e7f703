// An effect that reminds the agent to come to an end when it has taken many turns.
import { params } from "./shelly-plugin/config.js";
import { exportEffect, s } from "./shelly-plugin/index.js";

// The params in the config.
const PARAMS = s.object({ turns: s.integer("The number of turns after which the agent is reminded.").default(10) });

export const effect = exportEffect({
  eval({ iteration }, state) {
    const { turns } = params(PARAMS);
    if (iteration < turns) {
      // Until then the host does not start this plugin again.
      return { state, action: { tag: "edits", val: [] }, nextCall: { tag: "when", val: { iteration: turns } } };
    }
    const note = `You have taken ${iteration} turns. Come to an end, or say what is still missing.`;
    return { state, action: { tag: "edits", val: [{ tag: "note", val: note }] }, nextCall: { tag: "never" } };
  },
});
