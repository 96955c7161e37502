/** What plots are given. Apart from the plots, so that a page can name it without loading them. */

import type { Ink } from "./ink";

export interface BarSeries {
  /** What is counted, written behind every bar: `picked`. */
  readonly word: string;
  readonly ink: Ink;
  readonly isHollow?: boolean;
  /** One for each group. */
  readonly values: readonly number[];
}

export interface BarsProps {
  readonly label: string;
  readonly groups: readonly string[];
  readonly series: readonly BarSeries[];
}

export interface LineSeries {
  readonly name: string;
  /** One for each time; null where there was nothing to measure. */
  readonly values: readonly (number | null)[];
}

export interface LinesProps {
  readonly label: string;
  /** Unix seconds, rising. */
  readonly times: readonly number[];
  readonly series: readonly LineSeries[];
  readonly unit: (value: number) => string;
  /** The time that somebody points at, by its place; null where he points at none. */
  readonly onPoint?: (at: number | null) => void;
}
