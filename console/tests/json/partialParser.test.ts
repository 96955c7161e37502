import { describe, expect, test } from "vitest";
import type { Json } from "../../src/api/types";
import { PartialParser, type JsonNode } from "../../src/json/partialParser";
import { cases } from "../seededRandom";

function parseText(...pieces: string[]): PartialParser {
  const parser = new PartialParser();
  for (const piece of pieces) parser.feed(piece);
  return parser;
}

/** The value of a complete tree. */
function valueOf(node: JsonNode): Json {
  switch (node.kind) {
    case "string":
      return node.text;
    case "literal":
      return JSON.parse(node.text) as Json;
    case "array":
      return node.items.map(valueOf);
    case "object":
      return Object.fromEntries(node.fields.map((field) => [field.key.text, valueOf(field.value!)]));
  }
}

/** Whether `later` only adds to `earlier`. */
function isExtension(earlier: JsonNode | null, later: JsonNode | null): boolean {
  if (earlier === null) return true;
  if (later === null || earlier.kind !== later.kind || (earlier.isComplete && !later.isComplete)) return false;
  if (earlier.kind === "object" && later.kind === "object") {
    return earlier.fields.every((field, at) => {
      const other = later.fields[at];
      return other !== undefined && other.key.text.startsWith(field.key.text) && isExtension(field.value, other.value);
    });
  }
  if (earlier.kind === "array" && later.kind === "array") {
    return earlier.items.every((item, at) => isExtension(item, later.items[at] ?? null));
  }
  const [one, other] = [earlier, later] as [{ text: string }, { text: string }];
  return other.text.startsWith(one.text);
}

describe("the partial parser", () => {
  test("parses a complete text like JSON.parse", () => {
    for (const random of cases(500)) {
      const value = [random.json()];
      const text = JSON.stringify(value, null, random.below(3));
      const parser = parseText(text);
      expect(parser.fault).toBe("");
      expect(parser.root?.isComplete).toBe(true);
      expect(valueOf(parser.root!)).toEqual(JSON.parse(text));
    }
  });

  test("gives the same tree however the text is split", () => {
    for (const random of cases(500)) {
      const text = JSON.stringify({ it: random.json() });
      expect(parseText(...random.split(text)).root).toEqual(parseText(text).root);
    }
  });

  test("only extends its tree", () => {
    for (const random of cases(60)) {
      const text = JSON.stringify({ it: random.json() });
      let before: JsonNode | null = null;
      for (let end = 1; end <= text.length; end += 1) {
        const now: JsonNode | null = parseText(text.slice(0, end)).root;
        expect(isExtension(before, now)).toBe(true);
        before = now;
      }
    }
  });

  test("never throws, and ignores input after a fault", () => {
    const characters = ['"', "{", "}", "[", "]", ":", ",", "\\", "u", "1", "t", "x", " "];
    for (const random of cases(2000)) {
      const text = Array.from({ length: 12 }, () => random.pick(characters)).join("");
      const parser = parseText(text);
      const before = JSON.stringify(parser.root);
      if (parser.fault) {
        parser.feed('"more"');
        expect(JSON.stringify(parser.root)).toBe(before);
      }
    }
  });

  test("shows a field as soon as its value starts", () => {
    const root = parseText('{"city": "Be').root;
    expect(root).toEqual({
      kind: "object",
      isComplete: false,
      fields: [
        { key: { kind: "string", text: "city", isComplete: true }, value: { kind: "string", text: "Be", isComplete: false } },
      ],
    });
  });

  test.each(["{1", '{"a" 1', "[1 2", "tru}", "[01]", '"\\x"', '"\\u00g0"', "{} {", "[,", '{"a":1,}'])("reports that %s is invalid", (text) => {
    expect(parseText(`${text} `).fault).not.toBe("");
  });

  test("takes linear time", () => {
    /** Milliseconds per word, the best of three: what else the machine does counts once, not three times. */
    const cost = (words: number): number => {
      const text = JSON.stringify({ it: "word ".repeat(words) });
      const times = [1, 2, 3].map(() => {
        const parser = new PartialParser();
        const startedAt = performance.now();
        for (let at = 0; at < text.length; at += 7) parser.feed(text.slice(at, at + 7));
        expect(parser.root?.isComplete).toBe(true);
        return performance.now() - startedAt;
      });
      return Math.min(...times) / words;
    };
    cost(10_000);
    // Quadratic time would cost sixteen times as much per word.
    expect(cost(320_000) / cost(20_000)).toBeLessThan(6);
  });
});
