/** Shows text of strangers: as text, with escapes for what would hide or reorder it, and cut where it is long. */

import { createContext, type ComponentChildren } from "preact";
import { useContext, useMemo, useState } from "preact/hooks";
import { foldContext, type DiffLine } from "./diff";
import { oneLine, segments, visible } from "./escape";
import { count } from "./format";
import { indentJson, jsonTokens } from "./json";

/** Characters that are shown at first, and lines of a diff. */
const FIRST_CHARACTERS = 6_000;
const FIRST_LINES = 400;
/** One more click shows this many times what is shown. */
const GROWTH = 8;

/** The text that the search looks for: it is marked wherever it is shown. */
export const Highlight = createContext("");

function marked(text: string, query: string): ComponentChildren[] {
  if (!query) return [text];
  const lower = text.toLowerCase();
  // Some letters have another length in lower case: then the places would be wrong.
  if (lower.length !== text.length) return [text];
  const found: ComponentChildren[] = [];
  let from = 0;
  for (let at = lower.indexOf(query); at >= 0; at = lower.indexOf(query, from)) {
    found.push(text.slice(from, at), <mark>{text.slice(at, at + query.length)}</mark>);
    from = at + query.length;
  }
  found.push(text.slice(from));
  return found;
}

function Pieces({ text, name }: { text: string; name?: string }) {
  const query = useContext(Highlight).trim().toLowerCase();
  const pieces = segments(text).map((piece) =>
    piece.isEscape ? <span class="escape" title="A character that is not visible">{piece.text}</span> : marked(piece.text, query));
  return name ? <span class={name}>{pieces}</span> : <>{pieces}</>;
}

/** Text in one line of a list. */
export function Line({ text }: { text: string }) {
  return <Pieces text={oneLine(text)} />;
}

function More({ left, unit, show }: { left: number; unit: string; show: () => void }) {
  return <button type="button" class="more" onClick={show}>Show more ({count(left)} {unit} left)</button>;
}

/** Text with its lines. */
export function Block({ text, plain }: { text: string; plain?: boolean }) {
  const [length, setLength] = useState(FIRST_CHARACTERS);
  if (text === "") return <p class="nothing">empty</p>;
  const cut = text.length > length;
  return (
    <>
      <pre class={plain ? "prose" : ""}><Pieces text={cut ? text.slice(0, length) : text} /></pre>
      {cut && <More left={text.length - length} unit="characters" show={() => setLength(length * GROWTH)} />}
    </>
  );
}

/** JSON, indented; text if it is none. */
export function Json({ text }: { text: string }) {
  const [length, setLength] = useState(FIRST_CHARACTERS);
  const indented = useMemo(() => indentJson(text), [text]);
  const tokens = useMemo(() => (indented === null ? [] : jsonTokens(indented.slice(0, length))), [indented, length]);
  if (indented === null) return <Block text={text} />;
  return (
    <>
      <pre class="json">{tokens.map((token) => <Pieces text={token.text} name={token.kind ? `json-${token.kind}` : undefined} />)}</pre>
      {indented.length > length && <More left={indented.length - length} unit="characters" show={() => setLength(length * GROWTH)} />}
    </>
  );
}

/** JSON if the text is JSON, else text. */
export function JsonOrText({ text, plain }: { text: string; plain?: boolean }) {
  const first = text.trimStart()[0];
  return first === "{" || first === "[" ? <Json text={text} /> : <Block text={text} plain={plain} />;
}

const OP_NAMES = { "+": "added", "-": "removed", " ": "", "@": "note" };

/** Characters of a line of a diff that are shown. */
const LINE_CHARACTERS = 2_000;

export function Diff({ lines }: { lines: DiffLine[] }) {
  const [shown, setShown] = useState(FIRST_LINES);
  const folded = useMemo(() => foldContext(lines, 3), [lines]);
  const added = lines.filter((line) => line.op === "+").length;
  const removed = lines.filter((line) => line.op === "-").length;
  if (added + removed === 0) return <p class="nothing">no difference in the text</p>;
  return (
    <>
      <p class="counts">{added} added, {removed} removed</p>
      <pre class="diff">
        {folded.slice(0, shown).map((line) => {
          const cut = line.text.length > LINE_CHARACTERS;
          return (
            <span class={`diff-line diff-${OP_NAMES[line.op] || "same"}`}>
              <span class="diff-op">{line.op === "@" ? "⋯" : line.op}</span>
              <Pieces text={cut ? `${line.text.slice(0, LINE_CHARACTERS)}…` : line.text} />{"\n"}
            </span>
          );
        })}
      </pre>
      {folded.length > shown && <More left={folded.length - shown} unit="lines" show={() => setShown(shown * GROWTH)} />}
    </>
  );
}

export { visible };
