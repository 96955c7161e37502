/** Which controls an object's fields can be filled in with. What has none of its own is written as JSON. */

import type { Json, Schema } from "../api/types";
import { hasHidden } from "../text/hidden";
import { fieldsOf, type FieldShape } from "./fields";
import type { Part } from "./partial";

export type Control =
  | { readonly kind: "text" }
  | { readonly kind: "number" }
  | { readonly kind: "truth" }
  /** JSON of each value that may be chosen. */
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  | { readonly kind: "json" };

export interface FormField {
  readonly shape: FieldShape;
  readonly control: Control;
}

const BY_TYPE: Readonly<Record<string, Control>> = {
  string: { kind: "text" },
  integer: { kind: "number" },
  number: { kind: "number" },
  boolean: { kind: "truth" },
};
const MOST_CHOICES = 100;

/** Null where the schema says nothing of fields: then there is only the whole to be written. */
export function formOf(schema: Schema): readonly FormField[] | null {
  const shapes = fieldsOf(schema, schema);
  return shapes.length === 0 ? null : shapes.map((shape) => ({ shape, control: controlOf(shape.schema) }));
}

export function controlOf(schema: Schema): Control {
  const choices = schema["enum"];
  if (Array.isArray(choices)) {
    const isShort = choices.length > 0 && choices.length <= MOST_CHOICES;
    return isShort ? { kind: "choice", choices: choices.map((one: Json) => JSON.stringify(one)) } : { kind: "json" };
  }
  const type = schema["type"];
  return (typeof type === "string" && BY_TYPE[type]) || { kind: "json" };
}

/** Whether the control can show what stands there. A number that is still being typed is a text for a while. */
export function suits(control: Control, part: Part): boolean {
  switch (control.kind) {
    case "text":
      // A text box drops some of what is hidden and turns around what is not; as JSON all of it can be seen.
      return part.kind === "string" && !hasHidden(part.text, "prose") && !part.text.includes("\r");
    case "number":
      return part.kind === "string" || (part.kind === "word" && /^-?[0-9]/.test(part.text));
    case "truth":
      return part.kind === "word" && (part.text === "true" || part.text === "false");
    case "choice":
    case "json":
      return true;
  }
}

/** What a field begins with when it is added. */
export function firstOf(control: Control, schema: Schema): string {
  if (schema["default"] !== undefined) return JSON.stringify(schema["default"]);
  switch (control.kind) {
    case "text":
      return '""';
    case "number":
      return "0";
    case "truth":
      return "false";
    case "choice":
      return control.choices[0]!;
    case "json":
      return schema["type"] === "array" ? "[]" : schema["type"] === "object" ? "{}" : "null";
  }
}
