/** What the gateway does right now, drawn from /metrics. */

import { useEffect, useMemo } from "preact/hooks";
import { Loading } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { span } from "../../parts/Time";
import { MOST_LINES } from "../../plots/manners";
import { EVERY, isForbidden, problem, readings, watch } from "./live";
import { LivePlot, type Line } from "./LivePlot";
import { quantiles, rates, WINDOW } from "./rates";
import type { Reading } from "./reading";

export function Live() {
  useEffect(watch, []);
  const told = readings.value;
  const wrong = problem.value;
  const plots = useMemo(() => plotsOf(told), [told]);
  const times = useMemo(() => told.map((one) => one.at), [told]);
  return (
    <section class="stack" aria-labelledby="live-title">
      <header>
        <h2 id="live-title">Right now</h2>
        <p class="dim small">
          Read every {EVERY} seconds while this page is open; each point is of the {WINDOW} seconds before it.
        </p>
      </header>
      {wrong && isForbidden(wrong) ? (
        <p class="dim">
          The numbers are shown to keys with the right <code>admin</code>, or to everybody where <code>metrics_open</code> is set.
        </p>
      ) : (
        wrong && <Problem problem={wrong} />
      )}
      {told.length === 0 && !wrong && <Loading what="the numbers" />}
      {told.length > 0 && (
        <div class="live-grid">
          {plots.map((plot) => (
            <LivePlot key={plot.title} {...plot} times={times} />
          ))}
        </div>
      )}
    </section>
  );
}

interface Told {
  readonly title: string;
  readonly lines: readonly Line[];
  readonly unit: (value: number) => string;
}

function plotsOf(told: readonly Reading[]): readonly Told[] {
  const number = (value: number): string => compact.format(value);
  const perMinute = (count: (one: Reading) => number) => rates(told, count).map((one) => (one === null ? null : one * 60));
  return [
    {
      title: "Requests a minute, by model",
      unit: number,
      lines: named(told, (one) => one.requests).map(({ name, of }) => ({ name, values: perMinute(of) })),
    },
    {
      title: "Tokens a second",
      unit: number,
      lines: [
        { name: "written", values: rates(told, (one) => one.tokensWritten) },
        { name: "read", values: rates(told, (one) => one.tokensRead) },
      ],
    },
    {
      title: "Time to an answer's first event",
      unit: brief,
      lines: [
        { name: "half within", values: quantiles(told, (one) => one.first, 0.5) },
        { name: "95 % within", values: quantiles(told, (one) => one.first, 0.95) },
      ],
    },
    {
      title: "Time to a whole answer",
      unit: brief,
      lines: [
        { name: "half within", values: quantiles(told, (one) => one.whole, 0.5) },
        { name: "95 % within", values: quantiles(told, (one) => one.whole, 0.95) },
      ],
    },
  ];
}

/** Without a fraction that says nothing: an axis has mostly whole numbers. */
const brief = (seconds: number): string => span(seconds).replace(/\.0+ /, " ");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

interface Named {
  readonly name: string;
  readonly of: (reading: Reading) => number;
}

/** The names with the most; those that cannot be told apart any more are one line. */
function named(told: readonly Reading[], of: (reading: Reading) => ReadonlyMap<string, number>): readonly Named[] {
  const last = told.at(-1);
  if (!last) return [];
  const all = [...of(last)].sort(([, one], [, other]) => other - one).map(([name]) => name);
  const shown = all.length > MOST_LINES ? all.slice(0, MOST_LINES - 1) : all;
  const found = shown.map((name): Named => ({ name, of: (reading) => of(reading).get(name) ?? 0 }));
  const rest = all.slice(shown.length);
  if (rest.length === 0) return found;
  const sum = (reading: Reading): number => rest.reduce((so_far, name) => so_far + (of(reading).get(name) ?? 0), 0);
  return [...found, { name: `${rest.length} others`, of: sum }];
}
