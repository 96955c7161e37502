/** One plot with a table of each line's current, mean and maximum value. */

import { useMemo, useState } from "preact/hooks";
import { VisibleText } from "../../parts/VisibleText";
import { Lines } from "../../plots";
import { dashOf, colorAt } from "../../plots/lineStyles";
import type { Values } from "./rates";

export interface Line {
  readonly name: string;
  readonly values: Values;
}

interface Props {
  readonly title: string;
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  readonly unit: (value: number) => string;
}

export function MetricPlot({ title, times, lines, unit }: Props) {
  const [hoverIndex, setHoverIndex] = useState<number | null>(null);
  const at = hoverIndex !== null && hoverIndex < times.length ? hoverIndex : null;
  const series = useMemo(() => lines.map(({ name, values }) => ({ name, values })), [lines]);
  const format = (value: number | null | undefined): string => (value == null ? "–" : unit(value));
  return (
    <figure class="card metric">
      <h3>{title}</h3>
      {lines.length === 0 ? (
        <p class="dim small metric-empty">No requests yet.</p>
      ) : (
        <Lines
          label={`${title}, over time; the table below has the numbers`}
          times={times}
          series={series}
          unit={unit}
          onPoint={setHoverIndex}
        />
      )}
      {lines.length > 0 && (
        <table class="metric-table">
          <caption class="visually-hidden">{title}</caption>
          <thead>
            <tr>
              <td />
              <th scope="col">{at === null ? "now" : timeFormat.format(times[at]! * 1000)}</th>
              <th scope="col">mean</th>
              <th scope="col">max</th>
            </tr>
          </thead>
          <tbody>
            {lines.map((line, place) => (
              <tr key={line.name}>
                <th scope="row">
                  <Swatch at={place} /> <VisibleText text={line.name} />
                </th>
                <td>{format(at === null ? line.values.at(-1) : line.values[at])}</td>
                <td>{format(mean(line.values))}</td>
                <td>{format(maximum(line.values))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </figure>
  );
}

const timeFormat = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});

function Swatch({ at }: { readonly at: number }) {
  return (
    <svg class={`swatch ${colorAt(at)}`} viewBox="0 0 22 6" width="22" height="6" aria-hidden="true">
      <line x1="0" y1="3" x2="22" y2="3" stroke="currentColor" stroke-width="2" stroke-dasharray={dashOf(at).join(" ")} />
    </svg>
  );
}

function definedValues(values: Values): readonly number[] {
  return values.filter((value) => value !== null);
}

function mean(values: Values): number | null {
  const all = definedValues(values);
  return all.length > 0 ? all.reduce((sum, one) => sum + one, 0) / all.length : null;
}

function maximum(values: Values): number | null {
  const all = definedValues(values);
  return all.length > 0 ? Math.max(...all) : null;
}
