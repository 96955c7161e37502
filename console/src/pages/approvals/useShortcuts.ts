/** Maps key presses anywhere on the page to actions. */

import { useEffect, useRef } from "preact/hooks";
import { actionOf, type Action } from "./queue";

/** Elements in which keys type or select something. */
const TYPING_TARGETS = "input, textarea, select, [contenteditable], dialog";

export function useShortcuts(onAction: (action: Action) => void): void {
  const latest = useRef(onAction);
  latest.current = onAction;
  useEffect(() => {
    const handleKey = (event: KeyboardEvent): void => {
      const target = event.target instanceof Element ? event.target : null;
      const action = actionOf({
        key: event.key,
        isModified: event.ctrlKey || event.metaKey || event.altKey || event.isComposing,
        isRepeated: event.repeat,
        isTyping: target?.closest(TYPING_TARGETS) != null || document.querySelector("dialog[open]") !== null,
        isInList: target?.closest("[data-list]") != null,
      });
      if (!action || event.defaultPrevented) return;
      event.preventDefault();
      latest.current(action);
    };
    document.addEventListener("keydown", handleKey);
    return () => document.removeEventListener("keydown", handleKey);
  }, []);
}
