/** Every route that the console uses, by name. The one place that knows their paths. */

import { get, post, postText, text, type Asked } from "./http";
import type { Result } from "./result";
import type {
  Approval,
  ApprovalCheck,
  Conversation,
  ConversationLine,
  Decision,
  Engine,
  List,
  Model,
  Principal,
  Sources,
  StatsPage,
  Tools,
  ToolWithEnforcement,
} from "./types";

const part = encodeURIComponent;

export const me = (): Promise<Result<Principal>> => get("/v1/me");

export const models = (): Promise<Result<List<Model>>> => get("/v1/models");

export const tools = (): Promise<Result<Tools>> => get("/v1/tools");

export const tool = (name: string): Promise<Result<ToolWithEnforcement>> => get(`/v1/tools/${part(name)}`);

export interface ApprovalQuery {
  /** A state, or `decided`: whatever a person said yes or no to. */
  readonly state?: string;
  /** `desc`: the newest first. */
  readonly order?: "asc" | "desc";
  readonly limit?: number;
  readonly after?: string;
}

export const approvals = (query: ApprovalQuery = {}, asked: Asked = {}): Promise<Result<List<Approval>>> =>
  get("/v1/approvals", { ...asked, query: { ...query } });

export const approval = (id: string, asked: Asked = {}): Promise<Result<Approval>> =>
  get(`/v1/approvals/${part(id)}`, asked);

export const decide = (id: string, decision: Decision): Promise<Result<Approval>> =>
  post(`/v1/approvals/${part(id)}`, decision);

/** `args` is JSON text, which is sent as it is written: so is no number changed on the way. */
export const approveWith = (id: string, args: string): Promise<Result<Approval>> =>
  postText(`/v1/approvals/${part(id)}`, `{"approve":true,"arguments":${args}}`);

export const checkArguments = (id: string, args: string, asked: Asked = {}): Promise<Result<ApprovalCheck>> =>
  postText(`/v1/approvals/${part(id)}/check`, `{"arguments":${args}}`, asked);

export interface ConversationQuery {
  readonly text?: string;
  readonly tool?: string;
  readonly principal?: string;
  readonly limit?: number;
  readonly after?: string;
}

export const conversations = (
  query: ConversationQuery = {},
  asked: Asked = {},
): Promise<Result<List<ConversationLine>>> => get("/v1/conversations", { ...asked, query: { ...query } });

export const conversation = (id: string, asked: Asked = {}): Promise<Result<Conversation>> =>
  get(`/v1/conversations/${part(id)}`, asked);

export interface StatsQuery {
  readonly since?: number;
  readonly tool?: string;
  readonly principal?: string;
  readonly limit?: number;
}

export const stats = (query: StatsQuery = {}): Promise<Result<StatsPage>> => get("/v1/stats", { query: { ...query } });

export const sources = (): Promise<Result<Sources>> => get("/v1/sources");

export const engines = (): Promise<Result<List<Engine>>> => get("/v1/engines");

export const metrics = (): Promise<Result<string>> => text("/metrics");
