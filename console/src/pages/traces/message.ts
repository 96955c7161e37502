/** A message of the ledger's, read as far as it can be: what is kept may be older, or spoiled. */

import type { Json, JsonObject } from "../../api/types";

export type MessagePart =
  | { readonly kind: "text" | "reasoning"; readonly text: string }
  | { readonly kind: "call"; readonly id: string; readonly name: string; readonly args: string; readonly isWhole: boolean }
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

export function messageIn(given: JsonObject): Message {
  const parts = Array.isArray(given["parts"]) ? (given["parts"] as readonly Json[]) : [];
  return { role: textOf(given["role"]), parts: parts.flatMap(partIn) };
}

function partIn(given: Json): readonly MessagePart[] {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return [];
  const one = given as JsonObject;
  const [id, name] = [textOf(one["id"]), textOf(one["name"])];
  switch (one["kind"]) {
    case "text":
    case "reasoning":
      return [{ kind: one["kind"], text: textOf(one["text"]) }];
    case "call":
      return [{ kind: "call", id, name, args: textOf(one["arguments"]), isWhole: one["complete"] !== false }];
    case "result":
      return [{ kind: "result", id, name, content: one["content"] ?? null, isError: one["is_error"] === true }];
    default:
      return [];
  }
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
