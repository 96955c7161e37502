import { describe, expect, it } from "vitest";
import type { Json, Schema } from "../../src/api/types";
import { limitsOf } from "../../src/pages/tools/limits";
import { shapeOf, type SchemaField } from "../../src/pages/tools/schema";
import { Seeded } from "../seeded";

const fields = (schema: Schema): readonly SchemaField[] => shapeOf(schema).inner();
const one = (schema: Json): SchemaField => fields({ type: "object", properties: { it: schema } })[0]!;
const words = (field: SchemaField): readonly string[] => field.limits.map((limit) => limit.words);

describe("a schema in words", () => {
  it("has each field with its type, whether it is required, and its bounds", () => {
    const [day, seats] = fields({
      type: "object",
      required: ["seats"],
      properties: { day: { type: "string", format: "date" }, seats: { type: "integer", minimum: 1, maximum: 12 } },
    });
    expect([day!.name, day!.type, day!.isRequired, words(day!)]).toEqual(["day", "string", false, ["as date"]]);
    expect([seats!.name, seats!.type, seats!.isRequired, words(seats!)]).toEqual(["seats", "integer", true, ["1 to 12"]]);
  });

  it("says lists, choices and the fields of objects in them", () => {
    const guests = one({ type: "array", minItems: 1, items: { type: "object", properties: { name: { type: "string" } } } });
    expect([guests.type, words(guests)]).toEqual(["list of object", ["at least 1 item"]]);
    expect(guests.inner().map((inner) => inner.name)).toEqual(["name"]);
    expect(one({ anyOf: [{ type: "string" }, { type: "null" }] }).type).toBe("string or null");
    const either = one({ anyOf: [{ type: "integer" }, { enum: ["a"] }] });
    expect(either.inner().map((inner) => [inner.name, inner.type])).toEqual([
      ["either", "integer"],
      ["or", "one of these"],
    ]);
  });

  it("follows references, and stops where they lead in a circle", () => {
    const schema: Schema = {
      type: "object",
      properties: { tree: { $ref: "#/$defs/tree", description: "The root." } },
      $defs: { tree: { type: "object", properties: { left: { $ref: "#/$defs/tree" } } } },
    };
    const tree = fields(schema)[0]!;
    expect([tree.type, tree.description]).toEqual(["object", "The root."]);
    const left = tree.inner()[0]!;
    expect([left.type, left.inner()]).toEqual(["object, again", []]);
    expect(words(one({ $ref: "#/nowhere" }))).toEqual(['$ref: "#/nowhere"']);
  });

  it("names a field that is demanded and nowhere described", () => {
    expect(fields({ type: "object", required: ["x"] }).map((field) => [field.name, field.type])).toEqual([["x", "anything"]]);
  });

  it("shows a keyword that it has no words for as it is written, so that nothing is left out", () => {
    expect(limitsOf({ not: { type: "null" }, uniqueItems: true, strange: 1 }).map((limit) => limit.words)).toEqual([
      'not: {"type":"null"}',
      "no item twice",
      "strange: 1",
    ]);
    expect(limitsOf({ items: false, properties: [] }).map((limit) => limit.words)).toEqual(["no other items", "properties: []"]);
    expect(limitsOf({ minimum: "three" }).map((limit) => limit.words)).toEqual(['minimum: "three"']);
  });

  it("has a place for every keyword, whatever a stranger writes", () => {
    const random = new Seeded(3);
    const keywords = ["minimum", "maxItems", "enum", "pattern", "items", "properties", "anyOf", "required", "$ref", "type", "x"];
    for (let round = 0; round < 400; round += 1) {
      const schema = Object.fromEntries(keywords.filter(() => random.below(3) === 0).map((word) => [word, random.json()]));
      const visit = (field: SchemaField, depth: number): void => {
        expect(typeof field.type).toBe("string");
        if (depth < 4) field.inner().forEach((inner) => visit(inner, depth + 1));
      };
      visit(shapeOf(schema), 0);
    }
  });
});
