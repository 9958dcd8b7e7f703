/** Makes characters visible that would hide or reorder text: controls, bidirectional marks, zero-width and tag characters. */

const HIDDEN = new RegExp(
  [
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]", // controls, without tab and line feed
    "[\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u3164\\uffa0\\ufeff\\ufff9-\\uffff]",
    "[\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f]", // zero width, separators, bidirectional
    "[\\ufe00-\\ufe0e]|[\\u{e0000}-\\u{e0fff}]", // variation selectors without that of emoji; tags
    "\\u200d(?!\\p{Extended_Pictographic})|(?<!\\p{L})\\u200c", // joiners where they join nothing
    "\\p{Cs}", // halves of surrogate pairs
  ].join("|"),
  "gu",
);

export interface Segment {
  text: string;
  isEscape: boolean;
}

function escapeOf(character: string): string {
  const code = character.codePointAt(0)!;
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\u{${code.toString(16)}}`;
}

/** The text in pieces, escapes apart. */
export function segments(text: string): Segment[] {
  const found: Segment[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index), isEscape: false });
    const last = found.at(-1);
    if (last?.isEscape && match.index === from) last.text += escapeOf(match[0]);
    else found.push({ text: escapeOf(match[0]), isEscape: true });
    from = match.index + match[0].length;
  }
  if (from < text.length || found.length === 0) found.push({ text: text.slice(from), isEscape: false });
  return found;
}

/** The text for places that hold no elements: canvas, titles, labels. */
export function visible(text: string): string {
  return text.replace(HIDDEN, escapeOf);
}

/** The text in one line. */
export function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, " ⏎ ").replace(/\t/g, " ");
}
