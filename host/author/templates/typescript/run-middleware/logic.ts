// The part that needs no host: it is tested on your own machine.

/** Returns true for an answer without a word. The message of an agent that hands over or has failed is no answer. */
export function isEmptyAnswer(texts: string[], meta: Map<string, string>): boolean {
  const ending = meta.get("shelly.ending");
  return ending !== "handed-over" && ending !== "failed" && texts.join("").trim() === "";
}
