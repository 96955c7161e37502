import type { Column } from "../../parts/Table";
import { COUNT_COLUMNS } from "./usageCounts";
import { formatShare, type Usage } from "./usage";

/** One column per count. Zeros are dimmed, so that other counts stand out. */
export function countColumns(): readonly Column<Usage>[] {
  return COUNT_COLUMNS.map(([key, title]) => ({
    title,
    isFigure: true,
    cell: (usage) => (usage[key] > 0 ? usage[key].toLocaleString("en") : <span class="dim zero">0</span>),
  }));
}

export const wrongShareColumn: Column<Usage> = {
  title: "Wrong share",
  isNumeric: true,
  cell: (usage) => {
    if (usage.wrong > 0) return formatShare(usage.wrong, usage.picked + usage.refused);
    return <span class="dim zero">{formatShare(0, usage.picked)}</span>;
  },
};
