/** Sends decisions on approvals, and keeps their results. */

import { signal } from "@preact/signals";
import * as gateway from "../../api/gateway";
import type { Problem, Result } from "../../api/result";
import type { Approval } from "../../api/types";
import { refresh, pending } from "../../state/pending";
import { spellOut } from "../../text/hiddenCharacters";

export type DecisionInput =
  | { readonly kind: "approve" }
  /** JSON text, which is sent unchanged. */
  | { readonly kind: "change"; readonly text: string }
  | { readonly kind: "deny"; readonly why: string };

/** The id of the approval whose decision is being sent, and the last decision that was refused. */
export const sendingId = signal("");
export const refusal = signal<{ readonly id: string; readonly problem: Problem } | null>(null);
/** The last decision, shown on the page and announced by screen readers. */
export const announcement = signal("");

const DONE_LABELS: Readonly<Record<DecisionInput["kind"], string>> = {
  approve: "Approved",
  change: "Approved with changes",
  deny: "Denied",
};

/** Sends a decision. Returns whether the gateway accepted it. */
export async function decide(approval: Approval, decision: DecisionInput): Promise<boolean> {
  if (sendingId.value) return false;
  sendingId.value = approval.id;
  refusal.value = null;
  const result = await send(approval, decision);
  sendingId.value = "";
  if (!result.ok) {
    refusal.value = { id: approval.id, problem: result.problem };
    void refresh();
    return false;
  }
  const isOpen = result.value.state === "pending";
  const votes = isOpen ? ` (${result.value.votes} of ${result.value.needed} approvers)` : "";
  announcement.value = `${DONE_LABELS[decision.kind]}: ${spellOut(approval.tool)}${votes}`;
  if (!isOpen) pending.value = pending.value?.filter((other) => other.id !== approval.id) ?? null;
  void refresh();
  return true;
}

function send({ id, arguments_sha256 }: Approval, decision: DecisionInput): Promise<Result<Approval>> {
  switch (decision.kind) {
    case "approve":
      return gateway.decide(id, { approve: true, arguments_sha256 });
    case "change":
      return gateway.approveWith(id, decision.text, arguments_sha256);
    case "deny":
      return gateway.decide(id, { approve: false, why: decision.why });
  }
}
