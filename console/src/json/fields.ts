/** The fields that a schema declares for an object, to draw a form. Not a validator: unknown keywords are ignored. */

import type { Json, JsonObject, Schema } from "../api/types";

export interface FieldShape {
  readonly name: string;
  readonly isRequired: boolean;
  /** A short type name: `string`, `list of integer`, `one of 3`. */
  readonly type: string;
  readonly description: string;
  readonly schema: Schema;
}

const DEPTH = 8;

/** `root` is the complete schema, in which local references are resolved. */
export function fieldsOf(schema: Schema, root: Schema): readonly FieldShape[] {
  const shape = resolve(schema, root);
  const properties = shape["properties"];
  if (!isObject(properties)) return [];
  const required = Array.isArray(shape["required"]) ? shape["required"] : [];
  return Object.entries(properties).map(([name, one]) => {
    const inner = isObject(one) ? resolve(one, root) : {};
    const own = isObject(one) ? one : {};
    const description = own["description"] ?? inner["description"];
    return {
      name,
      isRequired: required.includes(name),
      type: typeOf(inner, root),
      description: typeof description === "string" ? description : "",
      schema: inner,
    };
  });
}

export function itemsOf(schema: Schema, root: Schema): Schema {
  const items = resolve(schema, root)["items"];
  return isObject(items) ? items : {};
}

export function typeOf(schema: Schema, root: Schema): string {
  const shape = resolve(schema, root);
  if ("const" in shape) return "constant";
  if (Array.isArray(shape["enum"])) return `one of ${shape["enum"].length}`;
  const type = shape["type"];
  if (type === "array") {
    const inner = typeOf(itemsOf(shape, root), root);
    return inner ? `list of ${inner}` : "list";
  }
  if (Array.isArray(type)) return type.filter((keyword) => typeof keyword === "string").join(" or ");
  return typeof type === "string" ? type : "";
}

/** Follows references, and unwraps a choice between one schema and null. */
function resolve(schema: Schema, root: Schema, depth = 0): JsonObject {
  if (depth > DEPTH) return {};
  const reference = schema["$ref"];
  if (typeof reference === "string") {
    const target = resolvePointer(reference, root);
    return target ? resolve(target, root, depth + 1) : {};
  }
  for (const keyword of ["anyOf", "oneOf"]) {
    const choices = schema[keyword];
    if (!Array.isArray(choices)) continue;
    const nonNull = choices.filter((one): one is JsonObject => isObject(one) && one["type"] !== "null");
    if (nonNull.length === 1) return resolve(nonNull[0]!, root, depth + 1);
  }
  return schema;
}

/** Resolves a local reference. Returns null if it points to nothing. */
export function resolvePointer(reference: string, root: Schema): Schema | null {
  if (!reference.startsWith("#/")) return null;
  let here: Json = root;
  for (const segment of reference.slice(2).split("/")) {
    const name = segment.replaceAll("~1", "/").replaceAll("~0", "~");
    if (!isObject(here) || !Object.hasOwn(here, name)) return null;
    here = here[name]!;
  }
  return isObject(here) ? here : null;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
