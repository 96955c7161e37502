/** What the gateway had counted at one moment, as far as the plots need it. */

import { samplesIn, type Sample } from "./prometheus";

/** How many took at most so many seconds, by that bound; the last bound is infinite. */
export type Spread = ReadonlyMap<number, number>;

export interface Reading {
  /** Unix seconds. */
  readonly at: number;
  /** Requests that came to a model, by its name. */
  readonly requests: ReadonlyMap<string, number>;
  readonly tokensRead: number;
  readonly tokensWritten: number;
  /** Until an answer's first event, and until its last. */
  readonly first: Spread;
  readonly whole: Spread;
  /** Answers under way and failures so far, by engine. */
  readonly open: ReadonlyMap<string, number>;
  readonly failures: ReadonlyMap<string, number>;
}

export function readingOf(text: string, at: number): Reading {
  const by = new Map<string, Sample[]>();
  for (const sample of samplesIn(text)) by.set(sample.name, [...(by.get(sample.name) ?? []), sample]);
  const of = (name: string): readonly Sample[] => by.get(name) ?? [];
  const tokens = (kind: string): number => total(of("ferrule_tokens_total").filter((one) => one.labels["kind"] === kind));
  return {
    at,
    requests: summed(of("ferrule_requests_total").filter((one) => one.labels["model"] !== ""), "model"),
    tokensRead: tokens("prompt"),
    tokensWritten: tokens("completion"),
    first: spread(of("ferrule_first_event_seconds_bucket")),
    whole: spread(of("ferrule_answer_seconds_bucket")),
    open: summed(of("ferrule_engine_answers_open"), "engine"),
    failures: summed(of("ferrule_engine_errors_total"), "engine"),
  };
}

function total(samples: readonly Sample[]): number {
  return samples.reduce((sum, one) => sum + one.value, 0);
}

function summed(samples: readonly Sample[], label: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const { labels, value } of samples) {
    const name = labels[label] ?? "";
    found.set(name, (found.get(name) ?? 0) + value);
  }
  return found;
}

function spread(samples: readonly Sample[]): Spread {
  const found = new Map<number, number>();
  for (const { labels, value } of samples) {
    const bound = labels["le"] === "+Inf" ? Infinity : Number(labels["le"]);
    if (!Number.isNaN(bound)) found.set(bound, (found.get(bound) ?? 0) + value);
  }
  return new Map([...found].sort(([one], [other]) => one - other));
}
