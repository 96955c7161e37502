/** What changed from one text to another, line by line. Says nothing of how it is drawn. */

/** `before` and `after` are the line's number on each side, from 1; null where it is not there. */
export interface DiffLine {
  readonly kind: "same" | "gone" | "new";
  readonly text: string;
  readonly before: number | null;
  readonly after: number | null;
  /** Which part of the text differs from the line that it was, or became; null where all of it is new or gone. */
  readonly part: readonly [from: number, to: number] | null;
}

/** As many pairs of lines are compared at most. Beyond that everything in between is gone and new. */
const MOST_PAIRS = 4_000_000;

export function diffLines(before: string, after: string): readonly DiffLine[] {
  const old = linesOf(before);
  const now = linesOf(after);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const steps = [
    ...old.slice(0, start).map(() => "same" as const),
    ...between(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...old.slice(old.length - end).map(() => "same" as const),
  ];
  return withParts(numbered(steps, old, now));
}

export function isSame(lines: readonly DiffLine[]): boolean {
  return lines.every((line) => line.kind === "same");
}

type Step = DiffLine["kind"];

/** An empty text has no line, so that all of a new one is new. */
function linesOf(text: string): readonly string[] {
  return text === "" ? [] : text.split("\n");
}

/** The longest common run of lines is kept; what is gone comes before what is new. */
function between(old: readonly string[], now: readonly string[]): readonly Step[] {
  const all: Step[] = [...old.map(() => "gone" as const), ...now.map(() => "new" as const)];
  if (old.length === 0 || now.length === 0 || old.length * now.length > MOST_PAIRS) return all;
  const width = now.length + 1;
  // `best` at (i, j): how many lines what is left of both from there on has in common.
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
      steps.push("gone");
      i += 1;
    } else {
      steps.push("new");
      j += 1;
    }
  }
  return [...steps, ...old.slice(i).map(() => "gone" as const), ...now.slice(j).map(() => "new" as const)];
}

function numbered(steps: readonly Step[], old: readonly string[], now: readonly string[]): DiffLine[] {
  let i = 0;
  let j = 0;
  return steps.map((kind) => {
    const text = (kind === "new" ? now[j] : old[i]) ?? "";
    const before = kind === "new" ? null : (i += 1);
    const after = kind === "gone" ? null : (j += 1);
    return { kind, text, before, after, part: null };
  });
}

/** Where as many lines are new as are gone, each is taken for the other's, and what they share at both ends is let be. */
function withParts(lines: DiffLine[]): readonly DiffLine[] {
  let at = 0;
  while (at < lines.length) {
    const gone = run(lines, at, "gone");
    const fresh = run(lines, at + gone, "new");
    if (gone > 0 && gone === fresh) {
      for (let k = at; k < at + gone; k += 1) {
        const [old, now] = [lines[k]!, lines[k + gone]!];
        const [head, tail] = shared(old.text, now.text);
        if (head + tail === 0) continue;
        lines[k] = { ...old, part: [head, old.text.length - tail] };
        lines[k + gone] = { ...now, part: [head, now.text.length - tail] };
      }
    }
    at += Math.max(1, gone + fresh);
  }
  return lines;
}

function run(lines: readonly DiffLine[], from: number, kind: Step): number {
  let to = from;
  while (lines[to]?.kind === kind) to += 1;
  return to - from;
}

/** How much two texts have in common at the beginning and at the end, never cutting a character in two. */
function shared(one: string, other: string): readonly [number, number] {
  const most = Math.min(one.length, other.length);
  let head = 0;
  while (head < most && one[head] === other[head]) head += 1;
  if (head > 0 && isHigh(one.charCodeAt(head - 1))) head -= 1;
  let tail = 0;
  while (tail < most - head && one.at(-1 - tail) === other.at(-1 - tail)) tail += 1;
  if (tail > 0 && isLow(one.charCodeAt(one.length - tail))) tail -= 1;
  // Whole words differ, for who reads it.
  while (head > 0 && isOfWord(one[head - 1])) head -= 1;
  while (tail > 0 && isOfWord(one[one.length - tail])) tail -= 1;
  return [head, tail];
}

const isOfWord = (character: string | undefined): boolean => /[\p{L}\p{N}\p{M}_]/u.test(character ?? "");
const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;
