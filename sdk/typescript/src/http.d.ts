import type { PluginError } from "./errors.js";

/** The bytes of a body that is read as a whole. */
export const MOST_WHOLE: number;
/** The characters of a line of a body. */
export const MOST_LINE: number;

/** A server-sent event. */
export interface Event {
  name: string;
  data: string;
  id: string;
}

/** The parts of a request besides its method, URL and body. */
export interface HeadOptions {
  /** Names and values that are added to the query, escaped. Undefined and null are left out. */
  query?: Record<string, string | number | boolean | null | undefined>;
  /** Headers. The host sets `host`, `content-length` and the like, and the header of a credential. */
  headers?: Record<string, string>;
  /** The name of a granted credential, which the host adds. The plugin never sees it. */
  credential?: string;
  /** The time limit of the whole exchange. Without it: the time that is left for the call. */
  timeoutMs?: number;
}

/** The parts of a request besides its method and URL. */
export interface RequestOptions extends HeadOptions {
  body?: Uint8Array | string;
  /** A value that is sent as JSON in place of `body`. */
  json?: unknown;
}

/** A response: its head, and a body that is read separately. */
export class Response {
  private constructor();
  readonly status: number;
  readonly headers: [string, string][];
  /** True if the status is 200 to 299. */
  readonly isSuccess: boolean;
  /** Returns the value of the first header of this name. */
  header(name: string): string | undefined;
  /** Waits for the next bytes, at most 64 KiB; none only at the end. */
  read(most?: number): Uint8Array;
  /** Iterates over the body as it arrives. */
  pieces(): Generator<Uint8Array>;
  /** Reads the whole body. Bound: 16 MiB (`too-large`). */
  bytes(): Uint8Array;
  /** Reads the whole body as text. */
  text(): string;
  /** Reads the whole body as JSON. */
  json(): any;
  /** Iterates over the lines of the body as they arrive. Bound: 8 MiB a line. */
  lines(): Generator<string>;
  /** Iterates over the server-sent events of the body as they arrive. */
  events(): Generator<Event>;
  /** Returns the response if its status is one of success; otherwise throws the error that it means. */
  ok(): Response;
}

/** A request whose body is being sent. */
export class Upload {
  private constructor();
  /** Sends a piece of the body. */
  write(bytes: Uint8Array): void;
  /** Ends the body and waits for the head of the response. */
  finish(): Response;
}

/** Sends a request and waits for the head of the response. The method is in upper case. */
export function send(method: string, url: string, options?: RequestOptions): Response;
export function get(url: string, options?: RequestOptions): Response;
export function post(url: string, options?: RequestOptions): Response;
export function put(url: string, options?: RequestOptions): Response;
/** Sends the head of a request, whose body follows in pieces. */
export function upload(method: string, url: string, options?: HeadOptions): Upload;
/** Returns the names of the credentials that are granted and exist. */
export function credentials(): string[];
/** Returns the server that is not granted according to this error; `needsServer` can have a person asked for it. */
export function lacking(error: PluginError): string | undefined;
