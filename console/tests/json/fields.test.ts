import { describe, expect, test } from "vitest";
import { fieldsOf, itemsOf, typeOf } from "../../src/json/fields";

const ROOT = {
  type: "object",
  properties: {
    to: { type: "string", description: "Whom." },
    when: { anyOf: [{ type: "integer" }, { type: "null" }] },
    tags: { type: "array", items: { type: "string" } },
    place: { $ref: "#/$defs/place" },
    mood: { enum: ["calm", "glad"] },
    elsewhere: { $ref: "https://example.com/schema" },
  },
  required: ["to"],
  $defs: { place: { type: "object", properties: { city: { type: "string" } } } },
};

describe("the fields of a schema", () => {
  test("are in its order, with type and requiredness", () => {
    const fields = fieldsOf(ROOT, ROOT).map((one) => [one.name, one.isRequired, one.type]);
    expect(fields).toEqual([
      ["to", true, "string"],
      ["when", false, "integer"],
      ["tags", false, "list of string"],
      ["place", false, "object"],
      ["mood", false, "one of 2"],
      ["elsewhere", false, ""],
    ]);
  });

  test("are found through a local reference", () => {
    expect(fieldsOf({ $ref: "#/$defs/place" }, ROOT).map((one) => one.name)).toEqual(["city"]);
  });

  test("are empty if a reference is circular or unresolvable", () => {
    const circle = { $defs: { a: { $ref: "#/$defs/a" } } };
    expect(fieldsOf({ $ref: "#/$defs/a" }, circle)).toEqual([]);
    expect(fieldsOf({ $ref: "#/$defs/b" }, circle)).toEqual([]);
    expect(fieldsOf({ $ref: "#/__proto__/a" }, circle)).toEqual([]);
  });

  test("of a list come from its items", () => {
    expect(typeOf(itemsOf(ROOT.properties.tags, ROOT), ROOT)).toBe("string");
  });
});
