/** Yes, no or otherwise, at the foot of an approval where a thumb and the Tab key find it. */

import { useId, useState } from "preact/hooks";
import type { Approval } from "../../api/types";
import { useFocus } from "../../parts/focus";
import { Problem } from "../../parts/Problem";
import { isQuestion } from "./queue";
import { refused, sending } from "./decisions";

export type Manner = "plain" | "deny" | "edit";

interface Props {
  readonly one: Approval;
  readonly manner: Manner;
  readonly setManner: (manner: Manner) => void;
  readonly onApprove: () => void;
  readonly onDeny: (why: string) => void;
}

export function Decide({ one, manner, setManner, onApprove, onDeny }: Props) {
  const isSending = sending.value !== "";
  const problem = refused.value?.id === one.id ? refused.value.problem : null;
  if (manner === "edit" && !problem) return null;
  return (
    <footer class="decide">
      {problem && <Problem problem={problem} />}
      {manner === "deny" && <Deny isSending={isSending} onDeny={onDeny} onCancel={() => setManner("plain")} />}
      {manner === "plain" && (
        <div class="row">
          {isQuestion(one) ? (
            <button type="button" class="primary" disabled={isSending} onClick={() => setManner("edit")}>
              Answer… <kbd>e</kbd>
            </button>
          ) : (
            <>
              <button type="button" class="primary" disabled={isSending || !mayApprove(one)} onClick={onApprove}>
                Approve <kbd>a</kbd>
              </button>
              <button type="button" disabled={isSending || !mayEdit(one)} onClick={() => setManner("edit")}>
                Edit… <kbd>e</kbd>
              </button>
            </>
          )}
          <button type="button" class="danger" disabled={isSending} onClick={() => setManner("deny")}>
            Deny… <kbd>d</kbd>
          </button>
          {isSending && <span class="dim small">Sent…</span>}
        </div>
      )}
    </footer>
  );
}

/** One whose tool is another by now would not run. */
export function mayApprove(one: Approval): boolean {
  return !isQuestion(one) && one.definition?.is_same !== false;
}

/** What nobody can check nobody can change. */
export function mayEdit(one: Approval): boolean {
  return isQuestion(one) || one.definition?.is_same === true;
}

interface DenyProps {
  readonly isSending: boolean;
  readonly onDeny: (why: string) => void;
  readonly onCancel: () => void;
}

function Deny({ isSending, onDeny, onCancel }: DenyProps) {
  const [why, setWhy] = useState("");
  const shown = useFocus<HTMLInputElement>();
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
        Why not? <span class="dim small">The model is told; it may be left empty.</span>
      </label>
      <div class="row">
        <input
          id={id}
          ref={shown}
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
