import { describe, expect, it } from "vitest";
import { parseSamples } from "../../src/pages/engines/prometheus";
import { quantile, quantiles, rates } from "../../src/pages/engines/rates";
import { parseSnapshot, type Snapshot } from "../../src/pages/engines/snapshot";

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

describe("metrics text", () => {
  it("is parsed into samples with unescaped labels; other lines are ignored", () => {
    const text = 'a{x="q\\"\\\\\\n,}",y=""} +Inf 1700000000\n\n# b 1\nnonsense\nc NaN\nd -2.5e3\n{x="y"} 1\n';
    expect(parseSamples(text)).toEqual([
      { name: "a", labels: { x: 'q"\\\n,}', y: "" }, value: Infinity },
      { name: "d", labels: {}, value: -2500 },
    ]);
  });

  it("is summed by model and engine; requests without a model are not counted", () => {
    const snapshot = parseSnapshot(PAGE, 7);
    expect([...snapshot.requests]).toEqual([["smol", 4]]);
    expect([snapshot.tokensRead, snapshot.tokensWritten]).toEqual([100, 40]);
    expect([...snapshot.firstEvent]).toEqual([
      [0.1, 2],
      [Infinity, 3],
    ]);
    expect([...snapshot.open, ...snapshot.failures]).toEqual([
      ["here", 2],
      ["here", 1],
    ]);
  });
});

const EMPTY = parseSnapshot("", 0);
const snapshotAt = (seconds: number, tokensWritten: number, first: readonly (readonly [number, number])[] = []): Snapshot => ({
  ...EMPTY,
  at: seconds,
  tokensWritten,
  firstEvent: new Map(first),
});

describe("plot lines", () => {
  it("are rates over the window, and null at the start, after a restart or a long gap", () => {
    const points = [[0, 0], [5, 50], [10, 50], [15, 20], [100, 30], [105, 40]] as const;
    const snapshots = points.map(([seconds, tokens]) => snapshotAt(seconds, tokens));
    expect(rates(snapshots, (one) => one.tokensWritten, 10)).toEqual([null, 10, 5, null, null, 2]);
  });

  it("are quantiles of histograms", () => {
    const histogram = new Map([
      [1, 5],
      [2, 10],
      [Infinity, 10],
    ]);
    expect([quantile(histogram, 0.5), quantile(histogram, 0.75), quantile(histogram, 1)]).toEqual([1, 1.5, 2]);
    expect(quantile(new Map([[1, 0], [Infinity, 3]]), 0.5)).toBe(1);
    expect(quantile(new Map([[1, 0], [Infinity, 0]]), 0.5)).toBeNull();
    const snapshots = [
      snapshotAt(0, 0, [[1, 4], [Infinity, 4]]),
      snapshotAt(5, 0, [[1, 4], [Infinity, 4]]),
      snapshotAt(10, 0, [[1, 6], [Infinity, 6]]),
    ];
    expect(quantiles(snapshots, (one) => one.firstEvent, 0.5, 5)).toEqual([null, null, 0.5]);
  });
});
