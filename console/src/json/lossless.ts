/**
 * Lossless JSON: numbers keep their spelling, however long they are, and keys keep their order, even if one occurs twice.
 * Arguments that a person approves or sends use these functions, because `JSON.parse` rounds long numbers.
 */

import { segments } from "../text/hiddenCharacters";
import { PartialParser, type Field, type ObjectNode, type JsonNode, type StringNode } from "./partialParser";

export type ParseResult = { readonly node: JsonNode } | { readonly fault: string };

/** One step of a path: an object key or an array index. */
export type PathStep = string | number;

export function parse(text: string): ParseResult {
  try {
    JSON.parse(text);
  } catch (error) {
    return { fault: `Invalid JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  const parser = new PartialParser();
  // A number at the very end is complete only when another character follows it.
  parser.feed(`${text} `);
  return parser.root && !parser.fault ? { node: parser.root } : { fault: `Invalid JSON: ${parser.fault}` };
}

/** Parses the arguments of a call, which must be an object. */
export function parseObject(text: string): { readonly node: ObjectNode } | { readonly fault: string } {
  const result = parse(text);
  if ("fault" in result) return result;
  return result.node.kind === "object" ? { node: result.node } : { fault: "Arguments must be an object: { ... }." };
}

/** Formats a node as JSON text: one value per line, or everything on one line if `indent` is 0. */
export function stringify(node: JsonNode, indent = 2, depth = 0): string {
  const inner = indent ? `\n${" ".repeat(indent * (depth + 1))}` : "";
  const outer = indent ? `\n${" ".repeat(indent * depth)}` : "";
  switch (node.kind) {
    case "string":
      return quote(node.text);
    case "literal":
      return node.text;
    case "array":
      if (node.items.length === 0) return "[]";
      return `[${node.items.map((item) => inner + stringify(item, indent, depth + 1)).join(",")}${outer}]`;
    case "object": {
      if (node.fields.length === 0) return "{}";
      const space = indent ? " " : "";
      const fields = valuesOf(node).map(
        ([key, value]) => `${inner}${quote(key)}:${space}${stringify(value, indent, depth + 1)}`,
      );
      return `{${fields.join(",")}${outer}}`;
    }
  }
}

/** Quotes a text as a JSON string in which every hidden character is escaped, and so visible. */
function quote(text: string): string {
  return segments(JSON.stringify(text), "exact")
    .map((segment) => ("hidden" in segment ? escapeCharacter(segment.hidden) : segment.text))
    .join("");
}

function escapeCharacter(character: string): string {
  return Array.from({ length: character.length }, (_, at) =>
    `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}

export function valuesOf(node: ObjectNode): readonly (readonly [string, JsonNode])[] {
  return node.fields.map((field) => [field.key.text, field.value ?? literalNode("null")] as const);
}

export function valueAt(node: JsonNode, name: string): JsonNode | null {
  if (node.kind !== "object") return null;
  // If a key occurs twice, JSON parsers use the last value.
  return node.fields.findLast((field) => field.key.text === name)?.value ?? null;
}

/** Copies the object with `value` under `name`, or without `name` if `value` is null. The other fields stay as they are. */
export function withValue(node: ObjectNode, name: string, value: JsonNode | null): ObjectNode {
  const at = node.fields.findLastIndex((field) => field.key.text === name);
  const fields = node.fields.filter((field, place) => place === at || field.key.text !== name);
  const place = fields.findIndex((field) => field.key.text === name);
  if (value === null) return { ...node, fields: fields.filter((_, index) => index !== place) };
  const field: Field = { key: stringNode(name), value };
  if (place < 0) return { ...node, fields: [...fields, field] };
  return { ...node, fields: fields.map((segment, index) => (index === place ? field : segment)) };
}

export function stringNode(text: string): StringNode {
  return { kind: "string", text, isComplete: true };
}

export function literalNode(text: string): JsonNode {
  return { kind: "literal", text, isComplete: true };
}

/** Whether all numbers survive being parsed as 64-bit floats and formatted again. */
export function isSafeAsFloat(node: JsonNode): boolean {
  switch (node.kind) {
    case "string":
      return true;
    case "literal":
      return /^(?:true|false|null)$/.test(node.text) || String(Number(node.text)) === node.text;
    case "array":
      return node.items.every(isSafeAsFloat);
    case "object":
      return node.fields.every((field) => field.value === null || isSafeAsFloat(field.value));
  }
}
