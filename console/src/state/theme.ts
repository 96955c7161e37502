/** The colour theme: the system's, unless the user chose another. This choice is the only thing kept in browser storage. */

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const STORAGE_KEY = "ferrule-theme";
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

export const theme = signal<Theme>("system");

export function restoreTheme(): void {
  const saved = readStored();
  setTheme(saved === "light" || saved === "dark" ? saved : "system");
}

export function nextTheme(): void {
  setTheme(NEXT[theme.value]);
}

function setTheme(value: Theme): void {
  theme.value = value;
  if (value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = value;
  try {
    if (value === "system") localStorage.removeItem(STORAGE_KEY);
    else localStorage.setItem(STORAGE_KEY, value);
  } catch {
    // Without storage the theme still applies until the page is closed.
  }
}

function readStored(): string | null {
  try {
    return localStorage.getItem(STORAGE_KEY);
  } catch {
    return null;
  }
}
