// JSON Schema out of a builder, and a check of values against it. Only keywords that the host enforces are written.

/** A value that does not fit. `path` leads to it, such as `items[2].name`; it is empty at the top. */
export class WrongValue extends Error {
  constructor(path, cause) {
    super(path === "" ? cause : `\`${path}\`: ${cause}`);
    this.path = path;
  }
}

function shown(value) {
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  const text = JSON.stringify(value) ?? String(value);
  const cut = text.length <= 60 ? text : `${text.slice(0, 60)}…`;
  return typeof value === "string" ? `the string ${cut}` : cut;
}

/** Returns the name that is most like another, if one is. */
function nearest(name, names) {
  const distance = (a, b) => {
    let row = Array.from({ length: b.length + 1 }, (_, at) => at);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++) {
        const change = row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
        next.push(Math.min(change, row[j] + 1, next[j - 1] + 1));
      }
      row = next;
    }
    return row[b.length];
  };
  const near = names.map((known) => [distance(name.toLowerCase(), known.toLowerCase()), known]);
  near.sort(([a], [b]) => a - b);
  return near.length > 0 && near[0][0] <= Math.max(1, Math.floor(name.length / 3)) ? near[0][1] : undefined;
}

const UNITS = { string: ["minLength", "maxLength", " characters"], array: ["minItems", "maxItems", " items"] };

/** A type of values. Each method returns a new one. Its check gets the type itself, whose words may have changed. */
class Type {
  constructor(schema, expected, check) {
    this.rules = { schema, expected, check, isRequired: true, fallback: undefined };
  }

  with(rules) {
    const type = Object.create(Type.prototype);
    type.rules = { ...this.rules, ...rules };
    return type;
  }

  withKeyword(keyword, value) {
    return this.with({ schema: { ...this.rules.schema, [keyword]: value } });
  }

  describe(description) {
    return this.withKeyword("description", description);
  }

  optional() {
    return this.with({ isRequired: false });
  }

  default(value) {
    this.parse(value, "");
    return this.withKeyword("default", value).with({ isRequired: false, fallback: value });
  }

  nullable() {
    const { description, ...schema } = this.rules.schema;
    const isPlain = typeof schema.type === "string" && schema.enum === undefined;
    const either = isPlain ? { ...schema, type: [schema.type, "null"] } : { anyOf: [schema, { type: "null" }] };
    const check = this.rules.check;
    return this.with({
      schema: description === undefined ? either : { ...either, description },
      expected: `${this.rules.expected} or null`,
      check: (value, path, self) => (value === null ? null : check(value, path, self)),
    });
  }

  min(bound) {
    return this.bounded(0, bound, (size) => size >= bound, "minimum");
  }

  max(bound) {
    return this.bounded(1, bound, (size) => size <= bound, "maximum");
  }

  bounded(which, bound, holds, word) {
    const { type } = this.rules.schema;
    const kind = Array.isArray(type) ? type[0] : type;
    const [keyword, unit] = UNITS[kind] ? [UNITS[kind][which], UNITS[kind][2]] : [word, ""];
    if (!UNITS[kind] && kind !== "integer" && kind !== "number") {
      throw new TypeError(`${this.rules.expected} has no ${word}; numbers, strings and arrays have one`);
    }
    const check = this.rules.check;
    const checked = (value, path, self) => {
      const parsed = check(value, path, self);
      if (parsed === null) return parsed;
      const size = typeof parsed === "number" ? parsed : kind === "string" ? [...parsed].length : parsed.length;
      if (!holds(size)) throw new WrongValue(path, `got ${size}${unit}, the ${word} is ${bound}`);
      return parsed;
    };
    return this.withKeyword(keyword, bound).with({ check: checked });
  }

  /** Returns the JSON Schema. */
  toSchema() {
    return this.rules.schema;
  }

  /** Returns the value; throws what is wrong with it. */
  parse(value, path = "") {
    return this.rules.check(value, path, this);
  }

  wrong(value, path) {
    return new WrongValue(path, `got ${shown(value)}, expected ${this.rules.expected}`);
  }
}

function plain(name, expected, fits, description) {
  const type = new Type({ type: name }, expected, (value, path, self) => {
    if (!fits(value)) throw self.wrong(value, path);
    return value;
  });
  return described(type, description);
}

