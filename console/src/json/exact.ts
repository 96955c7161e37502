/**
 * JSON whose every character counts: numbers stay as they are written, however long, and keys in their order, however
 * often they come. What a person decides by and what is sent goes through here, never through `JSON.parse` and back.
 */

import { segments } from "../text/hidden";
import { PartialReader, type Field, type ObjectPart, type Part, type StringPart } from "./partial";

export type Read = { readonly part: Part } | { readonly fault: string };

/** One step into a value: a key, or the place in a list. */
export type Step = string | number;

export function read(text: string): Read {
  try {
    JSON.parse(text);
  } catch (error) {
    return { fault: `This is no JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  const reader = new PartialReader();
  // A number at the very end is whole only when something follows it.
  reader.feed(`${text} `);
  return reader.root && !reader.fault ? { part: reader.root } : { fault: `This is no JSON: ${reader.fault}` };
}

/** The arguments of a call are an object. */
export function readObject(text: string): { readonly part: ObjectPart } | { readonly fault: string } {
  const found = read(text);
  if ("fault" in found) return found;
  return found.part.kind === "object" ? { part: found.part } : { fault: "Arguments are an object: { ... }." };
}

/** As text: one value to a line, or all on one line where `indent` is 0. */
export function written(part: Part, indent = 2, depth = 0): string {
  const inner = indent ? `\n${" ".repeat(indent * (depth + 1))}` : "";
  const outer = indent ? `\n${" ".repeat(indent * depth)}` : "";
  switch (part.kind) {
    case "string":
      return quoted(part.text);
    case "word":
      return part.text;
    case "list":
      if (part.items.length === 0) return "[]";
      return `[${part.items.map((item) => inner + written(item, indent, depth + 1)).join(",")}${outer}]`;
    case "object": {
      if (part.fields.length === 0) return "{}";
      const space = indent ? " " : "";
      const fields = valuesOf(part).map(
        ([key, value]) => `${inner}${quoted(key)}:${space}${written(value, indent, depth + 1)}`,
      );
      return `{${fields.join(",")}${outer}}`;
    }
  }
}

/** A text as JSON in which everything can be seen: what is hidden is escaped, which means the same. */
function quoted(text: string): string {
  return segments(JSON.stringify(text), "exact")
    .map((one) => ("hidden" in one ? escaped(one.hidden) : one.text))
    .join("");
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, at) =>
    `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}

export function valuesOf(part: ObjectPart): readonly (readonly [string, Part])[] {
  return part.fields.map((field) => [field.key.text, field.value ?? word("null")] as const);
}

export function valueAt(part: Part, name: string): Part | null {
  if (part.kind !== "object") return null;
  // Of a key that comes twice, programs take the last.
  return part.fields.findLast((field) => field.key.text === name)?.value ?? null;
}

/** Another object with `value` under `name`; without it where there is none. The rest stays as it is. */
export function withValue(part: ObjectPart, name: string, value: Part | null): ObjectPart {
  const at = part.fields.findLastIndex((field) => field.key.text === name);
  const fields = part.fields.filter((field, place) => place === at || field.key.text !== name);
  const place = fields.findIndex((field) => field.key.text === name);
  if (value === null) return { ...part, fields: fields.filter((_, other) => other !== place) };
  const field: Field = { key: string(name), value };
  if (place < 0) return { ...part, fields: [...fields, field] };
  return { ...part, fields: fields.map((one, other) => (other === place ? field : one)) };
}

export function string(text: string): StringPart {
  return { kind: "string", text, isWhole: true };
}

export function word(text: string): Part {
  return { kind: "word", text, isWhole: true };
}

/** Whether a program that reads numbers as 64-bit floats and writes them again writes the same numbers. */
export function isKeptByNumbers(part: Part): boolean {
  switch (part.kind) {
    case "string":
      return true;
    case "word":
      return /^(?:true|false|null)$/.test(part.text) || String(Number(part.text)) === part.text;
    case "list":
      return part.items.every(isKeptByNumbers);
    case "object":
      return part.fields.every((field) => field.value === null || isKeptByNumbers(field.value));
  }
}
