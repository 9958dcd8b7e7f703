/** Parts of messages, and the fields of events. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { Block, Diff, Json, JsonOrText, Line } from "./text";
import { diffLines, unifiedDiff, type DiffLine } from "./diff";
import { visible } from "./escape";
import { bytes, count, duration, money, percent } from "./format";
import { costOf, number, partsOf, sharesOf, text as asText, usageOf, type Fields } from "./fields";
import { indentJson } from "./json";
import { cacheShare, promptTokens, type Usage } from "./model";

/** Kinds of pictures that are shown. Others, such as SVG, are named only. */
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** Characters of base64 of a picture that is shown. */
const LARGEST_PICTURE = 8 * 1024 * 1024;

function Labelled({ label, children }: { label: string; children: ComponentChildren }) {
  return <div class="part"><h4>{label}</h4>{children}</div>;
}

function MediaView({ media }: { media: Fields }) {
  const type = asText(media.media_type);
  const source = (typeof media.source === "object" && media.source !== null ? media.source : {}) as Fields;
  const name = asText(media.name);
  const data = asText(source.bytes);
  const isPicture = PICTURES.has(type) && data !== "" && data.length < LARGEST_PICTURE && /^[A-Za-z0-9+/=]+$/.test(data);
  const size = data ? bytes(Math.floor(data.length * 0.75)) : "";
  return (
    <div class="media">
      {isPicture && <img src={`data:${type};base64,${data}`} alt={visible(name || "picture")} />}
      <p class="muted">{visible([type, name, size, asText(source.url)].filter(Boolean).join(" · "))}</p>
    </div>
  );
}

export const ToolArguments = ({ json }: { json: string }) => <JsonOrText text={json} />;

function Content({ item }: { item: Fields }) {
  const type = asText(item.type);
  if (type === "text") return <JsonOrText text={asText(item.value)} />;
  if (type === "json") return <Json text={asText(item.value)} />;
  if (type === "media") return <MediaView media={(item.value ?? {}) as Fields} />;
  return <Json text={JSON.stringify(item)} />;
}

export function ToolResultView({ result }: { result: Fields }) {
  const content = Array.isArray(result.content) ? (result.content as Fields[]) : [];
  return (
    <div class={result.is_error ? "result failed" : "result"}>
      {result.is_error === true && <p class="failure">The result describes a failure.</p>}
      {content.length === 0 && <p class="nothing">no content</p>}
      {content.map((item) => <Content item={item ?? {}} />)}
    </div>
  );
}

export function MessageView({ message, omitted }: { message: unknown; omitted?: number | null }) {
  if (omitted) return <p class="nothing">The message of {bytes(omitted)} is not recorded with the events.</p>;
  if (message === null || message === undefined) return <p class="nothing">The text is withheld: middleware may still replace it.</p>;
  const parts = partsOf(message);
  const sender = asText((message as Fields).sender);
  return (
    <div class="message">
      {sender && <p class="muted sender">from {visible(sender)}</p>}
      {parts.length === 0 && <p class="nothing">no content</p>}
      {parts.map(({ type, value }) => {
        const fields = (typeof value === "object" && value !== null ? value : {}) as Fields;
        if (type === "text") return <Block text={asText(value)} plain />;
        if (type === "thinking") return <Labelled label="Thinking"><div class="thinking"><Block text={asText(fields.text)} plain /></div></Labelled>;
        if (type === "tool_call") return <Labelled label={`Calls ${visible(asText(fields.name))}`}><ToolArguments json={asText(fields.arguments)} /></Labelled>;
        if (type === "tool_result") return <Labelled label="Result of a tool"><ToolResultView result={fields} /></Labelled>;
        if (type === "media") return <MediaView media={fields} />;
        return <Labelled label={visible(type || "part")}><Json text={JSON.stringify(value)} /></Labelled>;
      })}
    </div>
  );
}

/** Tokens of a request, with the part of the prompt that came from the cache as a bar. */
export function UsageView({ usage, cost }: { usage: Usage; cost: number | null }) {
  const prompt = promptTokens(usage);
  const share = cacheShare(usage);
  return (
    <dl class="figures">
      <div><dt>prompt</dt><dd>{count(prompt)}</dd></div>
      <div><dt>from cache</dt><dd>{percent(share)}</dd></div>
      <div><dt>to cache</dt><dd>{count(usage.write)}</dd></div>
      <div><dt>reply</dt><dd>{count(usage.output)}</dd></div>
      {cost !== null && <div><dt>cost</dt><dd>{money(cost)}</dd></div>}
    </dl>
  );
}

