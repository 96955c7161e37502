/** What is behind a moment: the message that was said, the call with its outcome, or the approval. */

import type { Approval, Call, Json, JsonObject, TimelineEntry } from "../../api/types";
import { stateOf } from "../../parts/approvalStates";
import { Badge } from "../../parts/Badge";
import { Exact } from "../../parts/Exact";
import { JsonView } from "../../parts/Json";
import { Shown } from "../../parts/Shown";
import { Time } from "../../parts/Time";
import { to } from "../../router";
import type { Message, MessagePart } from "./message";
import { exchangeAt, type Exchange } from "./exchange";

export interface Record {
  readonly messages: readonly Message[];
  readonly timeline: readonly TimelineEntry[];
  readonly calls: ReadonlyMap<string, Call>;
  readonly approvals: ReadonlyMap<string, Approval>;
}

interface Props {
  readonly entry: TimelineEntry;
  readonly at: number;
  readonly record: Record;
}

export function Opened({ entry, at, record }: Props) {
  const message = entry.message === null || entry.call_id ? undefined : record.messages[entry.message];
  const approval = entry.approval ? record.approvals.get(entry.approval) : undefined;
  const call = entry.call_id && !approval ? record.calls.get(entry.call_id) : undefined;
  const exchange = entry.call_id && !approval && !call ? exchangeAt(entry.call_id, record.messages) : null;
  const isHistory = entry.kind === "history";
  return (
    <div class="opened">
      <p class="small dim">
        <Time at={entry.at} exact />
        {entry.tool && (
          <>
            , tool <Shown text={entry.tool} manner="exact" />
          </>
        )}
        {entry.call_id && (
          <>
            , call <Shown text={entry.call_id} manner="exact" />
          </>
        )}
      </p>
      {message && <MessageView message={message} />}
      {isHistory && record.messages.slice(0, earlier(record, at)).map((one, key) => <MessageView key={key} message={one} />)}
      {call && <CallView call={call} />}
      {exchange && <ExchangeView exchange={exchange} />}
      {approval && <ApprovalView approval={approval} />}
      {!message && !call && !approval && !exchange && !isHistory && (
        <p class="small dim">There is no more about it than its line says.</p>
      )}
    </div>
  );
}

/** Everything before the first message that a later moment is about. */
function earlier(record: Record, at: number): number {
  return record.timeline.slice(at + 1).find((entry) => entry.message !== null)?.message ?? 0;
}

function MessageView({ message }: { readonly message: Message }) {
  return (
    <div class="message">
      <p class="small dim">
        <Shown text={message.role} manner="exact" />
      </p>
      {message.parts.map((part, at) => (
        <PartView key={at} part={part} />
      ))}
    </div>
  );
}

function PartView({ part }: { readonly part: MessagePart }) {
  switch (part.kind) {
    case "text":
      return (
        <p class="said">
          <Shown text={part.text} />
        </p>
      );
    case "reasoning":
      return (
        <details>
          <summary class="small dim">Reasoning</summary>
          <p class="said dim">
            <Shown text={part.text} />
          </p>
        </details>
      );
    case "call":
      return (
        <div>
          <p class="small">
            calls{" "}
            <strong>
              <Shown text={part.name} manner="exact" />
            </strong>{" "}
            {!part.isWhole && <Badge tone="bad">cut off</Badge>}
          </p>
          <Exact text={part.args} label={`Arguments of ${part.name}`} />
        </div>
      );
    case "result":
      return (
        <div>
          <p class="small">
            result of <Shown text={part.name} manner="exact" /> {part.isError && <Badge tone="bad">error</Badge>}
          </p>
          <Content content={part.content} />
        </div>
      );
  }
}

function Content({ content }: { readonly content: Json }) {
  if (typeof content !== "string") return <JsonView value={content} label="Result" />;
  return (
    <pre class="exact-box" tabIndex={0} aria-label="Result">
      <Shown text={content} />
    </pre>
  );
}

function CallView({ call }: { readonly call: Call }) {
  return (
    <>
      <Exact text={call.arguments} label="Arguments" />
      <dl class="facts">
        <dt>State</dt>
        <dd>
          <Badge tone={call.state === "done" ? "good" : call.state === "unknown" || call.state === "failed" ? "bad" : "plain"}>
            {call.state.replaceAll("_", " ")}
          </Badge>{" "}
          {call.state === "unknown" && "It may have happened or not; nobody can say."}
          {call.state === "unknown" && call.side_effects && " So it is not run again unless a person says so."}
        </dd>
        <dt>Changes the world</dt>
        <dd>
          {call.side_effects ? "yes" : "no"}
          {call.needs_leave && ", and needs leave"}
        </dd>
        <dt>Definition</dt>
        <dd class="hash">
          <code>{call.fingerprint}</code>
        </dd>
        <dt>Arguments, sha256</dt>
        <dd class="hash">
          <code>{call.arguments_sha256}</code>
        </dd>
      </dl>
      {call.outcome && <OutcomeView outcome={call.outcome} />}
    </>
  );
}

function OutcomeView({ outcome }: { readonly outcome: JsonObject }) {
  const { kind, content, reason, is_error, code } = outcome;
  return (
    <div class="stack">
      <p class="small dim">
        {kind === "answered" ? "Result" : "No answer"} {is_error === true && <Badge tone="bad">error</Badge>}{" "}
        {typeof code === "string" && code && (
          <code>
            <Shown text={code} manner="exact" />
          </code>
        )}
      </p>
      <Content content={kind === "answered" ? (content ?? null) : typeof reason === "string" ? reason : outcome} />
    </div>
  );
}

function ExchangeView({ exchange }: { readonly exchange: Exchange }) {
  return (
    <>
      <Exact text={exchange.call.args} label="Arguments" />
      {exchange.result && (
        <div>
          <p class="small dim">What the model was told</p>
          <Content content={exchange.result.content} />
        </div>
      )}
    </>
  );
}

function ApprovalView({ approval }: { readonly approval: Approval }) {
  return (
    <>
      <Exact text={approval.arguments} label="Arguments" />
      <dl class="facts">
        <dt>State</dt>
        <dd>{stateOf(approval).word}</dd>
        <dt>Asked for</dt>
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
                  by <Shown text={approval.decided_by} manner="exact" />
                </>
              )}
            </dd>
          </>
        )}
        {approval.why && (
          <>
            <dt>Reason</dt>
            <dd>
              <Shown text={approval.why} />
            </dd>
          </>
        )}
      </dl>
      <p class="small">
        <a href={to("approvals", approval.id, approval.state === "pending" ? {} : { tab: "decided" })}>Open the approval</a>
      </p>
    </>
  );
}

