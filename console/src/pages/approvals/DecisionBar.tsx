/** The buttons to approve, edit or deny, at the bottom of an approval. */

import { useId, useState } from "preact/hooks";
import type { Approval } from "../../api/types";
import { useFocus } from "../../parts/useFocus";
import { Problem } from "../../parts/Problem";
import { session } from "../../state/session";
import { hasForm, isQuestion } from "./queue";
import { refusal, sendingId } from "./decisions";

export type DecisionMode = "plain" | "deny" | "edit";

interface Props {
  readonly approval: Approval;
  readonly mode: DecisionMode;
  readonly setMode: (mode: DecisionMode) => void;
  readonly onApprove: () => void;
  readonly onDeny: (why: string) => void;
}

export function DecisionBar({ approval, mode, setMode, onApprove, onDeny }: Props) {
  const isSending = sendingId.value !== "";
  const problem = refusal.value?.id === approval.id ? refusal.value.problem : null;
  if (mode === "edit" && !problem) return null;
  return (
    <footer class="decision-bar">
      {problem && <Problem problem={problem} />}
      {mode === "deny" && <DenyForm isSending={isSending} onDeny={onDeny} onCancel={() => setMode("plain")} />}
      {mode === "plain" && (
        <div class="row">
          {hasForm(approval) ? (
            <button type="button" class="primary" disabled={isSending} onClick={() => setMode("edit")}>
              Answer… <kbd>e</kbd>
            </button>
          ) : (
            <>
              <button type="button" class="primary" disabled={isSending || !canApprove(approval)} onClick={onApprove}>
                Approve <kbd>a</kbd>
              </button>
              <button type="button" disabled={isSending || !canEdit(approval)} onClick={() => setMode("edit")}>
                Edit… <kbd>e</kbd>
              </button>
            </>
          )}
          <button type="button" class="danger" disabled={isSending} onClick={() => setMode("deny")}>
            Deny… <kbd>d</kbd>
          </button>
          {isSending && <span class="dim small">Sending…</span>}
        </div>
      )}
    </footer>
  );
}

/** A call whose tool has changed or is gone would not run. With four eyes, nobody approves what they asked for. */
export function canApprove(approval: Approval): boolean {
  return isQuestion(approval) ? !hasForm(approval) : approval.definition?.is_same === true && !isOwnCall(approval);
}

export function isOwnCall(approval: Approval): boolean {
  const current = session.value;
  return approval.four_eyes && current.state === "signed-in" && current.principal.name === approval.principal;
}

/** Arguments can be edited only if the current definition can validate them. */
export function canEdit(approval: Approval): boolean {
  return isQuestion(approval) ? hasForm(approval) : canApprove(approval);
}

interface DenyFormProps {
  readonly isSending: boolean;
  readonly onDeny: (why: string) => void;
  readonly onCancel: () => void;
}

function DenyForm({ isSending, onDeny, onCancel }: DenyFormProps) {
  const [why, setWhy] = useState("");
  const input = useFocus<HTMLInputElement>();
  const id = useId();
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isSending) onDeny(why.trim());
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") onCancel();
      }}
    >
      <label for={id}>
        Reason <span class="dim small">Optional. The model sees it.</span>
      </label>
      <div class="row">
        <input
          id={id}
          ref={input}
          class="grow"
          type="text"
          autocomplete="off"
          maxLength={1000}
          value={why}
          onInput={(event) => setWhy(event.currentTarget.value)}
        />
        <button type="submit" class="danger" disabled={isSending}>
          Deny
        </button>
        <button type="button" class="quiet" onClick={onCancel}>
          Back
        </button>
      </div>
    </form>
  );
}
