/** The JSON of API keys and of quotas. */

import type { List } from "./types";

/** How much of a quota the principal has used in the current period. */
export interface QuotaUse {
  readonly name: string;
  /** `requests`, `tokens`, `money`, `calls`, `effects`, or something that is newer than this page. */
  readonly counts: string;
  /** `minute`, `hour` or `day`. */
  readonly per: string;
  /** What has a count of its own: each `key`, each `tenant`, or the whole `gateway`. */
  readonly each: string;
  readonly most: number;
  /** May exceed `most`: the answer that uses up a quota is finished. */
  readonly used: number;
  readonly remaining: number;
  readonly seconds_left: number;
}

/** What a key may do. `models`, `tools` and `sources` are patterns in which `*` stands for any text. */
export interface KeyPermissions {
  readonly models: readonly string[];
  readonly tools: readonly string[];
  readonly sources: readonly string[];
  readonly approve: boolean;
  readonly admin: boolean;
  readonly operator: boolean;
  readonly live_arguments: boolean;
  /** Requests per minute; 0 is no limit. */
  readonly rate: number;
  /** Answers at once; 0 is no limit. */
  readonly width: number;
}

/** A key in the ledger. Several keys with one name and tenant are the same principal. */
export interface ApiKey extends KeyPermissions {
  readonly object: "key";
  readonly id: string;
  readonly name: string;
  readonly tenant: string;
  readonly status: "active" | "expired" | "revoked";
  readonly created_at: number;
  readonly created_by: string;
  readonly expires_at: number | null;
  /** null if it was never used. */
  readonly last_used_at: number | null;
  readonly revoked_at: number | null;
  readonly revoked_by: string;
  /** The id of the key that came out of its rotation; empty if it was not rotated. */
  readonly replaced_by: string;
}

/** The only response that has the text of the key. */
export interface IssuedKey extends ApiKey {
  readonly key: string;
}

export interface KeyPage extends List<ApiKey> {
  /** Whether the keys end with the gateway, because its ledger is a temporary file. */
  readonly is_temporary: boolean;
}

export interface NewKey extends Partial<KeyPermissions> {
  readonly name: string;
  /** Seconds; a key without it does not expire. */
  readonly expires_in?: number;
}

export interface KeyRotation {
  /** How long the old key stays valid. */
  readonly overlap_seconds?: number;
  readonly expires_in?: number;
}
