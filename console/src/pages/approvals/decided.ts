/** Those that a person has decided on, the newest first, a page at a time. */

import { signal } from "@preact/signals";
import * as gateway from "../../api/gateway";
import type { Problem } from "../../api/result";
import type { Approval } from "../../api/types";

const PAGE = 50;

export const decided = signal<readonly Approval[] | null>(null);
export const hasMore = signal(false);
export const decidedProblem = signal<Problem | null>(null);

let asking: AbortController | null = null;

/** Begins anew, or goes on behind what is there. */
export async function loadDecided(isMore = false): Promise<void> {
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const before = isMore ? (decided.value ?? []) : [];
  const last = before.at(-1);
  const query = { state: "decided", order: "desc", limit: PAGE, ...(last ? { after: last.id } : {}) } as const;
  const answer = await gateway.approvals(query, { signal: mine.signal });
  if (mine !== asking) return;
  if (!answer.ok) {
    if (answer.problem.code !== "aborted") decidedProblem.value = answer.problem;
    return;
  }
  decidedProblem.value = null;
  decided.value = [...before, ...answer.value.data];
  hasMore.value = answer.value.has_more ?? false;
}
