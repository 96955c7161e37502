/** The dialog that rotates a key. */

import { useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { ApiKey, IssuedKey } from "../../api/keyTypes";
import type { Problem as ProblemValue } from "../../api/result";
import type { Principal } from "../../api/types";
import { Problem } from "../../parts/Problem";
import { spellOut } from "../../text/hiddenCharacters";
import { IssueDialog } from "./IssueDialog";
import { DEFAULT_EXPIRY, DEFAULT_OVERLAP, EXPIRIES, isOwn, OVERLAPS, rotationOf } from "./keys";

interface Props {
  readonly old: ApiKey;
  readonly principal: Principal | null;
  readonly onClose: (issued: IssuedKey | null) => void;
}

export function RotateKey({ old, principal, onClose }: Props) {
  const [overlap, setOverlap] = useState(DEFAULT_OVERLAP);
  const [expiry, setExpiry] = useState(old.expires_at === null ? 0 : DEFAULT_EXPIRY);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<ProblemValue | null>(null);
  const [issued, setIssued] = useState<IssuedKey | null>(null);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setSending(true);
    const answer = await gateway.rotateKey(old.id, rotationOf(overlap, expiry));
    setSending(false);
    setProblem(answer.ok ? null : answer.problem);
    if (answer.ok) setIssued(answer.value);
  };
  return (
    <IssueDialog title={`Rotate ${spellOut(old.name)}`} issued={issued} principal={principal} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <p>
          A new key replaces <code>{old.id}</code>. It has the same name, tenant and permissions, so conversations, approvals and
          quotas continue. Both keys work during the overlap; then the old one expires.
        </p>
        {isOwn(old, principal) && (
          <p class="notice">This key has your name. If it is the one that you entered, sign in with the new one.</p>
        )}
        <label class="key-field">
          Overlap
          <select autofocus value={String(overlap)} onChange={(event) => setOverlap(Number(event.currentTarget.value))}>
            {OVERLAPS.map(([seconds, label]) => (
              <option key={seconds} value={String(seconds)}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label class="key-field">
          The new key expires after
          <select value={String(expiry)} onChange={(event) => setExpiry(Number(event.currentTarget.value))}>
            {EXPIRIES.map(([seconds, label]) => (
              <option key={seconds} value={String(seconds)}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {problem && <Problem problem={problem} />}
        <div class="row">
          <button type="submit" class="primary" disabled={isSending}>
            {isSending ? "Rotating…" : "Rotate"}
          </button>
          <button type="button" onClick={() => onClose(null)}>
            Cancel
          </button>
        </div>
      </form>
    </IssueDialog>
  );
}
