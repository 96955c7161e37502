/** The keys in the ledger, and the dialogs that create, rotate and revoke them. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiKey } from "../../api/keyTypes";
import { EmptyState, Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { now } from "../../parts/Time";
import { loadSession, session } from "../../state/session";
import { spellOut } from "../../text/hiddenCharacters";
import { CreateKey } from "./CreateKey";
import { siblings } from "./keys";
import { KeyTable } from "./KeyTable";
import { RevokeKey } from "./RevokeKey";
import { RotateKey } from "./RotateKey";
import { useKeys } from "./useKeys";

type OpenDialog = { readonly kind: "create" } | { readonly kind: "rotate" | "revoke"; readonly key: ApiKey };

export function KeyList() {
  const { keys, isTemporary, hasMore, isLoading, problem, more, reload } = useKeys();
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const [announcement, setAnnouncement] = useState("");
  const isChanged = useRef(false);
  const principal = session.value.state === "signed-in" ? session.value.principal : null;
  const needsKey = principal?.needs_key ?? true;

  /** A change may have ended the key of this page, or made the gateway require one. */
  const close = async (change: string | null): Promise<void> => {
    setDialog(null);
    if (!change) return;
    setAnnouncement(change);
    await loadSession();
    isChanged.current = true;
    reload();
  };

  useEffect(() => {
    // The button that opened the dialog may be gone. Without this, the focus would begin again at the top of the page.
    if (isChanged.current && document.activeElement === document.body) document.getElementById("content")?.focus();
    isChanged.current = false;
  }, [keys]);

  const createButton = (
    <button type="button" class="primary" onClick={() => setDialog({ kind: "create" })}>
      Create a key
    </button>
  );
  return (
    <div class="page">
      <header class="page-head">
        <h1>Keys</h1>
        <div class="row">
          <button type="button" disabled={isLoading} onClick={reload}>
            Refresh
          </button>
          {keys && keys.length > 0 && createButton}
        </div>
      </header>
      <p class="keys-status small" role="status">
        {announcement}
      </p>
      {problem && <Problem problem={problem} onRetry={reload} />}
      {!keys && !problem && <Loading what="the keys" />}
      {keys && isTemporary && (
        <p class="notice">
          The ledger of this gateway is temporary, so keys that you create here end when it stops. To keep them, start it with{" "}
          <code>--ledger FILE</code>, or set <code>ledger</code> in <code>ferrule.toml</code>.
        </p>
      )}
      {keys?.length === 0 &&
        (needsKey ? (
          <EmptyState title="No keys in the ledger yet">
            <p>
              Create one for each program and person. It works at once, in every process of the gateway. Keys of{" "}
              <code>ferrule.toml</code> are not listed: they change with the file.
            </p>
            <p class="empty-action">{createButton}</p>
          </EmptyState>
        ) : (
          <EmptyState title="This gateway needs no key yet">
            <p>
              Everyone who can reach it has every right. From the first key on, every request needs a key, also those of this page.
              Begin with an admin's key for yourself, and sign in with it; then create one for each program.
            </p>
            <p class="empty-action">{createButton}</p>
          </EmptyState>
        ))}
      {keys && keys.length > 0 && (
        <>
          <p class="dim small">
            {needsKey ? "The keys of your tenant in the ledger" : "All keys in the ledger"}, newest first. Keys of{" "}
            <code>ferrule.toml</code> are not listed.
          </p>
          <KeyTable
            keys={keys}
            onRotate={(key) => setDialog({ kind: "rotate", key })}
            onRevoke={(key) => setDialog({ kind: "revoke", key })}
          />
        </>
      )}
      {hasMore && (
        <div>
          <button type="button" disabled={isLoading} onClick={more}>
            {isLoading ? "Loading…" : "More"}
          </button>
        </div>
      )}
      {dialog?.kind === "create" && (
        <CreateKey principal={principal} onClose={(key) => void close(key && `${spellOut(key.name)} was created.`)} />
      )}
      {dialog?.kind === "rotate" && (
        <RotateKey
          old={dialog.key}
          principal={principal}
          onClose={(key) => void close(key && `${spellOut(key.name)} was rotated.`)}
        />
      )}
      {dialog?.kind === "revoke" && (
        <RevokeKey
          target={dialog.key}
          others={siblings(dialog.key, keys ?? [], now.value).length}
          principal={principal}
          onClose={(key) => void close(key && `${spellOut(key.name)} was revoked.`)}
        />
      )}
    </div>
  );
}
