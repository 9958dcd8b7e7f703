// An effect that reminds the agent to come to an end when it has taken many turns.
import { get as params } from "shelly:plugin/config@0.1.0";

import { reminder } from "./logic.js";

export const effect = {
  eval(moment, state) {
    const { turns = 10 } = JSON.parse(params());
    const note = reminder(moment.iteration, turns);
    if (note === undefined) {
      // Until then the host does not start this plugin again.
      return { state, action: { tag: "edits", val: [] }, wake: { iteration: turns } };
    }
    // A wake without a condition: no further call in this run.
    return { state, action: { tag: "edits", val: [{ tag: "note", val: note }] }, wake: {} };
  },
};
