/**
 * A turn, built up from the frames received so far. Knows no page, no socket and no clock.
 *
 * Turns and their items are mutated, because a thousand frames may arrive in a second. Each change increments `version`,
 * so that components know what to render again.
 */

import type { ConfirmationRequired, Frame, Receipt, Rule, ToolProgress } from "../../api/frames";
import type { Problem } from "../../api/result";
import type { Json } from "../../api/types";
import { PartialParser } from "../../json/partialParser";
import { isSameJson } from "../../json/equality";
import { TextBlocks } from "./textBlocks";

interface Item {
  readonly number: number;
  /** The number of the model's reply in this turn, from 0. */
  readonly round: number;
  version: number;
}
export interface TextItem extends Item {
  readonly kind: "text" | "reasoning";
  readonly text: TextBlocks;
}
/**
 * `streaming`, then `called`; `pending` while it waits for approval; `running`; and finally `done`, `failed`, `denied`, or
 * `dropped` if the call was incomplete. If the turn ends earlier: `unknown` if the call was running, `abandoned` if it was
 * still waiting for approval.
 */
export type CallState =
  | "streaming"
  | "called"
  | "pending"
  | "running"
  | "done"
  | "failed"
  | "denied"
  | "dropped"
  | "unknown"
  | "abandoned";
export interface CallItem extends Item {
  readonly kind: "call";
  readonly id: string;
  readonly name: string;
  state: CallState;
  partialArguments: string;
  parser: PartialParser;
  /** The complete arguments; empty until they are complete. */
  arguments: string;
  /** The arguments that it ran with, if a person edited them. */
  ranWith: string;
  receipt: Receipt | null;
  approvalRequest: ConfirmationRequired | null;
  progress: ToolProgress | null;
  result: { readonly content: Json; readonly isError: boolean } | null;
  why: string;
}
export interface NoteItem extends Item {
  readonly kind: "note";
  readonly code: string;
  readonly message: string;
  readonly text: string;
}
export type AnyItem = TextItem | CallItem | NoteItem;

/** The grammar of one model reply, and its raw output. */
export interface RawPart {
  readonly round: number;
  readonly rule: Rule | null;
  readonly pieces: { readonly isForced: boolean; readonly text: TextBlocks }[];
}

export type TurnState = "sent" | "writing" | "done" | "failed";

export interface Turn {
  readonly number: number;
  readonly userText: string;
  readonly isRawRequested: boolean;
  version: number;
  state: TurnState;
  model: string;
  conversation: string;
  readonly items: AnyItem[];
  readonly raw: RawPart[];
  round: number;
  hasResults: boolean;
  problem: Problem | null;
  finish: string;
  limit: string;
  usage: { readonly prompt: number; readonly completion: number } | null;
}

export function newTurn(number: number, userText: string, isRawRequested: boolean): Turn {
  return {
    number,
    userText,
    isRawRequested,
    version: 0,
    state: "sent",
    model: "",
    conversation: "",
    items: [],
    raw: [],
    round: 0,
    hasResults: false,
    problem: null,
    finish: "",
    limit: "",
    usage: null,
  };
}

export const isOver = (turn: Turn): boolean => turn.state === "done" || turn.state === "failed";

export function applyFrame(turn: Turn, frame: Frame): void {
  turn.version += 1;
  switch (frame.type) {
    case "started":
      turn.state = "writing";
      turn.model = frame.model;
      turn.conversation = frame.conversation ?? "";
      return;
    case "token":
      return appendText(turn, "text", frame.text);
    case "reasoning":
      return appendText(turn, "reasoning", frame.text);
    case "tool_call_delta":
      return appendArguments(streamingCall(turn, frame.id, frame.name), frame.arguments ?? "");
    case "tool_call": {
      const call = streamingCall(turn, frame.id, frame.name);
      completeArguments(call, frame.arguments);
      call.receipt = frame.receipt ?? null;
      return setState(call, "called");
    }
    case "confirmation_required":
      return updateCall(turn, frame.id, (call) => {
        call.approvalRequest = frame;
        setState(call, "pending");
      });
    case "tool_started":
      return updateCall(turn, frame.id, (call) => {
        if (!isSameJson(frame.arguments, call.arguments)) call.ranWith = frame.arguments;
        setState(call, "running");
      });
    case "tool_progress":
      return updateCall(turn, frame.id, (call) => {
        call.progress = frame;
        call.version += 1;
      });
    case "tool_result":
      turn.hasResults = true;
      return updateCall(turn, frame.id, (call) => {
        call.result = { content: frame.content ?? null, isError: frame.is_error };
        setState(call, !frame.is_error ? "done" : call.state === "pending" ? "denied" : "failed");
      });
    case "diagnostic":
      return addNote(turn, frame.code, frame.message, frame.text ?? "", frame.id ?? "");
    case "rule":
      advanceRound(turn);
      turn.raw.push({ round: turn.round, rule: frame, pieces: [] });
      return;
    case "wire":
      return appendRaw(turn, frame.text, frame.forced ?? false);
    case "error":
      return endTurn(turn, {
        problem: { code: frame.code, message: frame.message, hint: frame.hint ?? "", status: 0 },
      });
    case "done": {
      const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = frame.usage ?? {};
      turn.usage = frame.usage ? { prompt, completion } : null;
      turn.limit = frame.limit ?? "";
      return endTurn(turn, { finish: frame.finish_reason });
    }
    case "keep_alive":
      return;
  }
}

