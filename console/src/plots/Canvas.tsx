/** uPlot in a component: made once for each shape, given new data as it comes, as wide as its place, in the theme's colours. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { inksAt, onInksChanged, type Inks } from "./ink";

export type Drawing = Omit<uPlot.Options, "width" | "height">;

interface Props {
  /** What the picture shows, for who cannot see it; the figures themselves stand in a table. */
  readonly label: string;
  readonly height: number;
  readonly data: uPlot.AlignedData;
  /** Made anew where `shape` is another text. */
  readonly shape: string;
  readonly drawing: (inks: Inks, width: number) => Drawing;
}

export function Canvas({ label, height, data, shape, drawing }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  // The effect below lives as long as the shape, and must see what is there now.
  const latest = useRef({ data, drawing, height });
  latest.current = { data, drawing, height };

  useEffect(() => {
    const host = place.current;
    if (!host) return;
    let width = 0;
    const make = (): void => {
      plot.current?.destroy();
      const now = latest.current;
      const options = { ...now.drawing(inksAt(host), width), width, height: now.height };
      plot.current = new uPlot(options, now.data, host);
    };
    const sized = new ResizeObserver(() => {
      const wide = Math.floor(host.clientWidth);
      if (wide === 0 || wide === width) return;
      width = wide;
      // How much room names get follows from the width, so it is not enough to stretch it.
      make();
    });
    sized.observe(host);
    const forget = onInksChanged(() => width > 0 && make());
    return () => {
      sized.disconnect();
      forget();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, height]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  return <div ref={place} class="plot" role="img" aria-label={label} style={{ minHeight: `${height}px` }} />;
}
