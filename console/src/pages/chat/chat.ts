/** The state of the chat: its turns, its settings, and the turn that is in progress. */

import { effect, signal } from "@preact/signals";
import type { ChatRequest, Frame } from "../../api/frames";
import * as gateway from "../../api/gateway";
import { key } from "../../api/key";
import type { Problem } from "../../api/result";
import type { TurnHandle as Asked } from "../../api/socket";
import { stream } from "../../api/stream";
import type { JsonObject, Model, Tool } from "../../api/types";
import { rights } from "../../state/session";
import { messagesOf } from "./history";
import { onNextPaint, FrameBatcher } from "./frameBatcher";
import { applyFrame, endTurn, isOver, newTurn, type CallItem, type Turn } from "./transcript";

export type ToolOffer = "all" | "none" | readonly string[];

export const models = signal<readonly Model[] | null>(null);
export const tools = signal<readonly Tool[]>([]);
export const problem = signal<Problem | null>(null);

export const model = signal("");
export const offer = signal<ToolOffer>("all");
export const isCallRequired = signal(false);
export const isRawShown = signal(false);

export const turns = signal<readonly Turn[]>([]);
/** Incremented with every paint in which the last turn has changed. */
export const paintCount = signal(0);
/** By approval: whether a decision was sent, or why it was refused. */
export const decisionStates = signal<ReadonlyMap<string, "sent" | Problem>>(new Map());

let activeTurn: Asked | null = null;

type StreamEvent = { readonly turn: Turn; readonly frame: Frame } | { readonly turn: Turn; readonly lost: Problem };

const batcher = new FrameBatcher<StreamEvent>(onNextPaint, (batch) => {
  for (const event of batch) {
    if ("frame" in event) applyFrame(event.turn, event.frame);
    else if (event.lost.code === "cancelled") endTurn(event.turn, { finish: "cancelled" });
    else endTurn(event.turn, { problem: event.lost });
  }
  paintCount.value += 1;
});

export async function load(): Promise<void> {
  const [modelsResult, toolsResult] = await Promise.all([
    gateway.models(),
    rights.value.has("tools") ? gateway.tools() : Promise.resolve(null),
  ]);
  problem.value = modelsResult.ok ? null : modelsResult.problem;
  if (modelsResult.ok) {
    models.value = modelsResult.value.data;
    if (!modelsResult.value.data.some((one) => one.id === model.value)) model.value = modelsResult.value.data[0]?.id ?? "";
  }
  if (toolsResult?.ok) tools.value = toolsResult.value.data;
  else if (toolsResult) problem.value ??= toolsResult.problem;
}

/** Whether a turn is in progress, as of the last paint. */
export function isActive(): boolean {
  paintCount.value;
  const last = turns.value.at(-1);
  return last !== undefined && !isOver(last);
}

export function sendMessage(text: string): void {
  const before = turns.value;
  const turn = newTurn(before.length, text, isRawShown.value);
  turns.value = [...before, turn];
  activeTurn = stream.sendChat(requestBody(messagesOf([...before, turn])), {
    onFrame: (frame) => batcher.add({ turn, frame }),
    onLost: (lost) => batcher.add({ turn, lost }),
  });
}

function requestBody(messages: JsonObject[]): ChatRequest {
  const selection = offer.value === "all" ? ("gateway" as const) : offer.value;
  const isNone = selection === "none" || tools.value.length === 0 || selection.length === 0;
  return {
    model: model.value,
    messages,
    ...(isCallRequired.value && !isNone ? { tool_choice_policy: "required_first_hop" as const } : {}),
    ferrule: { tools: isNone ? "none" : selection, ...(isRawShown.value ? { wire: true } : {}) },
  };
}

export function stop(): void {
  activeTurn?.cancel();
}

/** Starts a new chat. The old conversation stays in the ledger. */
export function clear(): void {
  if (isActive()) stop();
  activeTurn = null;
  turns.value = [];
  decisionStates.value = new Map();
}

export interface DecisionInput {
  readonly approve: boolean;
  readonly why?: string;
  readonly arguments?: JsonObject;
}

export function decide(call: CallItem, decision: DecisionInput): void {
  const approval = call.approvalRequest?.approval;
  if (!approval) return;
  decisionStates.value = new Map(decisionStates.value).set(approval, "sent");
  stream.confirm(approval, decision, (refusal) => {
    decisionStates.value = new Map(decisionStates.value).set(approval, refusal);
  });
}

let lastKey = key.peek();
effect(() => {
  // Another key is another principal, who must not see this conversation.
  if (key.value === lastKey) return;
  lastKey = key.value;
  turns.value = [];
  decisionStates.value = new Map();
  models.value = null;
  tools.value = [];
});
