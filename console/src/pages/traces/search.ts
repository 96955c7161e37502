/** Searches conversations. The search terms are part of the URL, so that a search can be linked. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Problem } from "../../api/result";
import type { ConversationSummary } from "../../api/types";

export const SEARCH_FIELDS = ["text", "tool", "principal"] as const;
export type SearchTerms = Readonly<Record<(typeof SEARCH_FIELDS)[number], string>>;

const PAGE_SIZE = 30;

export function parseSearch(query: URLSearchParams): SearchTerms {
  return { text: query.get("text") ?? "", tool: query.get("tool") ?? "", principal: query.get("principal") ?? "" };
}

/** Only the fields that are filled in. */
export function searchQuery(terms: SearchTerms): Record<string, string> {
  const filled = SEARCH_FIELDS.map((field) => [field, terms[field].trim()] as const).filter(([, value]) => value !== "");
  return Object.fromEntries(filled);
}

export interface ConversationPage {
  readonly conversations: readonly ConversationSummary[] | null;
  readonly hasMore: boolean;
  readonly isLoading: boolean;
  readonly problem: Problem | null;
  readonly more: () => void;
  readonly reload: () => void;
}

interface State {
  readonly conversations: readonly ConversationSummary[] | null;
  readonly hasMore: boolean;
  readonly problem: Problem | null;
}

interface PageRequest {
  readonly count: number;
  /** The last conversation of the previous page; empty for the first page. */
  readonly after: string;
}

export function useConversations(terms: SearchTerms): ConversationPage {
  const [state, setState] = useState<State>({ conversations: null, hasMore: false, problem: null });
  const [request, setRequest] = useState<PageRequest>({ count: 0, after: "" });
  const [isLoading, setLoading] = useState(false);
  const name = JSON.stringify(searchQuery(terms));
  const [loadedName, setLoadedName] = useState(name);
  // After a new search, the position in the previous results is meaningless.
  const after = loadedName === name ? request.after : "";
  useEffect(() => {
    setLoadedName(name);
    setLoading(true);
    const controller = new AbortController();
    const query = { ...searchQuery(terms), limit: PAGE_SIZE, ...(after ? { after } : {}) };
    void gateway.conversations(query, { signal: controller.signal }).then((result) => {
      if (controller.signal.aborted) return;
      setLoading(false);
      if (!result.ok) return setState((before) => ({ ...before, problem: result.problem }));
      const { data, has_more = false } = result.value;
      setState((before) => ({
        conversations: after ? [...(before.conversations ?? []), ...data] : data,
        hasMore: has_more,
        problem: null,
      }));
    });
    return () => controller.abort();
  }, [name, request]);
  const next = (last: string) => (): void => setRequest({ count: request.count + 1, after: last });
  return { ...state, isLoading, more: next(state.conversations?.at(-1)?.id ?? ""), reload: next("") };
}
