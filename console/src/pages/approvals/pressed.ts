/** Keys that are pressed anywhere on the page, as actions. */

import { useEffect, useRef } from "preact/hooks";
import { actionOf, type Action } from "./queue";

/** Where letters are typed, or choose something. */
const TYPING = "input, textarea, select, [contenteditable], dialog";

export function useKeys(act: (action: Action) => void): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target instanceof Element ? event.target : null;
      const action = actionOf({
        key: event.key,
        isModified: event.ctrlKey || event.metaKey || event.altKey || event.isComposing,
        isRepeated: event.repeat,
        isTyping: target?.closest(TYPING) != null || document.querySelector("dialog[open]") !== null,
        isInList: target?.closest("[data-list]") != null,
      });
      if (!action || event.defaultPrevented) return;
      event.preventDefault();
      latest.current(action);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}
