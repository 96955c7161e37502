/** Whether two texts are equal as JSON, regardless of whitespace and key order. */

import { PartialParser, type JsonNode } from "./partialParser";

export function isSameJson(one: string, other: string): boolean {
  if (one === other) return true;
  const [first, second] = [parse(one), parse(other)];
  return first !== null && second !== null && isSame(first, second);
}

function parse(text: string): JsonNode | null {
  const parser = new PartialParser();
  // A number at the very end is complete only when another character follows it.
  parser.feed(`${text} `);
  return parser.fault === "" && parser.root?.isComplete ? parser.root : null;
}

function isSame(one: JsonNode, other: JsonNode): boolean {
  if (one.kind === "string") return other.kind === "string" && one.text === other.text;
  if (one.kind === "literal") return other.kind === "literal" && isSameLiteral(one.text, other.text);
  if (one.kind === "array") {
    if (other.kind !== "array" || one.items.length !== other.items.length) return false;
    return one.items.every((item, at) => isSame(item, other.items[at]!));
  }
  if (other.kind !== "object") return false;
  const [values, otherValues] = [lastValues(one.fields), lastValues(other.fields)];
  if (values.size !== otherValues.size) return false;
  return [...values].every(([key, node]) => otherValues.has(key) && isSame(node, otherValues.get(key)!));
}

/** If a key occurs twice, the last value counts. */
function lastValues(fields: readonly { key: { text: string }; value: JsonNode | null }[]): Map<string, JsonNode> {
  return new Map(fields.flatMap(({ key, value }) => (value ? [[key.text, value] as const] : [])));
}

/** `2.0` equals `2`. Beyond JavaScript's safe integers, only equal spellings are equal. */
function isSameLiteral(one: string, other: string): boolean {
  if (one === other) return true;
  const [first, second] = [Number(one), Number(other)];
  return first === second && Math.abs(first) <= Number.MAX_SAFE_INTEGER;
}
