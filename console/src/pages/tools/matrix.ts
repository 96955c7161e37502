/** The enforcement of schema keywords by engine, as rows and columns. */

import type { Enforcement } from "../../api/types";

/** `enforced` while decoding, `checked` by validation afterwards, or `unchecked`. */
export type EnforcementLevel = "enforced" | "checked" | "unchecked";

export interface Column {
  readonly engine: string;
  /** The models that it serves. */
  readonly models: readonly string[];
  readonly target: string;
  readonly why: string;
}

export interface Row {
  readonly keyword: string;
  /** One level per column; null if it is unknown. */
  readonly levels: readonly (EnforcementLevel | null)[];
}

export interface Matrix {
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
}

const LEVELS: readonly EnforcementLevel[] = ["enforced", "checked", "unchecked"];

export function matrixOf(enforcement: readonly Enforcement[]): Matrix {
  // An engine that serves several models enforces a schema in the same way for all of them.
  const engines = new Map<string, Enforcement[]>();
  for (const entry of enforcement) engines.set(entry.engine, [...(engines.get(entry.engine) ?? []), entry]);
  const engineEntries = [...engines.values()].map((all) => ({ first: all[0]!, models: all.map((entry) => entry.model) }));
  const keywords = [...new Set(enforcement.flatMap((entry) => LEVELS.flatMap((level) => entry[level])))].sort();
  return {
    columns: engineEntries.map(({ first, models }) => ({ engine: first.engine, models, target: first.target, why: first.why })),
    rows: keywords.map((keyword) => ({
      keyword,
      levels: engineEntries.map(({ first }) => LEVELS.find((level) => first[level].includes(keyword)) ?? null),
    })),
  };
}
