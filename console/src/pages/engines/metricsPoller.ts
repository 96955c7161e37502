/** Polls /metrics every few seconds while the plots are shown, and keeps the last 15 minutes in memory. */

import { signal } from "@preact/signals";
import * as gateway from "../../api/gateway";
import { key } from "../../api/key";
import type { Problem } from "../../api/result";
import { parseSnapshot, type Snapshot } from "./snapshot";

export const POLL_SECONDS = 5;
export const MAX_SNAPSHOTS = 180;

export const snapshots = signal<readonly Snapshot[]>([]);
export const problem = signal<Problem | null>(null);

export const isForbidden = (error: Problem): boolean => error.status === 401 || error.status === 403;

let lastKey = key.peek();

/** Starts polling. Returns a function that stops it. */
export function startPolling(): () => void {
  let isActive = true;
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Another key may belong to a principal who must not see these numbers.
  if (lastKey !== key.peek()) snapshots.value = [];
  lastKey = key.peek();
  const poll = async (): Promise<void> => {
    if (!document.hidden) {
      const result = await gateway.metrics();
      if (!isActive) return;
      problem.value = result.ok ? null : result.problem;
      // Do not keep asking if the key has no permission.
      if (!result.ok && isForbidden(result.problem)) return;
      if (result.ok) {
        const snapshot = parseSnapshot(result.value, Date.now() / 1000);
        snapshots.value = [...snapshots.value, snapshot].slice(-MAX_SNAPSHOTS);
      }
    }
    timer = setTimeout(poll, POLL_SECONDS * 1000);
  };
  void poll();
  return () => {
    isActive = false;
    clearTimeout(timer);
  };
}
