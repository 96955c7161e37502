/** The frames of `/v1/stream`, in both directions: docs/reference/frames.md. Unknown types and fields are ignored. */

import type { Json, JsonObject, Schema } from "./types";

export type Guarantee = "grammar" | "validated" | "repaired" | "refused";

export interface Receipt {
  readonly how: Guarantee;
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
  readonly drifted: string;
  readonly notes: readonly string[];
}

interface TurnFrame {
  readonly turn: string;
  readonly seq: number;
}

export interface Started extends TurnFrame {
  readonly type: "started";
  readonly runs: "caller" | "gateway" | "none";
  readonly model: string;
  readonly conversation?: string;
  readonly ref?: string;
}
export interface Token extends TurnFrame {
  readonly type: "token";
  readonly text: string;
}
export interface Reasoning extends TurnFrame {
  readonly type: "reasoning";
  readonly text: string;
}
export interface ToolCallDelta extends TurnFrame {
  readonly type: "tool_call_delta";
  readonly id: string;
  readonly name: string;
  readonly arguments?: string;
}
export interface ToolCall extends TurnFrame {
  readonly type: "tool_call";
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  readonly runs: "caller" | "gateway";
  readonly receipt?: Receipt;
}
export interface ConfirmationRequired extends TurnFrame {
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
  /** For display: every hidden character is spelled out. */
  readonly arguments: string;
  readonly arguments_sha256: string;
  readonly arguments_bytes: number;
  readonly principal: string;
  readonly conversation: string;
  readonly expires_at: number;
}
export interface ToolStarted extends TurnFrame {
  readonly type: "tool_started";
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}
export interface ToolProgress extends TurnFrame {
  readonly type: "tool_progress";
  readonly id: string;
  readonly done: number;
  readonly total?: number;
  readonly message?: string;
}
export interface ToolResult extends TurnFrame {
  readonly type: "tool_result";
  readonly id: string;
  readonly name: string;
  readonly content?: Json;
  readonly is_error: boolean;
}
export interface Diagnostic extends TurnFrame {
  readonly type: "diagnostic";
  readonly code: string;
  readonly message: string;
  readonly text?: string;
  readonly id?: string;
}
export interface Rule extends TurnFrame {
  readonly type: "rule";
  readonly format: string;
  readonly target: string;
  readonly grammar: string;
  readonly prompt: string;
}
export interface RawOutput extends TurnFrame {
  readonly type: "wire";
  readonly text: string;
  /** The text was appended instead of generated, because the grammar left no choice. */
  readonly forced?: boolean;
}
export interface KeepAlive extends TurnFrame {
  readonly type: "keep_alive";
}
export interface ErrorFrame extends TurnFrame {
  readonly type: "error";
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  readonly retryable?: boolean;
  readonly ref?: string;
}
export interface Done extends TurnFrame {
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
  | ToolResult
  | Diagnostic
  | Rule
  | RawOutput
  | KeepAlive
  | ErrorFrame
  | Done;

/** The request body of `/v1/chat/completions`, as far as the console uses it. */
export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly JsonObject[];
  /** `required_first_hop`: the first reply must call one of the gateway's tools. */
  readonly tool_choice_policy?: "auto" | "required_first_hop";
  readonly max_tokens?: number;
  readonly ferrule?: {
    readonly tools?: "gateway" | "none" | readonly string[];
    readonly wire?: boolean;
    readonly resume?: string;
  };
}

export type ClientFrame =
  | { readonly type: "ask"; readonly body: ChatRequest; readonly api: "openai"; readonly ref: string }
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

/** Parses one frame. Returns null if the text is not a frame. */
export function parseFrame(text: string): Frame | null {
  try {
    const value: unknown = JSON.parse(text);
    return isFrame(value) ? value : null;
  } catch {
    return null;
  }
}

function isFrame(value: unknown): value is Frame {
  if (typeof value !== "object" || value === null) return false;
  const { type, turn, seq } = value as Record<string, unknown>;
  return typeof type === "string" && typeof turn === "string" && typeof seq === "number";
}
