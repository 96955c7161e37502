/** The differences between two JSON texts, path by path, with the values as they are written. */

import { valuesOf, stringify, type PathStep } from "./lossless";
import type { ObjectNode, JsonNode } from "./partialParser";

export interface Difference {
  readonly path: readonly PathStep[];
  /** JSON text; null if the value is absent. */
  readonly before: string | null;
  readonly now: string | null;
}

export function differences(before: JsonNode, now: JsonNode, path: readonly PathStep[] = []): readonly Difference[] {
  if (before.kind === "object" && now.kind === "object") return objectDifferences(before, now, path);
  if (before.kind === "array" && now.kind === "array") {
    const length = Math.max(before.items.length, now.items.length);
    return Array.from({ length }, (_, index) =>
      valueDifferences(before.items[index] ?? null, now.items[index] ?? null, [...path, index]),
    ).flat();
  }
  const [previous, current] = [stringify(before, 0), stringify(now, 0)];
  return previous === current ? [] : [{ path, before: previous, now: current }];
}

function objectDifferences(before: ObjectNode, now: ObjectNode, path: readonly PathStep[]): readonly Difference[] {
  const [previous, current] = [new Map(valuesOf(before)), new Map(valuesOf(now))];
  const names = new Set([...current.keys(), ...previous.keys()]);
  return [...names].flatMap((name) =>
    valueDifferences(previous.get(name) ?? null, current.get(name) ?? null, [...path, name]),
  );
}

function valueDifferences(before: JsonNode | null, now: JsonNode | null, path: readonly PathStep[]): readonly Difference[] {
  if (before && now) return differences(before, now, path);
  return [{ path, before: before && stringify(before, 0), now: now && stringify(now, 0) }];
}

/** Formats a path for display: `to`, `files[2].name`, `["odd key"]`. */
export function formatPath(path: readonly PathStep[]): string {
  const parts = path.map((step, index) => {
    if (typeof step === "number") return `[${step}]`;
    if (!/^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(step)) return `[${JSON.stringify(step)}]`;
    return index === 0 ? step : `.${step}`;
  });
  return parts.join("") || "(entire value)";
}

/** Splits a JSON pointer into its steps. */
export function stepsOf(pointer: string): readonly string[] {
  if (pointer === "") return [];
  return pointer
    .replace(/^\//, "")
    .split("/")
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}
