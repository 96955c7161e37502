import { expect, test } from "vitest";
import { read, string, word } from "../../src/json/exact";
import { controlOf, firstOf, formOf, suits } from "../../src/json/form";

const SCHEMA = {
  type: "object",
  properties: {
    to: { type: "string" },
    count: { type: "integer", default: 3 },
    urgent: { type: "boolean" },
    kind: { enum: ["plain", "html", null] },
    cc: { anyOf: [{ type: "array", items: { type: "string" } }, { type: "null" }] },
    odd: { type: ["string", "number"] },
  },
  required: ["to"],
};

test("each field has the control of its type, and JSON where there is none", () => {
  const kinds = formOf(SCHEMA)?.map((field) => [field.shape.name, field.control.kind, field.shape.isRequired]);
  expect(kinds).toEqual([
    ["to", "text", true],
    ["count", "number", false],
    ["urgent", "truth", false],
    ["kind", "choice", false],
    ["cc", "json", false],
    ["odd", "json", false],
  ]);
});

test("a schema without fields has no form", () => {
  expect(formOf({})).toBeNull();
  expect(formOf({ type: "object", additionalProperties: true })).toBeNull();
});

test("a choice is among the values as JSON", () => {
  expect(controlOf({ enum: ["a", 1, null] })).toEqual({ kind: "choice", choices: ['"a"', "1", "null"] });
});

test("what a text box would drop or hide is not put into one", () => {
  const box = { kind: "text" } as const;
  expect(suits(box, string("two\nlines\tand a tab"))).toBe(true);
  for (const text of ["a\r\nb", "a\u0000b", "a\u202Eb", "a\u200Bb"]) expect(suits(box, string(text))).toBe(false);
  expect(suits(box, word("1"))).toBe(false);
});

test("a number that is being typed stays in its box", () => {
  expect(suits({ kind: "number" }, string("-"))).toBe(true);
  expect(suits({ kind: "number" }, word("null"))).toBe(false);
});

test("a field that is added begins with JSON of its type", () => {
  for (const field of formOf(SCHEMA) ?? []) expect(read(firstOf(field.control, field.shape.schema))).toHaveProperty("part");
  expect(firstOf({ kind: "number" }, { default: 3 })).toBe("3");
});
