import { describe, expect, it } from "vitest";
import { diffLines, isSame, type DiffLine } from "../../src/text/diff";
import { SeededRandom } from "../seededRandom";

const sideOf = (lines: readonly DiffLine[], not: DiffLine["kind"]): string =>
  lines
    .filter((line) => line.kind !== not)
    .map((line) => line.text)
    .join("\n");

describe("a diff", () => {
  it("contains both texts completely", () => {
    const random = new SeededRandom(7);
    const text = (): string =>
      Array.from({ length: random.below(12) }, () => ["a", "b", "c", "", "a b", "😀x", "😁x"][random.below(7)]).join("\n");
    for (let round = 0; round < 500; round += 1) {
      const [before, after] = [text(), text()];
      const lines = diffLines(before, after);
      expect(sideOf(lines, "added")).toBe(before);
      expect(sideOf(lines, "removed")).toBe(after);
      expect(isSame(lines)).toBe(before === after);
      for (const line of lines) {
        if (!line.part) continue;
        const [from, to] = line.part;
        expect(from).toBeLessThanOrEqual(to);
        expect(`${line.text.slice(0, from)}|${line.text.slice(from, to)}|${line.text.slice(to)}`).not.toMatch(/\p{Cs}/u);
      }
    }
  });

  it("keeps common lines and numbers the lines of both sides", () => {
    expect(diffLines("a\nb\nc", "a\nx\ny\nc").map(({ kind, text, before, after }) => [kind, text, before, after])).toEqual([
      ["same", "a", 1, 1],
      ["removed", "b", 2, null],
      ["added", "x", null, 2],
      ["added", "y", null, 3],
      ["same", "c", 3, 4],
    ]);
  });

  it("marks the changed words of a line, including spaces", () => {
    const [removed, added] = diffLines('"hint": false,', '"hint": true,');
    expect(removed!.text.slice(...removed!.part!)).toBe("false");
    expect(added!.text.slice(...added!.part!)).toBe("true");
    const [, spaced] = diffLines("one.", "one. ");
    expect(spaced!.text.slice(...spaced!.part!)).toBe(" ");
  });

  it("handles an empty text, and texts with too many lines to compare in pairs", () => {
    expect(diffLines("", "a\nb").map((line) => line.kind)).toEqual(["added", "added"]);
    const long = (word: string): string => Array.from({ length: 20_000 }, (_, at) => `${word} ${at}`).join("\n");
    expect(diffLines(long("a"), long("b"))).toHaveLength(40_000);
  });
});
