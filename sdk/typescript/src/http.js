// HTTP requests within the grant of the agent's config. plugin.toml asks for `http = true` under [wants].
import * as host from "shelly:plugin/http@0.2.0";

import { concatenate } from "./bytes.js";
import { PluginError, callHost } from "./errors.js";
import { toJson } from "./tool.js";

const READ = 64 << 10;
const WRITE = 256 << 10;
const MOST_COMPLAINT = 64 << 10;
const MOST_SENTENCE = 2_000;
const MOST_RAW = 300;
const MOST_MILLIS = 2 ** 32 - 1;

/** The bytes of a body that is read as a whole. */
export const MOST_WHOLE = 16 << 20;
/** The characters of a line of a body. */
export const MOST_LINE = 8 << 20;

const KINDS = new Map([
  ...[401, 403, 407].map((status) => [status, "denied"]),
  ...[404, 410].map((status) => [status, "not-found"]),
  ...[408, 409, 425].map((status) => [status, "unavailable"]),
  ...[501, 505].map((status) => [status, "other"]),
  [402, "exhausted"],
  [413, "too-large"],
  [429, "rate-limited"],
]);

export class Response {
  #body;
  #origin;

  constructor({ status, headers, body }, origin = "the server") {
    this.status = status;
    this.headers = headers;
    this.#body = body;
    // It contains no part of the URL that could be a secret.
    this.#origin = origin;
  }

  get isSuccess() {
    return this.status >= 200 && this.status < 300;
  }

  header(name) {
    return this.headers.find(([there]) => there === name.toLowerCase())?.[1];
  }

  read(most = READ) {
    return callHost(() => this.#body.read(Math.min(most, READ)));
  }

  *pieces() {
    for (let piece = this.read(); piece.length > 0; piece = this.read()) yield piece;
  }

  bytes() {
    const pieces = [];
    let length = 0;
    for (const piece of this.pieces()) {
      length += piece.length;
      if (length > MOST_WHOLE) {
        throw new PluginError("too-large", `${this.#origin} sent a body of more than ${MOST_WHOLE} bytes`);
      }
      pieces.push(piece);
    }
    return concatenate(pieces);
  }

  text() {
    return new TextDecoder().decode(this.bytes());
  }

  json() {
    try {
      return JSON.parse(this.text());
    } catch (error) {
      if (error instanceof PluginError) throw error;
      throw new PluginError("other", `${this.#origin} sent a body that is not JSON: ${error.message}`);
    }
  }

  *lines() {
    const decoder = new TextDecoder();
    let rest = "";
    for (const piece of this.pieces()) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) yield line.replace(/\r$/, "");
      if (rest.length > MOST_LINE) {
        throw new PluginError("too-large", `${this.#origin} sent a line of more than ${MOST_LINE} characters`);
      }
    }
    rest += decoder.decode();
    if (rest !== "") yield rest.replace(/\r$/, "");
  }

  *events() {
    let [name, data, id] = ["", [], ""];
    for (const line of this.lines()) {
      if (line === "") {
        if (data.length > 0) yield { name: name || "message", data: data.join("\n"), id };
        [name, data] = ["", []];
        continue;
      }
      const [field, ...rest] = line.split(":");
      const value = rest.join(":").replace(/^ /, "");
      if (field === "event") name = value;
      else if (field === "data") data.push(value);
      else if (field === "id") id = value;
    }
  }

  ok() {
    if (this.isSuccess) return this;
    const afterMs = this.#pause();
    const [said, words] = this.#complaint();
    const message = `${this.#origin} answered ${this.status}${said === "" ? "" : `: ${said}`}`;
    const kind = kindOf(this.status, words);
    throw new PluginError(kind, message, ["rate-limited", "unavailable"].includes(kind) ? afterMs : undefined);
  }

  /** The pause that the server asks for, in milliseconds. A date is ignored. */
  #pause() {
    for (const [name, unit] of [["retry-after-ms", 1], ["retry-after", 1_000]]) {
      const number = Number.parseFloat(this.header(name) ?? "");
      if (number >= 0 && number < MOST_MILLIS) return Math.ceil(number * unit);
    }
    return undefined;
  }

  /** The server's explanation, and its codes. A failure to read it is ignored: the status matters more. */
  #complaint() {
    const decoder = new TextDecoder();
    let text = "";
    try {
      for (const piece of this.pieces()) {
        text += decoder.decode(piece, { stream: true });
        if (text.length >= MOST_COMPLAINT) break;
      }
    } catch (error) {
      if (!(error instanceof PluginError)) throw error;
    }
    let value;
    try {
      value = JSON.parse(text);
    } catch {
      // An HTML page explains nothing here.
      return [text.trimStart().startsWith("<") ? "" : shown(text, MOST_RAW), []];
    }
    if (Array.isArray(value)) value = value[0];
    value = value?.error || value;
    if (typeof value === "string") return [shown(value, MOST_SENTENCE), []];
    const words = [value?.type, value?.code].filter((word) => word !== undefined && word !== null).map(String);
    const said = [value?.message, value?.detail].find((one) => typeof one === "string" && one !== "");
    return said === undefined ? [shown(text, MOST_RAW), words] : [shown(said, MOST_SENTENCE), words];
  }
}

