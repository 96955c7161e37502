/** Who is using the page, as far as the gateway says. */

import { batch, computed, signal } from "@preact/signals";
import * as gateway from "../api/gateway";
import { key } from "../api/key";
import type { Problem } from "../api/result";
import type { Principal, Right } from "../api/types";

export type Session =
  | { readonly state: "unknown" }
  | { readonly state: "key"; readonly problem: Problem | null }
  | { readonly state: "in"; readonly who: Principal }
  | { readonly state: "failed"; readonly problem: Problem };

export const session = signal<Session>({ state: "unknown" });

export const rights = computed<ReadonlySet<Right>>(() =>
  session.value.state === "in" ? new Set(session.value.who.rights) : new Set(),
);

/** Asks who is there. A gateway without keys knows everybody. */
export async function enter(): Promise<void> {
  const tried = key.value;
  const answer = await gateway.me();
  if (tried !== key.value) return;
  if (answer.ok) session.value = { state: "in", who: answer.value };
  else if (answer.problem.status === 401) session.value = { state: "key", problem: tried ? answer.problem : null };
  else session.value = { state: "failed", problem: answer.problem };
}

export async function enterWith(secret: string): Promise<void> {
  key.value = secret;
  await enter();
}

export function leave(): void {
  // At once: nobody is to ask for anything between the two.
  batch(() => {
    session.value = { state: "key", problem: null };
    key.value = "";
  });
}
