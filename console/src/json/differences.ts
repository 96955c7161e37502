/** What is not the same in two JSON texts, place by place, in the words in which they are written. */

import { valuesOf, written, type Step } from "./exact";
import type { ObjectPart, Part } from "./partial";

export interface Difference {
  readonly path: readonly Step[];
  /** JSON; null where there was nothing. */
  readonly before: string | null;
  readonly now: string | null;
}

export function differences(before: Part, now: Part, path: readonly Step[] = []): readonly Difference[] {
  if (before.kind === "object" && now.kind === "object") return inFields(before, now, path);
  if (before.kind === "list" && now.kind === "list") {
    const most = Math.max(before.items.length, now.items.length);
    return Array.from({ length: most }, (_, at) =>
      between(before.items[at] ?? null, now.items[at] ?? null, [...path, at]),
    ).flat();
  }
  const [old, young] = [written(before, 0), written(now, 0)];
  return old === young ? [] : [{ path, before: old, now: young }];
}

function inFields(before: ObjectPart, now: ObjectPart, path: readonly Step[]): readonly Difference[] {
  const [old, young] = [new Map(valuesOf(before)), new Map(valuesOf(now))];
  const names = new Set([...young.keys(), ...old.keys()]);
  return [...names].flatMap((name) => between(old.get(name) ?? null, young.get(name) ?? null, [...path, name]));
}

function between(before: Part | null, now: Part | null, path: readonly Step[]): readonly Difference[] {
  if (before && now) return differences(before, now, path);
  return [{ path, before: before && written(before, 0), now: now && written(now, 0) }];
}

/** A path for people: `to`, `files[2].name`, `["odd key"]`. */
export function named(path: readonly Step[]): string {
  const words = path.map((step, at) => {
    if (typeof step === "number") return `[${step}]`;
    if (!/^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(step)) return `[${JSON.stringify(step)}]`;
    return at === 0 ? step : `.${step}`;
  });
  return words.join("") || "(all of it)";
}

/** The steps of a JSON pointer. */
export function stepsOf(pointer: string): readonly string[] {
  if (pointer === "") return [];
  return pointer
    .replace(/^\//, "")
    .split("/")
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}
