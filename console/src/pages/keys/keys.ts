/** The state of a key, and what its forms send. Pure functions. */

import type { ApiKey, KeyRotation, NewKey } from "../../api/keyTypes";
import type { Principal } from "../../api/types";
import type { Tone } from "../../parts/Badge";

const DAY = 86_400;
const HOUR = 3_600;
/** An expiry within this time is shown as a warning. */
const SOON = 7 * DAY;

/** Durations in seconds; 0 is never. */
export const EXPIRIES: readonly (readonly [seconds: number, label: string])[] = [
  [DAY, "1 day"],
  [7 * DAY, "7 days"],
  [30 * DAY, "30 days"],
  [90 * DAY, "90 days"],
  [365 * DAY, "1 year"],
  [0, "never"],
];

export const OVERLAPS: readonly (readonly [seconds: number, label: string])[] = [
  [0, "none: the old key ends at once"],
  [HOUR, "1 hour"],
  [DAY, "1 day"],
  [7 * DAY, "7 days"],
];

export const DEFAULT_EXPIRY = 90 * DAY;
export const DEFAULT_OVERLAP = HOUR;

export type KeyState = "active" | "expiring" | "rotated" | "expired" | "revoked";

/** The state of a key at a time, which may be later than the response that it is from. */
export function stateOf(key: ApiKey, now: number): KeyState {
  if (key.status === "revoked") return "revoked";
  if (key.status === "expired" || (key.expires_at !== null && key.expires_at <= now)) return "expired";
  if (key.replaced_by !== "") return "rotated";
  return key.expires_at !== null && key.expires_at - now < SOON ? "expiring" : "active";
}

export const STATES: Readonly<Record<KeyState, { readonly label: string; readonly tone: Tone }>> = {
  active: { label: "active", tone: "good" },
  expiring: { label: "expires soon", tone: "warn" },
  rotated: { label: "replaced", tone: "warn" },
  expired: { label: "expired", tone: "plain" },
  revoked: { label: "revoked", tone: "plain" },
};

export function hasEnded(key: ApiKey, now: number): boolean {
  const state = stateOf(key, now);
  return state === "expired" || state === "revoked";
}

/** A key that was rotated has a successor, which can be rotated instead. */
export function canRotate(key: ApiKey, now: number): boolean {
  return !hasEnded(key, now) && key.replaced_by === "";
}

/** Whether a key is of the principal that uses the page: it may be the key that they entered. */
export function isOwn(key: ApiKey, principal: Principal | null): boolean {
  return principal !== null && principal.needs_key && principal.name === key.name && principal.tenant === key.tenant;
}

/** The other keys of the same principal that are still valid. */
export function siblings(key: ApiKey, keys: readonly ApiKey[], now: number): readonly ApiKey[] {
  return keys.filter(
    (other) => other.id !== key.id && other.name === key.name && other.tenant === key.tenant && !hasEnded(other, now),
  );
}

export interface KeyDraft {
  readonly name: string;
  readonly models: string;
  readonly tools: string;
  readonly sources: string;
  readonly approve: boolean;
  readonly admin: boolean;
  readonly operator: boolean;
  /** Digits, or empty for no limit. */
  readonly rate: string;
  readonly width: string;
  readonly expiry: number;
}

/** The first key of a gateway without keys is for the person who creates it, who then needs it for this page. */
export function emptyDraft(isFirst: boolean): KeyDraft {
  return {
    name: "",
    models: "*",
    tools: isFirst ? "*" : "",
    sources: "*",
    approve: isFirst,
    admin: isFirst,
    operator: false,
    rate: "",
    width: "",
    expiry: DEFAULT_EXPIRY,
  };
}

export function parsePatterns(text: string): readonly string[] {
  const patterns = text.split(/[,\n]/).map((pattern) => pattern.trim());
  return [...new Set(patterns.filter((pattern) => pattern !== ""))];
}

export function newKeyOf(draft: KeyDraft): NewKey {
  return {
    name: draft.name.trim(),
    models: parsePatterns(draft.models),
    tools: parsePatterns(draft.tools),
    sources: parsePatterns(draft.sources),
    approve: draft.approve,
    admin: draft.admin,
    operator: draft.operator,
    rate: Number(draft.rate),
    width: Number(draft.width),
    ...expiryOf(draft.expiry),
  };
}

export function rotationOf(overlap: number, expiry: number): KeyRotation {
  return { overlap_seconds: overlap, ...expiryOf(expiry) };
}

function expiryOf(seconds: number): { readonly expires_in?: number } {
  return seconds > 0 ? { expires_in: seconds } : {};
}

/** A page that begins with keys that are listed already, because others were created meanwhile, lists each once. */
export function appendNew(listed: readonly ApiKey[], page: readonly ApiKey[]): readonly ApiKey[] {
  const ids = new Set(listed.map((key) => key.id));
  return [...listed, ...page.filter((key) => !ids.has(key.id))];
}
