/** Describes what a schema requires of a value: bounds, choices, and all other keywords as they are written. */

import type { Json, JsonObject } from "../../api/types";
import { isObject } from "../../json/fields";

export interface Limit {
  /** The keywords that it describes. */
  readonly keywords: readonly string[];
  readonly text: string;
}

/** Keywords that do not constrain the value. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  ...["title", "description", "$defs", "definitions", "$schema", "$id", "$comment", "$anchor"],
]);

const isText = (value: Json): boolean => typeof value === "string";

/** Keywords that the tree itself shows, if their value has the expected type. */
const DRAWN_BY_TREE: Readonly<Record<string, (value: Json) => boolean>> = {
  type: (value) => isText(value) || Array.isArray(value),
  properties: isObject,
  patternProperties: isObject,
  required: Array.isArray,
  items: isObject,
  prefixItems: Array.isArray,
  anyOf: Array.isArray,
  oneOf: Array.isArray,
  allOf: Array.isArray,
};

interface Range {
  readonly minimum: string;
  readonly maximum: string;
  readonly unit: readonly [one: string, many: string];
}

const RANGES: readonly Range[] = [
  { minimum: "minimum", maximum: "maximum", unit: ["", ""] },
  { minimum: "minLength", maximum: "maxLength", unit: [" character", " characters"] },
  { minimum: "minItems", maximum: "maxItems", unit: [" item", " items"] },
  { minimum: "minProperties", maximum: "maxProperties", unit: [" field", " fields"] },
];

const DESCRIPTIONS: Readonly<Record<string, (value: Json) => string | null>> = {
  exclusiveMinimum: (value) => `over ${format(value)}`,
  exclusiveMaximum: (value) => `under ${format(value)}`,
  multipleOf: (value) => `a multiple of ${format(value)}`,
  pattern: (value) => `matches ${typeof value === "string" ? value : format(value)}`,
  format: (value) => `format ${typeof value === "string" ? value : format(value)}`,
  const: (value) => `always ${format(value)}`,
  default: (value) => `${format(value)} by default`,
  enum: (value) => (Array.isArray(value) ? value.map(format).join(" | ") : null),
  uniqueItems: (value) => (value === true ? "no item twice" : ""),
  additionalProperties: (value) => (value === false ? "no other fields" : ""),
  items: (value) => (value === false ? "no other items" : null),
  unevaluatedProperties: (value) => (value === false ? "no other fields" : null),
};

export function limitsOf(shape: JsonObject): readonly Limit[] {
  const limits: Limit[] = [];
  const handled = new Set(ANNOTATIONS);
  for (const { minimum, maximum, unit } of RANGES) {
    const text = rangeText(shape[minimum], shape[maximum], unit);
    if (!text) continue;
    limits.push({ keywords: [minimum, maximum].filter((keyword) => keyword in shape), text });
    handled.add(minimum).add(maximum);
  }
  for (const [keyword, value] of Object.entries(shape)) {
    if (handled.has(keyword) || (Object.hasOwn(DRAWN_BY_TREE, keyword) && DRAWN_BY_TREE[keyword]!(value))) continue;
    const text = Object.hasOwn(DESCRIPTIONS, keyword) ? DESCRIPTIONS[keyword]!(value) : null;
    if (text !== "") limits.push({ keywords: [keyword], text: text ?? `${keyword}: ${format(value)}` });
  }
  return limits;
}

function rangeText(minimum: Json | undefined, maximum: Json | undefined, unit: Range["unit"]): string {
  const withUnit = (value: number): string => `${value}${value === 1 ? unit[0] : unit[1]}`;
  if (typeof minimum === "number" && typeof maximum === "number") {
    return minimum === maximum ? `exactly ${withUnit(minimum)}` : `${minimum} to ${withUnit(maximum)}`;
  }
  if (typeof minimum === "number") return `at least ${withUnit(minimum)}`;
  return typeof maximum === "number" ? `at most ${withUnit(maximum)}` : "";
}

function format(value: Json): string {
  return JSON.stringify(value);
}
