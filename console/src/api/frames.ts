/** The frames of `/v1/stream`, both ways: docs/reference/frames.md. Unknown types and fields are passed over. */

import type { Json, JsonObject, Schema } from "./types";

export type How = "grammar" | "validated" | "repaired" | "refused";

export interface Receipt {
  readonly how: How;
  readonly engine: string;
  readonly path: string;
  readonly format: string;
  readonly rule: string;
  readonly enforced: readonly string[];
  readonly checked: readonly string[];
  readonly unchecked: readonly string[];
  readonly seconds: number;
  readonly tokens: number;
  readonly skipped: number;
  readonly notes: readonly string[];
}

interface InTurn {
  readonly turn: string;
  readonly seq: number;
}

export interface Started extends InTurn {
  readonly type: "started";
  readonly runs: "caller" | "gateway" | "none";
  readonly model: string;
  readonly conversation?: string;
  readonly ref?: string;
}
export interface Token extends InTurn {
  readonly type: "token";
  readonly text: string;
}
export interface Reasoning extends InTurn {
  readonly type: "reasoning";
  readonly text: string;
}
export interface ToolCallDelta extends InTurn {
  readonly type: "tool_call_delta";
  readonly id: string;
  readonly name: string;
  readonly arguments?: string;
}
export interface ToolCall extends InTurn {
  readonly type: "tool_call";
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  readonly runs: "caller" | "gateway";
  readonly receipt?: Receipt;
}
export interface ConfirmationRequired extends InTurn {
  readonly type: "confirmation_required";
  readonly approval: string;
  readonly id: string;
  readonly tool: {
    readonly name: string;
    readonly fingerprint: string;
    readonly description?: string;
    readonly side_effects?: boolean;
    readonly parameters?: Schema;
  };
  /** For people: every hidden character is spelled out. */
  readonly arguments: string;
  readonly arguments_sha256: string;
  readonly arguments_bytes: number;
  readonly principal: string;
  readonly conversation: string;
  readonly expires_at: number;
}
export interface ToolStarted extends InTurn {
  readonly type: "tool_started";
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}
export interface ToolProgress extends InTurn {
  readonly type: "tool_progress";
  readonly id: string;
  readonly done: number;
  readonly total?: number;
  readonly message?: string;
}
export interface ToolGave extends InTurn {
  readonly type: "tool_result";
  readonly id: string;
  readonly name: string;
  readonly content?: Json;
  readonly is_error: boolean;
}
export interface Diagnostic extends InTurn {
  readonly type: "diagnostic";
  readonly code: string;
  readonly message: string;
  readonly text?: string;
  readonly id?: string;
}
export interface Rule extends InTurn {
  readonly type: "rule";
  readonly format: string;
  readonly target: string;
  readonly grammar: string;
  readonly prompt: string;
}
export interface Wire extends InTurn {
  readonly type: "wire";
  readonly text: string;
  /** It was not generated but appended: the rule left no choice. */
  readonly forced?: boolean;
}
export interface KeepAlive extends InTurn {
  readonly type: "keep_alive";
}
export interface Failed extends InTurn {
  readonly type: "error";
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  readonly retryable?: boolean;
  readonly ref?: string;
}
export interface Done extends InTurn {
  readonly type: "done";
  readonly finish_reason: string;
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number };
  readonly limit?: string;
}

export type Frame =
  | Started
  | Token
  | Reasoning
  | ToolCallDelta
  | ToolCall
  | ConfirmationRequired
  | ToolStarted
  | ToolProgress
  | ToolGave
  | Diagnostic
  | Rule
  | Wire
  | KeepAlive
  | Failed
  | Done;

/** Of `/v1/chat/completions`, as far as the console asks for it. */
export interface AskBody {
  readonly model: string;
  readonly messages: readonly JsonObject[];
  /** `required_first_hop`: the first answer must be a call of one of the gateway's tools. */
  readonly tool_choice_policy?: "auto" | "required_first_hop";
  readonly max_tokens?: number;
  readonly ferrule?: {
    readonly tools?: "gateway" | "none" | readonly string[];
    readonly wire?: boolean;
    readonly resume?: string;
  };
}

export type ClientFrame =
  | { readonly type: "ask"; readonly body: AskBody; readonly api: "openai"; readonly ref: string }
  | {
      readonly type: "confirm";
      readonly approval: string;
      readonly approve: boolean;
      readonly why?: string;
      readonly arguments?: JsonObject;
      readonly ref: string;
    }
  | { readonly type: "cancel"; readonly turn: string; readonly ref: string }
  | { readonly type: "resume"; readonly turn: string; readonly after: number; readonly ref: string };

/** The frame that a text is; null where it is none. */
export function frameIn(text: string): Frame | null {
  try {
    const read: unknown = JSON.parse(text);
    return isFrame(read) ? read : null;
  } catch {
    return null;
  }
}

function isFrame(read: unknown): read is Frame {
  if (typeof read !== "object" || read === null) return false;
  const { type, turn, seq } = read as Record<string, unknown>;
  return typeof type === "string" && typeof turn === "string" && typeof seq === "number";
}
