/** Which keys there are: a line of them, and all of them. */

import { Dialog } from "../../parts/Dialog";
import { LOOK } from "./queue";

const ALL: readonly (readonly [readonly string[], string])[] = [
  [["j", "↓"], "the next one"],
  [["k", "↑"], "the one before"],
  [["a"], "approve"],
  [["e"], "edit the arguments, or answer"],
  [["d"], "deny, with a reason"],
  [["t"], "from those that wait to those that are decided, and back"],
  [["Esc"], "back, out of a reason or an edit"],
  [["Ctrl+Enter"], "send what was edited"],
  [["?"], "this"],
];

export function KeysLine({ onHelp }: { readonly onHelp: () => void }) {
  return (
    <p class="keys-line keys-only dim tiny">
      <kbd>j</kbd> <kbd>k</kbd> next, previous · <kbd>a</kbd> approve · <kbd>e</kbd> edit · <kbd>d</kbd> deny ·{" "}
      <button type="button" class="quiet tiny" onClick={onHelp}>
        <kbd>?</kbd> all keys
      </button>
    </p>
  );
}

export function KeysHelp({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="facts keys-all">
        {ALL.map(([keys, words]) => (
          <div key={words}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
      <p class="small dim">
        Arrows work in the list. No key decides while something is typed, nor in the first {LOOK / 1000} s after a call came up.
      </p>
    </Dialog>
  );
}
