/** What was asked for, or why there is none. Errors are values: nothing in `api/` throws for what a gateway says. */

export interface Problem {
  /** A word of the gateway's, such as `turn_not_found`, or one of `OWN_CODES`. */
  readonly code: string;
  readonly message: string;
  /** What to do about it; may be empty. */
  readonly hint: string;
  /** Of HTTP; 0 where there was no answer. */
  readonly status: number;
}

/** Problems that the page itself finds. */
export const OWN_CODES = {
  unreachable: "unreachable",
  unreadable: "unreadable",
  lost: "connection_lost",
} as const;

export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: Problem };

export function given<T>(value: T): Result<T> {
  return { ok: true, value };
}

export function failed(code: string, message: string, hint = "", status = 0): { ok: false; problem: Problem } {
  return { ok: false, problem: { code, message, hint, status } };
}
