/** Which fields a schema says an object has, for drawing a form of it. Not a validator: what it does not know, it omits. */

import type { Json, JsonObject, Schema } from "../api/types";

export interface FieldShape {
  readonly name: string;
  readonly isRequired: boolean;
  /** One word, or a few: `string`, `list of integer`, `one of 3`. */
  readonly type: string;
  readonly description: string;
  readonly schema: Schema;
}

const DEPTH = 8;

/** `root` is the whole schema, which local references are looked up in. */
export function fieldsOf(schema: Schema, root: Schema): readonly FieldShape[] {
  const shape = followed(schema, root);
  const properties = shape["properties"];
  if (!isObject(properties)) return [];
  const required = Array.isArray(shape["required"]) ? shape["required"] : [];
  return Object.entries(properties).map(([name, one]) => {
    const inner = isObject(one) ? followed(one, root) : {};
    const own = isObject(one) ? one : {};
    const words = own["description"] ?? inner["description"];
    return {
      name,
      isRequired: required.includes(name),
      type: typeOf(inner, root),
      description: typeof words === "string" ? words : "",
      schema: inner,
    };
  });
}

export function itemsOf(schema: Schema, root: Schema): Schema {
  const items = followed(schema, root)["items"];
  return isObject(items) ? items : {};
}

export function typeOf(schema: Schema, root: Schema): string {
  const shape = followed(schema, root);
  if ("const" in shape) return "constant";
  if (Array.isArray(shape["enum"])) return `one of ${shape["enum"].length}`;
  const type = shape["type"];
  if (type === "array") {
    const inner = typeOf(itemsOf(shape, root), root);
    return inner ? `list of ${inner}` : "list";
  }
  if (Array.isArray(type)) return type.filter((word) => typeof word === "string").join(" or ");
  return typeof type === "string" ? type : "";
}

/** Past references, and past a choice between one thing and null. */
function followed(schema: Schema, root: Schema, depth = 0): JsonObject {
  if (depth > DEPTH) return {};
  const reference = schema["$ref"];
  if (typeof reference === "string") {
    const found = pointed(reference, root);
    return found ? followed(found, root, depth + 1) : {};
  }
  for (const word of ["anyOf", "oneOf"]) {
    const choices = schema[word];
    if (!Array.isArray(choices)) continue;
    const real = choices.filter((one): one is JsonObject => isObject(one) && one["type"] !== "null");
    if (real.length === 1) return followed(real[0]!, root, depth + 1);
  }
  return schema;
}

/** What a local reference points at; null where that is nothing. */
export function pointed(reference: string, root: Schema): Schema | null {
  if (!reference.startsWith("#/")) return null;
  let here: Json = root;
  for (const part of reference.slice(2).split("/")) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (!isObject(here) || !Object.hasOwn(here, name)) return null;
    here = here[name]!;
  }
  return isObject(here) ? here : null;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
