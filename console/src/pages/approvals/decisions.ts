/** Words on approvals: sending them, and what has become of each. */

import { signal } from "@preact/signals";
import * as gateway from "../../api/gateway";
import type { Problem, Result } from "../../api/result";
import type { Approval } from "../../api/types";
import { look, pending } from "../../state/pending";
import { spelled } from "../../text/hidden";

export type Word =
  | { readonly kind: "approve" }
  /** JSON text, sent as it is written. */
  | { readonly kind: "change"; readonly text: string }
  | { readonly kind: "deny"; readonly why: string };

/** Of which approval a word is under way, and whose was not taken. */
export const sending = signal("");
export const refused = signal<{ readonly id: string; readonly problem: Problem } | null>(null);
/** The last that was decided here, for who listens and for who looks. */
export const told = signal("");

const DONE: Readonly<Record<Word["kind"], string>> = { approve: "Approved", change: "Changed and approved", deny: "Denied" };

/** Whether it was taken. */
export async function decide(one: Approval, word: Word): Promise<boolean> {
  if (sending.value) return false;
  sending.value = one.id;
  refused.value = null;
  const answer = await sent(one.id, word);
  sending.value = "";
  if (!answer.ok) {
    refused.value = { id: one.id, problem: answer.problem };
    void look();
    return false;
  }
  told.value = `${DONE[word.kind]}: ${spelled(one.tool)}`;
  pending.value = pending.value?.filter((other) => other.id !== one.id) ?? null;
  void look();
  return true;
}

function sent(id: string, word: Word): Promise<Result<Approval>> {
  switch (word.kind) {
    case "approve":
      return gateway.decide(id, { approve: true });
    case "change":
      return gateway.approveWith(id, word.text);
    case "deny":
      return gateway.decide(id, { approve: false, why: word.why });
  }
}
