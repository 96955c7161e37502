/** One plot with its table: what each line is, and its figures now, in the middle and at most. */

import { useMemo, useState } from "preact/hooks";
import { Shown } from "../../parts/Shown";
import { Lines } from "../../plots";
import { dashOf, inkAt } from "../../plots/manners";
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

export function LivePlot({ title, times, lines, unit }: Props) {
  const [pointed, setPointed] = useState<number | null>(null);
  const at = pointed !== null && pointed < times.length ? pointed : null;
  const series = useMemo(() => lines.map(({ name, values }) => ({ name, values })), [lines]);
  const said = (value: number | null | undefined): string => (value == null ? "–" : unit(value));
  return (
    <figure class="card live">
      <h3>{title}</h3>
      {lines.length === 0 ? (
        <p class="dim small live-none">Nothing was asked yet.</p>
      ) : (
        <Lines label={`${title}, over time; the table below has its figures`} times={times} series={series} unit={unit} onPoint={setPointed} />
      )}
      {lines.length > 0 && (
        <table class="live-table">
          <caption class="visually-hidden">{title}</caption>
          <thead>
            <tr>
              <td />
              <th scope="col">{at === null ? "now" : clock.format(times[at]! * 1000)}</th>
              <th scope="col">mean</th>
              <th scope="col">most</th>
            </tr>
          </thead>
          <tbody>
            {lines.map((line, place) => (
              <tr key={line.name}>
                <th scope="row">
                  <Swatch at={place} /> <Shown text={line.name} />
                </th>
                <td>{said(at === null ? line.values.at(-1) : line.values[at])}</td>
                <td>{said(mean(line.values))}</td>
                <td>{said(most(line.values))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </figure>
  );
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

function Swatch({ at }: { readonly at: number }) {
  return (
    <svg class={`swatch ${inkAt(at)}`} viewBox="0 0 22 6" width="22" height="6" aria-hidden="true">
      <line x1="0" y1="3" x2="22" y2="3" stroke="currentColor" stroke-width="2" stroke-dasharray={dashOf(at).join(" ")} />
    </svg>
  );
}

function known(values: Values): readonly number[] {
  return values.filter((value) => value !== null);
}

function mean(values: Values): number | null {
  const all = known(values);
  return all.length > 0 ? all.reduce((sum, one) => sum + one, 0) / all.length : null;
}

function most(values: Values): number | null {
  const all = known(values);
  return all.length > 0 ? Math.max(...all) : null;
}
