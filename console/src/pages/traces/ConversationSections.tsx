/** The conversations of a trace in the ledger: each with its timeline and its audit log. */

import type { Conversation, Trace } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { pathTo } from "../../router";
import { AuditLog } from "./AuditLog";
import { formatNumbers, groupByConversation, type ConversationGroup } from "./requests";
import { conversationTitleId } from "./section";
import { Timeline } from "./Timeline";
import type { LoadedConversation, TraceState } from "./useTrace";

interface Props {
  readonly trace: Trace;
  readonly state: TraceState;
}

export function ConversationSections({ trace, state }: Props) {
  const groups = groupByConversation(trace);
  const hiddenCount = Math.max(0, groups.length - state.limit);
  return (
    <>
      {groups.slice(0, state.limit).map((group, index) => (
        <ConversationSection
          key={group.id}
          group={group}
          number={groups.length > 1 ? index + 1 : null}
          trace={trace}
          loaded={state.loaded.get(group.id)}
          onRetry={state.reload}
        />
      ))}
      {hiddenCount > 0 && (
        <div>
          <button type="button" onClick={state.more}>
            More conversations ({hiddenCount.toLocaleString("en")})
          </button>
        </div>
      )}
    </>
  );
}

interface SectionProps {
  readonly group: ConversationGroup;
  readonly number: number | null;
  readonly trace: Trace;
  readonly loaded: LoadedConversation | undefined;
  readonly onRetry: () => void;
}

function ConversationSection({ group, number, trace, loaded, onRetry }: SectionProps) {
  const result = loaded?.result;
  return (
    <>
      {number !== null && <ConversationHead group={group} number={number} total={trace.conversations.length} />}
      {!result && <Loading what="the conversation" />}
      {result && !result.ok && <Problem problem={result.problem} onRetry={onRetry} />}
      {result?.ok && (
        <>
          <ConversationState conversation={result.value} trace={trace} />
          <Timeline conversation={result.value} number={number} />
          <AuditLog conversation={result.value} number={number} />
        </>
      )}
    </>
  );
}

interface HeadProps {
  readonly group: ConversationGroup;
  readonly number: number;
  readonly total: number;
}

function ConversationHead({ group, number, total }: HeadProps) {
  const { requests } = group;
  return (
    <div class="conversation-head">
      <h2 id={conversationTitleId(number)} tabIndex={-1}>
        Conversation {number} of {total}
      </h2>
      <p class="small dim">
        <code class="hash">
          <VisibleText text={group.id} mode="exact" />
        </code>
        {requests.length > 0 && `, ${requests.length === 1 ? "request" : "requests"} ${formatNumbers(requests)}`}
      </p>
    </div>
  );
}

/** What the trace's summary does not say: whether the conversation is finished, and its parent. */
function ConversationState({ conversation, trace }: { readonly conversation: Conversation; readonly trace: Trace }) {
  const { is_held, is_unfinished, within } = conversation;
  if (!is_held && !is_unfinished && !within) return null;
  return (
    <p class="row small">
      {is_held ? <Badge tone="info">in progress</Badge> : is_unfinished && <Badge tone="warn">unfinished</Badge>}
      {within && (
        <span>
          Parent: <Parent id={within} trace={trace} />
        </span>
      )}
    </p>
  );
}

function Parent({ id, trace }: { readonly id: string; readonly trace: Trace }) {
  const number = trace.conversations.indexOf(id) + 1;
  if (number > 0) return <a href={`#${conversationTitleId(number)}`}>conversation {number}</a>;
  return (
    <a href={pathTo("traces", id)}>
      <VisibleText text={id} mode="exact" />
    </a>
  );
}
