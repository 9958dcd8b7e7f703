/** The HTTP API of `shelly-host serve`, as far as the page uses it. Fields may be absent: what is read is checked where it is used. */

export interface RunUsage {
  input_tokens?: number;
  output_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
}

export interface Problem {
  title?: string;
  status?: number;
  code?: string;
  detail?: string;
  causes?: string[];
  mend?: string;
}

export interface ServedRun {
  run: string;
  state: string;
  agent?: string;
  model?: string | null;
  session?: string | null;
  task?: string;
  started?: string;
  finished?: string;
  usage?: RunUsage;
  cost_usd?: number | null;
  result?: { text?: string };
  error?: Problem;
  warnings?: string[];
}

export interface ServedSession {
  session: string;
  title?: string;
  agent?: string;
  state?: string;
  created?: string;
  modified?: string;
}

export interface ServedAgent {
  name: string;
  kind?: string;
  description?: string;
  entry?: boolean;
  model?: string | null;
}

export interface Question {
  id: number;
  run?: string;
  agent?: string;
  kind?: string;
  asked?: string;
  expires?: string;
  text?: string;
  header?: string;
  options?: { label: string; description?: string }[];
  multi_select?: boolean;
  max_selections?: number;
  action?: string;
  subject?: { kind?: string };
  detail?: string;
}

export interface Budget {
  tokens?: number;
  usd?: number;
  tool_calls?: number;
  time?: string;
}

/** A refusal of the server, in its words. */
export class ApiError extends Error {
  constructor(readonly status: number, readonly problem: Problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
  }
}

const KEY = "shelly-token";
const BASE = "/api/v1";

let token = "";

/** Takes the token out of the address, where the program has put it, and keeps it for this tab. */
export function readToken(): void {
  const part = new URLSearchParams(location.hash.slice(1));
  const given = part.get("token");
  try {
    if (given) sessionStorage.setItem(KEY, given);
    token = given ?? sessionStorage.getItem(KEY) ?? "";
  } catch {
    token = given ?? "";
  }
  if (given) {
    part.delete("token");
    history.replaceState(null, "", `#${part.toString()}`);
  }
}

export function setToken(given: string): void {
  token = given.trim();
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // It holds until the page is left.
  }
}

export const hasToken = (): boolean => token !== "";

export function authorization(): Record<string, string> {
  return token ? { authorization: `Bearer ${token}` } : {};
}

export const address = (path: string): string => BASE + path;

/** Milliseconds by which the clock of the server is ahead of this one; up to a second less, since it tells whole seconds. */
let ahead = 0;

/** The time at the server. */
export const serverTime = (): number => Date.now() + ahead;

/** Sends a request. `body` is sent as JSON. */
export async function request<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  const answer = await fetch(address(path), {
    method,
    headers: { ...authorization(), accept: "application/json", ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (Number.isFinite(date)) ahead = date - Date.now();
  const text = await answer.text();
  let parsed: unknown = {};
  try {
    parsed = text === "" ? {} : JSON.parse(text);
  } catch {
    // An answer that is not JSON says nothing more than its status.
  }
  if (!answer.ok) throw new ApiError(answer.status, (parsed ?? {}) as Problem);
  return parsed as T;
}

/** A list of an answer; empty if it is none. */
export async function requestList<T>(path: string, key: string): Promise<T[]> {
  const answer = await request<Record<string, unknown>>("GET", path);
  const list = answer[key];
  return Array.isArray(list) ? (list as T[]) : [];
}

/** A name for one request that must not be carried out twice. */
export function onceKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const path = (part: string): string => encodeURIComponent(part);

/** Budgets of the runs that were started in this tab: the server does not tell them. */
const BUDGETS = "shelly-budgets";

export function rememberBudget(run: string, budget: Budget): void {
  try {
    const all = JSON.parse(sessionStorage.getItem(BUDGETS) ?? "[]") as [string, Budget][];
    sessionStorage.setItem(BUDGETS, JSON.stringify([...all, [run, budget]].slice(-50)));
  } catch {
    // What is left of it is not shown.
  }
}

export function budgetOf(run: string): Budget | null {
  try {
    const all = JSON.parse(sessionStorage.getItem(BUDGETS) ?? "[]") as [string, Budget][];
    return all.find(([name]) => name === run)?.[1] ?? null;
  } catch {
    return null;
  }
}

export const isOver = (state: string): boolean => state !== "preparing" && state !== "running";

export function tokensOf(usage: RunUsage | undefined): number {
  const { input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0 } = usage ?? {};
  return input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
}
