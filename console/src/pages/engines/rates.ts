/** From readings to lines: how fast a count grew, and how long most of what was measured took. */

import type { Reading, Spread } from "./reading";

/** As long a span each point looks back over, in seconds: long enough that few requests make no needles. */
export const WINDOW = 30;

export type Values = readonly (number | null)[];

/** By how much a count grew in a second; null where nothing can be said, as after a restart. */
export function rates(readings: readonly Reading[], count: (reading: Reading) => number, window = WINDOW): Values {
  return readings.map((now, at) => {
    const before = earlier(readings, at, window);
    if (!before) return null;
    const grown = count(now) - count(before);
    return grown < 0 ? null : grown / (now.at - before.at);
  });
}

/** The time that the given share of what came in the window took at most; null where nothing came. */
export function quantiles(
  readings: readonly Reading[],
  spread: (reading: Reading) => Spread,
  share: number,
  window = WINDOW,
): Values {
  return readings.map((now, at) => {
    const before = earlier(readings, at, window);
    return before ? quantile(grownBetween(spread(before), spread(now)), share) : null;
  });
}

/** Between two bounds everything is taken to be spread evenly; beyond the last one nobody knows, and it is the last one. */
export function quantile(spread: Spread, share: number): number | null {
  const bounds = [...spread];
  const all = bounds.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  const wanted = share * all;
  let [low, below] = [0, 0];
  for (const [bound, count] of bounds) {
    if (count >= wanted && count > below) {
      return bound === Infinity ? low : low + ((bound - low) * (wanted - below)) / (count - below);
    }
    [low, below] = [bound, count];
  }
  return low;
}

/** The oldest reading within the window. */
function earlier(readings: readonly Reading[], at: number, window: number): Reading | null {
  let from = at;
  while (from > 0 && readings[at]!.at - readings[from - 1]!.at <= window) from -= 1;
  return from < at ? readings[from]! : null;
}

function grownBetween(before: Spread, now: Spread): Spread {
  const grown = new Map<number, number>();
  for (const [bound, count] of now) {
    const more = count - (before.get(bound) ?? 0);
    if (more < 0) return new Map();
    grown.set(bound, more);
  }
  return grown;
}
