// Tools: functions that a model can call.
import { PluginError, answer } from "./errors.js";
import { WrongValue, parseFields } from "./schema.js";

const SHOWN_CAUSES = 5;

/** The hints of a tool that only computes from its arguments. */
export const PURE = Object.freeze({ readOnly: true, nonDestructive: true, idempotent: true, closedWorld: true });

/** A result of several pieces of content. */
export class Reply {
  constructor(...content) {
    this.content = content;
  }
}

export function needsFolder(path) {
  return new Reply({ tag: "other", val: { kind: "shelly.needs", json: JSON.stringify({ folder: path }) } });
}

export function needsServer(url) {
  return new Reply({ tag: "other", val: { kind: "shelly.needs", json: JSON.stringify({ server: url }) } });
}

/** Returns a value as JSON. Numbers of the contract are written as numbers. */
export function toJson(value) {
  const plain = (_, one) => (typeof one === "bigint" ? Number(one) : one);
  const text = JSON.stringify(value, plain);
  if (text === undefined) throw new TypeError(`a ${typeof value} cannot be written as JSON`);
  return text;
}

function contentOf(result) {
  if (result === undefined || result === null) return [];
  if (result instanceof Reply) return result.content;
  if (typeof result === "string") return [{ tag: "text", val: result }];
  return [{ tag: "json", val: toJson(result) }];
}

export function defineTool({ name, description, args, hints = {}, title, output, run }) {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
    throw new TypeError(`the tool's name \`${name}\` is not 1 to 64 of A-Z a-z 0-9 _ -`);
  }
  if (!description) throw new TypeError(`the tool \`${name}\` has no description; write one, since the model reads it`);
  const fields = args.rules.fields;
  if (fields === undefined) throw new TypeError(`the arguments of \`${name}\` are no object; use s.object({ … })`);

  const invalid = (causes) => {
    const listed = causes.slice(0, SHOWN_CAUSES).map((cause) => cause.message);
    if (causes.length > SHOWN_CAUSES) listed.push(`and ${causes.length - SHOWN_CAUSES} more`);
    return new PluginError("invalid", `invalid arguments of \`${name}\`: ${listed.join("; ")}`);
  };
  const parse = (written) => {
    if (typeof written !== "string") return written;
    try {
      return JSON.parse(written);
    } catch (error) {
      throw invalid([new WrongValue("", `it is not valid JSON: ${error.message}`)]);
    }
  };

  return {
    name,
    spec() {
      const spec = { name, description, inputSchema: toJson(args.toSchema()), hints, meta: [] };
      if (output !== undefined) spec.outputSchema = toJson(output.toSchema());
      if (title !== undefined) spec.meta.push(["title", title]);
      return spec;
    },
    run,
    call(written, call = { id: "call" }) {
      const given = parse(written);
      if (typeof given !== "object" || given === null || Array.isArray(given)) throw invalid([args.wrong(given, "")]);
      const [values, causes] = parseFields(fields, given, "", ["argument", "arguments"]);
      if (causes.length > 0) throw invalid(causes);
      return contentOf(run(values, call));
    },
  };
}

export function exportTools(...tools) {
  const named = new Map();
  for (const tool of tools) {
    if (named.has(tool.name)) throw new TypeError(`two tools are called \`${tool.name}\`; rename one of them`);
    named.set(tool.name, tool);
  }
  if (named.size === 0) throw new TypeError("no tool is exported; pass what defineTool returns");
  return {
    specs: () => answer(() => tools.map((tool) => tool.spec())),
    call: ({ id, name, arguments: written }) =>
      answer(() => {
        const tool = named.get(name);
        const names = [...named.keys()].join(", ");
        if (tool === undefined) throw new PluginError("not-found", `unknown tool \`${name}\`; available tools: ${names}`);
        return tool.call(written, { id });
      }),
  };
}
