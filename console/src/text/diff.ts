/** The difference between two texts, line by line. Knows nothing of how it is drawn. */

/** `before` and `after` are the line's number on each side, from 1; null if it is absent there. */
export interface DiffLine {
  readonly kind: "same" | "removed" | "added";
  readonly text: string;
  readonly before: number | null;
  readonly after: number | null;
  /** The part of the text that differs from the line's counterpart; null if the whole line was added or removed. */
  readonly part: readonly [from: number, to: number] | null;
}

/** The maximum number of line pairs to compare. Beyond it, all differing lines count as removed and added. */
const MAX_PAIRS = 4_000_000;

export function diffLines(before: string, after: string): readonly DiffLine[] {
  const old = linesOf(before);
  const now = linesOf(after);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const steps = [
    ...old.slice(0, start).map(() => "same" as const),
    ...diffMiddle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...old.slice(old.length - end).map(() => "same" as const),
  ];
  return withChangedParts(numberLines(steps, old, now));
}

export function isSame(lines: readonly DiffLine[]): boolean {
  return lines.every((line) => line.kind === "same");
}

type Step = DiffLine["kind"];

/** An empty text has no lines, so that every line of a new text counts as added. */
function linesOf(text: string): readonly string[] {
  return text === "" ? [] : text.split("\n");
}

/** Keeps the longest common subsequence of lines. Removed lines come before added ones. */
function diffMiddle(old: readonly string[], now: readonly string[]): readonly Step[] {
  const all: Step[] = [...old.map(() => "removed" as const), ...now.map(() => "added" as const)];
  if (old.length === 0 || now.length === 0 || old.length * now.length > MAX_PAIRS) return all;
  const width = now.length + 1;
  // best[i, j]: the number of common lines in old[i...] and now[j...].
  const best = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      best[at] = old[i] === now[j] ? best[at + width + 1]! + 1 : Math.max(best[at + width]!, best[at + 1]!);
    }
  }
  const steps: Step[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length && j < now.length) {
    const at = i * width + j;
    if (old[i] === now[j]) {
      steps.push("same");
      i += 1;
      j += 1;
    } else if (best[at + width]! >= best[at + 1]!) {
      steps.push("removed");
      i += 1;
    } else {
      steps.push("added");
      j += 1;
    }
  }
  return [...steps, ...old.slice(i).map(() => "removed" as const), ...now.slice(j).map(() => "added" as const)];
}

function numberLines(steps: readonly Step[], old: readonly string[], now: readonly string[]): DiffLine[] {
  let i = 0;
  let j = 0;
  return steps.map((kind) => {
    const text = (kind === "added" ? now[j] : old[i]) ?? "";
    const before = kind === "added" ? null : (i += 1);
    const after = kind === "removed" ? null : (j += 1);
    return { kind, text, before, after, part: null };
  });
}

/** If equally many lines were removed and added, pairs them and marks only the part in the middle that differs. */
function withChangedParts(lines: DiffLine[]): readonly DiffLine[] {
  let at = 0;
  while (at < lines.length) {
    const removed = runLength(lines, at, "removed");
    const added = runLength(lines, at + removed, "added");
    if (removed > 0 && removed === added) {
      for (let k = at; k < at + removed; k += 1) {
        const [old, now] = [lines[k]!, lines[k + removed]!];
        const [head, tail] = commonAffixes(old.text, now.text);
        if (head + tail === 0) continue;
        lines[k] = { ...old, part: [head, old.text.length - tail] };
        lines[k + removed] = { ...now, part: [head, now.text.length - tail] };
      }
    }
    at += Math.max(1, removed + added);
  }
  return lines;
}

function runLength(lines: readonly DiffLine[], from: number, kind: Step): number {
  let to = from;
  while (lines[to]?.kind === kind) to += 1;
  return to - from;
}

/** The lengths of the common prefix and suffix of two texts. Never splits a surrogate pair. */
function commonAffixes(one: string, other: string): readonly [number, number] {
  const max = Math.min(one.length, other.length);
  let head = 0;
  while (head < max && one[head] === other[head]) head += 1;
  if (head > 0 && isHigh(one.charCodeAt(head - 1))) head -= 1;
  let tail = 0;
  while (tail < max - head && one.at(-1 - tail) === other.at(-1 - tail)) tail += 1;
  if (tail > 0 && isLow(one.charCodeAt(one.length - tail))) tail -= 1;
  // Extend the difference to whole words, which is easier to read.
  while (head > 0 && isWordCharacter(one[head - 1])) head -= 1;
  while (tail > 0 && isWordCharacter(one[one.length - tail])) tail -= 1;
  return [head, tail];
}

const WORD_CHARACTER = /[\p{L}\p{N}\p{M}_]/u;
const isWordCharacter = (character: string | undefined): boolean => WORD_CHARACTER.test(character ?? "");
const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;
