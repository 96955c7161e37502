import { describe, expect, test } from "vitest";
import { differences, named, stepsOf } from "../../src/json/differences";
import { read } from "../../src/json/exact";
import type { Part } from "../../src/json/partial";
import { cases } from "../seeded";

function part(text: string): Part {
  const found = read(text);
  if ("fault" in found) throw new Error(found.fault);
  return found.part;
}

const between = (before: string, now: string) =>
  differences(part(before), part(now)).map((one) => [named(one.path), one.before, one.now]);

describe("differences", () => {
  test("there are none between a value and itself", () => {
    for (const random of cases(200)) {
      const text = JSON.stringify(random.json());
      expect(between(text, text)).toEqual([]);
    }
  });

  test("a change, an addition and a removal each have their place", () => {
    expect(between('{"to":"ann","cc":["x"],"old":1}', '{"to":"bob","cc":["x","y"],"new":null}')).toEqual([
      ["to", '"ann"', '"bob"'],
      ["cc[1]", null, '"y"'],
      ["new", null, "null"],
      ["old", "1", null],
    ]);
  });

  test("the last digit of a long number is a difference", () => {
    expect(between('{"n":12345678901234567890}', '{"n":12345678901234567891}')).toHaveLength(1);
  });

  test("the order of keys is none", () => {
    expect(between('{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}')).toEqual([]);
  });

  test("another kind of value is one difference", () => {
    expect(between('{"a":{"b":1}}', '{"a":[1]}')).toEqual([["a", '{"b":1}', "[1]"]]);
  });

  test("a hidden character is spelled out", () => {
    expect(between('{"a":"x"}', '{"a":"x\u200b"}')).toEqual([["a", '"x"', '"x\\u200b"']]);
  });
});

test("a path is named so that odd keys cannot be mistaken", () => {
  expect(named(["files", 2, "name"])).toBe("files[2].name");
  expect(named(["a.b", ""])).toBe('["a.b"][""]');
  expect(named([])).toBe("(all of it)");
});

test("a pointer has its steps", () => {
  expect(stepsOf("")).toEqual([]);
  expect(stepsOf("/a~1b/0/c~0d")).toEqual(["a/b", "0", "c~d"]);
});
