/** Indents and colours JSON without reading its values: numbers and repeated keys stay as they were written. */

const INDENT = "  ";
/** Deeper values stay on one line: each level makes each line longer. */
const DEEPEST = 60;

/** Returns the JSON with one value a line; `null` if it is none. */
export function indentJson(json: string): string | null {
  const first = json.trimStart()[0];
  if (first !== "{" && first !== "[") return null;
  try {
    JSON.parse(json);
  } catch {
    return null;
  }
  const out: string[] = [];
  let depth = 0;
  let at = 0;
  const line = () => out.push(depth > DEEPEST ? " " : `\n${INDENT.repeat(depth)}`);
  while (at < json.length) {
    const character = json[at]!;
    if (character === '"') {
      let end = at + 1;
      while (json[end] !== '"') end += json[end] === "\\" ? 2 : 1;
      out.push(json.slice(at, end + 1));
      at = end + 1;
      continue;
    }
    at += 1;
    if (character === "{" || character === "[") {
      const rest = /\s*/y;
      rest.lastIndex = at;
      rest.test(json);
      const close = json[rest.lastIndex];
      if (close === "}" || close === "]") {
        out.push(character + close);
        at = rest.lastIndex + 1;
      } else {
        depth += 1;
        out.push(character);
        line();
      }
    } else if (character === "}" || character === "]") {
      depth -= 1;
      line();
      out.push(character);
    } else if (character === ",") {
      out.push(",");
      line();
    } else if (character === ":") {
      out.push(": ");
    } else if (!/\s/.test(character)) {
      out.push(character);
    }
  }
  return out.join("");
}

export type JsonClass = "key" | "string" | "number" | "word" | "";

const TOKEN = /("(?:[^"\\]|\\.)*"?)(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)/gs;

/** Pieces of JSON text with their kind; also of text that was cut in the middle. */
export function jsonTokens(json: string): { text: string; kind: JsonClass }[] {
  const tokens: { text: string; kind: JsonClass }[] = [];
  let from = 0;
  for (const match of json.matchAll(TOKEN)) {
    if (match.index > from) tokens.push({ text: json.slice(from, match.index), kind: "" });
    const [all, string, colon, number] = match;
    if (string !== undefined) {
      tokens.push({ text: string, kind: colon === undefined ? "string" : "key" });
      if (colon !== undefined) tokens.push({ text: colon, kind: "" });
    } else {
      tokens.push({ text: all, kind: number === undefined ? "word" : "number" });
    }
    from = match.index + all.length;
  }
  if (from < json.length) tokens.push({ text: json.slice(from), kind: "" });
  return tokens;
}
