import type { Column } from "../../parts/Table";
import { COUNTED } from "./counted";
import { share, type Figures } from "./figures";

/** A column for each figure. What is not there is told softly, so that what is there is seen. */
export function countColumns(): readonly Column<Figures>[] {
  return COUNTED.map(([key, title]) => ({
    title,
    isFigure: true,
    cell: (one) => (one[key] > 0 ? one[key].toLocaleString("en") : <span class="dim zero">0</span>),
  }));
}

export const wrongShare: Column<Figures> = {
  title: "Wrong share",
  isFigure: true,
  cell: (one) => (one.wrong > 0 ? share(one.wrong, one.picked + one.refused) : <span class="dim zero">{share(0, one.picked)}</span>),
};
