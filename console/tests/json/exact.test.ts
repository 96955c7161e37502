import { describe, expect, test } from "vitest";
import { isKeptByNumbers, read, readObject, string, valueAt, withValue, word, written } from "../../src/json/exact";
import type { ObjectPart, Part } from "../../src/json/partial";
import { cases } from "../seeded";

function part(text: string): Part {
  const found = read(text);
  if ("fault" in found) throw new Error(found.fault);
  return found.part;
}

function object(text: string): ObjectPart {
  return part(text) as ObjectPart;
}

describe("JSON that is read and written again", () => {
  test("means the same, whatever it is", () => {
    for (const random of cases(300)) {
      const value = random.json();
      for (const indent of [0, 2]) expect(JSON.parse(written(part(JSON.stringify(value)), indent))).toEqual(value);
    }
  });

  test("keeps a number to the last digit, and its spelling", () => {
    for (const number of ["12345678901234567890", "10.0", "1E400", "-0", "0.1000"]) {
      expect(written(part(`{"n":${number}}`), 0)).toBe(`{"n":${number}}`);
    }
  });

  test("keeps the order of keys, and one that comes twice", () => {
    const text = '{"b":1,"a":2,"b":3}';
    expect(written(part(text), 0)).toBe(text);
    expect(valueAt(part(text), "b")).toMatchObject({ text: "3" });
  });

  test("has nothing hidden in it", () => {
    const text = written(string("a\u202Eb\u200B\u{E0041}\u00A0c"));
    expect(text).toBe('"a\\u202eb\\u200b\\udb40\\udc41\\u00a0c"');
    expect(JSON.parse(text)).toBe("a\u202Eb\u200B\u{E0041}\u00A0c");
  });

  test("is refused where it is no JSON, or no object", () => {
    expect(read("{a: 1}")).toHaveProperty("fault");
    expect(read('"\u0001"')).toHaveProperty("fault");
    expect(read("")).toHaveProperty("fault");
    expect(readObject("[1]")).toEqual({ fault: "Arguments are an object: { ... }." });
  });
});

describe("one value of an object", () => {
  test("is put in its old place, and the rest stays to the letter", () => {
    const given = object('{"a":10.0,"b":"x","c":12345678901234567890}');
    expect(written(withValue(given, "b", word("true")), 0)).toBe('{"a":10.0,"b":true,"c":12345678901234567890}');
  });

  test("comes last where it is new, and can be taken out", () => {
    expect(written(withValue(object('{"a":1}'), "b", string("")), 0)).toBe('{"a":1,"b":""}');
    expect(written(withValue(object('{"a":1,"b":2}'), "a", null), 0)).toBe('{"b":2}');
  });

  test("is one value afterwards, if its key came twice", () => {
    expect(written(withValue(object('{"a":1,"b":2,"a":3}'), "a", word("4")), 0)).toBe('{"b":2,"a":4}');
    expect(written(withValue(object('{"a":1,"b":2,"a":3}'), "a", null), 0)).toBe('{"b":2}');
  });
});

test("numbers that a float would change are found at any depth", () => {
  expect(isKeptByNumbers(part('{"a":[1,2.5,{"b":true,"c":null}],"d":"10.0"}'))).toBe(true);
  expect(isKeptByNumbers(part('{"a":[{"b":12345678901234567890}]}'))).toBe(false);
  expect(isKeptByNumbers(part('{"a":10.0}'))).toBe(false);
});
