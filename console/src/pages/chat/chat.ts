/** The one conversation of this page: what was said, with whom and with which tools, and what is under way. */

import { effect, signal } from "@preact/signals";
import type { AskBody, Frame } from "../../api/frames";
import * as gateway from "../../api/gateway";
import { key } from "../../api/key";
import type { Problem } from "../../api/result";
import type { Turn as Asked } from "../../api/socket";
import { stream } from "../../api/stream";
import type { JsonObject, Model, Tool } from "../../api/types";
import { rights } from "../../state/session";
import { messagesOf } from "./history";
import { nextPicture, Pace } from "./pace";
import { applied, end, isOver, newTurn, type CallItem, type Turn } from "./transcript";

export type Offer = "all" | "none" | readonly string[];

export const models = signal<readonly Model[] | null>(null);
export const tools = signal<readonly Tool[]>([]);
export const problem = signal<Problem | null>(null);

export const model = signal("");
export const offer = signal<Offer>("all");
export const isRequired = signal(false);
export const isWireShown = signal(false);

export const turns = signal<readonly Turn[]>([]);
/** Grows with every picture in which the last turn has changed. */
export const drawn = signal(0);
/** Of approvals: those that a word was sent on, and those whose word was not taken, with why. */
export const words = signal<ReadonlyMap<string, "sent" | Problem>>(new Map());

let asked: Asked | null = null;

type Heard = { readonly turn: Turn; readonly frame: Frame } | { readonly turn: Turn; readonly lost: Problem };

const pace = new Pace<Heard>(nextPicture, (batch) => {
  for (const one of batch) {
    if ("frame" in one) applied(one.turn, one.frame);
    else if (one.lost.code === "cancelled") end(one.turn, { finish: "cancelled" });
    else end(one.turn, { problem: one.lost });
  }
  drawn.value += 1;
});

export async function load(): Promise<void> {
  const [known, offered] = await Promise.all([
    gateway.models(),
    rights.value.has("tools") ? gateway.tools() : Promise.resolve(null),
  ]);
  problem.value = known.ok ? null : known.problem;
  if (known.ok) {
    models.value = known.value.data;
    if (!known.value.data.some((one) => one.id === model.value)) model.value = known.value.data[0]?.id ?? "";
  }
  if (offered?.ok) tools.value = offered.value.data;
  else if (offered) problem.value ??= offered.problem;
}

/** Whether the last turn is not over, as of the last picture. */
export function isUnderWay(): boolean {
  drawn.value;
  const last = turns.value.at(-1);
  return last !== undefined && !isOver(last);
}

export function say(text: string): void {
  const before = turns.value;
  const turn = newTurn(before.length, text, isWireShown.value);
  turns.value = [...before, turn];
  asked = stream.ask(body(messagesOf([...before, turn])), {
    frame: (frame) => pace.add({ turn, frame }),
    lost: (lost) => pace.add({ turn, lost }),
  });
}

function body(messages: JsonObject[]): AskBody {
  const wanted = offer.value === "all" ? ("gateway" as const) : offer.value;
  const isNone = wanted === "none" || tools.value.length === 0 || wanted.length === 0;
  return {
    model: model.value,
    messages,
    ...(isRequired.value && !isNone ? { tool_choice_policy: "required_first_hop" as const } : {}),
    ferrule: { tools: isNone ? "none" : wanted, ...(isWireShown.value ? { wire: true } : {}) },
  };
}

export function stop(): void {
  asked?.cancel();
}

/** Everything anew. What was said stays in the ledger. */
export function clear(): void {
  if (isUnderWay()) stop();
  asked = null;
  turns.value = [];
  words.value = new Map();
}

export interface Word {
  readonly approve: boolean;
  readonly why?: string;
  readonly arguments?: JsonObject;
}

export function decide(call: CallItem, word: Word): void {
  const approval = call.leave?.approval;
  if (!approval) return;
  words.value = new Map(words.value).set(approval, "sent");
  stream.confirm(approval, word, (refusal) => {
    words.value = new Map(words.value).set(approval, refusal);
  });
}

let holder = key.peek();
effect(() => {
  // Another key is another person, who has not said any of this.
  if (key.value === holder) return;
  holder = key.value;
  turns.value = [];
  words.value = new Map();
  models.value = null;
  tools.value = [];
});
