/** The theme's colours as a canvas needs them: what the custom properties of `style/tokens.css` come to, right now. */

import { theme } from "../state/theme";

export type Ink = "accent" | "info" | "warn" | "bad" | "mark" | "ink" | "ink-dim" | "line" | "raised";

export interface Inks {
  readonly of: (ink: Ink) => string;
  /** A canvas' font, such as `12px system-ui`. */
  readonly font: string;
}

const SIZE = 12;
const NAMES: readonly Ink[] = ["accent", "info", "warn", "bad", "mark", "ink", "ink-dim", "line", "raised"];

/** A custom property keeps its words, `light-dark(...)` among them; only a real property is worked out. */
export function inksAt(place: HTMLElement): Inks {
  const probe = document.createElement("span");
  probe.hidden = true;
  place.append(probe);
  const found = new Map<Ink, string>();
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    found.set(name, getComputedStyle(probe).color);
  }
  const font = `${SIZE}px ${getComputedStyle(place).fontFamily}`;
  probe.remove();
  return { of: (ink) => found.get(ink) ?? "currentColor", font };
}

/** Calls back whenever the colours may have changed: somebody said so, or the system did. */
export function onInksChanged(changed: () => void): () => void {
  let isFirst = true;
  let frame = 0;
  // The signal is told before the document is.
  const soon = (): void => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(changed);
  };
  const forget = theme.subscribe(() => {
    if (!isFirst) soon();
    isFirst = false;
  });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", soon);
  return () => {
    cancelAnimationFrame(frame);
    forget();
    system.removeEventListener("change", soon);
  };
}
