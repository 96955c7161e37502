/** Whether two texts are the same JSON, whatever their spaces and the order of their keys. */

import { PartialReader, type Part } from "./partial";

export function isSameJson(one: string, other: string): boolean {
  if (one === other) return true;
  const [first, second] = [read(one), read(other)];
  return first !== null && second !== null && isSame(first, second);
}

function read(text: string): Part | null {
  const reader = new PartialReader();
  // A number at the very end is whole only when something follows it.
  reader.feed(`${text} `);
  return reader.fault === "" && reader.root?.isWhole ? reader.root : null;
}

function isSame(one: Part, other: Part): boolean {
  if (one.kind === "string") return other.kind === "string" && one.text === other.text;
  if (one.kind === "word") return other.kind === "word" && isSameWord(one.text, other.text);
  if (one.kind === "list") {
    if (other.kind !== "list" || one.items.length !== other.items.length) return false;
    return one.items.every((item, at) => isSame(item, other.items[at]!));
  }
  if (other.kind !== "object") return false;
  const [mine, others] = [valuesIn(one.fields), valuesIn(other.fields)];
  return mine.size === others.size && [...mine].every(([key, part]) => others.has(key) && isSame(part, others.get(key)!));
}

/** Of a key that comes twice, the last counts. */
function valuesIn(fields: readonly { key: { text: string }; value: Part | null }[]): Map<string, Part> {
  return new Map(fields.flatMap(({ key, value }) => (value ? [[key.text, value] as const] : [])));
}

/** `2.0` is `2`; beyond what a number here can hold, only the same digits are the same. */
function isSameWord(one: string, other: string): boolean {
  if (one === other) return true;
  const [first, second] = [Number(one), Number(other)];
  return first === second && Math.abs(first) <= Number.MAX_SAFE_INTEGER;
}
