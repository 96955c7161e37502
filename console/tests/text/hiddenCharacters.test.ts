import { describe, expect, test } from "vitest";
import { hasHidden, segments, spellOut } from "../../src/text/hiddenCharacters";
import { cases } from "../seededRandom";

const rejoin = (text: string, mode: "exact" | "prose"): string =>
  segments(text, mode)
    .map((segment) => ("hidden" in segment ? segment.hidden : segment.text))
    .join("");

const codes = (text: string, mode: "exact" | "prose"): string[] =>
  segments(text, mode).flatMap((segment) => ("hidden" in segment ? [segment.code] : []));

describe("hidden characters", () => {
  test("are marked, and no character is lost or changed", () => {
    for (const random of cases(500)) {
      const text = random.text() + random.text();
      expect(rejoin(text, "exact")).toBe(text);
      expect(rejoin(text, "prose")).toBe(text);
    }
  });

  test.each([
    ["pay\u202eeno", "U+202E"],
    ["a\u200bb", "U+200B"],
    ["\u001b[2J", "U+001B"],
    ["a\u00a0b", "U+00A0"],
    ["x\ud800", "U+D800"],
    ["x\u{e0041}", "U+E0041"],
    ["x\u3164", "U+3164"],
    ["x\u2800", "U+2800"],
    ["x\ufe0f", "U+FE0F"],
    ["one\ntwo", "U+000A"],
  ])("of %j are marked in exact mode", (text, code) => {
    expect(codes(text, "exact")).toEqual([code]);
  });

  test("do not include line breaks, tabs and emoji in prose mode", () => {
    expect(codes("one\n\ttwo\r\nthree \u{1F468}\u200D\u{1F469} \u2764\uFE0F 1\uFE0F\u20E3", "prose")).toEqual([]);
  });

  test("that can deceive are marked in prose mode too", () => {
    expect(codes("a\u202eb\u200dc\u2066d\ufe0fe\u200b\rf", "prose")).toEqual([
      "U+202E",
      "U+200D",
      "U+2066",
      "U+FE0F",
      "U+200B",
      "U+000D",
    ]);
  });

  test("do not include letters of any script", () => {
    expect(hasHidden("Grüße, שלום, नमस्ते, 你好 and a space", "exact")).toBe(false);
  });

  test("are spelled out in plain strings", () => {
    expect(spellOut("a\u200bb")).toBe("a⟨U+200B⟩b");
  });
});