/** What fills the window: a bar for each named part with its tokens. */
function Shares({ entries, unit, whole }: { entries: [string, number][]; unit: string; whole: number | null }) {
  const total = whole || entries.reduce((sum, [, value]) => sum + value, 0) || 1;
  return (
    <table class="shares">
      <tbody>
        {entries.map(([name, value]) => (
          <tr>
            <th scope="row"><Line text={name} /></th>
            <td class="number">{count(value)}{unit && ` ${unit}`}</td>
            <td class="bar"><span style={{ width: `${Math.max(0.5, (value / total) * 100)}%` }} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const ENVELOPE = new Set(["sequence", "time", "session", "run", "parent", "event", "agent"]);
const PAIRS: [string, string][] = [["before", "after"], ["old", "new"], ["old_text", "new_text"], ["original", "replaced"]];
const DIFFS = new Set(["diff", "patch", "unified_diff"]);
/** Fields whose values are parts of a whole. */
const WHOLES = new Set(["parts", "window", "imports"]);

const isMessage = (value: unknown): boolean => typeof value === "object" && value !== null && Array.isArray((value as Fields).parts);

/** A value as text that can be compared by lines. */
function comparable(value: unknown): string {
  if (typeof value === "string") return indentJson(value) ?? value;
  if (value === null || value === undefined) return "";
  if (isMessage(value)) return messageText(value);
  if (Array.isArray(value) && value.length > 0 && value.every(isMessage)) return value.map(messageText).join("\n");
  return indentJson(JSON.stringify(value)) ?? JSON.stringify(value);
}

/** A message as text: a heading for its role, and its parts. */
function messageText(message: unknown): string {
  const parts = partsOf(message).map(({ type, value }) => (type === "text" ? asText(value) : `[${type}]\n${indentJson(JSON.stringify(value)) ?? asText(value)}`));
  return `# ${asText((message as Fields).role)}\n${parts.join("\n")}`;
}

function Compared({ before, after }: { before: unknown; after: unknown }) {
  const lines = useMemo((): DiffLine[] => diffLines(comparable(before), comparable(after)), [before, after]);
  return <Diff lines={lines} />;
}

function Value({ name, value }: { name: string; value: unknown }) {
  if (typeof value === "number") {
    if (name.endsWith("_ms")) return <>{duration(value)}</>;
    if (name === "memory" || name.startsWith("bytes") || name === "held" || name === "total" || name.endsWith("_bytes")) return <>{bytes(value)}</>;
    if (name.startsWith("cost") || name.endsWith("usd")) return <>{money(value)}</>;
    return <>{count(value)}</>;
  }
  if (typeof value === "boolean") return <>{value ? "yes" : "no"}</>;
  if (typeof value === "string") return value.length > 80 || value.includes("\n") ? <JsonOrText text={value} plain /> : <Line text={value} />;
  if (isMessage(value)) return <MessageView message={value} />;
  return <Json text={JSON.stringify(value)} />;
}

/** The fields of an event, each as its kind asks for; also of events that this page does not know. */
export function Facts({ fields, skip = [] }: { fields: Fields; skip?: readonly string[] }) {
  const done = new Set<string>([...ENVELOPE, ...skip]);
  const blocks: ComponentChildren[] = [];
  for (const [before, after] of PAIRS) {
    if (before in fields || after in fields) {
      if (done.has(before)) continue;
      done.add(before).add(after);
      if ((fields[before] ?? null) === null && (fields[after] ?? null) === null) continue;
      blocks.push(<Labelled label={`${before} and ${after}`.replaceAll("_", " ")}><Compared before={fields[before]} after={fields[after]} /></Labelled>);
    }
  }
  for (const [name, value] of Object.entries(fields)) {
    if (done.has(name)) continue;
    if (DIFFS.has(name) && typeof value === "string") {
      blocks.push(<Labelled label="Difference"><Diff lines={unifiedDiff(value)} /></Labelled>);
      done.add(name);
    } else if (name === "usage" || name === "of_children") {
      const usage = usageOf(value);
      if (usage && (name === "usage" || promptTokens(usage) + usage.output > 0)) {
        blocks.push(<Labelled label={name === "usage" ? "Tokens" : "Tokens of delegated runs"}><UsageView usage={usage} cost={name === "usage" ? costOf(fields) : number(fields.of_children_usd)} /></Labelled>);
      }
      done.add(name).add("usd").add("cost").add("cost_usd").add("of_children_usd");
    } else if (WHOLES.has(name)) {
      const entries = sharesOf(value);
      if (entries) {
        blocks.push(<Labelled label={name === "imports" ? "Calls of the host" : "What fills the window"}><Shares entries={entries} unit={name === "imports" ? "" : "tokens"} whole={name === "parts" ? number(fields.window) : null} /></Labelled>);
        done.add(name);
      }
    }
  }
  const simple = Object.entries(fields).filter(([name, value]) => !done.has(name) && value !== null && value !== undefined && value !== "");
  return (
    <>
      {simple.length > 0 && (
        <dl class="facts">
          {simple.map(([name, value]) => (
            <div>
              <dt>{visible(name.replace(/_ms$/, "").replaceAll("_", " "))}</dt>
              <dd><Value name={name} value={value} /></dd>
            </div>
          ))}
        </dl>
      )}
      {blocks}
    </>
  );
}
