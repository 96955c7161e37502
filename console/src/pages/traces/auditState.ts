/** Whether the audit logs of a trace's conversations are intact, as far as they were fetched. */

import type { Trace } from "../../api/types";
import type { LoadedConversations } from "./useTrace";

export interface AuditState {
  readonly verified: number;
  readonly total: number;
  readonly isBroken: boolean;
  /** The conversation to look at: the first broken one, or else the first. null if there is only one. */
  readonly number: number | null;
}

export function auditStateOf(trace: Trace, loaded: LoadedConversations): AuditState {
  const total = trace.conversations.length;
  const chains = trace.conversations.map((id) => {
    const result = loaded.get(id)?.result;
    return result?.ok ? result.value.audit.chain.holds : null;
  });
  const broken = chains.indexOf(false);
  return {
    verified: chains.filter((holds) => holds === true).length,
    total,
    isBroken: broken >= 0,
    number: total > 1 ? Math.max(0, broken) + 1 : null,
  };
}
