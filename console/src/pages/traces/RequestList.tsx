/** The requests of a trace: one row each, with what went wrong and the messages that are stored. */

import { useState } from "preact/hooks";
import type { Trace, TraceRequest } from "../../api/types";
import { VirtualList, type RowAria } from "../../parts/VirtualList";
import { VisibleText } from "../../parts/VisibleText";
import { formatDuration } from "../../parts/Time";
import { parseMessage } from "./message";
import { MessageSection } from "./MessageSection";
import { Offset } from "./Offset";
import { formatCost, formatCount, groupByTool, isProblem } from "./requests";
import { conversationTitleId } from "./section";
import { explanationOf } from "./status";
import { StatusBadge } from "./StatusBadge";

const ROW_HEIGHT = 66;

interface Props {
  readonly trace: Trace;
  /** How many of its conversations are below, to link to. */
  readonly conversationLimit: number;
}

export function RequestList({ trace, conversationLimit }: Props) {
  const [showsOnlyProblems, setShowsOnlyProblems] = useState(false);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const requests = trace.requests.map((request, index) => ({ request, number: index + 1 }));
  const problemCount = trace.requests.filter(isProblem).length;
  const visible = showsOnlyProblems ? requests.filter(({ request }) => isProblem(request)) : requests;
  const setOpenAt = (id: string, isOpen: boolean): void =>
    setOpen((before) => {
      if (before.has(id) === isOpen) return before;
      const next = new Set(before);
      if (isOpen) next.add(id);
      else next.delete(id);
      return next;
    });
  return (
    <section aria-labelledby="requests-title" class="stack">
      <div class="timeline-head">
        <h2 id="requests-title">
          Requests <span class="dim small tabular">{trace.requests.length.toLocaleString("en")}</span>
        </h2>
        {problemCount > 0 && (
          <button type="button" aria-pressed={showsOnlyProblems} onClick={() => setShowsOnlyProblems(!showsOnlyProblems)}>
            Errors only ({problemCount})
          </button>
        )}
      </div>
      <p class="visually-hidden" role="status">
        {showsOnlyProblems && `${visible.length} of ${requests.length} requests`}
      </p>
      {requests.length === 0 && <p class="dim">A program recorded this conversation without a request to the gateway.</p>}
      {requests.length > 0 && requests.every(({ request: { messages, conversation } }) => messages.length === 0 && conversation === "") && (
        <p class="dim small">
          No messages are stored with the requests. The gateway's setting <code>traces.text</code> says how much is kept.
        </p>
      )}
      {requests.length > 0 && (
        <VirtualList
          label="Requests"
          class="timeline"
          rows={visible}
          estimatedHeight={ROW_HEIGHT}
          renderRow={({ request, number }, aria) => (
            <RequestRow
              key={request.id}
              {...{ request, number, trace, conversationLimit, aria }}
              isOpen={open.has(request.id)}
              onToggle={(isOpen) => setOpenAt(request.id, isOpen)}
            />
          )}
        />
      )}
    </section>
  );
}

interface RowProps extends Props {
  readonly request: TraceRequest;
  readonly number: number;
  readonly aria: RowAria;
  readonly isOpen: boolean;
  readonly onToggle: (isOpen: boolean) => void;
}

function RequestRow({ request, number, trace, conversationLimit, aria, isOpen, onToggle }: RowProps) {
  return (
    <div {...aria} class={`request${isProblem(request) ? " is-problem" : ""}`} data-status={request.status}>
      <div class="request-row">
        <span class="request-number tabular dim">{number}</span>
        <Offset at={request.at} startedAt={trace.began_at} />
        <span class="entry-kind">
          <StatusBadge status={request.status} />
        </span>
        <span class="request-call">
          <code>
            <VisibleText text={request.api} mode="exact" />
          </code>{" "}
          <VisibleText text={request.model} mode="exact" />
        </span>
        <span class="entry-numbers tabular dim">
          <span title="prompt tokens → completion tokens">
            {request.prompt_tokens}→{request.completion_tokens} tok
          </span>
          {request.cached_tokens > 0 && (
            <span title="prompt tokens that the engine read; the others were in its cache">
              read {request.prompt_tokens - request.cached_tokens}
            </span>
          )}
          {request.cost !== null && <span>cost {formatCost(request.cost)}</span>}
        </span>
        <span class="request-seconds tabular">{request.seconds !== null && formatDuration(request.seconds)}</span>
      </div>
      <div class="request-body">
        <Failure request={request} />
        <PromptChange request={request} />
        <RequestFacts {...{ request, trace, conversationLimit }} />
        {request.messages.length > 0 && (
          <details open={isOpen} onToggle={(event) => onToggle(event.currentTarget.open)}>
            <summary class="small">{formatCount(request.messages.length, "stored message")}</summary>
            {isOpen && (
              <div class="request-messages">
                {request.messages.map((message, index) => (
                  <MessageSection key={index} message={parseMessage(message)} />
                ))}
              </div>
            )}
          </details>
        )}
      </div>
    </div>
  );
}

/** What went wrong. It is visible without a click. */
function Failure({ request }: { readonly request: TraceRequest }) {
  const { error } = request;
  if (!error) {
    const explanation = explanationOf(request.status);
    return explanation ? <p class="small">{explanation}</p> : null;
  }
  return (
    <p class="request-error">
      <strong class="bad-text">error: </strong>
      <VisibleText text={error.message} />{" "}
      <code class="bad-text">
        <VisibleText text={error.code} mode="exact" />
      </code>
      {error.status > 0 && <span class="tabular"> HTTP {error.status}</span>}
    </p>
  );
}

/** What makes the engine read a prompt again, and who changed it. */
function PromptChange({ request }: { readonly request: TraceRequest }) {
  const prefix = request.prompt_prefix;
  if (!prefix?.changed_by) return null;
  return (
    <p class="small">
      Prompt changed by the {prefix.changed_by}: <VisibleText text={prefix.changed} />
    </p>
  );
}

function RequestFacts({ request, trace, conversationLimit }: Props & { readonly request: TraceRequest }) {
  const conversation = trace.conversations.length > 1 ? trace.conversations.indexOf(request.conversation) + 1 : 0;
  return (
    <div class="row small dim">
      {request.finish && (
        <span>
          finish <VisibleText text={request.finish} mode="exact" />
        </span>
      )}
      {request.tools.length > 0 && (
        <span>
          calls{" "}
          {groupByTool(request.tools).map(([tool, count]) => (
            <span key={tool} class="chip">
              <VisibleText text={tool} mode="exact" />
              {count > 1 && ` × ${count}`}
            </span>
          ))}
        </span>
      )}
      {conversation > 0 && conversation <= conversationLimit && (
        <a href={`#${conversationTitleId(conversation)}`}>conversation {conversation}</a>
      )}
      {conversation > conversationLimit && <span>conversation {conversation}</span>}
      {request.request_id && (
        <span>
          request{" "}
          <code class="hash">
            <VisibleText text={request.request_id} mode="exact" />
          </code>
        </span>
      )}
    </div>
  );
}
