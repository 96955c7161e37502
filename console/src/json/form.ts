/** The form controls for an object's fields. A field whose type has no control is edited as JSON. */

import type { Json, Schema } from "../api/types";
import { hasHidden } from "../text/hiddenCharacters";
import { fieldsOf, type FieldShape } from "./fields";
import type { JsonNode } from "./partialParser";

export type Control =
  | { readonly kind: "text" }
  | { readonly kind: "number" }
  | { readonly kind: "boolean" }
  /** The allowed values, as JSON text. */
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
  boolean: { kind: "boolean" },
};
const MAX_CHOICES = 100;

/** Null if the schema declares no fields: then only the complete JSON can be edited. */
export function formOf(schema: Schema): readonly FormField[] | null {
  const shapes = fieldsOf(schema, schema);
  return shapes.length === 0 ? null : shapes.map((shape) => ({ shape, control: controlOf(shape.schema) }));
}

export function controlOf(schema: Schema): Control {
  const choices = schema["enum"];
  if (Array.isArray(choices)) {
    const isShort = choices.length > 0 && choices.length <= MAX_CHOICES;
    return isShort ? { kind: "choice", choices: choices.map((value: Json) => JSON.stringify(value)) } : { kind: "json" };
  }
  const type = schema["type"];
  return (typeof type === "string" && BY_TYPE[type]) || { kind: "json" };
}

/** Whether the control can show the current value. A number that is still being typed is a string for a while. */
export function canShow(control: Control, node: JsonNode): boolean {
  switch (control.kind) {
    case "text":
      // A text box drops some hidden characters and obeys others; as JSON all of them are visible.
      return node.kind === "string" && !hasHidden(node.text, "prose") && !node.text.includes("\r");
    case "number":
      return node.kind === "string" || (node.kind === "literal" && /^-?[0-9]/.test(node.text));
    case "boolean":
      return node.kind === "literal" && (node.text === "true" || node.text === "false");
    case "choice":
    case "json":
      return true;
  }
}

/** The JSON of a field that was just added. */
export function initialValue(control: Control, schema: Schema): string {
  if (schema["default"] !== undefined) return JSON.stringify(schema["default"]);
  switch (control.kind) {
    case "text":
      return '""';
    case "number":
      return "0";
    case "boolean":
      return "false";
    case "choice":
      return control.choices[0]!;
    case "json":
      return schema["type"] === "array" ? "[]" : schema["type"] === "object" ? "{}" : "null";
  }
}
