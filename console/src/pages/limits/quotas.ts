/** The texts and the level of a quota. Pure functions. */

import type { QuotaUse } from "../../api/keyTypes";
import type { Tone } from "../../parts/Badge";
import { formatDuration } from "../../parts/Time";

/** From this share on, a quota is nearly used up. */
const NEARLY = 0.8;
const amount = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });

const UNITS: Readonly<Record<string, string>> = {
  requests: "requests",
  tokens: "tokens",
  calls: "tool calls",
  effects: "tool calls with side effects",
};

const OWNERS: Readonly<Record<string, string>> = {
  key: "counted for your key alone",
  tenant: "counted for all keys of your tenant together",
  gateway: "counted for all callers of the gateway together",
};

/** A quota, and the time at which it begins again, in Unix seconds. */
export type TimedQuota = QuotaUse & { readonly endsAt: number };

/** The remaining seconds count from the moment of the response, by the clock of the browser. */
export function timed(quotas: readonly QuotaUse[], at: number): readonly TimedQuota[] {
  return quotas.map((quota) => ({ ...quota, endsAt: at + quota.seconds_left }));
}

/** The used share, from 0 to 1. The last answer of a period may have used more than there was. */
export function shareOf(quota: QuotaUse): number {
  return quota.most > 0 ? Math.min(1, Math.max(0, quota.used / quota.most)) : 1;
}

/** Rounded down, so that only a quota that is used up has 100 %. */
export function percentOf(quota: QuotaUse): number {
  return Math.floor(shareOf(quota) * 100);
}

export function levelOf(quota: QuotaUse): { readonly label: string; readonly tone: Tone } {
  const share = shareOf(quota);
  if (share >= 1) return { label: "used up", tone: "bad" };
  if (share >= NEARLY) return { label: `${percentOf(quota)} % used`, tone: "warn" };
  return { label: `${percentOf(quota)} % used`, tone: "plain" };
}

/** `1,204 of 2,000 requests`. Money has no unit, because the prices of the engines have none. */
export function amountText(quota: QuotaUse): string {
  const unit = quota.counts === "money" ? "" : ` ${UNITS[quota.counts] ?? quota.counts}`;
  return `${amount.format(quota.used)} of ${amount.format(quota.most)}${unit}`;
}

export function remainingText(quota: QuotaUse): string {
  return `${amount.format(quota.remaining)} left`;
}

/** `tokens per day, counted for your key alone`. */
export function scopeText(quota: QuotaUse): string {
  const unit = quota.counts === "money" ? "money, by the prices of the engines," : (UNITS[quota.counts] ?? quota.counts);
  return `${unit} per ${quota.per}, ${OWNERS[quota.each] ?? `counted for each ${quota.each}`}`;
}

export function resetText(endsAt: number, now: number): string {
  const seconds = Math.ceil(endsAt - now);
  if (seconds <= 0) return "resets now";
  return `resets in ${seconds < 60 ? `${seconds} s` : formatDuration(seconds)}`;
}
