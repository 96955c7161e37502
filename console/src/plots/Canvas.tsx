/** uPlot as a component: created once per shape, updated with new data, as wide as its container, in the theme's colours. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { readColors, onColorsChanged, type PlotColors } from "./colors";

export type PlotOptions = Omit<uPlot.Options, "width" | "height">;

interface Props {
  /** What the plot shows, for screen readers. The numbers themselves are in a table. */
  readonly label: string;
  readonly height: number;
  readonly data: uPlot.AlignedData;
  /** The plot is created again when `shape` changes. */
  readonly shape: string;
  readonly plotOptions: (colors: PlotColors, width: number) => PlotOptions;
}

export function Canvas({ label, height, data, shape, plotOptions }: Props) {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  // The effect below runs once per shape, and must see the latest props.
  const latest = useRef({ data, plotOptions, height });
  latest.current = { data, plotOptions, height };

  useEffect(() => {
    const host = container.current;
    if (!host) return;
    let width = 0;
    const create = (): void => {
      plot.current?.destroy();
      const current = latest.current;
      const options = { ...current.plotOptions(readColors(host), width), width, height: current.height };
      plot.current = new uPlot(options, current.data, host);
    };
    const observer = new ResizeObserver(() => {
      const newWidth = Math.floor(host.clientWidth);
      if (newWidth === 0 || newWidth === width) return;
      width = newWidth;
      // The width of the labels depends on the plot's width, so resizing is not enough.
      create();
    });
    observer.observe(host);
    const unsubscribe = onColorsChanged(() => width > 0 && create());
    return () => {
      observer.disconnect();
      unsubscribe();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, height]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  return <div ref={container} class="plot" role="img" aria-label={label} style={{ minHeight: `${height}px` }} />;
}
