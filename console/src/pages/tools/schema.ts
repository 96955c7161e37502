/**
 * A tool's schema as a readable tree of fields. Not a validator: unknown keywords are shown as they are written, so that
 * nothing is left out. Children are computed on demand, because references may be recursive.
 */

import type { Json, JsonObject, Schema } from "../../api/types";
import { isObject, resolvePointer } from "../../json/fields";
import { limitsOf, type Limit } from "./limits";

export interface SchemaField {
  /** The property name, or a description if `isNamed` is false. */
  readonly name: string;
  readonly isNamed: boolean;
  /** Null if it is not a property. */
  readonly isRequired: boolean | null;
  readonly type: string;
  readonly description: string;
  readonly limits: readonly Limit[];
  readonly inner: () => readonly SchemaField[];
}

/** The root: a call's arguments, with their fields. */
export function shapeOf(schema: Schema): SchemaField {
  return fieldOf({ name: "arguments", isNamed: false, isRequired: null }, schema, schema, []);
}

type FieldName = Pick<SchemaField, "name" | "isNamed" | "isRequired">;

function fieldOf(fieldName: FieldName, schema: Json | undefined, root: Schema, path: readonly string[]): SchemaField {
  const nothing = { ...fieldName, description: "", limits: [], inner: () => [] };
  if (schema === false) return { ...nothing, type: "nothing" };
  if (!isObject(schema)) return { ...nothing, type: "anything" };
  const [shape, visited, isRecursive] = resolve(schema, root, path);
  const type = typeOf(shape, root, visited);
  return {
    ...fieldName,
    type: isRecursive ? `${type} (recursive)` : type,
    description: descriptionOf(shape, fieldName.name),
    limits: limitsOf(shape),
    inner: () => (isRecursive ? [] : innerOf(shape, root, visited)),
  };
}

/** The description, or else the title unless it only repeats the name. */
function descriptionOf(shape: JsonObject, name: string): string {
  const { description, title } = shape;
  if (typeof description === "string") return description;
  const normalize = (text: string): string => text.toLowerCase().replaceAll(/[\s_-]/g, "");
  return typeof title === "string" && normalize(title) !== normalize(name) ? title : "";
}

/** Follows references and merges sibling keywords. Returns the schema, the visited references, and whether it is recursive. */
function resolve(schema: JsonObject, root: Schema, path: readonly string[]): [JsonObject, readonly string[], boolean] {
  let shape = schema;
  const visited = [...path];
  for (;;) {
    const { $ref: reference, ...beside } = shape;
    if (typeof reference !== "string") return [shape, visited, false];
    const target = reference === "#" ? root : resolvePointer(reference, root);
    if (!target) return [shape, visited, false];
    if (visited.includes(reference)) return [{ ...target, ...beside }, visited, true];
    visited.push(reference);
    shape = { ...target, ...beside };
  }
}

const CHOICES = ["anyOf", "oneOf", "allOf"] as const;
const CHOICE_LABELS: Readonly<Record<(typeof CHOICES)[number], string>> = {
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
  if (Array.isArray(type)) return type.filter((keyword) => typeof keyword === "string").join(" or ");
  const choice = CHOICES.find((keyword) => Array.isArray(shape[keyword]));
  if (choice) {
    const options = shape[choice] as readonly Json[];
    const plain = options.map((child) => (isPlain(child) ? plainType(child, root, path) : ""));
    const isShort = choice !== "allOf" && plain.every((keyword) => keyword !== "");
    return isShort ? [...new Set(plain)].join(" or ") : `${CHOICE_LABELS[choice]} ${options.length}`;
  }
  if ("const" in shape) return "constant";
  if (Array.isArray(shape["enum"])) return "one of these";
  return "properties" in shape ? "object" : "anything";
}

function plainType(schema: Json, root: Schema, path: readonly string[]): string {
  if (!isObject(schema)) return "";
  const [shape, visited, isRecursive] = resolve(schema, root, path);
  return isRecursive ? "the same" : typeOf(shape, root, visited);
}

/** Whether the type describes the schema completely. */
function isPlain(schema: Json): schema is JsonObject {
  return isObject(schema) && Object.keys(schema).every((keyword) => keyword === "type" || keyword === "title");
}

function innerOf(shape: JsonObject, root: Schema, path: readonly string[]): readonly SchemaField[] {
  const field = (fieldName: FieldName, schema: Json | undefined): SchemaField => fieldOf(fieldName, schema, root, path);
  const unnamed = (name: string): FieldName => ({ name, isNamed: false, isRequired: null });
  const fields: SchemaField[] = [];
  const required = Array.isArray(shape["required"]) ? shape["required"] : [];
  const properties = isObject(shape["properties"]) ? shape["properties"] : {};
  for (const [name, child] of Object.entries(properties)) {
    fields.push(field({ name, isNamed: true, isRequired: required.includes(name) }, child));
  }
  for (const name of required) {
    // Required, but not declared in `properties`.
    if (typeof name !== "string" || Object.hasOwn(properties, name)) continue;
    fields.push(field({ name, isNamed: true, isRequired: true }, true));
  }
  for (const [pattern, child] of Object.entries(isObject(shape["patternProperties"]) ? shape["patternProperties"] : {})) {
    fields.push(field(unnamed(`every field that matches ${pattern}`), child));
  }
  if (isObject(shape["additionalProperties"])) fields.push(field(unnamed("every other field"), shape["additionalProperties"]));
  if (Array.isArray(shape["prefixItems"])) {
    shape["prefixItems"].forEach((child, index) => fields.push(field(unnamed(`item ${index + 1}`), child)));
  }
  if (isObject(shape["items"])) {
    const each = field(unnamed("each item"), shape["items"]);
    // Show an object's fields directly; "list of object" already describes the rest.
    const isOnlyFields = each.limits.length === 0 && each.description === "" && each.type === "object";
    if (isOnlyFields) fields.push(...each.inner());
    else if (!isPlain(shape["items"])) fields.push(each);
  }
  for (const keyword of CHOICES) {
    const options = shape[keyword];
    if (!Array.isArray(options) || (keyword !== "allOf" && options.every(isPlain))) continue;
    options.forEach((child, index) => {
      const name = keyword === "allOf" ? `all of, ${index + 1}` : index === 0 ? "either" : "or";
      fields.push(field(unnamed(name), child));
    });
  }
  return fields;
}
