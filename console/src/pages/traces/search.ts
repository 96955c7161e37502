/** What is looked for stands in the address, so that a search is a link too. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Problem } from "../../api/result";
import type { ConversationLine } from "../../api/types";

export const WORDS = ["text", "tool", "principal"] as const;
export type Wanted = Readonly<Record<(typeof WORDS)[number], string>>;

const PAGE = 30;

export function wantedIn(query: URLSearchParams): Wanted {
  return { text: query.get("text") ?? "", tool: query.get("tool") ?? "", principal: query.get("principal") ?? "" };
}

/** Only what is asked for. */
export function asQuery(wanted: Wanted): Record<string, string> {
  const given = WORDS.map((word) => [word, wanted[word].trim()] as const).filter(([, value]) => value !== "");
  return Object.fromEntries(given);
}

export interface Lines {
  readonly lines: readonly ConversationLine[] | null;
  readonly hasMore: boolean;
  readonly isAsking: boolean;
  readonly problem: Problem | null;
  readonly more: () => void;
  readonly again: () => void;
}

interface State {
  readonly lines: readonly ConversationLine[] | null;
  readonly hasMore: boolean;
  readonly problem: Problem | null;
}

interface Ask {
  readonly count: number;
  /** Behind which one; empty at the beginning. */
  readonly after: string;
}

export function useConversations(wanted: Wanted): Lines {
  const [state, setState] = useState<State>({ lines: null, hasMore: false, problem: null });
  const [ask, setAsk] = useState<Ask>({ count: 0, after: "" });
  const [isAsking, setAsking] = useState(false);
  const name = JSON.stringify(asQuery(wanted));
  const [asked, setAsked] = useState(name);
  // Something else is looked for: what was behind the other's last line is of no use.
  const after = asked === name ? ask.after : "";
  useEffect(() => {
    setAsked(name);
    setAsking(true);
    const asking = new AbortController();
    const query = { ...asQuery(wanted), limit: PAGE, ...(after ? { after } : {}) };
    void gateway.conversations(query, { signal: asking.signal }).then((answer) => {
      if (asking.signal.aborted) return;
      setAsking(false);
      if (!answer.ok) return setState((before) => ({ ...before, problem: answer.problem }));
      const { data, has_more = false } = answer.value;
      setState((before) => ({
        lines: after ? [...(before.lines ?? []), ...data] : data,
        hasMore: has_more,
        problem: null,
      }));
    });
    return () => asking.abort();
  }, [name, ask]);
  const next = (last: string) => (): void => setAsk({ count: ask.count + 1, after: last });
  return { ...state, isAsking, more: next(state.lines?.at(-1)?.id ?? ""), again: next("") };
}
