/** The state of an approval in words. */

import type { Approval, ApprovalState } from "../api/types";
import type { Tone } from "./Badge";

const STATES: Readonly<Record<ApprovalState, { readonly word: string; readonly tone: Tone }>> = {
  pending: { word: "waits", tone: "warn" },
  approved: { word: "approved, not run yet", tone: "good" },
  redeemed: { word: "approved and run", tone: "good" },
  denied: { word: "denied", tone: "bad" },
  replaced: { word: "ran out, asked anew", tone: "plain" },
  expired: { word: "ran out", tone: "plain" },
};

/** A state that is newer than this page is shown as it is. */
export function stateOf(one: Approval): { readonly word: string; readonly tone: Tone } {
  return STATES[one.state] ?? { word: one.state, tone: "plain" };
}
