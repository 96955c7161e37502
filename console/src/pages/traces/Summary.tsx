/** The summary of a trace, or of a conversation that is shown without its trace. */

import type { ComponentChildren } from "preact";
import type { Conversation, Trace } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { VisibleText } from "../../parts/VisibleText";
import { formatDuration, Time } from "../../parts/Time";
import { pathTo } from "../../router";
import { auditStateOf, type AuditState } from "./auditState";
import { totalsOf } from "./entries";
import { durationOf, formatCost, tokensOf } from "./requests";
import { sectionNames } from "./section";
import { StatusBadge } from "./StatusBadge";
import { readable, type LoadedConversations } from "./useTrace";

interface TraceProps {
  readonly trace: Trace;
  readonly loaded: LoadedConversations;
}

export function TraceSummary({ trace, loaded }: TraceProps) {
  const tokens = tokensOf(trace, readable(trace, loaded));
  return (
    <dl class="summary-row">
      <SummaryItem title="Status">
        <StatusBadge status={trace.status} />{" "}
        {trace.error && (
          <code class="bad-text">
            <VisibleText text={trace.error} mode="exact" />
          </code>
        )}
      </SummaryItem>
      {trace.model && (
        <SummaryItem title="Model">
          <VisibleText text={trace.model} mode="exact" />
        </SummaryItem>
      )}
      <SummaryItem title="Principal">
        <VisibleText text={trace.principal} mode="exact" />
      </SummaryItem>
      <SummaryItem title="Started">
        <Time at={trace.began_at} exact />
      </SummaryItem>
      <SummaryItem title="Duration">{formatDuration(durationOf(trace))}</SummaryItem>
      <SummaryItem title="Requests">{trace.request_count.toLocaleString("en")}</SummaryItem>
      {tokens && <TokensItem {...tokens} />}
      {trace.cost !== null && <SummaryItem title="Cost">{formatCost(trace.cost)}</SummaryItem>}
      <SummaryItem title="Errors">
        {trace.error_count > 0 ? <strong class="bad-text">{trace.error_count.toLocaleString("en")}</strong> : "0"}
      </SummaryItem>
      {trace.conversations.length > 0 && <AuditItem state={auditStateOf(trace, loaded)} />}
    </dl>
  );
}

export function ConversationSummary({ conversation }: { readonly conversation: Conversation }) {
  const totals = totalsOf(conversation.timeline);
  const { holds } = conversation.audit.chain;
  return (
    <dl class="summary-row">
      <SummaryItem title="Principal">
        <VisibleText text={conversation.principal} mode="exact" />
      </SummaryItem>
      <SummaryItem title="Started">
        <Time at={conversation.opened_at} exact />
      </SummaryItem>
      <SummaryItem title="Duration">{formatDuration(Math.max(0, totals.seconds))}</SummaryItem>
      <SummaryItem title="Calls">{totals.calls}</SummaryItem>
      {totals.tokens && <TokensItem {...totals.tokens} />}
      <SummaryItem title="State">
        {conversation.is_held ? (
          <Badge tone="info">in progress</Badge>
        ) : conversation.is_unfinished ? (
          <Badge tone="warn">unfinished</Badge>
        ) : (
          "idle"
        )}
      </SummaryItem>
      <AuditItem state={{ verified: holds ? 1 : 0, total: 1, number: null, isBroken: !holds }} />
      {conversation.within && (
        <SummaryItem title="Parent">
          <a href={pathTo("traces", conversation.within)}>
            <VisibleText text={conversation.within} mode="exact" />
          </a>
        </SummaryItem>
      )}
    </dl>
  );
}

function SummaryItem({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function TokensItem({ prompt, completion }: { readonly prompt: number; readonly completion: number }) {
  return (
    <SummaryItem title="Tokens">
      {prompt.toLocaleString("en")} in, {completion.toLocaleString("en")} out
    </SummaryItem>
  );
}

function AuditItem({ state }: { readonly state: AuditState }) {
  const { verified, total, number, isBroken } = state;
  return (
    <SummaryItem title="Audit log">
      <a href={`#${sectionNames("audit", number).id}`}>
        {isBroken ? (
          <Badge tone="bad">broken</Badge>
        ) : verified === total ? (
          <Badge tone="good">verified</Badge>
        ) : (
          <Badge>
            {verified} of {total} verified
          </Badge>
        )}
      </a>
    </SummaryItem>
  );
}
