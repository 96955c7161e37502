/** Fetches data from the gateway for a component. The last value stays while a new one is fetched. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem, Result } from "../api/result";

export interface FetchState<T> {
  /** The last value that was fetched successfully. */
  readonly value: T | null;
  /** Why the last fetch failed. */
  readonly problem: Problem | null;
  readonly retry: () => void;
}

/** Fetches on mount, when `key` changes, and every `pollSeconds` seconds while the page is visible. */
export function useFetch<T>(key: string, load: () => Promise<Result<T>>, pollSeconds = 0): FetchState<T> {
  const [state, setState] = useState<{ key: string; value: T | null; problem: Problem | null } | null>(null);
  const latest = useRef(load);
  latest.current = load;
  const [count, setCount] = useState(0);
  useEffect(() => {
    let isActive = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const poll = async (): Promise<void> => {
      if (!document.hidden) {
        const result = await latest.current();
        if (!isActive) return;
        setState((before) => {
          const value = before?.key === key ? before.value : null;
          if (!result.ok) return { key, value, problem: result.problem };
          // Keep the old object if nothing changed, so that nothing is rendered again.
          const isSame = pollSeconds > 0 && JSON.stringify(value) === JSON.stringify(result.value);
          return { key, value: isSame ? value : result.value, problem: null };
        });
      }
      if (pollSeconds > 0) timer = setTimeout(poll, pollSeconds * 1000);
    };
    void poll();
    return () => {
      isActive = false;
      clearTimeout(timer);
    };
  }, [key, pollSeconds, count]);
  const current = state?.key === key ? state : null;
  return { value: current?.value ?? null, problem: current?.problem ?? null, retry: () => setCount((one) => one + 1) };
}
