/** Sends one request to the gateway and returns its response as a value. Knows the API key, but no route. */

import { key } from "./key";
import { failure, success, CLIENT_CODES, type Result } from "./result";

export type Query = Readonly<Record<string, string | number | undefined>>;

export interface RequestOptions {
  readonly query?: Query;
  readonly body?: unknown;
  /** A body that is already JSON text. It is sent unchanged, because its numbers may exceed JavaScript's precision. */
  readonly rawBody?: string;
  readonly signal?: AbortSignal;
}

export function get<T>(path: string, options: RequestOptions = {}): Promise<Result<T>> {
  return request<T>("GET", path, options);
}

/** Posts JSON text unchanged. */
export function postRaw<T>(path: string, json: string, options: RequestOptions = {}): Promise<Result<T>> {
  return request<T>("POST", path, { ...options, rawBody: json });
}

export function post<T>(path: string, body: unknown, options: RequestOptions = {}): Promise<Result<T>> {
  return request<T>("POST", path, { ...options, body });
}

/** Fetches plain text, such as /metrics. */
export async function getText(path: string, options: RequestOptions = {}): Promise<Result<string>> {
  const answer = await send("GET", path, options);
  return answer.ok ? success(answer.value.text) : answer;
}

async function request<T>(method: string, path: string, options: RequestOptions): Promise<Result<T>> {
  const answer = await send(method, path, options);
  if (!answer.ok) return answer;
  const value = tryParse(answer.value.text);
  if (value === undefined) {
    return failure(CLIENT_CODES.unreadable, "The response is not valid JSON.", "", answer.value.status);
  }
  return success(value as T);
}

async function send(
  method: string,
  path: string,
  options: RequestOptions,
): Promise<Result<{ readonly status: number; readonly text: string }>> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (key.value) headers["authorization"] = `Bearer ${key.value}`;
  const init: RequestInit = { method, headers, credentials: "omit", cache: "no-store", redirect: "error" };
  const body = options.rawBody ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = body;
  }
  if (options.signal) init.signal = options.signal;
  try {
    const response = await fetch(withQuery(path, options.query), init);
    const answer = await response.text();
    return response.ok ? success({ status: response.status, text: answer }) : parseProblem(response.status, answer);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") {
      return failure("aborted", "The request was cancelled.");
    }
    return failure(CLIENT_CODES.unreachable, "The gateway does not respond.", "Check that it is running.");
  }
}

/** Parses the error body that every route of the gateway uses. */
export function parseProblem(status: number, body: string): { ok: false; problem: import("./result").Problem } {
  const value = tryParse(body) as { error?: { message?: unknown; code?: unknown; hint?: unknown } } | undefined;
  const error = value?.error;
  const message = typeof error?.message === "string" ? error.message : `The gateway responded with status ${status}.`;
  const code = typeof error?.code === "string" ? error.code : `http_${status}`;
  return failure(code, message, typeof error?.hint === "string" ? error.hint : "", status);
}

export function withQuery(path: string, query: Query = {}): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string | number] => pair[1] !== undefined);
  const search = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return search ? `${path}?${search}` : path;
}

function tryParse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
