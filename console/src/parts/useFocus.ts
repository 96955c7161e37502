/** Focuses an element that has just appeared. `autofocus` works only while a page loads. */

import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** Returns the ref for the element to focus on mount. */
export function useFocus<T extends HTMLElement>(isEnabled = true): RefObject<T | null> {
  const element = useRef<T>(null);
  // Before the browser paints, so that no key press goes elsewhere.
  useLayoutEffect(() => {
    if (isEnabled) element.current?.focus();
  }, []);
  return element;
}