/** Ends the turn: no frame follows, and unfinished calls stay unfinished. */
export function endTurn(turn: Turn, how: { readonly problem?: Problem; readonly finish?: string }): void {
  turn.version += 1;
  turn.problem = how.problem ?? null;
  turn.finish = how.finish ?? "";
  turn.state = how.problem ? "failed" : "done";
  for (const item of turn.items) {
    if (item.kind !== "call") continue;
    if (item.state === "streaming") setState(item, "dropped");
    else if (item.state === "running") setState(item, "unknown");
    else if (item.state === "pending") setState(item, "abandoned");
  }
}

/** The model writes again, so every earlier call has been decided: those that did not run were denied. */
function advanceRound(turn: Turn): void {
  for (const item of turn.items) {
    if (item.kind !== "call" || item.state !== "pending") continue;
    item.why = "Not approved. The model was informed.";
    setState(item, "denied");
    turn.hasResults = true;
  }
  if (!turn.hasResults) return;
  turn.hasResults = false;
  turn.round += 1;
}

function appendText(turn: Turn, kind: "text" | "reasoning", text: string): void {
  advanceRound(turn);
  const last = turn.items.at(-1);
  const isContinued = last?.kind === kind && last.round === turn.round;
  const item: TextItem = isContinued
    ? (last as TextItem)
    : addItem(turn, { ...newItem(turn), kind, text: new TextBlocks() });
  item.text.add(text);
  item.version += 1;
}

function appendRaw(turn: Turn, text: string, isForced: boolean): void {
  advanceRound(turn);
  if (turn.raw.at(-1)?.round !== turn.round) turn.raw.push({ round: turn.round, rule: null, pieces: [] });
  const pieces = turn.raw.at(-1)!.pieces;
  const last = pieces.at(-1);
  if (last?.isForced === isForced) last.text.add(text);
  else pieces.push({ isForced, text: new TextBlocks(text) });
}

/** The call that is being streamed, or a new one. Calls of different rounds may have the same id. */
function streamingCall(turn: Turn, id: string, name: string): CallItem {
  advanceRound(turn);
  const call = turn.items.findLast((item) => item.kind === "call" && item.id === id);
  if (call?.kind === "call" && call.state === "streaming" && call.round === turn.round) return call;
  return addItem(turn, {
    ...newItem(turn),
    kind: "call",
    id,
    name,
    state: "streaming",
    partialArguments: "",
    parser: new PartialParser(),
    arguments: "",
    ranWith: "",
    receipt: null,
    approvalRequest: null,
    progress: null,
    result: null,
    why: "",
  });
}

function appendArguments(call: CallItem, piece: string): void {
  call.partialArguments += piece;
  call.parser.feed(piece);
  call.version += 1;
}

function completeArguments(call: CallItem, text: string): void {
  if (text.startsWith(call.partialArguments)) appendArguments(call, text.slice(call.partialArguments.length));
  else {
    call.parser = new PartialParser();
    call.partialArguments = "";
    appendArguments(call, text);
  }
  call.arguments = text;
}

function addNote(turn: Turn, code: string, message: string, text: string, id: string): void {
  const call = turn.items.findLast((item) => item.kind === "call" && item.id === id);
  if (code === "incomplete_call" && call?.kind === "call") {
    call.why = message;
    setState(call, "dropped");
  } else addItem(turn, { ...newItem(turn), kind: "note", code, message, text });
}

function updateCall(turn: Turn, id: string, change: (call: CallItem) => void): void {
  const call = turn.items.findLast((item) => item.kind === "call" && item.id === id && item.result === null);
  if (call?.kind === "call") change(call);
}

function setState(call: CallItem, state: CallState): void {
  call.state = state;
  call.version += 1;
}

function newItem(turn: Turn): Item {
  return { number: turn.items.length, round: turn.round, version: 0 };
}

function addItem<T extends AnyItem>(turn: Turn, item: T): T {
  turn.items.push(item);
  return item;
}
