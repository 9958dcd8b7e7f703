/** Events that are a step of their own, as a line of the list. */

import { number as asNumber, short, text as asText, type Fields } from "./fields";
import type { Kind, Status } from "./model";

export interface Description {
  kind: Kind;
  title: string;
  detail: string;
  status: Status;
}

/** Characters of a name and of a text in a line. */
const NAME = 80;
const TEXT = 200;

const name = (value: unknown): string => short(asText(value), NAME);
const text = (value: unknown): string => short(asText(value), TEXT);

export const list = (value: unknown): string => (Array.isArray(value) ? short(value.slice(0, 50).map(asText).join(", "), TEXT) : asText(value));

/** Describes an event; also one that this page does not know. */
export function describe(event: string, fields: Fields): Description {
  const line = (kind: Kind, title: string, detail: string, status: Status = "ok"): Description => ({ kind, title, detail, status });
  switch (event) {
    case "replies_withheld": return line("note", "Replies are withheld", `by ${list(fields.by)}`);
    case "effect_edited": return line("effect", name(fields.effect), asText(fields.edit).replaceAll("_", " "));
    case "effect_refused":
      return line("effect", name(fields.effect), `${asText(fields.edit).replaceAll("_", " ")} refused: ${text(fields.reason)}`, "warn");
    case "effect_failed": return line("effect", name(fields.effect), text(fields.reason), fields.skipped ? "warn" : "fail");
    case "middleware_acted": {
      const action = asText(fields.action);
      const tool = fields.tool ? ` · ${name(fields.tool)}` : "";
      const why = fields.reason ? `: ${text(fields.reason)}` : "";
      return line("middleware", name(fields.middleware), `${action.replaceAll("_", " ")}${tool}${why}`, /^(deny|reject)/.test(action) ? "warn" : "ok");
    }
    case "middleware_failed": return line("middleware", name(fields.middleware), text(fields.reason), fields.skipped ? "warn" : "fail");
    case "plugin_waits": return line("plugin", name(fields.plugin), "waits for memory", "wait");
    case "capability_decided": return line("capability", name(fields.plugin), text(fields.capability), fields.allowed ? "ok" : "warn");
    case "plugin_log": {
      const level = asText(fields.level);
      return line("log", name(fields.plugin), text(fields.message), level === "error" ? "fail" : level === "warn" ? "warn" : "ok");
    }
    case "member_replied": return line("team", `${name(fields.agent)} replied`, text(fields.text));
    case "handed_over": return line("team", `Handed over to ${name(fields.to)}`, text(fields.reason));
    case "overspent": return line("note", "Budget overspent", text(fields.message), "warn");
    case "warning": return line("note", "Warning", text(fields.message), "warn");
    default: {
      const failed = typeof fields.error === "string" || fields.is_error === true;
      return line("other", name(event), text(fields.message ?? fields.reason ?? fields.detail), failed ? "fail" : "ok");
    }
  }
}

/** The reason for which the message is not in the event; `null` if it is. */
export function withheld(event: Fields): string | null {
  if (event.message !== null && event.message !== undefined) return null;
  const bytes = asNumber(event.omitted_bytes);
  return bytes === null ? "withheld by middleware" : `${bytes.toLocaleString("en")} bytes, not recorded`;
}
