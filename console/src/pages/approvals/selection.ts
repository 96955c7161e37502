/** Which pending approvals are shown and ticked, and the decision on several of them in one request. */

import { signal } from "@preact/signals";
import * as gateway from "../../api/gateway";
import type { Approval } from "../../api/types";
import { pending, refresh } from "../../state/pending";
import { announcement, sendingId } from "./decisions";

export const filter = signal("");
export const selected = signal<ReadonlySet<string>>(new Set());

/** Whether an approval contains the text, in its tool, principal, conversation or arguments. */
export function matches(approval: Approval, text: string): boolean {
  const needle = text.trim().toLowerCase();
  const parts = [approval.tool, approval.principal, approval.conversation, approval.shown];
  return !needle || parts.some((part) => part.toLowerCase().includes(needle));
}

export function toggle(id: string): void {
  const next = new Set(selected.value);
  if (!next.delete(id)) next.add(id);
  selected.value = next;
}

/** Decides on every ticked approval that is still shown. Those that are refused stay ticked. */
export async function decideSelected(shown: readonly Approval[], approve: boolean): Promise<void> {
  const chosen = shown.filter((approval) => selected.value.has(approval.id));
  if (!chosen.length || sendingId.value) return;
  sendingId.value = "several";
  const answer = await gateway.decideSeveral(
    chosen.map(({ id, arguments_sha256 }) => ({ id, approve, ...(approve ? { arguments_sha256 } : {}) })),
  );
  sendingId.value = "";
  const verb = approve ? "Approved" : "Denied";
  if (!answer.ok) {
    announcement.value = `Nothing was decided: ${answer.problem.message}`;
    return;
  }
  const results = answer.value.data;
  const refused = results.filter((result) => result.error);
  const done = new Set(results.filter((result) => !result.error).map((result) => result.id));
  selected.value = new Set(refused.map((result) => result.id));
  const reasons = [...new Set(refused.map((result) => result.error?.message))].join("; ");
  announcement.value = `${verb} ${done.size} of ${results.length}${reasons ? `. Refused: ${reasons}` : ""}`;
  pending.value = pending.value?.filter((approval) => !done.has(approval.id)) ?? null;
  void refresh();
}
