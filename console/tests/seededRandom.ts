/** A seeded random generator: the same values in every run, so that failures can be reproduced. */

import type { Json } from "../src/api/types";

export class SeededRandom {
  constructor(private state: number) {}

  /** An integer from 0 to `end`, exclusive. */
  below(end: number): number {
    this.state = (Math.imul(this.state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.state / 2 ** 32) * end);
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }

  text(): string {
    const characters = ["a", "é", "😀", '"', "\\", "/", "\n", "\t", "\u0000", "\u202e", "{", "]", ":", ",", " ", "\ud800"];
    return Array.from({ length: this.below(8) }, () => this.pick(characters)).join("");
  }

  json(depth = 0): Json {
    const kind = this.below(depth > 3 ? 4 : 6);
    if (kind === 0) return this.text();
    if (kind === 1) return this.pick([0, -1, 3.25, 1e21, -2.5e-7, 42]);
    if (kind === 2) return this.pick([true, false]);
    if (kind === 3) return null;
    if (kind === 4) return Array.from({ length: this.below(4) }, () => this.json(depth + 1));
    return Object.fromEntries(Array.from({ length: this.below(4) }, () => [this.text(), this.json(depth + 1)]));
  }

  /** Splits a text into random pieces. */
  split(text: string): string[] {
    const pieces: string[] = [];
    for (let index = 0; index < text.length; ) {
      const next = index + 1 + this.below(5);
      pieces.push(text.slice(index, next));
      index = next;
    }
    return pieces;
  }
}

/** One generator per test case. */
export function cases(count: number): SeededRandom[] {
  return Array.from({ length: count }, (_, index) => new SeededRandom(index * 7919 + 1));
}
