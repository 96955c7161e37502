/** The principal that uses the page, as identified by the gateway. */

import { batch, computed, signal } from "@preact/signals";
import * as gateway from "../api/gateway";
import { key } from "../api/key";
import type { Problem } from "../api/result";
import type { Principal, Right } from "../api/types";

export type Session =
  | { readonly state: "unknown" }
  | { readonly state: "signed-out"; readonly problem: Problem | null }
  | { readonly state: "signed-in"; readonly principal: Principal }
  | { readonly state: "failed"; readonly problem: Problem };

export const session = signal<Session>({ state: "unknown" });

export const rights = computed<ReadonlySet<Right>>(() =>
  session.value.state === "signed-in" ? new Set(session.value.principal.rights) : new Set(),
);

/** Asks the gateway for the principal. A gateway without keys accepts everybody. */
export async function loadSession(): Promise<void> {
  const usedKey = key.value;
  const answer = await gateway.me();
  if (usedKey !== key.value) return;
  if (answer.ok) session.value = { state: "signed-in", principal: answer.value };
  else if (answer.problem.status === 401) session.value = { state: "signed-out", problem: usedKey ? answer.problem : null };
  else session.value = { state: "failed", problem: answer.problem };
}

export async function signIn(secret: string): Promise<void> {
  key.value = secret;
  await loadSession();
}

export function signOut(): void {
  // In one batch, so that no request is sent between the two assignments.
  batch(() => {
    session.value = { state: "signed-out", problem: null };
    key.value = "";
  });
}
