import { describe, expect, it } from "vitest";
import { diffLines, isSame, type DiffLine } from "../../src/text/diff";
import { Seeded } from "../seeded";

const side = (lines: readonly DiffLine[], not: DiffLine["kind"]): string =>
  lines
    .filter((line) => line.kind !== not)
    .map((line) => line.text)
    .join("\n");

describe("a diff", () => {
  it("gives both texts back, whatever they are", () => {
    const random = new Seeded(7);
    const text = (): string =>
      Array.from({ length: random.below(12) }, () => ["a", "b", "c", "", "a b", "😀x", "😁x"][random.below(7)]).join("\n");
    for (let round = 0; round < 500; round += 1) {
      const [before, after] = [text(), text()];
      const lines = diffLines(before, after);
      expect(side(lines, "new")).toBe(before);
      expect(side(lines, "gone")).toBe(after);
      expect(isSame(lines)).toBe(before === after);
      for (const line of lines) {
        if (!line.part) continue;
        const [from, to] = line.part;
        expect(from).toBeLessThanOrEqual(to);
        expect(`${line.text.slice(0, from)}|${line.text.slice(from, to)}|${line.text.slice(to)}`).not.toMatch(/\p{Cs}/u);
      }
    }
  });

  it("keeps what is in common and counts lines on both sides", () => {
    expect(diffLines("a\nb\nc", "a\nx\ny\nc").map(({ kind, text, before, after }) => [kind, text, before, after])).toEqual([
      ["same", "a", 1, 1],
      ["gone", "b", 2, null],
      ["new", "x", null, 2],
      ["new", "y", null, 3],
      ["same", "c", 3, 4],
    ]);
  });

  it("says which words of a line changed, a space among them", () => {
    const [gone, fresh] = diffLines('"hint": false,', '"hint": true,');
    expect(gone!.text.slice(...gone!.part!)).toBe("false");
    expect(fresh!.text.slice(...fresh!.part!)).toBe("true");
    const [, spaced] = diffLines("one.", "one. ");
    expect(spaced!.text.slice(...spaced!.part!)).toBe(" ");
  });

  it("takes a text of another kind whole, and does not stall on long ones", () => {
    expect(diffLines("", "a\nb").map((line) => line.kind)).toEqual(["new", "new"]);
    const long = (word: string): string => Array.from({ length: 20_000 }, (_, at) => `${word} ${at}`).join("\n");
    expect(diffLines(long("a"), long("b"))).toHaveLength(40_000);
  });
});
