import { expect, test } from "vitest";
import { parse, stringNode, literalNode } from "../../src/json/lossless";
import { controlOf, initialValue, formOf, canShow } from "../../src/json/form";

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

test("each field has the control of its type, or JSON", () => {
  const kinds = formOf(SCHEMA)?.map((field) => [field.shape.name, field.control.kind, field.shape.isRequired]);
  expect(kinds).toEqual([
    ["to", "text", true],
    ["count", "number", false],
    ["urgent", "boolean", false],
    ["kind", "choice", false],
    ["cc", "json", false],
    ["odd", "json", false],
  ]);
});

test("a schema without fields has no form", () => {
  expect(formOf({})).toBeNull();
  expect(formOf({ type: "object", additionalProperties: true })).toBeNull();
});

test("a choice has its values as JSON", () => {
  expect(controlOf({ enum: ["a", 1, null] })).toEqual({ kind: "choice", choices: ['"a"', "1", "null"] });
});

test("text that a text box would drop or hide is edited as JSON", () => {
  const box = { kind: "text" } as const;
  expect(canShow(box, stringNode("two\nlines\tand a tab"))).toBe(true);
  for (const text of ["a\r\nb", "a\u0000b", "a\u202Eb", "a\u200Bb"]) expect(canShow(box, stringNode(text))).toBe(false);
  expect(canShow(box, literalNode("1"))).toBe(false);
});

test("a number that is being typed stays in its input", () => {
  expect(canShow({ kind: "number" }, stringNode("-"))).toBe(true);
  expect(canShow({ kind: "number" }, literalNode("null"))).toBe(false);
});

test("an added field starts with a value of its type", () => {
  for (const field of formOf(SCHEMA) ?? []) expect(parse(initialValue(field.control, field.shape.schema))).toHaveProperty("node");
  expect(initialValue({ kind: "number" }, { default: 3 })).toBe("3");
});
