/** Fetches a trace and its conversations, and polls them while something is in progress. */

import { useEffect, useRef, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { RequestOptions } from "../../api/http";
import type { Problem, Result } from "../../api/result";
import type { Conversation, Trace } from "../../api/types";

/** In milliseconds. */
const POLL_INTERVAL = 3_000;
/** A conversation has its whole audit log, so that they are fetched one after the other and not all at once. */
const CONVERSATIONS_AT_ONCE = 10;

/**
 * Fetches a trace by its id or by that of a conversation in it. A key that may only approve sees no trace, but may see a
 * conversation in which a call waits: then the result is the conversation alone.
 */
export async function loadTrace(id: string, options: RequestOptions = {}): Promise<Result<Trace | Conversation>> {
  const answer = await gateway.trace(id, options);
  if (answer.ok || answer.problem.status !== 404) return answer;
  const alone = await gateway.conversation(id, options);
  return alone.ok ? alone : answer;
}

export interface LoadedConversation {
  readonly result: Result<Conversation>;
  /** What its requests had done when it was fetched. */
  readonly revision: string;
}

export type LoadedConversations = ReadonlyMap<string, LoadedConversation>;

/** Changes whenever a request of the conversation begins or ends. */
export function revisionOf(trace: Trace, id: string): string {
  const requests = trace.requests.filter((request) => request.conversation === id);
  return JSON.stringify(requests.map((request) => [request.id, request.status]));
}

/** Whether a fetched conversation is as it was, so that polling can skip it. */
export function isCurrent(loaded: LoadedConversation | undefined, trace: Trace, id: string): boolean {
  if (!loaded || loaded.revision !== revisionOf(trace, id)) return false;
  const isRunning = trace.requests.some((request) => request.conversation === id && request.status === "running");
  return !isRunning && !(loaded.result.ok && loaded.result.value.is_held);
}

/** The conversations that were fetched successfully, in the trace's order. */
export function readable(trace: Trace, loaded: LoadedConversations): readonly Conversation[] {
  return trace.conversations.flatMap((id) => {
    const result = loaded.get(id)?.result;
    return result?.ok ? [result.value] : [];
  });
}

interface State {
  /** The last value that was fetched successfully. */
  readonly value: Trace | Conversation | null;
  /** Why the last fetch failed. */
  readonly problem: Problem | null;
  readonly loaded: LoadedConversations;
}

export interface TraceState extends State {
  /** How many conversations are fetched. */
  readonly limit: number;
  readonly reload: () => void;
  readonly more: () => void;
}

interface LoadRequest {
  readonly limit: number;
  /** Polling fetches only the conversations that may have changed. */
  readonly isPoll: boolean;
}

export function useTrace(id: string): TraceState {
  const [state, setState] = useState<State>({ value: null, problem: null, loaded: new Map() });
  const [request, setRequest] = useState<LoadRequest>({ limit: CONVERSATIONS_AT_ONCE, isPoll: false });
  const [isLoading, setLoading] = useState(true);
  const latest = useRef(state);
  latest.current = state;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const load = async (): Promise<void> => {
      const answer = await loadTrace(id, { signal });
      if (signal.aborted) return;
      if (!answer.ok) return setState((before) => ({ ...before, problem: answer.problem }));
      const { value } = answer;
      setState((before) => ({ ...before, value, problem: null }));
      if (value.object !== "trace") return;
      for (const conversation of value.conversations.slice(0, request.limit)) {
        if (request.isPoll && isCurrent(latest.current.loaded.get(conversation), value, conversation)) continue;
        const result = await gateway.conversation(conversation, { signal });
        if (signal.aborted) return;
        const entry = { result, revision: revisionOf(value, conversation) };
        setState((before) => ({ ...before, loaded: new Map(before.loaded).set(conversation, entry) }));
      }
    };
    setLoading(true);
    void load().then(() => {
      if (!signal.aborted) setLoading(false);
    });
    return () => controller.abort();
  }, [id, request]);
  const isActive = isInProgress(state.value, state.loaded);
  useEffect(() => {
    if (!isActive || isLoading) return;
    const timer = setInterval(() => {
      if (!document.hidden) setRequest((before) => ({ ...before, isPoll: true }));
    }, POLL_INTERVAL);
    return () => clearInterval(timer);
  }, [isActive, isLoading]);
  return {
    ...state,
    limit: request.limit,
    reload: () => setRequest((before) => ({ ...before, isPoll: false })),
    more: () => setRequest((before) => ({ limit: before.limit + CONVERSATIONS_AT_ONCE, isPoll: true })),
  };
}

/** A program can hold a conversation without any request. */
export function isInProgress(value: Trace | Conversation | null, loaded: LoadedConversations): boolean {
  if (!value) return false;
  if (value.object !== "trace") return value.is_held;
  return value.status === "running" || readable(value, loaded).some((conversation) => conversation.is_held);
}
