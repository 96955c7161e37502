/** Every route that the console uses, as a function. Only this module knows their paths. */

import { get, post, postRaw, getText, type RequestOptions } from "./http";
import type { ApiKey, IssuedKey, KeyPage, KeyRotation, NewKey } from "./keyTypes";
import type { Result } from "./result";
import type {
  Approval,
  ApprovalCheck,
  Conversation,
  Decision,
  DecisionResult,
  Engine,
  List,
  Model,
  Principal,
  SourceLogin,
  Sources,
  StatsPage,
  Tools,
  ToolWithEnforcement,
  Trace,
  ToolSummary,
  TraceSummary,
} from "./types";

const encode = encodeURIComponent;

export const me = (): Promise<Result<Principal>> => get("/v1/me");

export interface KeyQuery {
  readonly limit?: number;
  readonly after?: string;
}

/** The keys in the ledger, newest first. */
export const keys = (query: KeyQuery = {}, options: RequestOptions = {}): Promise<Result<KeyPage>> =>
  get("/v1/keys", { ...options, query: { ...query } });

export const createKey = (body: NewKey): Promise<Result<IssuedKey>> => post("/v1/keys", body);

export const rotateKey = (id: string, body: KeyRotation): Promise<Result<IssuedKey>> =>
  post(`/v1/keys/${encode(id)}/rotate`, body);

export const revokeKey = (id: string): Promise<Result<ApiKey>> => post(`/v1/keys/${encode(id)}/revoke`, {});

export const models = (): Promise<Result<List<Model>>> => get("/v1/models");

export const tools = (): Promise<Result<Tools>> => get("/v1/tools");

/** The tools that fit a text, the best first. */
export const searchTools = (text: string, limit: number): Promise<Result<Tools>> =>
  get("/v1/tools", { query: { text, limit } });

export const tool = (name: string): Promise<Result<ToolWithEnforcement>> => get(`/v1/tools/${encode(name)}`);

export interface ApprovalQuery {
  /** A state, or `decided` for everything that a person approved or denied. */
  readonly state?: string;
  /** `desc` lists the newest first. */
  readonly order?: "asc" | "desc";
  readonly limit?: number;
  readonly after?: string;
  /** Searched in the tool's name and in the arguments. */
  readonly text?: string;
}

/** Server-sent events: see `state/pending`. */
export const APPROVAL_EVENTS = "/v1/approvals/events";

export const approvals = (query: ApprovalQuery = {}, options: RequestOptions = {}): Promise<Result<List<Approval>>> =>
  get("/v1/approvals", { ...options, query: { ...query } });

export const approval = (id: string, options: RequestOptions = {}): Promise<Result<Approval>> =>
  get(`/v1/approvals/${encode(id)}`, options);

export const decide = (id: string, decision: Decision): Promise<Result<Approval>> =>
  post(`/v1/approvals/${encode(id)}`, decision);

/** `args` is JSON text. It is sent unchanged, so that no number loses precision. */
export const approveWith = (id: string, args: string, seen: string): Promise<Result<Approval>> =>
  postRaw(`/v1/approvals/${encode(id)}`, `{"approve":true,"arguments_sha256":${JSON.stringify(seen)},"arguments":${args}}`);

export const decideSeveral = (
  decisions: readonly (Decision & { readonly id: string })[],
): Promise<Result<List<DecisionResult>>> => post("/v1/approvals/decisions", { decisions });

export const checkArguments = (id: string, args: string, options: RequestOptions = {}): Promise<Result<ApprovalCheck>> =>
  postRaw(`/v1/approvals/${encode(id)}/check`, `{"arguments":${args}}`, options);

export interface TraceQuery {
  readonly text?: string;
  readonly status?: string;
  readonly tool?: string;
  readonly principal?: string;
  /** Unix seconds. */
  readonly since?: number;
  readonly limit?: number;
  readonly after?: string;
}

export const traces = (query: TraceQuery = {}, options: RequestOptions = {}): Promise<Result<List<TraceSummary>>> =>
  get("/v1/traces", { ...options, query: { ...query } });

/** `id` is that of a trace, or of a conversation in it. */
export const trace = (id: string, options: RequestOptions = {}): Promise<Result<Trace>> =>
  get(`/v1/traces/${encode(id)}`, options);

export const conversation = (id: string, options: RequestOptions = {}): Promise<Result<Conversation>> =>
  get(`/v1/conversations/${encode(id)}`, options);

export interface StatsQuery {
  readonly since?: number;
  readonly tool?: string;
  readonly principal?: string;
  readonly limit?: number;
}

export const stats = (query: StatsQuery = {}): Promise<Result<StatsPage>> => get("/v1/stats", { query: { ...query } });

export const toolSummaries = (limit: number): Promise<Result<List<ToolSummary>>> =>
  get("/v1/stats/tools", { query: { limit } });

export const sources = (): Promise<Result<Sources>> => get("/v1/sources");

export const beginLogin = (name: string): Promise<Result<SourceLogin>> => post(`/v1/sources/${encode(name)}/login`, {});

export const engines = (): Promise<Result<List<Engine>>> => get("/v1/engines");

export const metrics = (): Promise<Result<string>> => getText("/metrics");
