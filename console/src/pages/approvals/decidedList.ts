/** The approvals that were decided, newest first, a page at a time. */

import { signal } from "@preact/signals";
import * as gateway from "../../api/gateway";
import type { Problem } from "../../api/result";
import type { Approval } from "../../api/types";
import { filter } from "./selection";

const PAGE_SIZE = 50;

export const decidedApprovals = signal<readonly Approval[] | null>(null);
export const hasMore = signal(false);
export const decidedProblem = signal<Problem | null>(null);

let request: AbortController | null = null;

/** Loads the first page, or the next one. */
export async function loadDecided(isMore = false): Promise<void> {
  request?.abort();
  const controller = new AbortController();
  request = controller;
  const loaded = isMore ? (decidedApprovals.value ?? []) : [];
  const last = loaded.at(-1);
  const text = filter.value.trim();
  const query = {
    state: "decided",
    order: "desc",
    limit: PAGE_SIZE,
    ...(last ? { after: last.id } : {}),
    ...(text ? { text } : {}),
  } as const;
  const result = await gateway.approvals(query, { signal: controller.signal });
  if (controller !== request) return;
  if (!result.ok) {
    if (result.problem.code !== "aborted") decidedProblem.value = result.problem;
    return;
  }
  decidedProblem.value = null;
  decidedApprovals.value = [...loaded, ...result.value.data];
  hasMore.value = result.value.has_more ?? false;
}
