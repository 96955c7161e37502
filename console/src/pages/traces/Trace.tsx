/** One trace: its summary, its requests, and its conversations with their timelines and audit logs. */

import { useState } from "preact/hooks";
import type { Conversation } from "../../api/types";
import { Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { pathTo } from "../../router";
import { AuditLog } from "./AuditLog";
import { ConversationSections } from "./ConversationSections";
import { RequestList } from "./RequestList";
import { ConversationSummary, TraceSummary } from "./Summary";
import { Timeline } from "./Timeline";
import { useTrace } from "./useTrace";

export function Trace({ id }: { readonly id: string }) {
  const state = useTrace(id);
  const { value, problem, loaded, limit, reload } = state;
  return (
    <div class="page trace">
      <header class="page-head">
        <div class="grow">
          <a class="small" href={pathTo("traces")}>
            ← All traces
          </a>
          <h1 class="trace-title">{value?.title ? <VisibleText text={value.title} /> : "Conversation"}</h1>
          <code class="dim hash">
            <VisibleText text={value?.id ?? id} mode="exact" />
          </code>
        </div>
        <div class="row">
          <CopyLink />
          <button type="button" onClick={reload}>
            Refresh
          </button>
        </div>
      </header>
      {!value && !problem && <Loading what="the trace" />}
      {problem && <Problem problem={problem} onRetry={reload} />}
      {value?.object === "conversation" && <ConversationAlone conversation={value} />}
      {value?.object === "trace" && (
        <>
          <TraceSummary trace={value} loaded={loaded} />
          <RequestList trace={value} conversationLimit={limit} />
          <ConversationSections trace={value} state={state} />
        </>
      )}
    </div>
  );
}

/** For a key that may see the conversation, because a call waits in it, but not its trace. */
function ConversationAlone({ conversation }: { readonly conversation: Conversation }) {
  return (
    <>
      <ConversationSummary conversation={conversation} />
      <Timeline conversation={conversation} number={null} />
      <AuditLog conversation={conversation} number={null} />
    </>
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
