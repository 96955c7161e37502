/** Which keywords of a schema hold on which engine, as rows and columns. */

import type { Enforcement } from "../../api/types";

/** `enforced` while decoding, `checked` after, `unchecked` by anybody. */
export type Hold = "enforced" | "checked" | "unchecked";

export interface Column {
  readonly engine: string;
  /** The models that it answers for. */
  readonly models: readonly string[];
  readonly target: string;
  readonly why: string;
}

export interface Row {
  readonly keyword: string;
  /** One for each column; null where nothing is said of it. */
  readonly holds: readonly (Hold | null)[];
}

export interface Matrix {
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
}

const HOLDS: readonly Hold[] = ["enforced", "checked", "unchecked"];

export function matrixOf(told: readonly Enforcement[]): Matrix {
  // An engine behind several models holds a schema in the same way for all of them.
  const engines = new Map<string, Enforcement[]>();
  for (const one of told) engines.set(one.engine, [...(engines.get(one.engine) ?? []), one]);
  const each = [...engines.values()].map((all) => ({ first: all[0]!, models: all.map((one) => one.model) }));
  const keywords = [...new Set(told.flatMap((one) => HOLDS.flatMap((hold) => one[hold])))].sort();
  return {
    columns: each.map(({ first, models }) => ({ engine: first.engine, models, target: first.target, why: first.why })),
    rows: keywords.map((keyword) => ({
      keyword,
      holds: each.map(({ first }) => HOLDS.find((hold) => first[hold].includes(keyword)) ?? null),
    })),
  };
}
