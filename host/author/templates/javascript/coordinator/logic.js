// The part that needs no host: it is tested on your own machine.

/** Returns the member that works in this step; undefined if all rounds are over. */
export function chosen(members, step, rounds) {
  return step < members.length * rounds ? members[step % members.length] : undefined;
}
