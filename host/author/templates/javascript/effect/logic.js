// The part that needs no host: it is tested on your own machine.

/** Returns what the agent is told; undefined before it has taken so many turns. */
export function reminder(iteration, turns) {
  if (iteration < turns) return undefined;
  return `You have taken ${iteration} turns. Come to an end, or say what is still missing.`;
}
