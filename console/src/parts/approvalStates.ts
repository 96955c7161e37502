/** Labels for the states of an approval. */

import type { Approval, ApprovalState } from "../api/types";
import type { Tone } from "./Badge";

const STATES: Readonly<Record<ApprovalState, { readonly label: string; readonly tone: Tone }>> = {
  pending: { label: "pending", tone: "warn" },
  approved: { label: "approved, not run yet", tone: "good" },
  redeemed: { label: "approved and run", tone: "good" },
  denied: { label: "denied", tone: "bad" },
  replaced: { label: "expired, requested again", tone: "plain" },
  expired: { label: "expired", tone: "plain" },
};

/** A state that this page does not know is shown as it is. */
export function stateOf(approval: Approval): { readonly label: string; readonly tone: Tone } {
  return STATES[approval.state] ?? { label: approval.state, tone: "plain" };
}
