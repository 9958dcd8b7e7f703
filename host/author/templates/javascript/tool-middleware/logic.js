// The part that needs no host: it is tested on your own machine.

/** Returns what a person is asked before a call; undefined if the call needs no question. */
export function question(tool, isReadOnly, allowed) {
  return isReadOnly || allowed.includes(tool) ? undefined : `\`${tool}\` may change something`;
}