export class Upload {
  #upload;
  #origin;

  constructor(upload, origin) {
    this.#upload = upload;
    this.#origin = origin;
  }

  write(bytes) {
    for (let start = 0; start < bytes.length; start += WRITE) {
      callHost(() => this.#upload.write(bytes.subarray(start, start + WRITE)));
    }
  }

  finish() {
    return new Response(callHost(() => host.Upload.finish(this.#upload)), this.#origin);
  }
}

export function send(method, url, { query, headers, body, json, credential, timeoutMs } = {}) {
  const request = requestOf(method, url, { query, headers, credential, timeoutMs });
  let content = typeof body === "string" ? new TextEncoder().encode(body) : (body ?? new Uint8Array());
  if (json !== undefined) {
    content = new TextEncoder().encode(toJson(json));
    request.headers.push(["content-type", "application/json"]);
  }
  return new Response(callHost(host.send, request, content), originOf(url));
}

export const get = (url, options) => send("GET", url, options);
export const post = (url, options) => send("POST", url, options);
export const put = (url, options) => send("PUT", url, options);

export function upload(method, url, options = {}) {
  return new Upload(callHost(host.begin, requestOf(method, url, options)), originOf(url));
}

export const credentials = () => callHost(host.credentials);

export function lacking(error) {
  // The host's message contains the missing line of the config.
  const found = error.kind === "denied" ? /.*write `http: \["(.*?)"\]`/s.exec(error.message) : null;
  return found?.[1];
}

function requestOf(method, url, { query = {}, headers = {}, credential, timeoutMs }) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const escaped = pairs.map((pair) => pair.map((part) => encodeURIComponent(String(part))).join("=")).join("&");
  const whole = escaped === "" ? url : `${url}${url.includes("?") ? "&" : "?"}${escaped}`;
  const listed = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  // Less than a millisecond becomes one: 0 would mean no limit.
  const millis = timeoutMs === undefined ? undefined : Math.min(Math.max(1, Math.trunc(timeoutMs)), MOST_MILLIS);
  return { method, url: whole, headers: listed, credential, timeoutMs: millis };
}

/** Returns the host and port of a URL, for messages. */
function originOf(url) {
  const authority = url.split("://").at(-1).split(/[/?#\\]/)[0];
  return authority.split("@").at(-1) || "the server";
}

function kindOf(status, words) {
  // Vendors use some statuses for two things: an unpaid bill must not cause a pause.
  if (words.includes("insufficient_quota")) return "exhausted";
  if (words.includes("context_length_exceeded")) return "too-large";
  return KINDS.get(status) ?? (status >= 500 ? "unavailable" : status >= 400 ? "invalid" : "other");
}

/** Returns a server's text as one line, shortened, without control characters. */
function shown(text, most) {
  const plain = text.trim().replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
  return plain.length <= most ? plain : `${plain.slice(0, most)}…`;
}
