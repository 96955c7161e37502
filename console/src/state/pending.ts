/**
 * The pending approvals, followed as server-sent events, which cost the key one request for all of them. While there is
 * no such stream, they are polled. Layout shows their number, the Approvals page shows them.
 */

import { effect, signal } from "@preact/signals";
import { follow, type ServerEvent } from "../api/events";
import * as gateway from "../api/gateway";
import type { Problem } from "../api/result";
import type { Approval } from "../api/types";
import { rights } from "./session";

const RETRY_INTERVAL = 2_000;
/** A hidden page looks less often, but still looks, for notifications. */
const HIDDEN_RETRY_INTERVAL = 10_000;
const MAX_APPROVALS = 200;

export const pending = signal<readonly Approval[] | null>(null);
export const pendingProblem = signal<Problem | null>(null);

let connection: AbortController | null = null;
let isFollowing = false;

/** Fetches the list, unless a stream already keeps it current. */
export async function refresh(): Promise<void> {
  if (isFollowing || !connection) return;
  const current = connection;
  const answer = await gateway.approvals({ state: "pending", limit: MAX_APPROVALS }, { signal: current.signal });
  if (current !== connection || isFollowing) return;
  if (answer.ok) {
    pendingProblem.value = null;
    if (!isSame(pending.value, answer.value.data)) pending.value = answer.value.data;
  } else if (answer.problem.code !== "aborted") pendingProblem.value = answer.problem;
}

/** Keeps the list while events change it. An event that is not known changes nothing. */
export class PendingList {
  private readonly approvals = new Map<string, Approval>();

  /** Returns the list once it is complete, and null between two events that belong together. */
  take({ event, data }: ServerEvent): readonly Approval[] | null {
    if (event === "approval.pending") {
      const approval = JSON.parse(data) as Approval;
      this.approvals.set(approval.id, approval);
    } else if (event === "approval.closed") this.approvals.delete((JSON.parse(data) as { readonly id: string }).id);
    return event === "approval.synced" ? [...this.approvals.values()] : null;
  }
}

async function run(current: AbortController): Promise<void> {
  while (!current.signal.aborted) {
    const list = new PendingList();
    await follow(gateway.APPROVAL_EVENTS, (event) => show(current, list.take(event)), current.signal);
    if (current !== connection) return;
    isFollowing = false;
    await refresh();
    await pause(current.signal);
  }
}

function show(current: AbortController, approvals: readonly Approval[] | null): void {
  if (current !== connection || !approvals) return;
  isFollowing = true;
  pendingProblem.value = null;
  if (!isSame(pending.value, approvals)) pending.value = approvals;
}

function pause(stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, document.hidden ? HIDDEN_RETRY_INTERVAL : RETRY_INTERVAL);
    stop.addEventListener("abort", () => (clearTimeout(timer), resolve()));
  });
}

function isSame(one: readonly Approval[] | null, other: readonly Approval[]): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

export function watchPending(): void {
  effect(() => {
    connection?.abort();
    connection = null;
    isFollowing = false;
    if (rights.value.has("approve")) {
      connection = new AbortController();
      void run(connection);
    } else pending.value = null;
  });
}
