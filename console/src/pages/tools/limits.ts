/** What a schema demands of one value, in words: the bounds, the choices, and every keyword that has no words here. */

import type { Json, JsonObject } from "../../api/types";
import { isObject } from "../../json/fields";

export interface Limit {
  /** The keywords that it is said by. */
  readonly keywords: readonly string[];
  readonly words: string;
}

/** No demand of the value. */
const BESIDES: ReadonlySet<string> = new Set([
  ...["title", "description", "$defs", "definitions", "$schema", "$id", "$comment", "$anchor"],
]);

const isText = (value: Json): boolean => typeof value === "string";

/** Drawn by the tree itself, where the value is of the kind that it can draw. */
const DRAWN: Readonly<Record<string, (value: Json) => boolean>> = {
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
  readonly least: string;
  readonly most: string;
  readonly of: readonly [one: string, many: string];
}

const RANGES: readonly Range[] = [
  { least: "minimum", most: "maximum", of: ["", ""] },
  { least: "minLength", most: "maxLength", of: [" character", " characters"] },
  { least: "minItems", most: "maxItems", of: [" item", " items"] },
  { least: "minProperties", most: "maxProperties", of: [" field", " fields"] },
];

const WORDS: Readonly<Record<string, (value: Json) => string | null>> = {
  exclusiveMinimum: (value) => `over ${written(value)}`,
  exclusiveMaximum: (value) => `under ${written(value)}`,
  multipleOf: (value) => `a multiple of ${written(value)}`,
  pattern: (value) => `matches ${typeof value === "string" ? value : written(value)}`,
  format: (value) => `as ${typeof value === "string" ? value : written(value)}`,
  const: (value) => `always ${written(value)}`,
  default: (value) => `${written(value)} where it is not given`,
  enum: (value) => (Array.isArray(value) ? value.map(written).join(" | ") : null),
  uniqueItems: (value) => (value === true ? "no item twice" : ""),
  additionalProperties: (value) => (value === false ? "no other fields" : ""),
  items: (value) => (value === false ? "no other items" : null),
  unevaluatedProperties: (value) => (value === false ? "no other fields" : null),
};

export function limitsOf(shape: JsonObject): readonly Limit[] {
  const found: Limit[] = [];
  const said = new Set(BESIDES);
  for (const { least, most, of } of RANGES) {
    const words = rangeIn(shape[least], shape[most], of);
    if (!words) continue;
    found.push({ keywords: [least, most].filter((word) => word in shape), words });
    said.add(least).add(most);
  }
  for (const [keyword, value] of Object.entries(shape)) {
    if (said.has(keyword) || (Object.hasOwn(DRAWN, keyword) && DRAWN[keyword]!(value))) continue;
    const words = Object.hasOwn(WORDS, keyword) ? WORDS[keyword]!(value) : null;
    if (words !== "") found.push({ keywords: [keyword], words: words ?? `${keyword}: ${written(value)}` });
  }
  return found;
}

function rangeIn(least: Json | undefined, most: Json | undefined, of: Range["of"]): string {
  const counted = (value: number): string => `${value}${value === 1 ? of[0] : of[1]}`;
  if (typeof least === "number" && typeof most === "number") {
    return least === most ? `exactly ${counted(least)}` : `${least} to ${counted(most)}`;
  }
  if (typeof least === "number") return `at least ${counted(least)}`;
  return typeof most === "number" ? `at most ${counted(most)}` : "";
}

function written(value: Json): string {
  return JSON.stringify(value);
}
