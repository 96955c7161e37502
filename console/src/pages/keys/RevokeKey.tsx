/** The dialog that revokes a key, after it has said what ends. */

import { useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { ApiKey } from "../../api/keyTypes";
import type { Problem as ProblemValue } from "../../api/result";
import type { Principal } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { spellOut } from "../../text/hiddenCharacters";
import { isOwn } from "./keys";

interface Props {
  readonly target: ApiKey;
  /** How many other valid keys of the same principal are listed. */
  readonly others: number;
  readonly principal: Principal | null;
  /** Called with the key if it was revoked. */
  readonly onClose: (revoked: ApiKey | null) => void;
}

export function RevokeKey({ target, others, principal, onClose }: Props) {
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<ProblemValue | null>(null);
  const revoke = async (): Promise<void> => {
    setSending(true);
    const answer = await gateway.revokeKey(target.id);
    setSending(false);
    if (answer.ok) onClose(answer.value);
    else setProblem(answer.problem);
  };
  return (
    <Dialog title={`Revoke ${spellOut(target.name)}?`} onClose={() => onClose(null)}>
      <div class="stack">
        <p>
          <code>{target.id}</code>,{" "}
          {target.last_used_at === null ? (
            "never used"
          ) : (
            <>
              last used <Time at={target.last_used_at} />
            </>
          )}
        </p>
        <p>This ends:</p>
        <ul class="key-ends">
          <li>
            every request with this key: each process refuses it within five seconds, with status 401 and the code{" "}
            <code>key_revoked</code>
          </li>
          <li>what runs for it now: streams end with this error, and WebSockets are closed</li>
        </ul>
        <p>
          A tool call that has begun is not undone: the ledger has its outcome, or says that it is unknown. A revoked key does not
          become valid again.
        </p>
        {others > 0 && (
          <p>
            {others === 1 ? "Another key" : `${others} other keys`} of <strong>{spellOut(target.name)}</strong> in this list{" "}
            {others === 1 ? "stays" : "stay"} valid.
          </p>
        )}
        {isOwn(target, principal) && (
          <p class="notice">This key has your name. If it is the one that you entered, this page asks for another one.</p>
        )}
        {problem && <Problem problem={problem} />}
        <div class="row">
          <button type="button" class="danger" disabled={isSending} onClick={() => void revoke()}>
            {isSending ? "Revoking…" : "Revoke the key"}
          </button>
          <button type="button" autofocus onClick={() => onClose(null)}>
            Cancel
          </button>
        </div>
      </div>
    </Dialog>
  );
}
