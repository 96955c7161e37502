/** Puts the focus on what has just appeared. `autofocus` does so only while a page is loaded. */

import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** The ref of what is to have the focus once it is there, unless it is not wanted. */
export function useFocus<T extends HTMLElement>(isWanted = true): RefObject<T | null> {
  const element = useRef<T>(null);
  // Before the browser draws: what is typed at once must not go elsewhere.
  useLayoutEffect(() => {
    if (isWanted) element.current?.focus();
  }, []);
  return element;
}
