import { describe, expect, test } from "vitest";
import { isSameJson } from "../../src/json/equality";
import { cases } from "../seededRandom";

describe("JSON equality", () => {
  test("ignores whitespace", () => {
    for (const random of cases(200)) {
      const value = random.json();
      expect(isSameJson(JSON.stringify(value), JSON.stringify(value, null, 2))).toBe(true);
    }
  });

  test.each([
    ['{"a": 1, "b": [true]}', '{"b":[true],"a":1.0}', true],
    ['{"a": 1, "a": 2}', '{"a": 2}', true],
    ['{"a": 1}', '{"a": "1"}', false],
    ['{"a": 1}', '{"a": 1, "b": null}', false],
    ["[1, 2]", "[2, 1]", false],
    ["9007199254740993", "9007199254740992", false],
    ["9007199254740993", "9007199254740993 ", true],
    ["{", "{}", false],
    ["nothing", "nothing else", false],
  ])("%s and %s: %s", (one, other, isSame) => {
    expect(isSameJson(one, other)).toBe(isSame);
  });
});
