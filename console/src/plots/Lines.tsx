/** Lines over time. Each has a colour and a dash of its own; gaps stay gaps. */

import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import { Canvas, type Drawing } from "./Canvas";
import type { LinesProps } from "./props";
import type { Inks } from "./ink";
import { dashOf, inkAt } from "./manners";

const HEIGHT = 150;
/** So that the first minute is not drawn as a wall. */
const SHORTEST = 120;
const ROOM = 52;

export default function Lines({ label, times, series, unit, onPoint }: LinesProps) {
  const data = useMemo<uPlot.AlignedData>(
    () => [[...times], ...series.map((one) => [...one.values])],
    [times, series],
  );
  const shape = JSON.stringify(series.map((one) => one.name));
  return (
    <Canvas
      label={label}
      height={HEIGHT}
      data={data}
      shape={shape}
      drawing={(inks) => drawingOf(inks, series.length, unit, onPoint)}
    />
  );
}

function drawingOf(inks: Inks, count: number, unit: LinesProps["unit"], onPoint: LinesProps["onPoint"]): Drawing {
  const axis = { stroke: inks.of("ink-dim"), font: inks.font, ticks: { show: false } };
  const grid = { stroke: inks.of("line"), width: 1 };
  return {
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    padding: [8, 26, 0, 0],
    scales: {
      x: { range: (_, from, to) => [Math.min(from, to - SHORTEST), to] },
      y: { range: (_, __, to) => [0, to > 0 ? to * 1.15 : 1] },
    },
    axes: [
      { ...axis, size: 30, gap: 8, space: 70, grid, values: (_, splits) => splits.map(clock(splits)) },
      { ...axis, size: ROOM, space: 32, grid, values: (_, splits) => splits.map(unit) },
    ],
    series: [
      {},
      ...Array.from({ length: count }, (_, at): uPlot.Series => {
        return {
          stroke: inks.of(inkAt(at)),
          width: 1.75,
          dash: [...dashOf(at)],
          points: { show: (plot, index) => isAlone(plot.data[index] ?? []), size: 5 },
        };
      }),
    ],
    hooks: { setCursor: [(plot) => onPoint?.(plot.cursor.idx ?? null)] },
  };
}

/** A single point has no line to be seen by. */
function isAlone(values: ArrayLike<number | null | undefined>): boolean {
  let found = 0;
  for (let at = 0; at < values.length; at += 1) if (values[at] != null) found += 1;
  return found < 3;
}

function clock(splits: readonly number[]): (at: number) => string {
  const isFine = splits.length > 1 && splits[1]! - splits[0]! < 60;
  const words = new Intl.DateTimeFormat(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    ...(isFine ? { second: "2-digit" } : {}),
    hourCycle: "h23",
  });
  return (at) => words.format(at * 1000);
}
