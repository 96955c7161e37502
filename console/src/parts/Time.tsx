/** Formats times and durations, which are given in Unix seconds. The exact time is in the title. */

import { signal } from "@preact/signals";

const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

/** The current time in Unix seconds, updated every second. */
export const now = signal(Date.now() / 1000);
let isTicking = false;

export function startClock(): void {
  if (isTicking) return;
  isTicking = true;
  setInterval(() => {
    if (!document.hidden) now.value = Date.now() / 1000;
  }, 1000);
}

export function ago(at: number, from: number): string {
  const seconds = at - from;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? (["second", 1] as const);
  // What ends after 90 days ends "in 90 days" a second later too. A time in the past counts whole units only.
  return relative.format(seconds > 0 ? Math.round(seconds / size) : Math.trunc(seconds / size), unit);
}

/** Formats a duration: `850 ms`, `2.40 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function formatDuration(seconds: number): string {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const total = Math.round(seconds);
  if (total < 3_600) return `${Math.floor(total / 60)} min ${total % 60} s`;
  if (total < 86_400) return `${Math.floor(total / 3_600)} h ${Math.floor((total % 3_600) / 60)} min`;
  return `${Math.floor(total / 86_400)} d ${Math.floor((total % 86_400) / 3_600)} h`;
}

interface Props {
  readonly at: number;
  /** Shows the absolute time instead of the relative one. */
  readonly exact?: boolean;
}

export function Time({ at, exact = false }: Props) {
  const date = new Date(at * 1000);
  if (Number.isNaN(date.getTime())) return <span>unknown</span>;
  const text = date.toLocaleString();
  return (
    <time dateTime={date.toISOString()} title={text}>
      {exact ? text : ago(at, now.value)}
    </time>
  );
}
