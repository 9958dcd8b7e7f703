// The part that needs no host: it is tested on your own machine.

/** Returns why a request is refused; undefined if it is not. */
export function refusal(tokens: bigint, most: bigint): string | undefined {
  return tokens > most ? `the request has about ${tokens} tokens, ${most} are allowed` : undefined;
}
