/** The dialog that creates a key. */

import { useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { IssuedKey } from "../../api/keyTypes";
import type { Problem as ProblemValue } from "../../api/result";
import type { Principal } from "../../api/types";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { rights } from "../../state/session";
import { IssueDialog } from "./IssueDialog";
import { emptyDraft, EXPIRIES, newKeyOf, type KeyDraft } from "./keys";

interface Props {
  readonly principal: Principal | null;
  readonly onClose: (issued: IssuedKey | null) => void;
}

type TextName = "models" | "tools" | "sources" | "rate" | "width";
type FlagName = "approve" | "admin" | "operator";

export function CreateKey({ principal, onClose }: Props) {
  const [isFirst] = useState(principal !== null && !principal.needs_key);
  const [draft, setDraft] = useState<KeyDraft>(() => emptyDraft(isFirst));
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<ProblemValue | null>(null);
  const [issued, setIssued] = useState<IssuedKey | null>(null);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setSending(true);
    const answer = await gateway.createKey(newKeyOf(draft));
    setSending(false);
    setProblem(answer.ok ? null : answer.problem);
    if (answer.ok) setIssued(answer.value);
  };
  const patterns = (name: TextName, label: string, hint: string) => (
    <div class="key-field">
      <label for={`key-${name}`}>{label}</label>
      <input
        id={`key-${name}`}
        class="code-input"
        autocomplete="off"
        spellcheck={false}
        aria-describedby={`key-${name}-hint`}
        value={draft[name]}
        onInput={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })}
      />
      <span id={`key-${name}-hint`} class="dim tiny">
        {hint}
      </span>
    </div>
  );
  const limit = (name: TextName, label: string) => (
    <label class="key-field">
      {label}
      <input
        type="number"
        min="0"
        step="1"
        placeholder="no limit"
        value={draft[name]}
        onInput={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })}
      />
    </label>
  );
  const flag = (name: FlagName, hint: string) => (
    <label class="key-flag">
      <input
        type="checkbox"
        checked={draft[name]}
        onChange={(event) => setDraft({ ...draft, [name]: event.currentTarget.checked })}
      />
      <span>
        {name} <span class="dim small">{hint}</span>
      </span>
    </label>
  );
  return (
    <IssueDialog title="Create a key" issued={issued} principal={principal} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        {isFirst && (
          <p class="notice">
            From this key on, every request needs a key. Copy it, and sign in with it here.
            {!draft.admin && " Without the admin right it cannot manage keys: that needs ferrule keys create."}
          </p>
        )}
        <div class="key-field">
          <label for="key-name">Name</label>
          <input
            id="key-name"
            autofocus
            required
            maxLength={200}
            autocomplete="off"
            spellcheck={false}
            aria-describedby="key-name-hint"
            value={draft.name}
            onInput={(event) => setDraft({ ...draft, name: event.currentTarget.value })}
          />
          <span id="key-name-hint" class="dim tiny">
            Of the program or person, as it appears in logs, traces and approvals.
            {principal && (
              <>
                {" "}
                The tenant is <VisibleText text={principal.tenant} mode="exact" />.
              </>
            )}
          </span>
        </div>
        <fieldset class="key-group">
          <legend>What it may use</legend>
          {patterns("models", "Models", "Names separated by commas; * stands for any text.")}
          {patterns("tools", "Tools", "Empty for none; for example get_*, search_notes.")}
          {patterns("sources", "Sources", "Limits the tools to those of some sources; * for all.")}
        </fieldset>
        <fieldset class="key-group">
          <legend>Rights</legend>
          {rights.value.has("approve") && flag("approve", "decides on calls that are waiting for approval")}
          {flag("admin", "sees the conversations of its tenant, and manages its keys")}
          {rights.value.has("operator") && flag("operator", "reads the metrics and reloads the gateway")}
        </fieldset>
        <div class="key-limits">
          <label class="key-field">
            Expires after
            <select
              value={String(draft.expiry)}
              onChange={(event) => setDraft({ ...draft, expiry: Number(event.currentTarget.value) })}
            >
              {EXPIRIES.map(([seconds, label]) => (
                <option key={seconds} value={String(seconds)}>
                  {label}
                </option>
              ))}
            </select>
          </label>
          {limit("rate", "Requests a minute")}
          {limit("width", "Answers at once")}
        </div>
        {problem && <Problem problem={problem} />}
        <div class="row">
          <button type="submit" class="primary" disabled={isSending}>
            {isSending ? "Creating…" : "Create"}
          </button>
          <button type="button" onClick={() => onClose(null)}>
            Cancel
          </button>
        </div>
      </form>
    </IssueDialog>
  );
}
