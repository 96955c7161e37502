/** Labels and numbers of timeline entries. Pure functions. */

import type { TimelineEntry } from "../../api/types";
import type { Tone } from "../../parts/Badge";

export interface Kind {
  readonly label: string;
  readonly tone: Tone;
}

const KINDS: Readonly<Record<string, Kind>> = {
  history: { label: "earlier", tone: "plain" },
  system: { label: "system", tone: "plain" },
  user: { label: "user", tone: "plain" },
  limit: { label: "limit", tone: "warn" },
  model: { label: "model", tone: "info" },
  tool: { label: "tool", tone: "good" },
  retry: { label: "retry", tone: "warn" },
  approval: { label: "approval", tone: "warn" },
  unknown: { label: "unknown", tone: "bad" },
  refused: { label: "refused", tone: "bad" },
  cancel: { label: "stop", tone: "warn" },
  failed: { label: "failed", tone: "bad" },
  taken_over: { label: "taken over", tone: "warn" },
};

/** A kind that this page does not know is shown as it is. */
export function kindLabel(entry: TimelineEntry): Kind {
  return KINDS[entry.kind] ?? { label: entry.kind, tone: "plain" };
}

/** Whether it is an error or has an unknown outcome. */
export function isProblem(entry: TimelineEntry): boolean {
  return entry.is_error || entry.kind === "unknown";
}

/** Whether an entry contains the text, ignoring case. */
export function matches(entry: TimelineEntry, text: string): boolean {
  const query = text.trim().toLowerCase();
  return [entry.kind, entry.title, entry.tool, entry.call_id].some((text) => text.toLowerCase().includes(query));
}

/** The longest duration, except of approvals: waiting for people takes so long that other bars would be invisible. */
export function longestOf(timeline: readonly TimelineEntry[]): number {
  const durations = timeline.filter((entry) => entry.kind !== "approval").map((entry) => entry.seconds ?? 0);
  return durations.reduce((one, other) => Math.max(one, other), 0);
}

/** How much of the bar is filled, from 0 to 1; null if the duration is unknown. */
export function shareOf(entry: TimelineEntry, longest: number): number | null {
  if (entry.seconds === null) return null;
  return longest > 0 ? Math.min(1, entry.seconds / longest) : entry.seconds > 0 ? 1 : 0;
}

/** `940 B`, `3.2 kB`, `1.5 MB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Formats the time since the start: `+0.00 s`, `+12.3 s`, `+4:05`, `+2:10:05`, `+3 d`. */
export function formatOffset(seconds: number): string {
  const elapsed = Math.max(0, seconds);
  if (elapsed < 60) return `+${elapsed.toFixed(elapsed < 10 ? 2 : 1)} s`;
  const total = Math.floor(elapsed);
  const twoDigits = (number: number): string => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(total / 3_600), Math.floor((total % 3_600) / 60)];
  if (total >= 86_400) return `+${Math.floor(total / 86_400)} d ${Math.floor((total % 86_400) / 3_600)} h`;
  return hours > 0 ? `+${hours}:${twoDigits(minutes)}:${twoDigits(total % 60)}` : `+${minutes}:${twoDigits(total % 60)}`;
}

export interface Totals {
  readonly seconds: number;
  readonly calls: number;
  readonly problems: number;
  readonly tokens: { readonly prompt: number; readonly completion: number } | null;
}

export function totalsOf(timeline: readonly TimelineEntry[]): Totals {
  const tokenCounts = timeline.flatMap((entry) => entry.tokens ?? []);
  const callKinds = new Set(["tool", "retry", "unknown"]);
  return {
    seconds: timeline.reduce((last, entry) => Math.max(last, entry.at + (entry.seconds ?? 0)), 0) - (timeline[0]?.at ?? 0),
    calls: timeline.filter((entry) => callKinds.has(entry.kind)).length,
    problems: timeline.filter(isProblem).length,
    tokens:
      tokenCounts.length === 0
        ? null
        : {
            prompt: tokenCounts.reduce((sum, count) => sum + count.prompt, 0),
            completion: tokenCounts.reduce((sum, count) => sum + count.completion, 0),
          },
  };
}

/** The number of the row at which verification failed, parsed from the gateway's message. */
export function brokenAt(breach: string): number | null {
  const match = /^row (\d+)\b/.exec(breach);
  return match ? Number(match[1]) : null;
}
