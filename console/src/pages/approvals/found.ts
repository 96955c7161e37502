/** One approval: from the queue as long as it waits there, and otherwise as the gateway tells it. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Result } from "../../api/result";
import type { Approval } from "../../api/types";
import { pending } from "../../state/pending";

export interface Found {
  readonly result: Result<Approval> | null;
  readonly again: () => void;
}

export function useApproval(id: string): Found {
  const waiting = pending.value?.find((one) => one.id === id);
  const [fetched, setFetched] = useState<{ readonly id: string; readonly result: Result<Approval> } | null>(null);
  const [count, setCount] = useState(0);
  const isThere = waiting !== undefined;
  useEffect(() => {
    if (!id || isThere) return;
    const asking = new AbortController();
    void gateway.approval(id, { signal: asking.signal }).then((result) => {
      if (!asking.signal.aborted) setFetched({ id, result });
    });
    return () => asking.abort();
  }, [id, isThere, count]);
  const result = waiting ? ({ ok: true, value: waiting } as const) : fetched?.id === id ? fetched.result : null;
  return { result, again: () => setCount(count + 1) };
}
