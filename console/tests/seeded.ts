/** Random things that are the same in every run: a failure can be looked at again. */

import type { Json } from "../src/api/types";

export class Seeded {
  constructor(private state: number) {}

  /** A whole number from 0 on, below `end`. */
  below(end: number): number {
    this.state = (Math.imul(this.state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.state / 2 ** 32) * end);
  }

  one<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }

  text(): string {
    const characters = ["a", "é", "😀", '"', "\\", "/", "\n", "\t", "\u0000", "\u202e", "{", "]", ":", ",", " ", "\ud800"];
    return Array.from({ length: this.below(8) }, () => this.one(characters)).join("");
  }

  json(depth = 0): Json {
    const kind = this.below(depth > 3 ? 4 : 6);
    if (kind === 0) return this.text();
    if (kind === 1) return this.one([0, -1, 3.25, 1e21, -2.5e-7, 42]);
    if (kind === 2) return this.one([true, false]);
    if (kind === 3) return null;
    if (kind === 4) return Array.from({ length: this.below(4) }, () => this.json(depth + 1));
    return Object.fromEntries(Array.from({ length: this.below(4) }, () => [this.text(), this.json(depth + 1)]));
  }

  /** The same text in pieces. */
  cut(text: string): string[] {
    const pieces: string[] = [];
    for (let at = 0; at < text.length; ) {
      const next = at + 1 + this.below(5);
      pieces.push(text.slice(at, next));
      at = next;
    }
    return pieces;
  }
}

/** One for each case. */
export function cases(count: number): Seeded[] {
  return Array.from({ length: count }, (_, at) => new Seeded(at * 7919 + 1));
}
