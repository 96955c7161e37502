/** A horizontal bar chart with groups. Each bar has its value and label at its end, so that colour is not the only key. */

import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import { spellOut } from "../text/hiddenCharacters";
import { Canvas, type PlotOptions } from "./Canvas";
import type { BarsProps, BarSeries } from "./props";
import type { PlotColors } from "./colors";

const BAR = 15;
const GAP = 14;
const AXIS = 30;
const NARROW = 480;

export default function Bars({ label, groups, series }: BarsProps) {
  const data = useMemo<uPlot.AlignedData>(
    () => [groups.map((_, index) => index), ...series.map((entry) => entry.values.map((value) => value || null))],
    [groups, series],
  );
  const max = Math.max(1, ...series.flatMap((entry) => entry.values));
  const height = groups.length * (series.length * BAR + GAP) + AXIS;
  const shape = JSON.stringify([groups, series.map((entry) => entry.label), max]);
  return (
    <Canvas
      label={label}
      height={height}
      data={data}
      shape={shape}
      plotOptions={(colors, width) => plotOptions(colors, width, groups, series, max)}
    />
  );
}

function plotOptions(
  colors: PlotColors,
  width: number,
  groups: readonly string[],
  series: readonly BarSeries[],
  max: number,
): PlotOptions {
  const longestName = Math.max(...groups.map((name) => spellOut(name).length));
  const labelWidth = Math.min(width < NARROW ? 104 : 190, 14 + longestName * 7.2);
  const labels = Math.max(...series.map((entry) => entry.label.length)) * 6.6 + 44;
  const end = max * (width / Math.max(40, width - labelWidth - labels));
  const axis = { stroke: colors.get("color"), font: colors.font, ticks: { show: false } };
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
        stroke: colors.get("color"),
        side: 3,
        size: labelWidth,
        gap: 8,
        grid: { show: false },
        splits: () => groups.map((_, index) => index),
        values: (_, splits) => splits.map((index) => truncate(spellOut(groups[index] ?? ""), (labelWidth - 14) / 7)),
      },
      {
        ...axis,
        side: 2,
        size: AXIS,
        space: 60,
        // Counts are integers.
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6],
        values: (_, splits) => splits.map((value) => value.toLocaleString("en")),
        grid: { stroke: colors.get("line"), width: 1 },
      },
    ],
    series: [{}, ...series.map((entry, index) => barSeries(colors, entry, index, series.length, groups.length))],
    hooks: { draw: [(plot) => drawLabels(plot, colors, series)] },
  };
}

function barSeries(colors: PlotColors, entry: BarSeries, index: number, count: number, groups: number): uPlot.Series {
  const size = BAR / (count * BAR + GAP);
  const first = -(count * size) / 2;
  const values = (): number[] => Array.from({ length: groups }, (_, group) => group + first + index * size);
  const color = colors.get(entry.color);
  return {
    width: 1,
    stroke: color,
    fill: entry.isHollow ? colors.get("raised") : color,
    points: { show: false },
    // uPlot's type lacks properties that uPlot reads.
    paths: uPlot.paths.bars!({
      radius: 0.15,
      gap: 2,
      disp: { x0: { unit: 1, values }, size: { unit: 1, values: () => Array.from({ length: groups }, () => size) } },
    } as unknown as uPlot.Series.BarsPathBuilderOpts),
  };
}

/** Writes each bar's value and label after its end. */
function drawLabels(plot: uPlot, colors: PlotColors, series: readonly BarSeries[]): void {
  const { ctx } = plot;
  const ratio = devicePixelRatio;
  const count = series.length;
  const size = BAR / (count * BAR + GAP);
  ctx.save();
  ctx.font = colors.font.replace(/^\d+px/, `${11 * ratio}px`);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  series.forEach((entry, index) => {
    entry.values.forEach((value, group) => {
      const y = plot.valToPos(group + (index - (count - 1) / 2) * size, "x", true);
      const x = plot.valToPos(value, "y", true) + 5 * ratio;
      ctx.fillStyle = colors.get(value > 0 ? "color" : "color");
      ctx.fillText(`${value.toLocaleString("en")} ${entry.label}`, x, y);
    });
  });
  ctx.restore();
}

function truncate(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, Math.max(1, Math.floor(max) - 1))}…` : text;
}
