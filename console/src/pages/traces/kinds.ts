/** The kinds of moments in words, and their figures. Pure. */

import type { TimelineEntry } from "../../api/types";
import type { Tone } from "../../parts/Badge";

export interface Kind {
  readonly word: string;
  readonly tone: Tone;
}

const KINDS: Readonly<Record<string, Kind>> = {
  history: { word: "earlier", tone: "plain" },
  system: { word: "system", tone: "plain" },
  user: { word: "user", tone: "plain" },
  limit: { word: "limit", tone: "warn" },
  model: { word: "model", tone: "info" },
  tool: { word: "tool", tone: "good" },
  retry: { word: "retry", tone: "warn" },
  approval: { word: "approval", tone: "warn" },
  unknown: { word: "unknown", tone: "bad" },
  refused: { word: "refused", tone: "bad" },
  cancel: { word: "stop", tone: "warn" },
  failed: { word: "failed", tone: "bad" },
  taken_over: { word: "taken over", tone: "warn" },
};

/** A word that is newer than this page is shown as it is. */
export function kindOf(entry: TimelineEntry): Kind {
  return KINDS[entry.kind] ?? { word: entry.kind, tone: "plain" };
}

/** What a reader looks for first: what went wrong, and what nobody knows of. */
export function isTrouble(entry: TimelineEntry): boolean {
  return entry.is_error || entry.kind === "unknown";
}

/** Whether a line has these words in it, in any case. */
export function holds(entry: TimelineEntry, words: string): boolean {
  const wanted = words.trim().toLowerCase();
  return [entry.kind, entry.title, entry.tool, entry.call_id].some((text) => text.toLowerCase().includes(wanted));
}

/** The longest that something ran. People are waited for so much longer that beside it nothing could be seen. */
export function longestOf(timeline: readonly TimelineEntry[]): number {
  const ran = timeline.filter((entry) => entry.kind !== "approval").map((entry) => entry.seconds ?? 0);
  return ran.reduce((one, other) => Math.max(one, other), 0);
}

/** How much of a bar is filled, from 0 to 1; null where nobody knows how long it took. */
export function shareOf(entry: TimelineEntry, longest: number): number | null {
  if (entry.seconds === null) return null;
  return longest > 0 ? Math.min(1, entry.seconds / longest) : entry.seconds > 0 ? 1 : 0;
}

/** `940 B`, `3.2 kB`, `1.5 MB`. */
export function sized(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Since the beginning: `+0.00 s`, `+12.3 s`, `+4:05`, `+2:10:05`, `+3 d`. */
export function offset(seconds: number): string {
  const gone = Math.max(0, seconds);
  if (gone < 60) return `+${gone.toFixed(gone < 10 ? 2 : 1)} s`;
  const whole = Math.floor(gone);
  const two = (number: number): string => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3_600), Math.floor((whole % 3_600) / 60)];
  if (whole >= 86_400) return `+${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3_600)} h`;
  return hours > 0 ? `+${hours}:${two(minutes)}:${two(whole % 60)}` : `+${minutes}:${two(whole % 60)}`;
}

export interface Sums {
  readonly seconds: number;
  readonly calls: number;
  readonly troubles: number;
  readonly tokens: { readonly prompt: number; readonly completion: number } | null;
}

export function sumsOf(timeline: readonly TimelineEntry[]): Sums {
  const told = timeline.flatMap((entry) => entry.tokens ?? []);
  const ran = new Set(["tool", "retry", "unknown"]);
  return {
    seconds: timeline.reduce((last, entry) => Math.max(last, entry.at + (entry.seconds ?? 0)), 0) - (timeline[0]?.at ?? 0),
    calls: timeline.filter((entry) => ran.has(entry.kind)).length,
    troubles: timeline.filter(isTrouble).length,
    tokens:
      told.length === 0
        ? null
        : {
            prompt: told.reduce((sum, one) => sum + one.prompt, 0),
            completion: told.reduce((sum, one) => sum + one.completion, 0),
          },
  };
}

/** The number of the row at which a chain broke, from the gateway's words. */
export function brokenAt(breach: string): number | null {
  const found = /^row (\d+)\b/.exec(breach);
  return found ? Number(found[1]) : null;
}
