/** Moments and spans. Unix seconds in, words out; the exact moment is in the title. */

import { signal } from "@preact/signals";

const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

/** Now, in Unix seconds, once a second, for all that count. */
export const now = signal(Date.now() / 1000);
let isTicking = false;

export function tick(): void {
  if (isTicking) return;
  isTicking = true;
  setInterval(() => {
    if (!document.hidden) now.value = Date.now() / 1000;
  }, 1000);
}

export function ago(at: number, from: number): string {
  const seconds = at - from;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? (["second", 1] as const);
  return relative.format(Math.trunc(seconds / size), unit);
}

/** A span: `850 ms`, `2.40 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function span(seconds: number): string {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3_600)} h`;
}

interface Props {
  readonly at: number;
  /** Shows the moment itself instead of how far it is away. */
  readonly exact?: boolean;
}

export function Time({ at, exact = false }: Props) {
  const moment = new Date(at * 1000);
  if (Number.isNaN(moment.getTime())) return <span>unknown</span>;
  const whole = moment.toLocaleString();
  return (
    <time dateTime={moment.toISOString()} title={whole}>
      {exact ? whole : ago(at, now.value)}
    </time>
  );
}
