/** Finds a call and its result in the messages. */

import type { Message, MessagePart } from "./message";

export type CallPart = Extract<MessagePart, { readonly kind: "call" }>;
export type ResultPart = Extract<MessagePart, { readonly kind: "result" }>;

export interface Exchange {
  readonly call: CallPart;
  readonly result: ResultPart | null;
}

/** Finds a call by its position, such as `3.1.0`: in the turn after the third message, the first reply, the first call. */
export function exchangeAt(id: string, messages: readonly Message[]): Exchange | null {
  const match = /^(\d+)\.(\d+)\.(\d+)~*$/.exec(id);
  if (!match) return null;
  const [turn, round, number] = [Number(match[1]), Number(match[2]), Number(match[3])];
  const replies = messages.slice(turn).filter((message) => message.role === "assistant");
  const call = replies[round - 1]?.parts.filter((part): part is CallPart => part.kind === "call")[number];
  if (!call) return null;
  const results = messages.slice(turn).flatMap((message) => message.parts);
  const isItsResult = (part: MessagePart): part is ResultPart => part.kind === "result" && part.id === call.id;
  return { call, result: results.find(isItsResult) ?? null };
}
