/** Routes below /console/, as plain paths without hashes. Knows no page. */

import { computed, signal } from "@preact/signals";

export const BASE = "/console/";

export interface Route {
  /** The first segment of the path, such as `traces`; empty at the root. */
  readonly page: string;
  /** The rest of the path, decoded; may be empty. */
  readonly id: string;
  readonly query: URLSearchParams;
}

export function parseRoute(path: string, search = ""): Route {
  const below = path.startsWith(BASE) ? path.slice(BASE.length) : "";
  const [page = "", ...rest] = below.split("/").filter((part) => part !== "");
  return { page: decode(page), id: rest.map(decode).join("/"), query: new URLSearchParams(search) };
}

/** The path of a page, for a link. */
export function pathTo(page: string, id = "", query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(query).toString();
  return BASE + page + (id ? `/${encodeURIComponent(id)}` : "") + (search ? `?${search}` : "");
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const address = signal(typeof location === "undefined" ? BASE : location.pathname + location.search);

export const route = computed<Route>(() => {
  const [path = BASE, search = ""] = address.value.split("?", 2);
  return parseRoute(path, search);
});

let focusedAtNavigation: Element | null = null;

/** Whether the user has moved the focus since the last navigation, while the page was still loading. */
export function hasFocusMoved(): boolean {
  const focused = document.activeElement;
  return focused !== null && focused !== document.body && focused !== focusedAtNavigation;
}

/** Navigates without a reload. `replace` replaces the current history entry. */
export function navigate(href: string, replace = false): void {
  focusedAtNavigation = document.activeElement;
  if (replace) history.replaceState(null, "", href);
  else if (href !== address.value) history.pushState(null, "", href);
  address.value = href;
}

/** Handles clicks on links within the console without a reload, and the browser's back and forward buttons. */
export function listen(): void {
  addEventListener("popstate", () => {
    address.value = location.pathname + location.search;
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const anchor = event.target instanceof Element ? event.target.closest("a") : null;
    if (!anchor || anchor.target || anchor.hasAttribute("download") || anchor.origin !== location.origin) return;
    if (!anchor.pathname.startsWith(BASE) || anchor.hash) return;
    event.preventDefault();
    navigate(anchor.pathname + anchor.search);
    scrollTo(0, 0);
  });
}
