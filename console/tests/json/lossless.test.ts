import { describe, expect, test } from "vitest";
import {
  isSafeAsFloat,
  literalNode,
  parse,
  parseObject,
  stringify,
  stringNode,
  valueAt,
  withValue,
} from "../../src/json/lossless";
import type { ObjectNode, JsonNode } from "../../src/json/partialParser";
import { cases } from "../seededRandom";

function parseNode(text: string): JsonNode {
  const parsed = parse(text);
  if ("fault" in parsed) throw new Error(parsed.fault);
  return parsed.node;
}

function parseObjectNode(text: string): ObjectNode {
  return parseNode(text) as ObjectNode;
}

describe("lossless JSON", () => {
  test("keeps the value through parse and stringify", () => {
    for (const random of cases(300)) {
      const value = random.json();
      for (const indent of [0, 2]) expect(JSON.parse(stringify(parseNode(JSON.stringify(value)), indent))).toEqual(value);
    }
  });

  test("keeps the spelling of numbers", () => {
    for (const number of ["12345678901234567890", "10.0", "1E400", "-0", "0.1000"]) {
      expect(stringify(parseNode(`{"n":${number}}`), 0)).toBe(`{"n":${number}}`);
    }
  });

  test("keeps the order of keys, and duplicate keys", () => {
    const text = '{"b":1,"a":2,"b":3}';
    expect(stringify(parseNode(text), 0)).toBe(text);
    expect(valueAt(parseNode(text), "b")).toMatchObject({ text: "3" });
  });

  test("escapes hidden characters", () => {
    const text = stringify(stringNode("a\u202Eb\u200B\u{E0041}\u00A0c"));
    expect(text).toBe('"a\\u202eb\\u200b\\udb40\\udc41\\u00a0c"');
    expect(JSON.parse(text)).toBe("a\u202Eb\u200B\u{E0041}\u00A0c");
  });

  test("rejects invalid JSON, and arguments that are not an object", () => {
    expect(parse("{a: 1}")).toHaveProperty("fault");
    expect(parse('"\u0001"')).toHaveProperty("fault");
    expect(parse("")).toHaveProperty("fault");
    expect(parseObject("[1]")).toEqual({ fault: "Arguments must be an object: { ... }." });
  });
});

describe("setting a value", () => {
  test("keeps its position and all other text", () => {
    const value = parseObjectNode('{"a":10.0,"b":"x","c":12345678901234567890}');
    expect(stringify(withValue(value, "b", literalNode("true")), 0)).toBe('{"a":10.0,"b":true,"c":12345678901234567890}');
  });

  test("appends new keys, and can remove keys", () => {
    expect(stringify(withValue(parseObjectNode('{"a":1}'), "b", stringNode("")), 0)).toBe('{"a":1,"b":""}');
    expect(stringify(withValue(parseObjectNode('{"a":1,"b":2}'), "a", null), 0)).toBe('{"b":2}');
  });

  test("removes duplicate keys", () => {
    expect(stringify(withValue(parseObjectNode('{"a":1,"b":2,"a":3}'), "a", literalNode("4")), 0)).toBe('{"b":2,"a":4}');
    expect(stringify(withValue(parseObjectNode('{"a":1,"b":2,"a":3}'), "a", null), 0)).toBe('{"b":2}');
  });
});

test("numbers that a float would change are found at any depth", () => {
  expect(isSafeAsFloat(parseNode('{"a":[1,2.5,{"b":true,"c":null}],"d":"10.0"}'))).toBe(true);
  expect(isSafeAsFloat(parseNode('{"a":[{"b":12345678901234567890}]}'))).toBe(false);
  expect(isSafeAsFloat(parseNode('{"a":10.0}'))).toBe(false);
});
