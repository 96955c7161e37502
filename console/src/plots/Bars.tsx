/** Groups of bars that lie, each with its figure at its end: names have room, and nothing hangs on a colour alone. */

import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import { spelled } from "../text/hidden";
import { Canvas, type Drawing } from "./Canvas";
import type { BarsProps, BarSeries } from "./props";
import type { Inks } from "./ink";

const BAR = 15;
const GAP = 14;
const AXIS = 30;
const NARROW = 480;

export default function Bars({ label, groups, series }: BarsProps) {
  const data = useMemo<uPlot.AlignedData>(
    () => [groups.map((_, at) => at), ...series.map((one) => one.values.map((value) => value || null))],
    [groups, series],
  );
  const most = Math.max(1, ...series.flatMap((one) => one.values));
  const height = groups.length * (series.length * BAR + GAP) + AXIS;
  const shape = JSON.stringify([groups, series.map((one) => one.word), most]);
  return (
    <Canvas
      label={label}
      height={height}
      data={data}
      shape={shape}
      drawing={(inks, width) => drawingOf(inks, width, groups, series, most)}
    />
  );
}

function drawingOf(
  inks: Inks,
  width: number,
  groups: readonly string[],
  series: readonly BarSeries[],
  most: number,
): Drawing {
  const room = Math.min(width < NARROW ? 104 : 190, 14 + Math.max(...groups.map((name) => spelled(name).length)) * 7.2);
  const labels = Math.max(...series.map((one) => one.word.length)) * 6.6 + 44;
  const end = most * (width / Math.max(40, width - room - labels));
  const axis = { stroke: inks.of("ink-dim"), font: inks.font, ticks: { show: false } };
  return {
    cursor: { show: false },
    legend: { show: false },
    padding: [0, 16, 0, 0],
    scales: {
      x: { time: false, ori: 1, dir: -1, range: [-0.5, groups.length - 0.5] },
      y: { ori: 0, dir: 1, range: [0, end] },
    },
    axes: [
      {
        ...axis,
        stroke: inks.of("ink"),
        side: 3,
        size: room,
        gap: 8,
        grid: { show: false },
        splits: () => groups.map((_, at) => at),
        values: (_, splits) => splits.map((at) => fitted(spelled(groups[at] ?? ""), (room - 14) / 7)),
      },
      {
        ...axis,
        side: 2,
        size: AXIS,
        space: 60,
        // Counts are whole.
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6],
        values: (_, splits) => splits.map((value) => value.toLocaleString("en")),
        grid: { stroke: inks.of("line"), width: 1 },
      },
    ],
    series: [{}, ...series.map((one, at) => barsOf(inks, one, at, series.length, groups.length))],
    hooks: { draw: [(plot) => written(plot, inks, series)] },
  };
}

function barsOf(inks: Inks, one: BarSeries, at: number, count: number, groups: number): uPlot.Series {
  const size = BAR / (count * BAR + GAP);
  const first = -(count * size) / 2;
  const values = (): number[] => Array.from({ length: groups }, (_, group) => group + first + at * size);
  const ink = inks.of(one.ink);
  return {
    width: 1,
    stroke: ink,
    fill: one.isHollow ? inks.of("raised") : ink,
    points: { show: false },
    // Typed as one that takes fewer properties than uPlot reads.
    paths: uPlot.paths.bars!({
      radius: 0.15,
      gap: 2,
      disp: { x0: { unit: 1, values }, size: { unit: 1, values: () => Array.from({ length: groups }, () => size) } },
    } as unknown as uPlot.Series.BarsPathBuilderOpts),
  };
}

/** Each bar's figure and what it counts, behind its end. */
function written(plot: uPlot, inks: Inks, series: readonly BarSeries[]): void {
  const { ctx } = plot;
  const ratio = devicePixelRatio;
  const count = series.length;
  const size = BAR / (count * BAR + GAP);
  ctx.save();
  ctx.font = inks.font.replace(/^\d+px/, `${11 * ratio}px`);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  series.forEach((one, at) => {
    one.values.forEach((value, group) => {
      const y = plot.valToPos(group + (at - (count - 1) / 2) * size, "x", true);
      const x = plot.valToPos(value, "y", true) + 5 * ratio;
      ctx.fillStyle = inks.of(value > 0 ? "ink" : "ink-dim");
      ctx.fillText(`${value.toLocaleString("en")} ${one.word}`, x, y);
    });
  });
  ctx.restore();
}

function fitted(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, Math.max(1, Math.floor(most) - 1))}…` : text;
}
