/** The keyboard shortcuts: a hint with the most important ones, and a dialog with all of them. */

import { Dialog } from "../../parts/Dialog";
import { MIN_VIEW_MS } from "./queue";

const SHORTCUTS: readonly (readonly [readonly string[], string])[] = [
  [["j", "↓"], "next"],
  [["k", "↑"], "previous"],
  [["a"], "approve"],
  [["e"], "edit the arguments, or answer"],
  [["d"], "deny, with a reason"],
  [["t"], "switch between pending and decided"],
  [["Esc"], "cancel a denial or an edit"],
  [["Ctrl+Enter"], "send the edited arguments"],
  [["?"], "show this help"],
];

export function ShortcutsHint({ onHelp }: { readonly onHelp: () => void }) {
  return (
    <p class="shortcuts-hint keyboard-only dim tiny">
      <kbd>j</kbd> <kbd>k</kbd> next, previous · <kbd>a</kbd> approve · <kbd>e</kbd> edit · <kbd>d</kbd> deny ·{" "}
      <button type="button" class="quiet tiny" onClick={onHelp}>
        <kbd>?</kbd> all shortcuts
      </button>
    </p>
  );
}

export function ShortcutsDialog({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="facts shortcuts-table">
        {SHORTCUTS.map(([keys, description]) => (
          <div key={description}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{description}</dd>
          </div>
        ))}
      </dl>
      <p class="small dim">
        Arrow keys work in the list. Shortcuts are disabled while you type, and for {MIN_VIEW_MS / 1000} s after a call
        appears.
      </p>
    </Dialog>
  );
}
