/** The colour and dash pattern of each line, the same in a plot and in its table. */

import type { PlotColor } from "./colors";

const COLORS: readonly PlotColor[] = ["accent", "warn", "info", "marker", "bad"];
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3], [9, 3, 2, 3], [4, 2]];

export const colorAt = (index: number): PlotColor => COLORS[index % COLORS.length]!;
export const dashOf = (index: number): readonly number[] => DASHES[index % DASHES.length]!;
/** The number of distinguishable lines. */
export const MAX_LINES = COLORS.length;
