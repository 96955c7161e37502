/** The pending approvals, polled from the gateway. Layout shows their number, the Approvals page shows them. */

import { effect, signal } from "@preact/signals";
import * as gateway from "../api/gateway";
import type { Problem } from "../api/result";
import type { Approval } from "../api/types";
import { rights } from "./session";

const POLL_INTERVAL = 2_000;
/** A hidden page polls less often, but still polls, for notifications. */
const HIDDEN_POLL_INTERVAL = 10_000;
const MAX_APPROVALS = 200;

export const pending = signal<readonly Approval[] | null>(null);
export const pendingProblem = signal<Problem | null>(null);

let timer: ReturnType<typeof setTimeout> | undefined;
let request: AbortController | null = null;

/** Fetches now and schedules the next fetch. */
export async function refresh(): Promise<void> {
  clearTimeout(timer);
  request?.abort();
  const controller = new AbortController();
  request = controller;
  const answer = await gateway.approvals({ state: "pending", limit: MAX_APPROVALS }, { signal: controller.signal });
  if (controller !== request) return;
  if (answer.ok) {
    pendingProblem.value = null;
    if (!isSame(pending.value, answer.value.data)) pending.value = answer.value.data;
  } else if (answer.problem.code !== "aborted") pendingProblem.value = answer.problem;
  timer = setTimeout(refresh, document.hidden ? HIDDEN_POLL_INTERVAL : POLL_INTERVAL);
}

function isSame(one: readonly Approval[] | null, other: readonly Approval[]): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

export function watchPending(): void {
  effect(() => {
    if (rights.value.has("approve")) void refresh();
    else {
      clearTimeout(timer);
      request?.abort();
      request = null;
      pending.value = null;
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && rights.peek().has("approve")) void refresh();
  });
}
