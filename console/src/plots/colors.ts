/** The theme's colours for a canvas: the computed values of the custom properties in `style/tokens.css`. */

import { theme } from "../state/theme";

export type PlotColor = "accent" | "info" | "warn" | "bad" | "marker" | "color" | "color" | "line" | "raised";

export interface PlotColors {
  readonly get: (color: PlotColor) => string;
  /** A canvas font, such as `12px system-ui`. */
  readonly font: string;
}

const SIZE = 12;
const NAMES: readonly PlotColor[] = ["accent", "info", "warn", "bad", "marker", "color", "color", "line", "raised"];

/** A custom property keeps `light-dark(...)` as text; only a real property such as `color` computes it. */
export function readColors(element: HTMLElement): PlotColors {
  const probe = document.createElement("span");
  probe.hidden = true;
  element.append(probe);
  const colors = new Map<PlotColor, string>();
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    colors.set(name, getComputedStyle(probe).color);
  }
  const font = `${SIZE}px ${getComputedStyle(element).fontFamily}`;
  probe.remove();
  return { get: (color) => colors.get(color) ?? "currentColor", font };
}

/** Calls back when the colours may have changed, by the user or by the system. */
export function onColorsChanged(onChange: () => void): () => void {
  let isFirst = true;
  let frame = 0;
  // The signal changes before the document does.
  const schedule = (): void => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(onChange);
  };
  const unsubscribe = theme.subscribe(() => {
    if (!isFirst) schedule();
    isFirst = false;
  });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", schedule);
  return () => {
    cancelAnimationFrame(frame);
    unsubscribe();
    system.removeEventListener("change", schedule);
  };
}
