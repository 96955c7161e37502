/** The gateway's metrics at one time, as far as the plots need them. */

import { parseSamples, type Sample } from "./prometheus";

/** Cumulative counts by upper bound in seconds; the last bound is infinite. */
export type Histogram = ReadonlyMap<number, number>;

export interface Snapshot {
  /** Unix seconds. */
  readonly at: number;
  /** Requests by model. */
  readonly requests: ReadonlyMap<string, number>;
  readonly tokensRead: number;
  readonly tokensWritten: number;
  /** The times until a response's first event and until its end. */
  readonly firstEvent: Histogram;
  readonly answer: Histogram;
  /** Requests in progress and failures so far, by engine. */
  readonly open: ReadonlyMap<string, number>;
  readonly failures: ReadonlyMap<string, number>;
}

export function parseSnapshot(text: string, at: number): Snapshot {
  const samplesByName = new Map<string, Sample[]>();
  for (const sample of parseSamples(text)) {
    samplesByName.set(sample.name, [...(samplesByName.get(sample.name) ?? []), sample]);
  }
  const samplesOf = (name: string): readonly Sample[] => samplesByName.get(name) ?? [];
  const tokens = (kind: string): number =>
    total(samplesOf("ferrule_tokens_total").filter((sample) => sample.labels["kind"] === kind));
  return {
    at,
    requests: sumByLabel(samplesOf("ferrule_requests_total").filter((sample) => sample.labels["model"] !== ""), "model"),
    tokensRead: tokens("prompt"),
    tokensWritten: tokens("completion"),
    firstEvent: histogramOf(samplesOf("ferrule_first_event_seconds_bucket")),
    answer: histogramOf(samplesOf("ferrule_answer_seconds_bucket")),
    open: sumByLabel(samplesOf("ferrule_engine_answers_open"), "engine"),
    failures: sumByLabel(samplesOf("ferrule_engine_errors_total"), "engine"),
  };
}

function total(samples: readonly Sample[]): number {
  return samples.reduce((sum, sample) => sum + sample.value, 0);
}

function sumByLabel(samples: readonly Sample[], label: string): ReadonlyMap<string, number> {
  const totals = new Map<string, number>();
  for (const { labels, value } of samples) {
    const name = labels[label] ?? "";
    totals.set(name, (totals.get(name) ?? 0) + value);
  }
  return totals;
}

function histogramOf(samples: readonly Sample[]): Histogram {
  const counts = new Map<number, number>();
  for (const { labels, value } of samples) {
    const bound = labels["le"] === "+Inf" ? Infinity : Number(labels["le"]);
    if (!Number.isNaN(bound)) counts.set(bound, (counts.get(bound) ?? 0) + value);
  }
  return new Map([...counts].sort(([first], [second]) => first - second));
}
