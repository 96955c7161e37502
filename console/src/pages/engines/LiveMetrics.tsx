/** Live plots of the gateway's /metrics. */

import { useEffect, useMemo } from "preact/hooks";
import { Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { formatDuration } from "../../parts/Time";
import { MAX_LINES } from "../../plots/lineStyles";
import { POLL_SECONDS, isForbidden, problem, snapshots, startPolling } from "./metricsPoller";
import { MetricPlot, type Line } from "./MetricPlot";
import { quantiles, rates, WINDOW_SECONDS } from "./rates";
import type { Snapshot } from "./snapshot";

export function LiveMetrics() {
  useEffect(startPolling, []);
  const history = snapshots.value;
  const error = problem.value;
  const plots = useMemo(() => plotsOf(history), [history]);
  const times = useMemo(() => history.map((snapshot) => snapshot.at), [history]);
  return (
    <section class="stack" aria-labelledby="metrics-title">
      <header>
        <h2 id="metrics-title">Live metrics</h2>
        <p class="dim small">
          Updated every {POLL_SECONDS} seconds while this page is open. Each point covers the preceding {WINDOW_SECONDS}{" "}
          seconds.
        </p>
      </header>
      {error && isForbidden(error) ? (
        <p class="dim">
          Metrics require a key with the <code>operator</code> right, or the setting <code>metrics_open</code>.
        </p>
      ) : (
        error && <Problem problem={error} />
      )}
      {history.length === 0 && !error && <Loading what="the metrics" />}
      {history.length > 0 && (
        <div class="metric-grid">
          {plots.map((plot) => (
            <MetricPlot key={plot.title} {...plot} times={times} />
          ))}
        </div>
      )}
    </section>
  );
}

interface PlotSpec {
  readonly title: string;
  readonly lines: readonly Line[];
  readonly unit: (value: number) => string;
}

function plotsOf(snapshots: readonly Snapshot[]): readonly PlotSpec[] {
  const formatNumber = (value: number): string => compactNumber.format(value);
  const perMinute = (count: (snapshot: Snapshot) => number) =>
    rates(snapshots, count).map((rate) => (rate === null ? null : rate * 60));
  return [
    {
      title: "Requests per minute, by model",
      unit: formatNumber,
      lines: topSeries(snapshots, (snapshot) => snapshot.requests).map(({ name, of }) => ({ name, values: perMinute(of) })),
    },
    {
      title: "Tokens per second",
      unit: formatNumber,
      lines: [
        { name: "generated", values: rates(snapshots, (snapshot) => snapshot.tokensWritten) },
        { name: "prompt", values: rates(snapshots, (snapshot) => snapshot.tokensRead) },
      ],
    },
    {
      title: "Time to first event",
      unit: shortDuration,
      lines: [
        { name: "median", values: quantiles(snapshots, (snapshot) => snapshot.firstEvent, 0.5) },
        { name: "95th percentile", values: quantiles(snapshots, (snapshot) => snapshot.firstEvent, 0.95) },
      ],
    },
    {
      title: "Response time",
      unit: shortDuration,
      lines: [
        { name: "median", values: quantiles(snapshots, (snapshot) => snapshot.answer, 0.5) },
        { name: "95th percentile", values: quantiles(snapshots, (snapshot) => snapshot.answer, 0.95) },
      ],
    },
  ];
}

/** Without a trailing `.0`, because most axis labels are integers. */
const shortDuration = (seconds: number): string => formatDuration(seconds).replace(/\.0+ /, " ");
const compactNumber = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

interface NamedSeries {
  readonly name: string;
  readonly of: (snapshot: Snapshot) => number;
}

/** The largest series by name. The rest is summed up in one line, because a plot has only so many distinguishable lines. */
function topSeries(
  snapshots: readonly Snapshot[],
  of: (snapshot: Snapshot) => ReadonlyMap<string, number>,
): readonly NamedSeries[] {
  const last = snapshots.at(-1);
  if (!last) return [];
  const all = [...of(last)].sort(([, first], [, second]) => second - first).map(([name]) => name);
  const shown = all.length > MAX_LINES ? all.slice(0, MAX_LINES - 1) : all;
  const series = shown.map((name): NamedSeries => ({ name, of: (snapshot) => of(snapshot).get(name) ?? 0 }));
  const rest = all.slice(shown.length);
  if (rest.length === 0) return series;
  const sum = (snapshot: Snapshot): number => rest.reduce((total, name) => total + (of(snapshot).get(name) ?? 0), 0);
  return [...series, { name: `${rest.length} others`, of: sum }];
}
