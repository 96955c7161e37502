/** How the lines of a plot are told apart: by colour and by dash, the same in the plot and in its table. */

import type { Ink } from "./ink";

const INKS: readonly Ink[] = ["accent", "warn", "info", "mark", "bad"];
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3], [9, 3, 2, 3], [4, 2]];

export const inkAt = (at: number): Ink => INKS[at % INKS.length]!;
export const dashOf = (at: number): readonly number[] => DASHES[at % DASHES.length]!;
/** As many lines as can be told apart. */
export const MOST_LINES = INKS.length;
