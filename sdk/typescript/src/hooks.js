// The interfaces of the host in unit tests: modules whose functions a `Host` of testing.js answers.

const PREFIX = "shelly:plugin/";

/** The functions of each interface. A test compares them with the contract. */
export const FUNCTIONS = {
  attachments: ["read"],
  chat: ["length", "entries", "read", "find", "tools"],
  clock: ["now", "monotonic"],
  config: ["get"],
  http: ["send", "begin", "credentials"],
  kv: ["get", "set", "compareAndSwap", "keys"],
  log: ["write"],
  outgoing: ["get"],
  process: ["run"],
  progress: ["report"],
  random: ["bytes"],
  sink: ["emit"],
};

/** The functions that work without a `Host`; the others say that there is none. */
const ALONE = {
  "config.get": '() => "{}"',
  "log.write": "(level, message) => console.error(`${level}: ${message}`)",
  "progress.report": "() => {}",
  "sink.emit": "() => {}",
};

function sourceOf(name) {
  const missing = (call) =>
    `() => { throw new Error("${call} calls the host, which does not exist in a unit test; use withHost of testing.js"); }`;
  const functions = FUNCTIONS[name].map((of) => {
    const call = `${name}.${of}`;
    const alone = ALONE[call] ?? missing(call);
    return `export const ${of} = (...args) => (host()?.${name}.${of} ?? (${alone}))(...args);`;
  });
  if (name === "http") functions.push("export const Upload = { finish: (upload) => upload.finish() };");
  return ['const host = () => globalThis[Symbol.for("shelly-plugin.host")];', ...functions].join("\n");
}

export function resolve(specifier, context, next) {
  if (!specifier.startsWith(PREFIX)) return next(specifier, context);
  return { url: specifier, format: "module", shortCircuit: true };
}

export function load(url, context, next) {
  if (!url.startsWith(PREFIX)) return next(url, context);
  const name = url.slice(PREFIX.length).split("@")[0];
  return { format: "module", source: sourceOf(name), shortCircuit: true };
}
