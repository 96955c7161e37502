/**
 * A tool's schema as a tree of fields in plain words, for people. Not a validator: a keyword that it has no words for is
 * shown as it is written, so that nothing of a schema is left out. What a field holds is made when it is asked for,
 * since references may lead in circles.
 */

import type { Json, JsonObject, Schema } from "../../api/types";
import { isObject, pointed } from "../../json/fields";
import { limitsOf, type Limit } from "./limits";

export interface SchemaField {
  /** As it is written in a call, or in words where `isNamed` is not true. */
  readonly name: string;
  readonly isNamed: boolean;
  /** null where it is no property. */
  readonly isRequired: boolean | null;
  readonly type: string;
  readonly description: string;
  readonly limits: readonly Limit[];
  readonly inner: () => readonly SchemaField[];
}

/** The fields of the object that a call's arguments are, and what is said of the object itself. */
export function shapeOf(schema: Schema): SchemaField {
  return fieldOf({ name: "arguments", isNamed: false, isRequired: null }, schema, schema, []);
}

type Named = Pick<SchemaField, "name" | "isNamed" | "isRequired">;

function fieldOf(named: Named, schema: Json | undefined, root: Schema, path: readonly string[]): SchemaField {
  const nothing = { ...named, description: "", limits: [], inner: () => [] };
  if (schema === false) return { ...nothing, type: "nothing" };
  if (!isObject(schema)) return { ...nothing, type: "anything" };
  const [shape, through, isAgain] = followed(schema, root, path);
  const type = typeOf(shape, root, through);
  return {
    ...named,
    type: isAgain ? `${type}, again` : type,
    description: wordsOf(shape, named.name),
    limits: limitsOf(shape),
    inner: () => (isAgain ? [] : innerOf(shape, root, through)),
  };
}

/** A title that only spells the name again is none. */
function wordsOf(shape: JsonObject, name: string): string {
  const { description, title } = shape;
  if (typeof description === "string") return description;
  const plain = (text: string): string => text.toLowerCase().replaceAll(/[\s_-]/g, "");
  return typeof title === "string" && plain(title) !== plain(name) ? title : "";
}

/** Past references, with what stands beside them. The third is whether it leads back to where it came from. */
function followed(schema: JsonObject, root: Schema, path: readonly string[]): [JsonObject, readonly string[], boolean] {
  let shape = schema;
  const through = [...path];
  for (;;) {
    const { $ref: reference, ...beside } = shape;
    if (typeof reference !== "string") return [shape, through, false];
    const found = reference === "#" ? root : pointed(reference, root);
    if (!found) return [shape, through, false];
    if (through.includes(reference)) return [{ ...found, ...beside }, through, true];
    through.push(reference);
    shape = { ...found, ...beside };
  }
}

const CHOICES = ["anyOf", "oneOf", "allOf"] as const;
const BETWEEN: Readonly<Record<(typeof CHOICES)[number], string>> = {
  anyOf: "any of",
  oneOf: "exactly one of",
  allOf: "all of",
};

function typeOf(shape: JsonObject, root: Schema, path: readonly string[]): string {
  const type = shape["type"];
  if (type === "array") {
    const items = shape["items"];
    const inner = isObject(items) ? plainType(items, root, path) : "";
    return inner ? `list of ${inner}` : "list";
  }
  if (typeof type === "string") return type;
  if (Array.isArray(type)) return type.filter((word) => typeof word === "string").join(" or ");
  const choice = CHOICES.find((word) => Array.isArray(shape[word]));
  if (choice) {
    const options = shape[choice] as readonly Json[];
    const plain = options.map((one) => (isPlain(one) ? plainType(one, root, path) : ""));
    const isShort = choice !== "allOf" && plain.every((word) => word !== "");
    return isShort ? [...new Set(plain)].join(" or ") : `${BETWEEN[choice]} ${options.length}`;
  }
  if ("const" in shape) return "constant";
  if (Array.isArray(shape["enum"])) return "one of these";
  return "properties" in shape ? "object" : "anything";
}

function plainType(schema: Json, root: Schema, path: readonly string[]): string {
  if (!isObject(schema)) return "";
  const [shape, through, isAgain] = followed(schema, root, path);
  return isAgain ? "the same" : typeOf(shape, root, through);
}

/** Whether its type says all of it. */
function isPlain(schema: Json): schema is JsonObject {
  return isObject(schema) && Object.keys(schema).every((word) => word === "type" || word === "title");
}

function innerOf(shape: JsonObject, root: Schema, path: readonly string[]): readonly SchemaField[] {
  const made = (named: Named, schema: Json | undefined): SchemaField => fieldOf(named, schema, root, path);
  const other = (name: string): Named => ({ name, isNamed: false, isRequired: null });
  const fields: SchemaField[] = [];
  const required = Array.isArray(shape["required"]) ? shape["required"] : [];
  const properties = isObject(shape["properties"]) ? shape["properties"] : {};
  for (const [name, one] of Object.entries(properties)) {
    fields.push(made({ name, isNamed: true, isRequired: required.includes(name) }, one));
  }
  for (const name of required) {
    // Demanded, and nowhere described.
    if (typeof name !== "string" || Object.hasOwn(properties, name)) continue;
    fields.push(made({ name, isNamed: true, isRequired: true }, true));
  }
  for (const [pattern, one] of Object.entries(isObject(shape["patternProperties"]) ? shape["patternProperties"] : {})) {
    fields.push(made(other(`every field that matches ${pattern}`), one));
  }
  if (isObject(shape["additionalProperties"])) fields.push(made(other("every other field"), shape["additionalProperties"]));
  if (Array.isArray(shape["prefixItems"])) {
    shape["prefixItems"].forEach((one, at) => fields.push(made(other(`item ${at + 1}`), one)));
  }
  if (isObject(shape["items"])) {
    const each = made(other("each item"), shape["items"]);
    // An object's fields are said at once; "list of object" has said the rest.
    const isOnlyFields = each.limits.length === 0 && each.description === "" && each.type === "object";
    if (isOnlyFields) fields.push(...each.inner());
    else if (!isPlain(shape["items"])) fields.push(each);
  }
  for (const word of CHOICES) {
    const options = shape[word];
    if (!Array.isArray(options) || (word !== "allOf" && options.every(isPlain))) continue;
    options.forEach((one, at) => fields.push(made(other(word === "allOf" ? `and, ${at + 1}` : at === 0 ? "either" : "or"), one)));
  }
  return fields;
}
