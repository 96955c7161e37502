/** Parses a message from the ledger as far as possible: it may be of an older version, or damaged. */

import type { Json, JsonObject } from "../../api/types";

export type MessagePart =
  | { readonly kind: "text" | "reasoning"; readonly text: string }
  | { readonly kind: "call"; readonly id: string; readonly name: string; readonly args: string; readonly isComplete: boolean }
  | {
      readonly kind: "result";
      readonly id: string;
      readonly name: string;
      readonly content: Json;
      readonly isError: boolean;
    };

export interface Message {
  readonly role: string;
  readonly parts: readonly MessagePart[];
}

export function parseMessage(value: JsonObject): Message {
  const parts = Array.isArray(value["parts"]) ? (value["parts"] as readonly Json[]) : [];
  return { role: textOf(value["role"]), parts: parts.flatMap(parsePart) };
}

function parsePart(value: Json): readonly MessagePart[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  const part = value as JsonObject;
  const [id, name] = [textOf(part["id"]), textOf(part["name"])];
  switch (part["kind"]) {
    case "text":
    case "reasoning":
      return [{ kind: part["kind"], text: textOf(part["text"]) }];
    case "call":
      return [{ kind: "call", id, name, args: textOf(part["arguments"]), isComplete: part["complete"] !== false }];
    case "result":
      return [{ kind: "result", id, name, content: part["content"] ?? null, isError: part["is_error"] === true }];
    default:
      return [];
  }
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
