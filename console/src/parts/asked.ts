/** An answer of the gateway as a component needs it: fetched when shown, kept while it is asked for again. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem, Result } from "../api/result";

export interface Answer<T> {
  /** The last good one. */
  readonly value: T | null;
  /** Why there is no newer one. */
  readonly problem: Problem | null;
  readonly again: () => void;
}

/** Asks when shown, when `what` is another text, and every so many seconds where `every` is given and the page is seen. */
export function useAnswer<T>(what: string, ask: () => Promise<Result<T>>, every = 0): Answer<T> {
  const [kept, setKept] = useState<{ what: string; value: T | null; problem: Problem | null } | null>(null);
  const latest = useRef(ask);
  latest.current = ask;
  const [count, setCount] = useState(0);
  useEffect(() => {
    let isWanted = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      if (!document.hidden) {
        const answer = await latest.current();
        if (!isWanted) return;
        setKept((before) => {
          const value = before?.what === what ? before.value : null;
          if (!answer.ok) return { what, value, problem: answer.problem };
          // What has not changed is not drawn again.
          const isSame = every > 0 && JSON.stringify(value) === JSON.stringify(answer.value);
          return { what, value: isSame ? value : answer.value, problem: null };
        });
      }
      if (every > 0) timer = setTimeout(look, every * 1000);
    };
    void look();
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [what, every, count]);
  const now = kept?.what === what ? kept : null;
  return { value: now?.value ?? null, problem: now?.problem ?? null, again: () => setCount((one) => one + 1) };
}
