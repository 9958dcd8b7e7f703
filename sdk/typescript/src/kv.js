// A key-value store for bytes that outlast a call. plugin.toml asks for `kv = true` under [wants].
import * as host from "shelly:plugin/kv@0.2.0";

import { PluginError, callHost } from "./errors.js";
import { toJson } from "./tool.js";

const bytesOf = (value) => (value === undefined ? undefined : new TextEncoder().encode(toJson(value)));

export const get = (key) => callHost(host.get, key);
export const set = (key, value) => callHost(host.set, key, value);
export const remove = (key) => callHost(host.set, key, undefined);
export const compareAndSwap = (key, expected, value) => callHost(host.compareAndSwap, key, expected, value);
export const keys = (prefix = "", after = undefined) => callHost(host.keys, prefix, after);

export function read(key) {
  const entry = get(key);
  return entry === undefined ? undefined : parse(key, entry.value);
}

export function put(key, value) {
  set(key, bytesOf(value));
}

export function update(key, change) {
  for (;;) {
    const entry = get(key);
    const value = change(entry === undefined ? undefined : parse(key, entry.value));
    if (compareAndSwap(key, entry?.revision, bytesOf(value))) return value;
  }
}

function parse(key, value) {
  try {
    return JSON.parse(new TextDecoder().decode(value));
  } catch (error) {
    throw new PluginError("other", `the value of \`${key}\` is not JSON: ${error.message}`);
  }
}
