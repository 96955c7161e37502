/** A call in the messages, found by its place. */

import type { Message, MessagePart } from "./message";

export type CallPart = Extract<MessagePart, { readonly kind: "call" }>;
export type ResultPart = Extract<MessagePart, { readonly kind: "result" }>;

export interface Exchange {
  readonly call: CallPart;
  readonly result: ResultPart | null;
}

/** A call by its place, such as `3.1.0`: in the turn behind the third message, of the first reply, the first call. */
export function exchangeAt(id: string, messages: readonly Message[]): Exchange | null {
  const found = /^(\d+)\.(\d+)\.(\d+)~*$/.exec(id);
  if (!found) return null;
  const [turn, round, number] = [Number(found[1]), Number(found[2]), Number(found[3])];
  const replies = messages.slice(turn).filter((message) => message.role === "assistant");
  const call = replies[round - 1]?.parts.filter((part): part is CallPart => part.kind === "call")[number];
  if (!call) return null;
  const results = messages.slice(turn).flatMap((message) => message.parts);
  const isIts = (part: MessagePart): part is ResultPart => part.kind === "result" && part.id === call.id;
  return { call, result: results.find(isIts) ?? null };
}
