/** Computes plot lines from snapshots: rates of counters and quantiles of histograms. */

import type { Snapshot, Histogram } from "./snapshot";

/** The window of each point in seconds, long enough that single requests do not appear as spikes. */
export const WINDOW_SECONDS = 30;

export type Values = readonly (number | null)[];

/** The growth of a counter per second; null if it is unknown, such as after a restart. */
export function rates(
  snapshots: readonly Snapshot[],
  count: (snapshot: Snapshot) => number,
  window = WINDOW_SECONDS,
): Values {
  return snapshots.map((now, index) => {
    const before = windowStart(snapshots, index, window);
    if (!before) return null;
    const delta = count(now) - count(before);
    return delta < 0 ? null : delta / (now.at - before.at);
  });
}

/** The quantile of a histogram within the window; null if nothing was measured. */
export function quantiles(
  snapshots: readonly Snapshot[],
  histogram: (snapshot: Snapshot) => Histogram,
  fraction: number,
  window = WINDOW_SECONDS,
): Values {
  return snapshots.map((now, index) => {
    const before = windowStart(snapshots, index, window);
    return before ? quantile(histogramDelta(histogram(before), histogram(now)), fraction) : null;
  });
}

/** Interpolates linearly within a bucket. In the last, infinite bucket it returns the bucket's lower bound. */
export function quantile(histogram: Histogram, fraction: number): number | null {
  const bounds = [...histogram];
  const all = bounds.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  const rank = fraction * all;
  let [low, below] = [0, 0];
  for (const [bound, count] of bounds) {
    if (count >= rank && count > below) {
      return bound === Infinity ? low : low + ((bound - low) * (rank - below)) / (count - below);
    }
    [low, below] = [bound, count];
  }
  return low;
}

/** The oldest snapshot within the window. */
function windowStart(snapshots: readonly Snapshot[], index: number, window: number): Snapshot | null {
  let from = index;
  while (from > 0 && snapshots[index]!.at - snapshots[from - 1]!.at <= window) from -= 1;
  return from < index ? snapshots[from]! : null;
}

function histogramDelta(before: Histogram, now: Histogram): Histogram {
  const delta = new Map<number, number>();
  for (const [bound, count] of now) {
    const more = count - (before.get(bound) ?? 0);
    if (more < 0) return new Map();
    delta.set(bound, more);
  }
  return delta;
}
