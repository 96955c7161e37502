/** The pages, in the order of the navigation. Each is loaded when it is first opened. */

import type { ComponentType } from "preact";
import type { Right } from "../api/types";
import type { PageProps } from "./props";

export interface Page {
  readonly path: string;
  readonly title: string;
  /** The right that a key needs to see the page. */
  readonly right?: Right;
  readonly load: () => Promise<{ readonly default: ComponentType<PageProps> }>;
}

export const PAGES: readonly Page[] = [
  { path: "chat", title: "Chat", right: "models", load: () => import("./chat/page") },
  { path: "approvals", title: "Approvals", right: "approve", load: () => import("./approvals/page") },
  { path: "traces", title: "Traces", load: () => import("./traces/page") },
  { path: "tools", title: "Tools", right: "tools", load: () => import("./tools/page") },
  { path: "engines", title: "Engines", right: "models", load: () => import("./engines/page") },
  { path: "keys", title: "Keys", right: "admin", load: () => import("./keys/page") },
  { path: "limits", title: "Limits", load: () => import("./limits/page") },
];
