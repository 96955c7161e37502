/** The JSON of the gateway's HTTP API, as far as the console reads it. /openapi.json describes all of it. */

import type { QuotaUse } from "./keyTypes";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };
export type Schema = JsonObject;

export interface List<T> {
  readonly object: "list";
  readonly data: readonly T[];
  readonly has_more?: boolean;
}

/** What a key may do. */
export type Right = "models" | "tools" | "approve" | "admin" | "operator";

export interface Principal {
  readonly object: "principal";
  readonly name: string;
  readonly tenant: string;
  readonly rights: readonly Right[];
  readonly needs_key: boolean;
  /** Not those of single tools. */
  readonly quotas: readonly QuotaUse[];
}

export interface Model {
  readonly id: string;
  readonly display_name: string;
}

export interface Tool {
  readonly object: "tool";
  readonly name: string;
  readonly description: string;
  readonly parameters: Schema;
  readonly source: string;
  readonly bound_to: { readonly capability: string; readonly version: string } | null;
  readonly side_effects: boolean;
  readonly fingerprint: string;
}

/** Which schema keywords are enforced for a model: while decoding, by validation afterwards, or not at all. */
export interface Enforcement {
  readonly model: string;
  readonly engine: string;
  readonly target: string;
  readonly enforced: readonly string[];
  readonly checked: readonly string[];
  readonly unchecked: readonly string[];
  /** Why this could not be determined; empty if it could. */
  readonly why: string;
}

export interface ToolWithEnforcement extends Tool {
  readonly enforcement: readonly Enforcement[];
}

export interface Tools extends List<Tool> {
  /** Which tools are not offered, and why. For operators only. */
  readonly notices: readonly string[];
}

/** `redeemed`: used. `replaced`: expired, and a new approval was requested. */
export type ApprovalState = "pending" | "approved" | "denied" | "redeemed" | "replaced" | "expired";

export interface ApprovalDefinition {
  readonly description: string;
  /** The description with every hidden character spelled out. */
  readonly shown_description: string;
  readonly parameters: Schema;
  readonly source: string;
  readonly side_effects: boolean;
  readonly fingerprint: string;
  /** Whether the tool's definition is still the one that the approval was requested for. */
  readonly is_same: boolean;
}

export interface LastApproval {
  readonly id: string;
  readonly decided_at: number;
  readonly decided_by: string;
  readonly fingerprint: string;
  readonly arguments: string;
  readonly is_same_definition: boolean;
}

export interface Approval {
  readonly object: "approval";
  readonly id: string;
  readonly state: ApprovalState;
  readonly tool: string;
  readonly fingerprint: string;
  readonly principal: string;
  readonly conversation: string;
  readonly call_id: string;
  /** The text that was hashed, for programs. */
  readonly arguments: string;
  readonly arguments_sha256: string;
  /** The same text for display: every character is visible. */
  readonly shown: string;
  readonly requested_at: number;
  readonly expires_at: number;
  readonly decided_by: string;
  readonly decided_at: number | null;
  readonly why: string;
  /** How many different people must approve it, and how many have approved these arguments. */
  readonly needed: number;
  readonly votes: number;
  /** Whether the principal who asked may not approve it. */
  readonly four_eyes: boolean;
  readonly definition?: ApprovalDefinition | null;
  readonly last?: LastApproval | null;
  /** Only where one approval is fetched. */
  readonly approved_by?: readonly string[];
  readonly request?: ApprovalRequest | null;
}

/** What the user asked, and the calls that ran before. Hidden characters are spelled out; long texts are cut. */
export interface ApprovalRequest {
  readonly asked: string | null;
  readonly asked_chars: number;
  readonly calls: readonly {
    readonly tool: string;
    readonly arguments: string;
    readonly result: string;
    readonly is_error: boolean;
  }[];
  readonly earlier_calls: number;
}

export interface DecisionResult {
  readonly id: string;
  readonly status: number;
  readonly approval?: Approval;
  readonly error?: { readonly message: string; readonly code: string };
}

