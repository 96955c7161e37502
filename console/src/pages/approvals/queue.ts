/** The order of the queue, navigation in it, and the meaning of keys. Pure functions. */

import type { Approval, Schema } from "../../api/types";
import { parse, valueAt, stringify } from "../../json/lossless";

/** The oldest first: new approvals are appended, so that nothing moves while you click. */
export function sortByAge(waiting: readonly Approval[]): readonly Approval[] {
  return [...waiting].sort((one, other) => one.requested_at - other.requested_at || (one.id < other.id ? -1 : 1));
}

/** The approval `step` away, or the same one at either end. The first one if `id` is not in the list. */
export function neighbour(list: readonly Approval[], id: string, step: 1 | -1): Approval | undefined {
  const index = list.findIndex((approval) => approval.id === id);
  if (index < 0) return list[0];
  return list[Math.min(list.length - 1, Math.max(0, index + step))];
}

/** The approval to select after `id` is decided: the next one, or else the previous one. */
export function nextAfter(list: readonly Approval[], id: string): Approval | undefined {
  const index = list.findIndex((approval) => approval.id === id);
  return index < 0 ? list[0] : (list[index + 1] ?? list[index - 1]);
}

export type Action = "next" | "previous" | "approve" | "deny" | "edit" | "help" | "tab";

export interface KeyPress {
  readonly key: string;
  readonly isModified: boolean;
  /** The key is held down. */
  readonly isRepeated: boolean;
  /** The focus is in an element where keys type or select something. */
  readonly isTyping: boolean;
  readonly isInList: boolean;
}

const ACTIONS: Readonly<Record<string, Action>> = {
  j: "next",
  k: "previous",
  a: "approve",
  d: "deny",
  e: "edit",
  t: "tab",
  "?": "help",
};
const LIST_ACTIONS: Readonly<Record<string, Action>> = { ArrowDown: "next", ArrowUp: "previous" };
const REPEATABLE: ReadonlySet<Action> = new Set(["next", "previous"]);

export function actionOf(press: KeyPress): Action | null {
  if (press.isModified || press.isTyping) return null;
  const action = ACTIONS[press.key] ?? (press.isInList ? LIST_ACTIONS[press.key] : undefined);
  if (!action) return null;
  return press.isRepeated && !REPEATABLE.has(action) ? null : action;
}

/** In milliseconds. A second key press meant for the previous approval must not decide one that nobody has seen. */
export const MIN_VIEW_MS = 500;

export function isSeenLongEnough(shownAt: number, now: number): boolean {
  return now - shownAt >= MIN_VIEW_MS;
}

const QUESTION = { conversation: "asked-", calls: ["question", "sampling"] } as const;

/** Whether an MCP server asks it during a call: to fill in a form, to open an address, or for a model's answer. */
export function isQuestion(approval: Approval): boolean {
  return approval.conversation.startsWith(QUESTION.conversation) && QUESTION.calls.some((id) => id === approval.call_id);
}

/** Whether it is a question with a form for the answer. */
export function hasForm(approval: Approval): boolean {
  return isQuestion(approval) && parseQuestion(approval).schema !== null;
}

export interface Question {
  readonly message: string;
  readonly url: string;
  /** The host of the address, as a browser reads it. */
  readonly host: string;
  /** The model that the server asks; empty if it asks a person. */
  readonly model: string;
  /** The schema of the answer; null if the server sent none. */
  readonly schema: Schema | null;
  /** JSON text. */
  readonly answer: string;
}

export function parseQuestion(approval: Approval): Question {
  const parsed = parse(approval.arguments);
  const memberAt = (name: string) => ("node" in parsed ? valueAt(parsed.node, name) : null);
  const text = (name: string): string => {
    const node = memberAt(name);
    return node?.kind === "string" ? node.text : "";
  };
  const [schema, answer] = [memberAt("schema"), memberAt("answer")];
  return {
    message: text("message"),
    url: text("url"),
    host: text("host"),
    model: text("model"),
    schema: schema?.kind === "object" ? (JSON.parse(stringify(schema, 0)) as Schema) : null,
    answer: answer ? stringify(answer, 0) : "{}",
  };
}

/** Whether it can still be decided. */
export function isDecidable(approval: Approval, now: number): boolean {
  return approval.state === "pending" && approval.expires_at > now;
}
