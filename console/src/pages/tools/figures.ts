/** What the ledger counted of models and tools, summed up for a plot and its table. */

import type { Tally, ToolStats } from "../../api/types";

export interface Figures extends Tally {
  /** A tool's name, or a definition's fingerprint; empty for what is nearest to no tool. */
  readonly name: string;
  readonly description: string;
  readonly firstAt: number | null;
  readonly lastAt: number | null;
}

const COUNTS = [
  ...(["offered", "demanded", "picked", "repaired", "refused", "cut_off"] as const),
  ...(["failed", "denied", "retried", "repeated", "missed", "wrong"] as const),
] as const;

/** Of all models, or of one; the most used first, then the most offered. */
export function byTool(lines: readonly ToolStats[], model = ""): readonly Figures[] {
  return summed(lines, model, (line) => line.tool);
}

/** Each wording that a tool has had; the newest first. */
export function byDefinition(lines: readonly ToolStats[], model = ""): readonly Figures[] {
  const found = summed(lines, model, (line) => line.fingerprint);
  return [...found].sort((one, other) => (other.lastAt ?? 0) - (one.lastAt ?? 0));
}

export function modelsIn(lines: readonly ToolStats[]): readonly string[] {
  return [...new Set(lines.map((line) => line.model))].sort();
}

/** Whether a model ever did anything with it. */
export function isUsed(one: Tally): boolean {
  return one.picked + one.missed + one.wrong + one.cut_off > 0;
}

export function share(part: number, whole: number): string {
  if (whole === 0) return "–";
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 1 ? "< 1 %" : `${Math.round(percent)} %`;
}

function summed(lines: readonly ToolStats[], model: string, keyOf: (line: ToolStats) => string): readonly Figures[] {
  const found = new Map<string, Figures>();
  for (const line of lines) {
    if (model && line.model !== model) continue;
    const key = keyOf(line);
    const before = found.get(key);
    found.set(key, before ? added(before, line) : figuresOf(key, line));
  }
  return [...found.values()].sort(
    (one, other) =>
      other.picked - one.picked ||
      other.missed - one.missed ||
      other.offered - one.offered ||
      (one.name < other.name ? -1 : 1),
  );
}

function figuresOf(name: string, line: ToolStats): Figures {
  const counts = Object.fromEntries(COUNTS.map((word) => [word, line[word]])) as Record<(typeof COUNTS)[number], number>;
  const { description, first_at: firstAt, last_at: lastAt } = line;
  return { ...counts, wrong_share: shareOf(counts), name, description, firstAt, lastAt };
}

function added(one: Figures, line: ToolStats): Figures {
  const counts = Object.fromEntries(COUNTS.map((word) => [word, one[word] + line[word]])) as Record<
    (typeof COUNTS)[number],
    number
  >;
  const isNewer = (line.last_at ?? 0) > (one.lastAt ?? 0);
  return {
    ...counts,
    wrong_share: shareOf(counts),
    name: one.name,
    description: isNewer ? line.description : one.description,
    firstAt: least(one.firstAt, line.first_at),
    lastAt: isNewer ? line.last_at : one.lastAt,
  };
}

/** Of the calls that could be judged. */
function shareOf(counts: { readonly wrong: number; readonly picked: number; readonly refused: number }): number | null {
  const judged = counts.picked + counts.refused;
  return judged > 0 ? counts.wrong / judged : null;
}

function least(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}
