/** The details of a timeline entry: the message, the call with its outcome, or the approval. */

import type { Approval, Call, JsonObject, TimelineEntry } from "../../api/types";
import { stateOf } from "../../parts/approvalStates";
import { Badge } from "../../parts/Badge";
import { ExactJson } from "../../parts/ExactJson";
import { VisibleText } from "../../parts/VisibleText";
import { Time } from "../../parts/Time";
import { pathTo } from "../../router";
import type { Message } from "./message";
import { exchangeAt, type Exchange } from "./exchange";
import { MessageSection, ResultContent } from "./MessageSection";

export interface ConversationData {
  readonly messages: readonly Message[];
  readonly timeline: readonly TimelineEntry[];
  readonly calls: ReadonlyMap<string, Call>;
  readonly approvals: ReadonlyMap<string, Approval>;
}

interface Props {
  readonly entry: TimelineEntry;
  readonly index: number;
  readonly data: ConversationData;
}

export function EntryDetail({ entry, index, data }: Props) {
  const message = entry.message === null || entry.call_id ? undefined : data.messages[entry.message];
  const approval = entry.approval ? data.approvals.get(entry.approval) : undefined;
  const call = entry.call_id && !approval ? data.calls.get(entry.call_id) : undefined;
  const exchange = entry.call_id && !approval && !call ? exchangeAt(entry.call_id, data.messages) : null;
  const isHistory = entry.kind === "history";
  return (
    <div class="entry-detail">
      <p class="small dim">
        <Time at={entry.at} exact />
        {entry.tool && (
          <>
            , tool <VisibleText text={entry.tool} mode="exact" />
          </>
        )}
        {entry.call_id && (
          <>
            , call <VisibleText text={entry.call_id} mode="exact" />
          </>
        )}
      </p>
      {message && <MessageSection message={message} />}
      {isHistory &&
        data.messages
          .slice(0, historyLength(data, index))
          .map((earlier, key) => <MessageSection key={key} message={earlier} />)}
      {call && <CallSection call={call} />}
      {exchange && <ExchangeSection exchange={exchange} />}
      {approval && <ApprovalSection approval={approval} />}
      {!message && !call && !approval && !exchange && !isHistory && (
        <p class="small dim">No further details.</p>
      )}
    </div>
  );
}

/** The number of messages before the first one that a later entry refers to. */
function historyLength(data: ConversationData, index: number): number {
  return data.timeline.slice(index + 1).find((entry) => entry.message !== null)?.message ?? 0;
}

function CallSection({ call }: { readonly call: Call }) {
  return (
    <>
      <ExactJson text={call.arguments} label="Arguments" />
      <dl class="facts">
        <dt>State</dt>
        <dd>
          <Badge tone={call.state === "done" ? "good" : call.state === "unknown" || call.state === "failed" ? "bad" : "plain"}>
            {call.state.replaceAll("_", " ")}
          </Badge>{" "}
          {call.state === "unknown" && "It may or may not have run."}
          {call.state === "unknown" && call.side_effects && " It is not run again unless a person approves it."}
        </dd>
        <dt>Side effects</dt>
        <dd>
          {call.side_effects ? "yes" : "no"}
          {call.needs_approval && ", and needs approval"}
        </dd>
        <dt>Definition</dt>
        <dd class="hash">
          <code>{call.fingerprint}</code>
        </dd>
        <dt>Arguments, SHA-256</dt>
        <dd class="hash">
          <code>{call.arguments_sha256}</code>
        </dd>
      </dl>
      {call.outcome && <OutcomeSection outcome={call.outcome} />}
    </>
  );
}

function OutcomeSection({ outcome }: { readonly outcome: JsonObject }) {
  const { kind, content, reason, is_error, code } = outcome;
  return (
    <div class="stack">
      <p class="small dim">
        {kind === "answered" ? "Result" : "No result"} {is_error === true && <Badge tone="bad">error</Badge>}{" "}
        {typeof code === "string" && code && (
          <code>
            <VisibleText text={code} mode="exact" />
          </code>
        )}
      </p>
      <ResultContent content={kind === "answered" ? (content ?? null) : typeof reason === "string" ? reason : outcome} />
    </div>
  );
}

function ExchangeSection({ exchange }: { readonly exchange: Exchange }) {
  return (
    <>
      <ExactJson text={exchange.call.args} label="Arguments" />
      {exchange.result && (
        <div>
          <p class="small dim">Sent to the model</p>
          <ResultContent content={exchange.result.content} />
        </div>
      )}
    </>
  );
}

function ApprovalSection({ approval }: { readonly approval: Approval }) {
  return (
    <>
      <ExactJson text={approval.arguments} label="Arguments" />
      <dl class="facts">
        <dt>State</dt>
        <dd>{stateOf(approval).label}</dd>
        <dt>Requested</dt>
        <dd>
          <Time at={approval.requested_at} exact />
        </dd>
        {approval.decided_at !== null && (
          <>
            <dt>Decided</dt>
            <dd>
              <Time at={approval.decided_at} exact />
              {approval.decided_by && (
                <>
                  {" "}
                  by <VisibleText text={approval.decided_by} mode="exact" />
                </>
              )}
            </dd>
          </>
        )}
        {approval.why && (
          <>
            <dt>Reason</dt>
            <dd>
              <VisibleText text={approval.why} />
            </dd>
          </>
        )}
      </dl>
      <p class="small">
        <a href={pathTo("approvals", approval.id, approval.state === "pending" ? {} : { tab: "decided" })}>Open the approval</a>
      </p>
    </>
  );
}

