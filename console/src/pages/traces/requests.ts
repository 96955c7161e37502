/** Numbers and groups of a trace's requests. Pure functions. */

import type { Conversation, Trace, TraceRequest, TraceSummary } from "../../api/types";
import { totalsOf } from "./entries";
import { isFailure } from "./status";

const cost = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

/** Four significant digits, without a currency: `0.001235`, `12.5`. */
export function formatCost(amount: number): string {
  return cost.format(amount);
}

/** The number and the noun: `1 error`, `2 errors`. */
export function formatCount(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** Numbers in ascending order, with runs shortened: `1–3, 5`. */
export function formatNumbers(numbers: readonly number[]): string {
  const runs: [first: number, last: number][] = [];
  for (const number of numbers) {
    const run = runs.at(-1);
    if (run && run[1] === number - 1) run[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([first, last]) => (first === last ? String(first) : `${first}–${last}`)).join(", ");
}

export function hasCost(traces: readonly TraceSummary[]): boolean {
  return traces.some((trace) => trace.cost !== null);
}

export function isProblem(request: TraceRequest): boolean {
  return request.error !== null || isFailure(request.status);
}

/** From the beginning to the last change or the end of the last request, in seconds. */
export function durationOf(trace: Trace): number {
  const ends = trace.requests.map((request) => request.at + (request.seconds ?? 0));
  return ends.reduce((last, end) => Math.max(last, end), Math.max(trace.began_at, trace.changed_at)) - trace.began_at;
}

/** Each tool once, in the order of the first calls, with the number of its calls. */
export function groupByTool(tools: readonly string[]): readonly (readonly [tool: string, count: number])[] {
  const counts = new Map<string, number>();
  for (const tool of tools) counts.set(tool, (counts.get(tool) ?? 0) + 1);
  return [...counts];
}

export interface ConversationGroup {
  readonly id: string;
  /** The numbers of its requests, from 1. */
  readonly requests: readonly number[];
}

/** The trace's conversations, each with its requests. */
export function groupByConversation(trace: Trace): readonly ConversationGroup[] {
  return trace.conversations.map((id) => ({
    id,
    requests: trace.requests.flatMap((request, index) => (request.conversation === id ? [index + 1] : [])),
  }));
}

/** The tokens of the requests; without requests, those that the conversations' timelines have. null if unknown. */
export function tokensOf(
  trace: Trace,
  conversations: readonly Conversation[],
): { readonly prompt: number; readonly completion: number } | null {
  if (trace.request_count > 0) return { prompt: trace.prompt_tokens, completion: trace.completion_tokens };
  return totalsOf(conversations.flatMap((conversation) => conversation.timeline)).tokens;
}
