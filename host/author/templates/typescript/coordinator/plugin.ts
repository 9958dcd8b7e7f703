// A coordinator that lets the members of a team work one after the other, for some rounds.
import { get as params } from "shelly:plugin/config@0.1.0";
import type { Guest } from "shelly:plugin/coordinator@0.1.0";

import { chosen } from "./logic.js";

export const coordinator: Guest = {
  next(moment, state) {
    const { rounds = 1 } = JSON.parse(params()) as { rounds?: number };
    const member = chosen(moment.members.map((member) => member.name), moment.step, rounds);
    // The answer of the team is the last reply in its chat.
    if (member === undefined) return { state: new Uint8Array(), action: { tag: "done", val: undefined } };
    return { state, action: { tag: "run", val: [{ member }] } };
  },
};
