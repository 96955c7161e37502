/** One conversation: its summary, its timeline and its audit log. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Result } from "../../api/result";
import type { Conversation } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { formatDuration, Time } from "../../parts/Time";
import { pathTo } from "../../router";
import { AuditLog } from "./AuditLog";
import { totalsOf } from "./entries";
import { Timeline } from "./Timeline";

/** A conversation in progress is polled, in milliseconds. */
const POLL_INTERVAL = 3_000;

export function Trace({ id }: { readonly id: string }) {
  const [result, setResult] = useState<Result<Conversation> | null>(null);
  const [count, setCount] = useState(0);
  useEffect(() => {
    const request = new AbortController();
    void gateway.conversation(id, { signal: request.signal }).then((answer) => {
      if (!request.signal.aborted) setResult(answer);
    });
    return () => request.abort();
  }, [id, count]);
  const isActive = result?.ok === true && result.value.is_held;
  useEffect(() => {
    if (!isActive) return;
    const timer = setInterval(() => {
      if (!document.hidden) setCount((before) => before + 1);
    }, POLL_INTERVAL);
    return () => clearInterval(timer);
  }, [isActive]);
  return (
    <div class="page trace">
      <header class="page-head">
        <div class="grow">
          <a class="small" href={pathTo("traces")}>
            ← All conversations
          </a>
          <h1 class="trace-title">
            {result?.ok && result.value.title ? <VisibleText text={result.value.title} /> : "Conversation"}
          </h1>
          <code class="dim hash">{id}</code>
        </div>
        <div class="row">
          <CopyLink />
          <button type="button" onClick={() => setCount(count + 1)}>
            Refresh
          </button>
        </div>
      </header>
      {!result && <Loading what="the conversation" />}
      {result && !result.ok && <Problem problem={result.problem} onRetry={() => setCount(count + 1)} />}
      {result?.ok && <TraceBody conversation={result.value} />}
    </div>
  );
}

function TraceBody({ conversation }: { readonly conversation: Conversation }) {
  return (
    <>
      <Summary conversation={conversation} />
      <Timeline conversation={conversation} />
      <AuditLog conversation={conversation} />
    </>
  );
}

function Summary({ conversation }: { readonly conversation: Conversation }) {
  const totals = totalsOf(conversation.timeline);
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
      {totals.tokens && (
        <SummaryItem title="Tokens">
          {totals.tokens.prompt.toLocaleString("en")} in, {totals.tokens.completion.toLocaleString("en")} out
        </SummaryItem>
      )}
      <SummaryItem title="State">
        {conversation.is_held ? (
          <Badge tone="info">in progress</Badge>
        ) : conversation.is_unfinished ? (
          <Badge tone="warn">unfinished</Badge>
        ) : (
          "idle"
        )}
      </SummaryItem>
      <SummaryItem title="Audit log">
        <a href="#audit">
          {conversation.audit.chain.holds ? <Badge tone="good">verified</Badge> : <Badge tone="bad">broken</Badge>}
        </a>
      </SummaryItem>
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

function SummaryItem({ title, children }: { readonly title: string; readonly children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Copies the page's URL, which is permanent. */
function CopyLink() {
  const [label, setLabel] = useState("Copy link");
  if (typeof navigator.clipboard === "undefined") return null;
  return (
    <button
      type="button"
      onClick={() => {
        navigator.clipboard.writeText(location.href).then(
          () => setLabel("Copied"),
          () => setLabel("Copying failed"),
        );
      }}
    >
      <span role="status">{label}</span>
    </button>
  );
}
