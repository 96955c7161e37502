/** A call that is waiting for approval, shown in the chat: what exactly would run, and buttons to approve, deny or edit. */

import { useState } from "preact/hooks";
import { ArgumentsEditor } from "../../parts/ArgumentsEditor";
import { useFocus } from "../../parts/useFocus";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { now, formatDuration } from "../../parts/Time";
import { pathTo } from "../../router";
import { rights } from "../../state/session";
import { decide, decisionStates } from "./chat";
import type { CallItem } from "./transcript";

export function ApprovalPrompt({ call }: { readonly call: CallItem }) {
  const [mode, setMode] = useState<"plain" | "deny" | "edit">("plain");
  const request = call.approvalRequest;
  if (!request) return null;
  const decisionState = decisionStates.value.get(request.approval);
  const isSent = decisionState === "sent";
  const seconds = request.expires_at - now.value;
  return (
    <div class="approval-prompt" role="group" aria-label={`${request.tool.name} is waiting for approval`}>
      <p class="approval-prompt-head">
        <strong>Waiting for approval</strong>{" "}
        <span class="dim small tabular">{seconds > 0 ? `${formatDuration(Math.round(seconds))} left` : "expired"}</span>
        <a class="small" href={pathTo("approvals", request.approval)}>
          Details
        </a>
      </p>
      {request.tool.description && (
        <p class="small">
          <VisibleText text={request.tool.description} mode="exact" />
        </p>
      )}
      {mode !== "edit" && (
        <pre class="exact" aria-label="The exact arguments">
          <VisibleText text={request.arguments} mode="exact" />
        </pre>
      )}
      <p class="dim tiny">
        {request.arguments_bytes} bytes, SHA-256 <code class="hash">{request.arguments_sha256.slice(0, 16)}</code>, definition{" "}
        <code class="hash">{request.tool.fingerprint.slice(0, 16)}</code>
      </p>
      {!rights.value.has("approve") && (
        <p class="small">Your key cannot approve calls. Somebody with the approve right must decide.</p>
      )}
      {rights.value.has("approve") && mode === "plain" && (
        <div class="row">
          <button type="button" class="primary" disabled={isSent} onClick={() => decide(call, { approve: true })}>
            Approve
          </button>
          <button type="button" class="danger" disabled={isSent} onClick={() => setMode("deny")}>
            Deny…
          </button>
          <button type="button" disabled={isSent} onClick={() => setMode("edit")}>
            Edit…
          </button>
          {isSent && <span class="dim small">Sending…</span>}
        </div>
      )}
      {mode === "deny" && (
        <DenyForm
          isSent={isSent}
          onDeny={(why) => decide(call, { approve: false, why })}
          onCancel={() => setMode("plain")}
        />
      )}
      {mode === "edit" && (
        <ArgumentsEditor
          approval={request.approval}
          text={call.arguments}
          form={request.tool.parameters ? { schema: request.tool.parameters } : null}
          isBusy={isSent}
          onApprove={(args) => decide(call, { approve: true, arguments: args })}
          onCancel={() => setMode("plain")}
        />
      )}
      {decisionState && decisionState !== "sent" && <Problem problem={decisionState} />}
    </div>
  );
}

interface DenyFormProps {
  readonly isSent: boolean;
  readonly onDeny: (why: string) => void;
  readonly onCancel: () => void;
}

function DenyForm({ isSent, onDeny, onCancel }: DenyFormProps) {
  const [why, setWhy] = useState("");
  const input = useFocus<HTMLInputElement>();
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        onDeny(why.trim());
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") onCancel();
      }}
    >
      <input
        class="grow"
        type="text"
        aria-label="Reason (optional, the model sees it)"
        placeholder="Reason (optional, the model sees it)"
        ref={input}
        maxLength={1000}
        value={why}
        onInput={(event) => setWhy(event.currentTarget.value)}
      />
      <button type="submit" class="danger" disabled={isSent}>
        Deny
      </button>
      <button type="button" class="quiet" onClick={onCancel}>
        Back
      </button>
    </form>
  );
}
