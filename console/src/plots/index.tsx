/** Plots, fetched when the first of them is to be drawn: no page carries uPlot before. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { BarsProps, LinesProps } from "./props";

export type { BarSeries, BarsProps, LineSeries, LinesProps } from "./props";

type Load<P> = () => Promise<{ readonly default: ComponentType<P> }>;

function lazy<P extends object>(load: Load<P>, height: number): ComponentType<P> {
  let kept: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const [Plot, setPlot] = useState(() => kept);
    const [isLost, setLost] = useState(false);
    useEffect(() => {
      if (kept) return;
      load().then(
        (module) => {
          kept = module.default;
          setPlot(() => kept);
        },
        () => setLost(true),
      );
    }, []);
    if (isLost) return <p class="dim small">The plot could not be loaded. The table has its figures.</p>;
    return Plot ? <Plot {...props} /> : <div class="plot" style={{ minHeight: `${height}px` }} />;
  };
}

export const Bars = lazy<BarsProps>(() => import("./Bars"), 200);
export const Lines = lazy<LinesProps>(() => import("./Lines"), 150);
