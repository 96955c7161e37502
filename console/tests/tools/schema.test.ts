import { describe, expect, it } from "vitest";
import type { Json, Schema } from "../../src/api/types";
import { limitsOf } from "../../src/pages/tools/limits";
import { shapeOf, type SchemaField } from "../../src/pages/tools/schema";
import { SeededRandom } from "../seededRandom";

const fields = (schema: Schema): readonly SchemaField[] => shapeOf(schema).inner();
const field = (schema: Json): SchemaField => fields({ type: "object", properties: { it: schema } })[0]!;
const limitTexts = (field: SchemaField): readonly string[] => field.limits.map((limit) => limit.text);

describe("a schema tree", () => {
  it("has each field with its type, whether it is required, and its bounds", () => {
    const [day, seats] = fields({
      type: "object",
      required: ["seats"],
      properties: { day: { type: "string", format: "date" }, seats: { type: "integer", minimum: 1, maximum: 12 } },
    });
    expect([day!.name, day!.type, day!.isRequired, limitTexts(day!)]).toEqual(["day", "string", false, ["format date"]]);
    expect([seats!.name, seats!.type, seats!.isRequired, limitTexts(seats!)]).toEqual(["seats", "integer", true, ["1 to 12"]]);
  });

  it("describes lists, choices and their objects' fields", () => {
    const guests = field({ type: "array", minItems: 1, items: { type: "object", properties: { name: { type: "string" } } } });
    expect([guests.type, limitTexts(guests)]).toEqual(["list of object", ["at least 1 item"]]);
    expect(guests.inner().map((inner) => inner.name)).toEqual(["name"]);
    expect(field({ anyOf: [{ type: "string" }, { type: "null" }] }).type).toBe("string or null");
    const either = field({ anyOf: [{ type: "integer" }, { enum: ["a"] }] });
    expect(either.inner().map((inner) => [inner.name, inner.type])).toEqual([
      ["either", "integer"],
      ["or", "one of these"],
    ]);
  });

  it("follows references, and stops at recursion", () => {
    const schema: Schema = {
      type: "object",
      properties: { tree: { $ref: "#/$defs/tree", description: "The root." } },
      $defs: { tree: { type: "object", properties: { left: { $ref: "#/$defs/tree" } } } },
    };
    const tree = fields(schema)[0]!;
    expect([tree.type, tree.description]).toEqual(["object", "The root."]);
    const left = tree.inner()[0]!;
    expect([left.type, left.inner()]).toEqual(["object (recursive)", []]);
    expect(limitTexts(field({ $ref: "#/nowhere" }))).toEqual(['$ref: "#/nowhere"']);
  });

  it("includes a required field that is not declared", () => {
    expect(fields({ type: "object", required: ["x"] }).map((field) => [field.name, field.type])).toEqual([["x", "anything"]]);
  });

  it("shows unknown keywords as they are written", () => {
    expect(limitsOf({ not: { type: "null" }, uniqueItems: true, strange: 1 }).map((limit) => limit.text)).toEqual([
      'not: {"type":"null"}',
      "no item twice",
      "strange: 1",
    ]);
    expect(limitsOf({ items: false, properties: [] }).map((limit) => limit.text)).toEqual(["no other items", "properties: []"]);
    expect(limitsOf({ minimum: "three" }).map((limit) => limit.text)).toEqual(['minimum: "three"']);
  });

  it("handles any schema", () => {
    const random = new SeededRandom(3);
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
