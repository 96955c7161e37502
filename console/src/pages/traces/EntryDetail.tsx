/** The details of a timeline entry: the message, the call with its outcome, or the approval. */

import type { Approval, Call, Json, JsonObject, TimelineEntry } from "../../api/types";
import { stateOf } from "../../parts/approvalStates";
import { Badge } from "../../parts/Badge";
import { ExactJson } from "../../parts/ExactJson";
import { JsonView } from "../../parts/Json";
import { VisibleText } from "../../parts/VisibleText";
import { Time } from "../../parts/Time";
import { pathTo } from "../../router";
import type { Message, MessagePart } from "./message";
import { exchangeAt, type Exchange } from "./exchange";

export interface TraceData {
  readonly messages: readonly Message[];
  readonly timeline: readonly TimelineEntry[];
  readonly calls: ReadonlyMap<string, Call>;
  readonly approvals: ReadonlyMap<string, Approval>;
}

interface Props {
  readonly entry: TimelineEntry;
  readonly index: number;
  readonly trace: TraceData;
}

export function EntryDetail({ entry, index, trace }: Props) {
  const message = entry.message === null || entry.call_id ? undefined : trace.messages[entry.message];
  const approval = entry.approval ? trace.approvals.get(entry.approval) : undefined;
  const call = entry.call_id && !approval ? trace.calls.get(entry.call_id) : undefined;
  const exchange = entry.call_id && !approval && !call ? exchangeAt(entry.call_id, trace.messages) : null;
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
        trace.messages
          .slice(0, historyLength(trace, index))
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
function historyLength(trace: TraceData, index: number): number {
  return trace.timeline.slice(index + 1).find((entry) => entry.message !== null)?.message ?? 0;
}

function MessageSection({ message }: { readonly message: Message }) {
  return (
    <div class="message">
      <p class="small dim">
        <VisibleText text={message.role} mode="exact" />
      </p>
      {message.parts.map((part, index) => (
        <PartSection key={index} part={part} />
      ))}
    </div>
  );
}

function PartSection({ part }: { readonly part: MessagePart }) {
  switch (part.kind) {
    case "text":
      return (
        <p class="message-text">
          <VisibleText text={part.text} />
        </p>
      );
    case "reasoning":
      return (
        <details>
          <summary class="small dim">Reasoning</summary>
          <p class="message-text dim">
            <VisibleText text={part.text} />
          </p>
        </details>
      );
    case "call":
      return (
        <div>
          <p class="small">
            calls{" "}
            <strong>
              <VisibleText text={part.name} mode="exact" />
            </strong>{" "}
            {!part.isComplete && <Badge tone="bad">cut off</Badge>}
          </p>
          <ExactJson text={part.args} label={`Arguments of ${part.name}`} />
        </div>
      );
    case "result":
      return (
        <div>
          <p class="small">
            result of <VisibleText text={part.name} mode="exact" /> {part.isError && <Badge tone="bad">error</Badge>}
          </p>
          <ResultContent content={part.content} />
        </div>
      );
  }
}

function ResultContent({ content }: { readonly content: Json }) {
  if (typeof content !== "string") return <JsonView value={content} label="Result" />;
  return (
    <pre class="exact-box" tabIndex={0} aria-label="Result">
      <VisibleText text={content} />
    </pre>
  );
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

