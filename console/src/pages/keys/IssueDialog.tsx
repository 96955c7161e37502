/** A dialog in which a key is issued: first its form, then the key itself, which is shown only here. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { IssuedKey } from "../../api/keyTypes";
import type { Principal } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { useFocus } from "../../parts/useFocus";
import { signIn } from "../../state/session";
import { isOwn } from "./keys";

interface Props {
  readonly title: string;
  readonly issued: IssuedKey | null;
  readonly principal: Principal | null;
  /** Called with the key if one was issued. */
  readonly onClose: (issued: IssuedKey | null) => void;
  /** The form, which is shown until a key is issued. */
  readonly children: ComponentChildren;
}

export function IssueDialog({ title, issued, principal, onClose, children }: Props) {
  const [isCopied, setCopied] = useState(false);
  const [isWarned, setWarned] = useState(false);
  const close = (): void => {
    // Escape closes a dialog, and the key would be lost.
    if (issued && !isCopied && !isWarned) setWarned(true);
    else onClose(issued);
  };
  return (
    <Dialog title={issued ? "Copy the key now" : title} onClose={close}>
      {issued ? (
        <div class="stack">
          <Secret issued={issued} principal={principal} onCopy={() => setCopied(true)} />
          {isWarned && !isCopied && (
            <p class="notice" role="alert">
              You have not copied the key. If you close now, it is lost, and you have to create or rotate it again.
            </p>
          )}
          <div class="row">
            <button type="button" onClick={close}>
              {isWarned && !isCopied ? "Close without the key" : "Done"}
            </button>
          </div>
        </div>
      ) : (
        children
      )}
    </Dialog>
  );
}

interface SecretProps {
  readonly issued: IssuedKey;
  readonly principal: Principal | null;
  readonly onCopy: () => void;
}

function Secret({ issued, principal, onCopy }: SecretProps) {
  const [status, setStatus] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const copyButton = useFocus<HTMLButtonElement>();
  // While this page has no key, or the key of the same principal, it can continue with the new one.
  const [isUsable] = useState(principal !== null && (!principal.needs_key || isOwn(issued, principal)));
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(issued.key);
      onCopy();
      setStatus("Copied.");
    } catch {
      // Browsers refuse it on pages without HTTPS, other than those of this machine.
      field.current?.focus();
      field.current?.select();
      setStatus("The browser does not allow this page to copy. The key is selected: copy it with Ctrl+C or ⌘C.");
    }
  };
  const use = async (): Promise<void> => {
    await signIn(issued.key);
    setStatus("This page now uses the key, until you close or reload it.");
  };
  return (
    <>
      <p>This is the only time that the key is shown. It cannot be shown again: the ledger has only its SHA-256 hash.</p>
      <label class="key-field">
        Key
        <input
          ref={field}
          class="code-input"
          readOnly
          autocomplete="off"
          spellcheck={false}
          value={issued.key}
          onFocus={(event) => event.currentTarget.select()}
          onCopy={onCopy}
        />
      </label>
      <div class="row">
        <button ref={copyButton} type="button" class="primary" onClick={() => void copy()}>
          Copy the key
        </button>
        {isUsable && (
          <button type="button" onClick={() => void use()}>
            Sign in with it
          </button>
        )}
        <span class="small" role="status">
          {status}
        </span>
      </div>
    </>
  );
}
