/** A line chart over time. Each line has its own colour and dash pattern; gaps stay gaps. */

import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import { Canvas, type PlotOptions } from "./Canvas";
import type { LinesProps } from "./props";
import type { PlotColors } from "./colors";
import { dashOf, colorAt } from "./lineStyles";

const HEIGHT = 150;
/** The minimum time span in seconds, so that the first points are not stretched over the whole width. */
const MIN_SPAN = 120;
const AXIS_WIDTH = 52;

export default function Lines({ label, times, series, unit, onPoint }: LinesProps) {
  const data = useMemo<uPlot.AlignedData>(
    () => [[...times], ...series.map((entry) => [...entry.values])],
    [times, series],
  );
  const shape = JSON.stringify(series.map((entry) => entry.name));
  return (
    <Canvas
      label={label}
      height={HEIGHT}
      data={data}
      shape={shape}
      plotOptions={(colors) => plotOptions(colors, series.length, unit, onPoint)}
    />
  );
}

function plotOptions(colors: PlotColors, count: number, unit: LinesProps["unit"], onPoint: LinesProps["onPoint"]): PlotOptions {
  const axis = { stroke: colors.get("color"), font: colors.font, ticks: { show: false } };
  const grid = { stroke: colors.get("line"), width: 1 };
  return {
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    padding: [8, 26, 0, 0],
    scales: {
      x: { range: (_, from, to) => [Math.min(from, to - MIN_SPAN), to] },
      y: { range: (_, __, to) => [0, to > 0 ? to * 1.15 : 1] },
    },
    axes: [
      { ...axis, size: 30, gap: 8, space: 70, grid, values: (_, splits) => splits.map(clock(splits)) },
      { ...axis, size: AXIS_WIDTH, space: 32, grid, values: (_, splits) => splits.map(unit) },
    ],
    series: [
      {},
      ...Array.from({ length: count }, (_, index): uPlot.Series => {
        return {
          stroke: colors.get(colorAt(index)),
          width: 1.75,
          dash: [...dashOf(index)],
          points: { show: (plot, index) => isAlone(plot.data[index] ?? []), size: 5 },
        };
      }),
    ],
    hooks: { setCursor: [(plot) => onPoint?.(plot.cursor.idx ?? null)] },
  };
}

/** Whether there are too few points for a visible line. */
function isAlone(values: ArrayLike<number | null | undefined>): boolean {
  let count = 0;
  for (let index = 0; index < values.length; index += 1) if (values[index] != null) count += 1;
  return count < 3;
}

function clock(splits: readonly number[]): (index: number) => string {
  const isFine = splits.length > 1 && splits[1]! - splits[0]! < 60;
  const format = new Intl.DateTimeFormat(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    ...(isFine ? { second: "2-digit" } : {}),
    hourCycle: "h23",
  });
  return (index) => format.format(index * 1000);
}
