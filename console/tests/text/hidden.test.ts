import { describe, expect, test } from "vitest";
import { hasHidden, segments, spelled } from "../../src/text/hidden";
import { cases } from "../seeded";

const joined = (text: string, manner: "exact" | "prose"): string =>
  segments(text, manner)
    .map((one) => ("hidden" in one ? one.hidden : one.text))
    .join("");

const marks = (text: string, manner: "exact" | "prose"): string[] =>
  segments(text, manner).flatMap((one) => ("hidden" in one ? [one.code] : []));

describe("hidden characters", () => {
  test("are marked, and no character is lost or changed", () => {
    for (const seeded of cases(500)) {
      const text = seeded.text() + seeded.text();
      expect(joined(text, "exact")).toBe(text);
      expect(joined(text, "prose")).toBe(text);
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
  ])("of %j are seen where somebody decides", (text, code) => {
    expect(marks(text, "exact")).toEqual([code]);
  });

  test("of prose are lines, tabs and emoji, which are let be", () => {
    expect(marks("one\n\ttwo\r\nthree \u{1F468}\u200D\u{1F469} \u2764\uFE0F 1\uFE0F\u20E3", "prose")).toEqual([]);
  });

  test("that deceive are marked in prose too", () => {
    expect(marks("a\u202eb\u200dc\u2066d\ufe0fe\u200b\rf", "prose")).toEqual([
      "U+202E",
      "U+200D",
      "U+2066",
      "U+FE0F",
      "U+200B",
      "U+000D",
    ]);
  });

  test("are not looked for in plain words, and letters of any script are plain", () => {
    expect(hasHidden("Grüße, שלום, नमस्ते, 你好 and a space", "exact")).toBe(false);
  });

  test("are spelled in a text", () => {
    expect(spelled("a\u200bb")).toBe("a⟨U+200B⟩b");
  });
});
