/** The props of the plots, in a separate module so that a page can import them without loading uPlot. */

import type { PlotColor } from "./colors";

export interface BarSeries {
  /** What is counted, written after every bar: `picked`. */
  readonly label: string;
  readonly color: PlotColor;
  readonly isHollow?: boolean;
  /** One value per group. */
  readonly values: readonly number[];
}

export interface BarsProps {
  readonly label: string;
  readonly groups: readonly string[];
  readonly series: readonly BarSeries[];
}

export interface LineSeries {
  readonly name: string;
  /** One value per time; null if there is none. */
  readonly values: readonly (number | null)[];
}

export interface LinesProps {
  readonly label: string;
  /** Unix seconds, ascending. */
  readonly times: readonly number[];
  readonly series: readonly LineSeries[];
  readonly unit: (value: number) => string;
  /** Receives the index of the time under the pointer; null if there is none. */
  readonly onPoint?: (at: number | null) => void;
}
