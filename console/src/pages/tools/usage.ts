/** Tool usage from the ledger, summed up for plots and tables. */

import type { Tally, ToolStats } from "../../api/types";

export interface Usage extends Tally {
  /** A tool's name or a definition's fingerprint; empty for calls that resemble no tool. */
  readonly name: string;
  readonly description: string;
  readonly firstAt: number | null;
  readonly lastAt: number | null;
}

const COUNTS = [
  ...(["offered", "demanded", "picked", "repaired", "refused", "cut_off"] as const),
  ...(["failed", "denied", "retried", "repeated", "missed", "wrong"] as const),
] as const;

/** Usage by tool, for all models or for one. The most used first, then the most offered. */
export function byTool(lines: readonly ToolStats[], model = ""): readonly Usage[] {
  return sumBy(lines, model, (line) => line.tool);
}

/** Usage by definition of a tool, the newest first. */
export function byDefinition(lines: readonly ToolStats[], model = ""): readonly Usage[] {
  const sums = sumBy(lines, model, (line) => line.fingerprint);
  return [...sums].sort((one, other) => (other.lastAt ?? 0) - (one.lastAt ?? 0));
}

export function modelsIn(lines: readonly ToolStats[]): readonly string[] {
  return [...new Set(lines.map((line) => line.model))].sort();
}

/** Whether any model has called the tool or tried to. */
export function isUsed(one: Tally): boolean {
  return one.picked + one.missed + one.wrong + one.cut_off > 0;
}

export function formatShare(part: number, whole: number): string {
  if (whole === 0) return "–";
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 1 ? "< 1 %" : `${Math.round(percent)} %`;
}

function sumBy(lines: readonly ToolStats[], model: string, keyOf: (line: ToolStats) => string): readonly Usage[] {
  const sums = new Map<string, Usage>();
  for (const line of lines) {
    if (model && line.model !== model) continue;
    const key = keyOf(line);
    const before = sums.get(key);
    sums.set(key, before ? addUsage(before, line) : usageOf(key, line));
  }
  return [...sums.values()].sort(
    (one, other) =>
      other.picked - one.picked ||
      other.missed - one.missed ||
      other.offered - one.offered ||
      (one.name < other.name ? -1 : 1),
  );
}

function usageOf(name: string, line: ToolStats): Usage {
  const counts = Object.fromEntries(COUNTS.map((count) => [count, line[count]])) as Record<(typeof COUNTS)[number], number>;
  const { description, first_at: firstAt, last_at: lastAt } = line;
  return { ...counts, wrong_share: shareOf(counts), name, description, firstAt, lastAt };
}

function addUsage(one: Usage, line: ToolStats): Usage {
  const counts = Object.fromEntries(COUNTS.map((count) => [count, one[count] + line[count]])) as Record<
    (typeof COUNTS)[number],
    number
  >;
  const isNewer = (line.last_at ?? 0) > (one.lastAt ?? 0);
  return {
    ...counts,
    wrong_share: shareOf(counts),
    name: one.name,
    description: isNewer ? line.description : one.description,
    firstAt: earliest(one.firstAt, line.first_at),
    lastAt: isNewer ? line.last_at : one.lastAt,
  };
}

/** The share of wrong calls among those with a verdict. */
function shareOf(counts: { readonly wrong: number; readonly picked: number; readonly refused: number }): number | null {
  const total = counts.picked + counts.refused;
  return total > 0 ? counts.wrong / total : null;
}

function earliest(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}
