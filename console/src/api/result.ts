/** The result of a request: a value or a problem. Errors are values: no function in `api/` throws for a gateway's error. */

export interface Problem {
  /** An error code of the gateway, such as `turn_not_found`, or one of `CLIENT_CODES`. */
  readonly code: string;
  readonly message: string;
  /** What to do about it. May be empty. */
  readonly hint: string;
  /** The HTTP status; 0 if there was no response. */
  readonly status: number;
}

/** Codes of problems that the console detects itself. */
export const CLIENT_CODES = {
  unreachable: "unreachable",
  unreadable: "unreadable",
  connectionLost: "connection_lost",
} as const;

export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: Problem };

export function success<T>(value: T): Result<T> {
  return { ok: true, value };
}

export function failure(code: string, message: string, hint = "", status = 0): { ok: false; problem: Problem } {
  return { ok: false, problem: { code, message, hint, status } };
}
