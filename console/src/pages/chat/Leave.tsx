/** A call that waits for leave, in the place where it was made: what exactly would be done, and yes, no or otherwise. */

import { useState } from "preact/hooks";
import { ArgumentsEditor } from "../../parts/ArgumentsEditor";
import { useFocus } from "../../parts/focus";
import { Problem } from "../../parts/Problem";
import { Shown } from "../../parts/Shown";
import { now, span } from "../../parts/Time";
import { to } from "../../router";
import { rights } from "../../state/session";
import { decide, words } from "./chat";
import type { CallItem } from "./transcript";

export function Leave({ call }: { readonly call: CallItem }) {
  const [manner, setManner] = useState<"plain" | "deny" | "edit">("plain");
  const leave = call.leave;
  if (!leave) return null;
  const word = words.value.get(leave.approval);
  const isSent = word === "sent";
  const seconds = leave.expires_at - now.value;
  return (
    <div class="leave" role="group" aria-label={`${leave.tool.name} waits for leave`}>
      <p class="leave-head">
        <strong>Waits for leave</strong>{" "}
        <span class="dim small figures">{seconds > 0 ? `${span(Math.round(seconds))} left` : "ran out"}</span>
        <a class="small" href={to("approvals", leave.approval)}>
          More about it
        </a>
      </p>
      {leave.tool.description && (
        <p class="small">
          <Shown text={leave.tool.description} manner="exact" />
        </p>
      )}
      {manner !== "edit" && (
        <pre class="exact" aria-label="The bytes that will run">
          <Shown text={leave.arguments} manner="exact" />
        </pre>
      )}
      <p class="dim tiny">
        {leave.arguments_bytes} bytes, sha256 <code class="hash">{leave.arguments_sha256.slice(0, 16)}</code>, definition{" "}
        <code class="hash">{leave.tool.fingerprint.slice(0, 16)}</code>
      </p>
      {!rights.value.has("approve") && <p class="small">Your key may not give leave; somebody else's has to.</p>}
      {rights.value.has("approve") && manner === "plain" && (
        <div class="row">
          <button type="button" class="primary" disabled={isSent} onClick={() => decide(call, { approve: true })}>
            Approve
          </button>
          <button type="button" class="danger" disabled={isSent} onClick={() => setManner("deny")}>
            Deny…
          </button>
          <button type="button" disabled={isSent} onClick={() => setManner("edit")}>
            Edit…
          </button>
          {isSent && <span class="dim small">Sent…</span>}
        </div>
      )}
      {manner === "deny" && (
        <Deny
          isSent={isSent}
          onDeny={(why) => decide(call, { approve: false, why })}
          onCancel={() => setManner("plain")}
        />
      )}
      {manner === "edit" && (
        <ArgumentsEditor
          approval={leave.approval}
          text={call.arguments}
          form={leave.tool.parameters ? { schema: leave.tool.parameters } : null}
          isBusy={isSent}
          onApprove={(args) => decide(call, { approve: true, arguments: args })}
          onCancel={() => setManner("plain")}
        />
      )}
      {word && word !== "sent" && <Problem problem={word} />}
    </div>
  );
}

interface DenyProps {
  readonly isSent: boolean;
  readonly onDeny: (why: string) => void;
  readonly onCancel: () => void;
}

function Deny({ isSent, onDeny, onCancel }: DenyProps) {
  const [why, setWhy] = useState("");
  const box = useFocus<HTMLInputElement>();
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
        aria-label="Why not? The model is told."
        placeholder="Why not? The model is told."
        ref={box}
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