export interface Decision {
  readonly approve: boolean;
  readonly why?: string;
  readonly arguments?: JsonObject;
  /** Of the arguments that the approver saw. */
  readonly arguments_sha256?: string;
}

export interface Fault {
  /** A JSON pointer into the arguments. */
  readonly path: string;
  readonly message: string;
}

export interface ApprovalCheck {
  readonly object: "approval.check";
  readonly fits: boolean;
  readonly faults: readonly Fault[];
}

/** `left`: the client disconnected. `interrupted`: the gateway stopped. */
export type RequestStatus = "running" | "waiting" | "completed" | "incomplete" | "failed" | "left" | "interrupted";

/** One conversation, however many requests it took. */
export interface TraceSummary {
  readonly object: "trace";
  readonly id: string;
  readonly principal: string;
  /** May be empty, like the model. */
  readonly title: string;
  readonly model: string;
  /** Of the last request; empty if a program recorded the conversation without a request. */
  readonly status: RequestStatus | "";
  /** The code of the last request's error, or empty. */
  readonly error: string;
  readonly request_count: number;
  readonly error_count: number;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  /** null if no price is configured. */
  readonly cost: number | null;
  readonly began_at: number;
  readonly changed_at: number;
}

/** How the prompt of a request continues that of the request before it. */
export interface PromptPrefix {
  readonly changed_by: "" | "client" | "gateway" | "template";
  readonly changed: string;
  readonly kept_bytes: number;
  readonly previous_bytes: number;
}

export interface TraceRequest {
  readonly id: string;
  /** The value of the x-request-id header; may be empty. */
  readonly request_id: string;
  readonly at: number;
  /** null while it runs. */
  readonly seconds: number | null;
  /** A path such as `/v1/chat/completions`, or `continuation`. */
  readonly api: string;
  readonly model: string;
  readonly status: RequestStatus;
  /** `stop`, `tool_calls`, `length`, or another finish reason; empty if there is none. */
  readonly finish: string;
  readonly error: { readonly code: string; readonly message: string; readonly status: number } | null;
  readonly prompt_tokens: number;
  /** How many of these the engine had in its cache. */
  readonly cached_tokens: number;
  /** null for the first request of a run. */
  readonly prompt_prefix: PromptPrefix | null;
  readonly completion_tokens: number;
  readonly cost: number | null;
  /** The name of the tool of each call. */
  readonly tools: readonly string[];
  /** The id of its conversation in the ledger; empty if it has none. */
  readonly conversation: string;
  /** As many as the setting `traces.text` keeps. */
  readonly messages: readonly JsonObject[];
}

export interface Trace extends TraceSummary {
  /** The ids of its conversations in the ledger. */
  readonly conversations: readonly string[];
  /** The oldest first. */
  readonly requests: readonly TraceRequest[];
}

export interface Call {
  readonly id: string;
  readonly tool: string;
  readonly fingerprint: string;
  readonly arguments: string;
  readonly arguments_sha256: string;
  readonly side_effects: boolean;
  readonly needs_approval: boolean;
  readonly state: string;
  readonly outcome: JsonObject | null;
}

export interface AuditRow {
  readonly seq: number;
  readonly at: number;
  readonly kind: string;
  readonly call_id: string;
  readonly approval: string;
  readonly by: string;
  readonly epoch: number;
  readonly detail: Json;
  readonly previous: string;
  readonly hash: string;
}

export interface TimelineEntry {
  readonly at: number;
  readonly seconds: number | null;
  /** `user`, `model`, `tool`, `approval`, `retry`, `unknown`, or a kind that is newer than this page. */
  readonly kind: string;
  readonly title: string;
  readonly call_id: string;
  readonly tool: string;
  readonly approval: string;
  /** The index of the message. */
  readonly message: number | null;
  readonly tokens: { readonly prompt: number; readonly completion: number } | null;
  readonly bytes: number | null;
  readonly is_error: boolean;
}

