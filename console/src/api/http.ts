/** One request to the gateway and its answer as a value. Knows the key, and no route. */

import { key } from "./key";
import { failed, given, OWN_CODES, type Result } from "./result";

export type Query = Readonly<Record<string, string | number | undefined>>;

export interface Asked {
  readonly query?: Query;
  readonly body?: unknown;
  /** A body that is JSON already and is sent as it is written: numbers in it may be longer than ours. */
  readonly written?: string;
  readonly signal?: AbortSignal;
}

export function get<T>(path: string, asked: Asked = {}): Promise<Result<T>> {
  return request<T>("GET", path, asked);
}

/** Posts JSON as it is written. */
export function postText<T>(path: string, written: string, asked: Asked = {}): Promise<Result<T>> {
  return request<T>("POST", path, { ...asked, written });
}

export function post<T>(path: string, body: unknown, asked: Asked = {}): Promise<Result<T>> {
  return request<T>("POST", path, { ...asked, body });
}

/** A text that is no JSON, such as that of /metrics. */
export async function text(path: string, asked: Asked = {}): Promise<Result<string>> {
  const answer = await answered("GET", path, asked);
  return answer.ok ? given(answer.value.text) : answer;
}

async function request<T>(method: string, path: string, asked: Asked): Promise<Result<T>> {
  const answer = await answered(method, path, asked);
  if (!answer.ok) return answer;
  const read = parsed(answer.value.text);
  if (read === undefined) return failed(OWN_CODES.unreadable, "The answer is no JSON.", "", answer.value.status);
  return given(read as T);
}

async function answered(
  method: string,
  path: string,
  asked: Asked,
): Promise<Result<{ readonly status: number; readonly text: string }>> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (key.value) headers["authorization"] = `Bearer ${key.value}`;
  const init: RequestInit = { method, headers, credentials: "omit", cache: "no-store", redirect: "error" };
  const body = asked.written ?? (asked.body === undefined ? undefined : JSON.stringify(asked.body));
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = body;
  }
  if (asked.signal) init.signal = asked.signal;
  try {
    const response = await fetch(withQuery(path, asked.query), init);
    const answer = await response.text();
    return response.ok ? given({ status: response.status, text: answer }) : problemIn(response.status, answer);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return failed("aborted", "No longer wanted.");
    return failed(OWN_CODES.unreachable, "The gateway does not answer.", "Is it still running?");
  }
}

/** What a refusal says, in the shape that every route of ours uses. */
export function problemIn(status: number, body: string): { ok: false; problem: import("./result").Problem } {
  const read = parsed(body) as { error?: { message?: unknown; code?: unknown; hint?: unknown } } | undefined;
  const error = read?.error;
  const words = typeof error?.message === "string" ? error.message : `The gateway answered ${status}.`;
  const code = typeof error?.code === "string" ? error.code : `http_${status}`;
  return failed(code, words, typeof error?.hint === "string" ? error.hint : "", status);
}

export function withQuery(path: string, query: Query = {}): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string | number] => pair[1] !== undefined);
  const search = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return search ? `${path}?${search}` : path;
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
