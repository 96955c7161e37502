import { describe, expect, it } from "vitest";
import { samplesIn } from "../../src/pages/engines/prometheus";
import { quantile, quantiles, rates } from "../../src/pages/engines/rates";
import { readingOf, type Reading } from "../../src/pages/engines/reading";

const PAGE = `# HELP ferrule_requests_total Requests.
# TYPE ferrule_requests_total counter
ferrule_requests_total{api="/v1/me",model="",outcome="ok"} 5.0
ferrule_requests_total{api="/v1/chat/completions",model="smol",outcome="ok"} 3.0
ferrule_requests_total{api="/v1/messages",model="smol",outcome="ok"} 1e0
ferrule_tokens_total{kind="prompt",model="smol"} 100.0
ferrule_tokens_total{kind="completion",model="smol"} 40.0
ferrule_first_event_seconds_bucket{le="0.1",model="smol"} 1.0
ferrule_first_event_seconds_bucket{le="+Inf",model="smol"} 2.0
ferrule_first_event_seconds_bucket{le="0.1",model="big"} 1.0
ferrule_first_event_seconds_bucket{le="+Inf",model="big"} 1.0
ferrule_engine_answers_open{engine="here"} 2.0
ferrule_engine_errors_total{code="lost",engine="here"} 1.0
ferrule_workers 1.0
`;

describe("the page of figures", () => {
  it("is read into samples, escapes and all, and what is none is passed over", () => {
    const text = 'a{x="q\\"\\\\\\n,}",y=""} +Inf 1700000000\n\n# b 1\nnonsense\nc NaN\nd -2.5e3\n{x="y"} 1\n';
    expect(samplesIn(text)).toEqual([
      { name: "a", labels: { x: 'q"\\\n,}', y: "" }, value: Infinity },
      { name: "d", labels: {}, value: -2500 },
    ]);
  });

  it("is summed up by model and engine; what went to no model is not among its requests", () => {
    const reading = readingOf(PAGE, 7);
    expect([...reading.requests]).toEqual([["smol", 4]]);
    expect([reading.tokensRead, reading.tokensWritten]).toEqual([100, 40]);
    expect([...reading.first]).toEqual([
      [0.1, 2],
      [Infinity, 3],
    ]);
    expect([...reading.open, ...reading.failures]).toEqual([
      ["here", 2],
      ["here", 1],
    ]);
  });
});

const EMPTY = readingOf("", 0);
const at = (seconds: number, tokensWritten: number, first: readonly (readonly [number, number])[] = []): Reading => ({
  ...EMPTY,
  at: seconds,
  tokensWritten,
  first: new Map(first),
});

describe("lines", () => {
  it("say how fast a count grew over the window, and nothing at the beginning, after a restart or a long gap", () => {
    const readings = [at(0, 0), at(5, 50), at(10, 50), at(15, 20), at(100, 30), at(105, 40)];
    expect(rates(readings, (one) => one.tokensWritten, 10)).toEqual([null, 10, 5, null, null, 2]);
  });

  it("say how long a share of what came took at most", () => {
    const spread = new Map([
      [1, 5],
      [2, 10],
      [Infinity, 10],
    ]);
    expect([quantile(spread, 0.5), quantile(spread, 0.75), quantile(spread, 1)]).toEqual([1, 1.5, 2]);
    expect(quantile(new Map([[1, 0], [Infinity, 3]]), 0.5)).toBe(1);
    expect(quantile(new Map([[1, 0], [Infinity, 0]]), 0.5)).toBeNull();
    const readings = [at(0, 0, [[1, 4], [Infinity, 4]]), at(5, 0, [[1, 4], [Infinity, 4]]), at(10, 0, [[1, 6], [Infinity, 6]])];
    expect(quantiles(readings, (one) => one.first, 0.5, 5)).toEqual([null, null, 0.5]);
  });
});
