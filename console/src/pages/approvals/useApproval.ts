/** One approval: from the queue while it is pending, and fetched from the gateway otherwise. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Result } from "../../api/result";
import type { Approval } from "../../api/types";
import { pending } from "../../state/pending";

export interface FetchedApproval {
  readonly result: Result<Approval> | null;
  readonly reload: () => void;
}

export function useApproval(id: string): FetchedApproval {
  const pendingApproval = pending.value?.find((approval) => approval.id === id);
  const [fetched, setFetched] = useState<{ readonly id: string; readonly result: Result<Approval> } | null>(null);
  const [count, setCount] = useState(0);
  const isPending = pendingApproval !== undefined;
  useEffect(() => {
    if (!id || isPending) return;
    const request = new AbortController();
    void gateway.approval(id, { signal: request.signal }).then((result) => {
      if (!request.signal.aborted) setFetched({ id, result });
    });
    return () => request.abort();
  }, [id, isPending, count]);
  const fetchedResult = fetched?.id === id ? fetched.result : null;
  const result = pendingApproval ? ({ ok: true, value: pendingApproval } as const) : fetchedResult;
  return { result, reload: () => setCount(count + 1) };
}
