/**
 * A turn as it is known so far: a fold over frames. No page, no socket, no clock.
 *
 * Turns and their items are changed in place, since a thousand frames may come in a second; `version` grows with each
 * change, so that whoever draws knows what to draw again.
 */

import type { ConfirmationRequired, Frame, Receipt, Rule, ToolProgress } from "../../api/frames";
import type { Problem } from "../../api/result";
import type { Json } from "../../api/types";
import { PartialReader } from "../../json/partial";
import { isSameJson } from "../../json/same";
import { Blocks } from "./blocks";

interface Item {
  readonly number: number;
  /** Of the model's answers in this turn, from 0. */
  readonly round: number;
  version: number;
}
export interface TextItem extends Item {
  readonly kind: "text" | "reasoning";
  readonly text: Blocks;
}
/**
 * `forming`, then `called`; perhaps `asking` for leave; `running`; and at last `done`, `failed`, `denied`, where no leave
 * was given, or `dropped`, where it is not handed on. Where the turn ended before: `unknown` if it ran, `left` if it
 * still waited.
 */
export type CallState =
  | "forming"
  | "called"
  | "asking"
  | "running"
  | "done"
  | "failed"
  | "denied"
  | "dropped"
  | "unknown"
  | "left";
export interface CallItem extends Item {
  readonly kind: "call";
  readonly id: string;
  readonly name: string;
  state: CallState;
  written: string;
  reader: PartialReader;
  /** The whole arguments; empty before they are whole. */
  arguments: string;
  /** What it ran with, where a person changed the arguments. */
  ranWith: string;
  receipt: Receipt | null;
  leave: ConfirmationRequired | null;
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

/** What the model was held to each time it was asked to write, and what it wrote, to the letter. */
export interface WirePart {
  readonly round: number;
  readonly rule: Rule | null;
  readonly pieces: { readonly isForced: boolean; readonly text: Blocks }[];
}

export type TurnState = "asked" | "writing" | "done" | "failed";

export interface Turn {
  readonly number: number;
  readonly said: string;
  readonly isWireAsked: boolean;
  version: number;
  state: TurnState;
  model: string;
  conversation: string;
  readonly items: AnyItem[];
  readonly wire: WirePart[];
  round: number;
  hasResults: boolean;
  problem: Problem | null;
  finish: string;
  limit: string;
  usage: { readonly prompt: number; readonly completion: number } | null;
}

export function newTurn(number: number, said: string, isWireAsked: boolean): Turn {
  return {
    number,
    said,
    isWireAsked,
    version: 0,
    state: "asked",
    model: "",
    conversation: "",
    items: [],
    wire: [],
    round: 0,
    hasResults: false,
    problem: null,
    finish: "",
    limit: "",
    usage: null,
  };
}

export const isOver = (turn: Turn): boolean => turn.state === "done" || turn.state === "failed";

export function applied(turn: Turn, frame: Frame): void {
  turn.version += 1;
  switch (frame.type) {
    case "started":
      turn.state = "writing";
      turn.model = frame.model;
      turn.conversation = frame.conversation ?? "";
      return;
    case "token":
      return write(turn, "text", frame.text);
    case "reasoning":
      return write(turn, "reasoning", frame.text);
    case "tool_call_delta":
      return grow(formingCall(turn, frame.id, frame.name), frame.arguments ?? "");
    case "tool_call": {
      const call = formingCall(turn, frame.id, frame.name);
      finishArguments(call, frame.arguments);
      call.receipt = frame.receipt ?? null;
      return set(call, "called");
    }
    case "confirmation_required":
      return withCall(turn, frame.id, (call) => {
        call.leave = frame;
        set(call, "asking");
      });
    case "tool_started":
      return withCall(turn, frame.id, (call) => {
        if (!isSameJson(frame.arguments, call.arguments)) call.ranWith = frame.arguments;
        set(call, "running");
      });
    case "tool_progress":
      return withCall(turn, frame.id, (call) => {
        call.progress = frame;
        call.version += 1;
      });
    case "tool_result":
      turn.hasResults = true;
      return withCall(turn, frame.id, (call) => {
        call.result = { content: frame.content ?? null, isError: frame.is_error };
        set(call, !frame.is_error ? "done" : call.state === "asking" ? "denied" : "failed");
      });
    case "diagnostic":
      return note(turn, frame.code, frame.message, frame.text ?? "", frame.id ?? "");
    case "rule":
      nextRound(turn);
      turn.wire.push({ round: turn.round, rule: frame, pieces: [] });
      return;
    case "wire":
      return writeWire(turn, frame.text, frame.forced ?? false);
    case "error":
      return end(turn, {
        problem: { code: frame.code, message: frame.message, hint: frame.hint ?? "", status: 0 },
      });
    case "done": {
      const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = frame.usage ?? {};
      turn.usage = frame.usage ? { prompt, completion } : null;
      turn.limit = frame.limit ?? "";
      return end(turn, { finish: frame.finish_reason });
    }
    case "keep_alive":
      return;
  }
}

/** No frame will follow. What was not finished will not be. */
export function end(turn: Turn, how: { readonly problem?: Problem; readonly finish?: string }): void {
  turn.version += 1;
  turn.problem = how.problem ?? null;
  turn.finish = how.finish ?? "";
  turn.state = how.problem ? "failed" : "done";
  for (const item of turn.items) {
    if (item.kind !== "call") continue;
    if (item.state === "forming") set(item, "dropped");
    else if (item.state === "running") set(item, "unknown");
    else if (item.state === "asking") set(item, "left");
  }
}

/** The model writes again: every call before has been decided on, and what did not run was not to. */
function nextRound(turn: Turn): void {
  for (const item of turn.items) {
    if (item.kind !== "call" || item.state !== "asking") continue;
    item.why = "No leave was given, and the model was told so.";
    set(item, "denied");
    turn.hasResults = true;
  }
  if (!turn.hasResults) return;
  turn.hasResults = false;
  turn.round += 1;
}

function write(turn: Turn, kind: "text" | "reasoning", text: string): void {
  nextRound(turn);
  const last = turn.items.at(-1);
  const goesOn = last?.kind === kind && last.round === turn.round;
  const item: TextItem = goesOn ? (last as TextItem) : added(turn, { ...head(turn), kind, text: new Blocks() });
  item.text.add(text);
  item.version += 1;
}

function writeWire(turn: Turn, text: string, isForced: boolean): void {
  nextRound(turn);
  if (turn.wire.at(-1)?.round !== turn.round) turn.wire.push({ round: turn.round, rule: null, pieces: [] });
  const pieces = turn.wire.at(-1)!.pieces;
  const last = pieces.at(-1);
  if (last?.isForced === isForced) last.text.add(text);
  else pieces.push({ isForced, text: new Blocks(text) });
}

/** A call that waits for more, or a new one: of another round it may have the same id. */
function formingCall(turn: Turn, id: string, name: string): CallItem {
  nextRound(turn);
  const known = turn.items.findLast((item) => item.kind === "call" && item.id === id);
  if (known?.kind === "call" && known.state === "forming" && known.round === turn.round) return known;
  return added(turn, {
    ...head(turn),
    kind: "call",
    id,
    name,
    state: "forming",
    written: "",
    reader: new PartialReader(),
    arguments: "",
    ranWith: "",
    receipt: null,
    leave: null,
    progress: null,
    result: null,
    why: "",
  });
}

function grow(call: CallItem, piece: string): void {
  call.written += piece;
  call.reader.feed(piece);
  call.version += 1;
}

function finishArguments(call: CallItem, whole: string): void {
  if (whole.startsWith(call.written)) grow(call, whole.slice(call.written.length));
  else {
    call.reader = new PartialReader();
    call.written = "";
    grow(call, whole);
  }
  call.arguments = whole;
}

function note(turn: Turn, code: string, message: string, text: string, id: string): void {
  const call = turn.items.findLast((item) => item.kind === "call" && item.id === id);
  if (code === "incomplete_call" && call?.kind === "call") {
    call.why = message;
    set(call, "dropped");
  } else added(turn, { ...head(turn), kind: "note", code, message, text });
}

function withCall(turn: Turn, id: string, change: (call: CallItem) => void): void {
  const call = turn.items.findLast((item) => item.kind === "call" && item.id === id && item.result === null);
  if (call?.kind === "call") change(call);
}

function set(call: CallItem, state: CallState): void {
  call.state = state;
  call.version += 1;
}

function head(turn: Turn): Item {
  return { number: turn.items.length, round: turn.round, version: 0 };
}

function added<T extends AnyItem>(turn: Turn, item: T): T {
  turn.items.push(item);
  return item;
}
