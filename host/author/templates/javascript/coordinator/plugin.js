// A coordinator that lets the members of a team work one after the other, for some rounds.
import { params } from "./shelly-plugin/config.js";
import { exportCoordinator, s } from "./shelly-plugin/index.js";

// The params in the config.
const PARAMS = s.object({ rounds: s.integer("The number of times that each member works.").default(1) });

export const coordinator = exportCoordinator({
  next({ members, step }, state) {
    if (step >= members.length * params(PARAMS).rounds) {
      // The answer of the team is the last reply in its chat.
      return { state: new Uint8Array(), action: { tag: "done", val: { tag: "last-reply" } } };
    }
    const { name } = members[step % members.length];
    return { state, action: { tag: "run", val: [{ member: name }] } };
  },
});