export interface Conversation {
  readonly object: "conversation";
  readonly id: string;
  readonly principal: string;
  readonly opened_at: number;
  readonly changed_at: number;
  readonly version: number;
  readonly is_held: boolean;
  /** The first message, or else the first tool that was called; on one line, with hidden characters spelled out. */
  readonly title: string;
  readonly within: string;
  readonly messages: readonly JsonObject[];
  readonly is_unfinished: boolean;
  readonly calls: readonly Call[];
  readonly approvals: readonly Approval[];
  readonly audit: {
    readonly rows: readonly AuditRow[];
    readonly chain: { readonly holds: boolean; readonly breach: string };
  };
  readonly timeline: readonly TimelineEntry[];
}

/** Counts. `picked` includes the repaired calls; `wrong` is the sum of repaired and refused ones. */
export interface Tally {
  readonly offered: number;
  readonly demanded: number;
  readonly picked: number;
  readonly repaired: number;
  readonly refused: number;
  readonly cut_off: number;
  readonly failed: number;
  readonly denied: number;
  readonly retried: number;
  readonly repeated: number;
  readonly missed: number;
  readonly wrong: number;
  readonly wrong_share: number | null;
}

export interface ToolStats extends Tally {
  readonly object: "tool.stats";
  readonly model: string;
  readonly tool: string;
  readonly fingerprint: string;
  readonly description: string;
  readonly first_at: number | null;
  readonly last_at: number | null;
}

/** One tool, over all models and definitions. */
export interface ToolSummary {
  readonly object: "tool.summary";
  readonly tool: string;
  /** In how many replies a model could have called it. */
  readonly loaded: number;
  readonly called: number;
  readonly failed: number;
  readonly denied: number;
  readonly seconds_p50: number | null;
  /** An estimate; null if the gateway does not offer the tool to this key. */
  readonly definition_tokens: number | null;
}

export interface StatsPage extends List<ToolStats> {
  readonly misnamed: readonly {
    readonly model: string;
    readonly wrote: string;
    readonly tool: string;
    readonly count: number;
  }[];
}

export interface DefinitionVersion {
  readonly description: string;
  readonly parameters: Schema;
  readonly fingerprint: string;
  /** Everything else that is part of the fingerprint. */
  readonly more: JsonObject;
}

export interface Source {
  readonly object: "source";
  readonly name: string;
  /** `functions`, `mcp`, `bus`, or a kind that is newer than this page. */
  readonly kind: string;
  /** `ready`, `failed`, or a state that is newer than this page. */
  readonly state: string;
  readonly why: string;
  readonly trust: string;
  readonly tools: readonly string[];
  readonly quarantined: readonly QuarantineEntry[];
  /** Where a login begins, if the source needs one and the gateway takes it. */
  readonly login?: string | null;
}

/** A login that was begun. `url` is null if the server needs nobody. */
export interface SourceLogin {
  readonly source: string;
  readonly url: string | null;
  readonly expires_at: number;
}

/** A tool that exists but is not offered. `before` is the pinned definition; null if it is unknown. */
export interface QuarantineEntry {
  readonly tool: string;
  readonly why: string;
  readonly before: DefinitionVersion | null;
  readonly now: DefinitionVersion;
}

export interface Sources extends List<Source> {
  readonly notices: readonly string[];
}

export interface Finding {
  readonly name: string;
  readonly verdict: string;
  readonly evidence: string;
}

export interface Engine {
  readonly object: "engine";
  readonly model: string;
  readonly engine: string;
  /** `llama`, `vllm`, `openai`, or a kind that is newer than this page. */
  readonly kind: string;
  /** The grammar languages that it can be constrained with, best first. */
  readonly targets: readonly string[];
  readonly honours: readonly string[];
  readonly goes_on_cheaply: boolean;
  /** `ready`, `resting` (after a failure), or a state that is newer than this page. */
  readonly state: string;
  /** The error message of its last failure. For operators only. */
  readonly why: string;
  readonly profile: {
    readonly url: string;
    readonly model: string;
    readonly date: string;
    readonly findings: readonly Finding[];
  } | null;
}
