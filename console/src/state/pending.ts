/** The calls that wait for leave, looked after while the page can be seen. Layout counts them, Approvals shows them. */

import { effect, signal } from "@preact/signals";
import * as gateway from "../api/gateway";
import type { Problem } from "../api/result";
import type { Approval } from "../api/types";
import { rights } from "./session";

const EVERY = 2_000;
/** A hidden page looks less often; it still looks, for the notification. */
const EVERY_HIDDEN = 10_000;
const MOST = 200;

export const pending = signal<readonly Approval[] | null>(null);
export const pendingProblem = signal<Problem | null>(null);

let timer: ReturnType<typeof setTimeout> | undefined;
let asking: AbortController | null = null;

/** Looks now, and then again and again. */
export async function look(): Promise<void> {
  clearTimeout(timer);
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const answer = await gateway.approvals({ state: "pending", limit: MOST }, { signal: mine.signal });
  if (mine !== asking) return;
  if (answer.ok) {
    pendingProblem.value = null;
    if (!isSame(pending.value, answer.value.data)) pending.value = answer.value.data;
  } else if (answer.problem.code !== "aborted") pendingProblem.value = answer.problem;
  timer = setTimeout(look, document.hidden ? EVERY_HIDDEN : EVERY);
}

function isSame(one: readonly Approval[] | null, other: readonly Approval[]): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

export function watchPending(): void {
  effect(() => {
    if (rights.value.has("approve")) void look();
    else {
      clearTimeout(timer);
      asking?.abort();
      asking = null;
      pending.value = null;
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && rights.peek().has("approve")) void look();
  });
}
