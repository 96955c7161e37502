/** Looks at /metrics every few seconds while somebody looks at the plots, and keeps the last quarter of an hour in memory. */

import { signal } from "@preact/signals";
import * as gateway from "../../api/gateway";
import { key } from "../../api/key";
import type { Problem } from "../../api/result";
import { readingOf, type Reading } from "./reading";

export const EVERY = 5;
export const MOST = 180;

export const readings = signal<readonly Reading[]>([]);
export const problem = signal<Problem | null>(null);

export const isForbidden = (one: Problem): boolean => one.status === 401 || one.status === 403;

let holder = key.peek();

/** Until what comes back is called. */
export function watch(): () => void {
  let isWanted = true;
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Another key may be of somebody who must not see what this one saw.
  if (holder !== key.peek()) readings.value = [];
  holder = key.peek();
  const look = async (): Promise<void> => {
    if (!document.hidden) {
      const answer = await gateway.metrics();
      if (!isWanted) return;
      problem.value = answer.ok ? null : answer.problem;
      // Who may not is not asked for again and again.
      if (!answer.ok && isForbidden(answer.problem)) return;
      if (answer.ok) readings.value = [...readings.value, readingOf(answer.value, Date.now() / 1000)].slice(-MOST);
    }
    timer = setTimeout(look, EVERY * 1000);
  };
  void look();
  return () => {
    isWanted = false;
    clearTimeout(timer);
  };
}
