/** Finds a text in all lines, a chunk at a time. */

/** The texts to look for in JSON lines: as a string has it, and as JSON in a string has it (arguments of tools). */
export function needles(query: string): string[] {
  const plain = query.toLowerCase();
  const once = JSON.stringify(plain).slice(1, -1);
  const twice = JSON.stringify(once).slice(1, -1);
  return [...new Set([once, twice])];
}

/** Numbers of the lines of `text` that have one of `wanted`, in lower case. */
export function matchingLines(text: string, wanted: readonly string[]): number[] {
  const lower = text.toLowerCase();
  const found = new Set<number>();
  for (const needle of wanted) {
    let line = 0;
    let begin = 0;
    for (let at = lower.indexOf(needle); at >= 0; ) {
      for (let end = lower.indexOf("\n", begin); end >= 0 && end < at; end = lower.indexOf("\n", begin)) {
        line += 1;
        begin = end + 1;
      }
      found.add(line);
      const next = lower.indexOf("\n", at);
      if (next < 0) break;
      line += 1;
      begin = next + 1;
      at = lower.indexOf(needle, begin);
    }
  }
  return [...found].sort((a, b) => a - b);
}
