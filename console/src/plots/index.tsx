/** Plots, loaded when the first one is rendered, so that pages without plots do not load uPlot. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { BarsProps, LinesProps } from "./props";

export type { BarSeries, BarsProps, LineSeries, LinesProps } from "./props";

type Load<P> = () => Promise<{ readonly default: ComponentType<P> }>;

function lazy<P extends object>(load: Load<P>, height: number): ComponentType<P> {
  let loaded: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const [Plot, setPlot] = useState(() => loaded);
    const [hasFailed, setFailed] = useState(false);
    useEffect(() => {
      if (loaded) return;
      load().then(
        (module) => {
          loaded = module.default;
          setPlot(() => loaded);
        },
        () => setFailed(true),
      );
    }, []);
    if (hasFailed) return <p class="dim small">The plot could not be loaded. The table has the numbers.</p>;
    return Plot ? <Plot {...props} /> : <div class="plot" style={{ minHeight: `${height}px` }} />;
  };
}

export const Bars = lazy<BarsProps>(() => import("./Bars"), 200);
export const Lines = lazy<LinesProps>(() => import("./Lines"), 150);