function described(type, description) {
  return description === undefined ? type : type.describe(description);
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses the properties of an object. Returns the values, and what is wrong: one cause for each property. */
export function parseFields(fields, value, path, [noun, nouns]) {
  const [values, causes, names] = [{}, [], Object.keys(fields)];
  const below = path === "" ? "" : `${path}.`;
  for (const name of Object.keys(value)) {
    if (names.includes(name)) continue;
    const listed = names.map((known) => `\`${known}\``).join(", ") || "none";
    const near = nearest(name, names);
    const meant = near === undefined ? "" : `; did you mean \`${near}\`?`;
    causes.push(new WrongValue(below + name, `unknown ${noun}; the ${nouns} are ${listed}${meant}`));
  }
  for (const name of names) {
    const { isRequired, fallback, expected } = fields[name].rules;
    if (Object.hasOwn(value, name)) {
      try {
        values[name] = fields[name].parse(value[name], below + name);
      } catch (cause) {
        if (!(cause instanceof WrongValue)) throw cause;
        causes.push(cause);
      }
    } else if (isRequired) {
      causes.push(new WrongValue(below + name, `it is missing; expected ${expected}`));
    } else if (fallback !== undefined) {
      values[name] = structuredClone(fallback);
    }
  }
  return [values, causes];
}

export const s = {
  string: (description) => plain("string", "a string", (value) => typeof value === "string", description),
  integer: (description) => plain("integer", "an integer", Number.isInteger, description),
  number: (description) => plain("number", "a number", Number.isFinite, description),
  boolean: (description) => plain("boolean", "true or false", (value) => typeof value === "boolean", description),

  any: (description) => described(new Type({}, "any value", (value) => value), description),

  enum(choices, description) {
    const kinds = [...new Set(choices.map((choice) => (choice === null ? "null" : typeof choice)))];
    const listed = choices.map((choice) => JSON.stringify(choice)).join(", ");
    const expected = choices.length === 1 ? listed : `one of ${listed}`;
    const type = new Type({ type: kinds.length === 1 ? kinds[0] : kinds, enum: choices }, expected, (value, path) => {
      if (choices.includes(value)) return value;
      const near = typeof value === "string" ? nearest(value, choices.filter((one) => typeof one === "string")) : undefined;
      const wrong = `got ${shown(value)}, expected ${expected}`;
      throw new WrongValue(path, near === undefined ? wrong : `${wrong}; did you mean ${JSON.stringify(near)}?`);
    });
    return described(type, description);
  },

  array(items, description) {
    const type = new Type({ type: "array", items: items.toSchema() }, "an array", (value, path, self) => {
      if (!Array.isArray(value)) throw self.wrong(value, path);
      return value.map((item, at) => items.parse(item, `${path}[${at}]`));
    });
    return described(type, description);
  },

  record(values, description) {
    const others = values.toSchema();
    const schema = Object.keys(others).length === 0 ? { type: "object" } : { type: "object", additionalProperties: others };
    const type = new Type(schema, "an object", (value, path, self) => {
      if (!isObject(value)) throw self.wrong(value, path);
      const below = path === "" ? "" : `${path}.`;
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, values.parse(one, below + key)]));
    });
    return described(type, description);
  },

  object(fields, description) {
    const entries = Object.entries(fields);
    const schema = {
      type: "object",
      properties: Object.fromEntries(entries.map(([name, type]) => [name, type.toSchema()])),
      additionalProperties: false,
    };
    const required = entries.filter(([, type]) => type.rules.isRequired).map(([name]) => name);
    if (required.length > 0) schema.required = required;
    const type = new Type(schema, "an object", (value, path, self) => {
      if (!isObject(value)) throw self.wrong(value, path);
      const [values, causes] = parseFields(fields, value, path, ["property", "properties"]);
      if (causes.length > 0) throw causes[0];
      return values;
    });
    type.rules.fields = fields;
    return described(type, description);
  },

  union(types, description) {
    const expected = types.map((one) => one.rules.expected).join(" or ");
    const type = new Type({ anyOf: types.map((one) => one.toSchema()) }, expected, (value, path, self) => {
      const causes = [];
      for (const one of types) {
        try {
          return one.parse(value, path);
        } catch (cause) {
          if (!(cause instanceof WrongValue)) throw cause;
          causes.push(cause);
        }
      }
      // The cause that lies deepest belongs to the type that was meant.
      const deepest = causes.reduce((a, b) => (b.path.length > a.path.length ? b : a));
      throw deepest.path.length > path.length ? deepest : self.wrong(value, path);
    });
    return described(type, description);
  },
};
