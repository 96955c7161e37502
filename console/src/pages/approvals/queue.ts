/** The order of the queue, where one goes in it, and what keys mean. Pure. */

import type { Approval, Schema } from "../../api/types";
import { read, valueAt, written } from "../../json/exact";

/** The oldest first: what comes in later stands behind, so that nothing moves under anybody's fingers. */
export function inOrder(waiting: readonly Approval[]): readonly Approval[] {
  return [...waiting].sort((one, other) => one.requested_at - other.requested_at || (one.id < other.id ? -1 : 1));
}

/** The one `step` further, or the same at either end. From outside of the list one comes to its beginning. */
export function further(list: readonly Approval[], id: string, step: 1 | -1): Approval | undefined {
  const at = list.findIndex((one) => one.id === id);
  if (at < 0) return list[0];
  return list[Math.min(list.length - 1, Math.max(0, at + step))];
}

/** Whom to turn to once `id` is decided on: the one behind it, else the one before. */
export function afterwards(list: readonly Approval[], id: string): Approval | undefined {
  const at = list.findIndex((one) => one.id === id);
  return at < 0 ? list[0] : (list[at + 1] ?? list[at - 1]);
}

export type Action = "next" | "previous" | "approve" | "deny" | "edit" | "help" | "tab";

export interface Press {
  readonly key: string;
  readonly isModified: boolean;
  /** The key was held down. */
  readonly isRepeated: boolean;
  /** The focus is where keys write or choose something. */
  readonly isTyping: boolean;
  readonly isInList: boolean;
}

const KEYS: Readonly<Record<string, Action>> = {
  j: "next",
  k: "previous",
  a: "approve",
  d: "deny",
  e: "edit",
  t: "tab",
  "?": "help",
};
const IN_LIST: Readonly<Record<string, Action>> = { ArrowDown: "next", ArrowUp: "previous" };
const MAY_REPEAT: ReadonlySet<Action> = new Set(["next", "previous"]);

export function actionOf(press: Press): Action | null {
  if (press.isModified || press.isTyping) return null;
  const action = KEYS[press.key] ?? (press.isInList ? IN_LIST[press.key] : undefined);
  if (!action) return null;
  return press.isRepeated && !MAY_REPEAT.has(action) ? null : action;
}

/** A second press that was meant for the one before must not decide on one that nobody has seen. */
export const LOOK = 500;

export function isSeen(shownAt: number, now: number): boolean {
  return now - shownAt >= LOOK;
}

const QUESTION = { conversation: "asked-", call: "question" } as const;

/** Whether a server asks a person something, in the course of a call; then there is a form to be filled in. */
export function isQuestion(one: Approval): boolean {
  return one.conversation.startsWith(QUESTION.conversation) && one.call_id === QUESTION.call;
}

export interface Question {
  readonly message: string;
  readonly url: string;
  /** Of the answer; null where the server wants none in particular. */
  readonly schema: Schema | null;
  /** JSON, as it is written. */
  readonly answer: string;
}

export function questionIn(one: Approval): Question {
  const found = read(one.arguments);
  const at = (name: string) => ("part" in found ? valueAt(found.part, name) : null);
  const text = (name: string): string => {
    const part = at(name);
    return part?.kind === "string" ? part.text : "";
  };
  const [schema, answer] = [at("schema"), at("answer")];
  return {
    message: text("message"),
    url: text("url"),
    schema: schema?.kind === "object" ? (JSON.parse(written(schema, 0)) as Schema) : null,
    answer: answer ? written(answer, 0) : "{}",
  };
}

/** Whether it still may be decided on. */
export function isOpen(one: Approval, now: number): boolean {
  return one.state === "pending" && one.expires_at > now;
}
