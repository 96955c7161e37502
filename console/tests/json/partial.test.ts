import { describe, expect, test } from "vitest";
import type { Json } from "../../src/api/types";
import { PartialReader, type Part } from "../../src/json/partial";
import { cases } from "../seeded";

function read(...pieces: string[]): PartialReader {
  const reader = new PartialReader();
  for (const piece of pieces) reader.feed(piece);
  return reader;
}

/** The value of a whole tree. */
function valueOf(part: Part): Json {
  switch (part.kind) {
    case "string":
      return part.text;
    case "word":
      return JSON.parse(part.text) as Json;
    case "list":
      return part.items.map(valueOf);
    case "object":
      return Object.fromEntries(part.fields.map((field) => [field.key.text, valueOf(field.value!)]));
  }
}

/** Whether `later` only adds to `earlier`. */
function isGrown(earlier: Part | null, later: Part | null): boolean {
  if (earlier === null) return true;
  if (later === null || earlier.kind !== later.kind || (earlier.isWhole && !later.isWhole)) return false;
  if (earlier.kind === "object" && later.kind === "object") {
    return earlier.fields.every((field, at) => {
      const other = later.fields[at];
      return other !== undefined && other.key.text.startsWith(field.key.text) && isGrown(field.value, other.value);
    });
  }
  if (earlier.kind === "list" && later.kind === "list") {
    return earlier.items.every((item, at) => isGrown(item, later.items[at] ?? null));
  }
  const [one, other] = [earlier, later] as [{ text: string }, { text: string }];
  return other.text.startsWith(one.text);
}

describe("a reader of JSON that is not whole yet", () => {
  test("reads a whole text as JSON.parse does", () => {
    for (const seeded of cases(500)) {
      const value = [seeded.json()];
      const text = JSON.stringify(value, null, seeded.below(3));
      const reader = read(text);
      expect(reader.fault).toBe("");
      expect(reader.root?.isWhole).toBe(true);
      expect(valueOf(reader.root!)).toEqual(JSON.parse(text));
    }
  });

  test("gives the same tree however the text is cut", () => {
    for (const seeded of cases(500)) {
      const text = JSON.stringify({ it: seeded.json() });
      expect(read(...seeded.cut(text)).root).toEqual(read(text).root);
    }
  });

  test("only adds to what it has given", () => {
    for (const seeded of cases(60)) {
      const text = JSON.stringify({ it: seeded.json() });
      let before: Part | null = null;
      for (let end = 1; end <= text.length; end += 1) {
        const now: Part | null = read(text.slice(0, end)).root;
        expect(isGrown(before, now)).toBe(true);
        before = now;
      }
    }
  });

  test("never throws, and reads on nothing after a fault", () => {
    const characters = ['"', "{", "}", "[", "]", ":", ",", "\\", "u", "1", "t", "x", " "];
    for (const seeded of cases(2000)) {
      const text = Array.from({ length: 12 }, () => seeded.one(characters)).join("");
      const reader = read(text);
      const stood = JSON.stringify(reader.root);
      if (reader.fault) {
        reader.feed('"more"');
        expect(JSON.stringify(reader.root)).toBe(stood);
      }
    }
  });

  test("shows a field as soon as its value has begun", () => {
    const root = read('{"city": "Be').root;
    expect(root).toEqual({
      kind: "object",
      isWhole: false,
      fields: [
        { key: { kind: "string", text: "city", isWhole: true }, value: { kind: "string", text: "Be", isWhole: false } },
      ],
    });
  });

  test.each(["{1", '{"a" 1', "[1 2", "tru}", "[01]", '"\\x"', '"\\u00g0"', "{} {", "[,", '{"a":1,}'])("says that %s is none", (text) => {
    expect(read(`${text} `).fault).not.toBe("");
  });

  test("takes a time that grows as the text does", () => {
    const text = JSON.stringify({ it: "word ".repeat(400_000) });
    const reader = new PartialReader();
    const started = performance.now();
    for (let at = 0; at < text.length; at += 7) reader.feed(text.slice(at, at + 7));
    expect(reader.root?.isWhole).toBe(true);
    expect(performance.now() - started).toBeLessThan(3_000);
  });
});
