/** Light or dark: the system's, unless somebody has said otherwise. The one thing that is kept in storage. */

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const NAME = "ferrule-theme";
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

export const theme = signal<Theme>("system");

export function restoreTheme(): void {
  const kept = stored();
  set(kept === "light" || kept === "dark" ? kept : "system");
}

export function nextTheme(): void {
  set(NEXT[theme.value]);
}

function set(value: Theme): void {
  theme.value = value;
  if (value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = value;
  try {
    if (value === "system") localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, value);
  } catch {
    // A browser that keeps nothing still shows it until the page is left.
  }
}

function stored(): string | null {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
}
