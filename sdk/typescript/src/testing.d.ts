import type { EffectInput, Guest as Effect, Step } from "shelly:plugin/effect@0.2.0";
import type { CoordinatorInput, Guest as Coordinator, Step as TeamStep } from "shelly:plugin/coordinator@0.2.0";
import type { Ask, Completion, Message, Request, Role } from "shelly:plugin/types@0.2.0";

import type { PluginError } from "./errors.js";

/** The surroundings of the plugin. */
export interface HostOptions {
  /** The plugin's params. */
  params?: Record<string, unknown>;
  /** The conversation, for effects and coordinators. */
  chat?: Message[];
  /** The names of the agent's tools. */
  tools?: string[];
  /** The bytes of attachments, by their ids. */
  attachments?: Record<string, Uint8Array | string>;
  /** The request that a model middleware handles. */
  outgoing?: Request;
  /** The names of the credentials that are granted. */
  credentials?: string[];
}

/** A request that the plugin has sent. */
export interface SentRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: Uint8Array;
  credential?: string;
  timeoutMs?: number;
}

/** The response of a server. A body of several pieces arrives in these; an error among them breaks the connection. */
export interface PreparedResponse {
  status?: number;
  headers?: Record<string, string>;
  body?: Uint8Array | string | (Uint8Array | string | PluginError)[];
  /** A value that is sent as JSON in place of `body`. */
  json?: unknown;
}

/** The outcome of a program. */
export interface PreparedOutput {
  status?: number;
  stdout?: Uint8Array | string;
  stderr?: Uint8Array | string;
  cut?: boolean;
}

/** A host for unit tests. A request, question or command for which nothing was prepared throws, so that the test fails. */
export interface Host {
  /** Prepares the response to one request with this method and URL, query included. */
  respond(method: string, url: string, response?: PreparedResponse | PluginError): void;
  /** The requests that were sent. */
  readonly requests: SentRequest[];
  /** Prepares the outcome of the next run of a program. */
  setOutput(program: string, output: PreparedOutput | PluginError): void;
  /** The commands that were run. */
  readonly commands: { program: string; args: string[]; stdin: Uint8Array; timeoutMs?: number }[];
  /** Prepares the reply to the next question to a model. */
  reply(reply: string | Completion | PluginError): void;
  /** The questions to models. */
  readonly asked: Ask[];
  /** Lets time pass. */
  advance(milliseconds: number): void;
  /** The stored values, by their keys. */
  readonly stored: Map<string, Uint8Array>;
  /** The entries of the log: level and message. */
  readonly log: [string, string][];
  /** The reports of progress. */
  readonly progress: { done: number; total?: number; message?: string }[];
  /** The pieces of replies that a provider has passed on. */
  readonly emitted: { tag: string; val: unknown }[];
  /** The text of these pieces. */
  readonly text: string;
  /** Calls an effect, and again with the prepared reply for as long as it asks a model. */
  eval(effect: Effect, input?: Partial<EffectInput>, state?: Uint8Array): Step;
  /** Calls a coordinator, and again with the prepared reply for as long as it asks a model. */
  next(coordinator: Coordinator, input?: Partial<CoordinatorInput>, state?: Uint8Array): TeamStep;
}

/** Returns a message with one text. */
export function message(role: Role, text: string, meta?: [string, string][]): Message;

/** Calls a function with a host, which the functions of `shelly-plugin` use until it ends. */
export function withHost<T>(options: HostOptions, body: (host: Host) => T): T;
