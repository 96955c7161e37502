import { describe, expect, test } from "vitest";
import { differences, formatPath, stepsOf } from "../../src/json/differences";
import { parse } from "../../src/json/lossless";
import type { JsonNode } from "../../src/json/partialParser";
import { cases } from "../seededRandom";

function parseNode(text: string): JsonNode {
  const parsed = parse(text);
  if ("fault" in parsed) throw new Error(parsed.fault);
  return parsed.node;
}

const changes = (before: string, now: string) =>
  differences(parseNode(before), parseNode(now)).map((one) => [formatPath(one.path), one.before, one.now]);

describe("differences", () => {
  test("are empty between a value and itself", () => {
    for (const random of cases(200)) {
      const text = JSON.stringify(random.json());
      expect(changes(text, text)).toEqual([]);
    }
  });

  test("include changes, additions and removals", () => {
    expect(changes('{"to":"ann","cc":["x"],"old":1}', '{"to":"bob","cc":["x","y"],"new":null}')).toEqual([
      ["to", '"ann"', '"bob"'],
      ["cc[1]", null, '"y"'],
      ["new", null, "null"],
      ["old", "1", null],
    ]);
  });

  test("include the last digit of a long number", () => {
    expect(changes('{"n":12345678901234567890}', '{"n":12345678901234567891}')).toHaveLength(1);
  });

  test("do not include the order of keys", () => {
    expect(changes('{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}')).toEqual([]);
  });

  test("treat a change of type as one difference", () => {
    expect(changes('{"a":{"b":1}}', '{"a":[1]}')).toEqual([["a", '{"b":1}', "[1]"]]);
  });

  test("escape hidden characters", () => {
    expect(changes('{"a":"x"}', '{"a":"x\u200b"}')).toEqual([["a", '"x"', '"x\\u200b"']]);
  });
});

test("a path quotes unusual keys", () => {
  expect(formatPath(["files", 2, "name"])).toBe("files[2].name");
  expect(formatPath(["a.b", ""])).toBe('["a.b"][""]');
  expect(formatPath([])).toBe("(entire value)");
});

test("a pointer is split into steps", () => {
  expect(stepsOf("")).toEqual([]);
  expect(stepsOf("/a~1b/0/c~0d")).toEqual(["a/b", "0", "c~d"]);
});
