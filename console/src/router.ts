/** Paths below /console/, without hashes, so that a link is a link. Knows no page. */

import { computed, signal } from "@preact/signals";

export const BASE = "/console/";

export interface Place {
  /** The first word of the path, such as `traces`; empty at the top. */
  readonly page: string;
  /** What follows it, decoded; empty where nothing does. */
  readonly id: string;
  readonly query: URLSearchParams;
}

export function placeOf(path: string, search = ""): Place {
  const below = path.startsWith(BASE) ? path.slice(BASE.length) : "";
  const [page = "", ...rest] = below.split("/").filter((part) => part !== "");
  return { page: decoded(page), id: rest.map(decoded).join("/"), query: new URLSearchParams(search) };
}

/** The address of a place, to be put into a link. */
export function to(page: string, id = "", query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(query).toString();
  return BASE + page + (id ? `/${encodeURIComponent(id)}` : "") + (search ? `?${search}` : "");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const address = signal(typeof location === "undefined" ? BASE : location.pathname + location.search);

export const place = computed<Place>(() => {
  const [path = BASE, search = ""] = address.value.split("?", 2);
  return placeOf(path, search);
});

/** Goes there without a reload. `replace` leaves no step to go back to. */
export function go(href: string, replace = false): void {
  if (replace) history.replaceState(null, "", href);
  else if (href !== address.value) history.pushState(null, "", href);
  address.value = href;
}

/** Makes links within the console cheap, and the browser's buttons work. */
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
    go(anchor.pathname + anchor.search);
    scrollTo(0, 0);
  });
}
