/** Fetches the keys of the ledger, a page at a time. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { ApiKey } from "../../api/keyTypes";
import type { Problem } from "../../api/result";
import { appendNew } from "./keys";

const PAGE_SIZE = 50;

export interface KeyListState {
  readonly keys: readonly ApiKey[] | null;
  readonly isTemporary: boolean;
  readonly hasMore: boolean;
  readonly isLoading: boolean;
  readonly problem: Problem | null;
  readonly more: () => void;
  readonly reload: () => void;
}

interface State {
  readonly keys: readonly ApiKey[] | null;
  readonly isTemporary: boolean;
  readonly hasMore: boolean;
  readonly problem: Problem | null;
}

export function useKeys(): KeyListState {
  const [state, setState] = useState<State>({ keys: null, isTemporary: false, hasMore: false, problem: null });
  const [request, setRequest] = useState({ count: 0, after: "" });
  const [isLoading, setLoading] = useState(false);
  useEffect(() => {
    const controller = new AbortController();
    const { after } = request;
    setLoading(true);
    void gateway.keys({ limit: PAGE_SIZE, ...(after ? { after } : {}) }, { signal: controller.signal }).then((result) => {
      if (controller.signal.aborted) return;
      setLoading(false);
      if (!result.ok) return setState((before) => ({ ...before, problem: result.problem }));
      const { data, has_more = false, is_temporary } = result.value;
      setState((before) => ({
        keys: after ? appendNew(before.keys ?? [], data) : data,
        isTemporary: is_temporary,
        hasMore: has_more,
        problem: null,
      }));
    });
    return () => controller.abort();
  }, [request]);
  const next = (after: string) => (): void => setRequest(({ count }) => ({ count: count + 1, after }));
  return { ...state, isLoading, more: next(state.keys?.at(-1)?.id ?? ""), reload: next("") };
}
