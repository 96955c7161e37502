/** Searches traces. The search terms are part of the URL, so that a search can be linked. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Problem } from "../../api/result";
import type { TraceSummary } from "../../api/types";
import { isStatus } from "./status";

export const SEARCH_FIELDS = ["text", "status", "tool", "principal", "time"] as const;
export type SearchTerms = Readonly<Record<(typeof SEARCH_FIELDS)[number], string>>;

const PAGE_SIZE = 30;

interface Period {
  readonly label: string;
  readonly seconds: number;
}

/** The URL has the name of a period and not its beginning, so that a link always means the time until now. */
export const PERIODS: Readonly<Record<string, Period>> = {
  hour: { label: "last hour", seconds: 3_600 },
  day: { label: "last 24 hours", seconds: 86_400 },
  week: { label: "last 7 days", seconds: 604_800 },
};

/** A status or a period that this page does not know is ignored, as the form shows. */
export function parseSearch(query: URLSearchParams): SearchTerms {
  const [status, time] = [query.get("status") ?? "", query.get("time") ?? ""];
  return {
    text: query.get("text") ?? "",
    status: isStatus(status) ? status : "",
    tool: query.get("tool") ?? "",
    principal: query.get("principal") ?? "",
    time: Object.hasOwn(PERIODS, time) ? time : "",
  };
}

/** Only the fields that are filled in. */
export function searchQuery(terms: SearchTerms): Record<string, string> {
  const filled = SEARCH_FIELDS.map((field) => [field, terms[field].trim()] as const).filter(([, value]) => value !== "");
  return Object.fromEntries(filled);
}

/** The query for the gateway. `now` is in Unix seconds. */
export function traceQuery(terms: SearchTerms, now: number): gateway.TraceQuery {
  const { time = "", ...query } = searchQuery(terms);
  const period = PERIODS[time];
  return period ? { ...query, since: Math.floor(now) - period.seconds } : query;
}

export interface TracePage {
  readonly traces: readonly TraceSummary[] | null;
  readonly hasMore: boolean;
  readonly isLoading: boolean;
  readonly problem: Problem | null;
  readonly more: () => void;
  readonly reload: () => void;
}

interface State {
  readonly traces: readonly TraceSummary[] | null;
  /** The last trace that was fetched; a new page begins after it. */
  readonly last: string;
  readonly hasMore: boolean;
  readonly problem: Problem | null;
}

interface PageRequest {
  readonly count: number;
  /** The last trace of the previous page; empty for the first page. */
  readonly after: string;
}

export function useTraces(terms: SearchTerms): TracePage {
  const [state, setState] = useState<State>({ traces: null, last: "", hasMore: false, problem: null });
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
    const query = { ...traceQuery(terms, Date.now() / 1000), limit: PAGE_SIZE, ...(after ? { after } : {}) };
    void gateway.traces(query, { signal: controller.signal }).then((result) => {
      if (controller.signal.aborted) return;
      setLoading(false);
      if (!result.ok) return setState((before) => ({ ...before, problem: result.problem }));
      const { data, has_more = false } = result.value;
      setState((before) => ({
        traces: after ? appendNew(before.traces ?? [], data) : data,
        last: data.at(-1)?.id ?? "",
        hasMore: has_more,
        problem: null,
      }));
    });
    return () => controller.abort();
  }, [name, request]);
  const { traces, last, hasMore, problem } = state;
  const next = (after: string) => (): void => setRequest({ count: request.count + 1, after });
  return { traces, hasMore, isLoading, problem, more: next(last), reload: next("") };
}

/** A trace that changes between two requests moves to another page; it stays where it is listed. */
export function appendNew(listed: readonly TraceSummary[], page: readonly TraceSummary[]): readonly TraceSummary[] {
  const ids = new Set(listed.map((trace) => trace.id));
  return [...listed, ...page.filter((trace) => !ids.has(trace.id))];
}
