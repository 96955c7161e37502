/** Browser notifications for new pending approvals, if the user has allowed them. */

import { effect, signal } from "@preact/signals";
import type { Approval } from "../api/types";
import { navigate, pathTo } from "../router";
import { spellOut } from "../text/hiddenCharacters";
import { pending } from "./pending";

/** `none`: not available in this browser, or not over plain HTTP. */
export type NotificationState = NotificationPermission | "none";

const MAX_AT_ONCE = 3;

export const notificationState = signal<NotificationState>(currentState());

function currentState(): NotificationState {
  return typeof Notification === "undefined" || !isSecureContext ? "none" : Notification.permission;
}

/** Asks the user for permission. Call it only after a click. */
export async function requestNotifications(): Promise<void> {
  notificationState.value = await Notification.requestPermission();
}

/** The approvals that were not pending before. Those that were pending when the page opened do not count. */
export function newlyPending(before: ReadonlySet<string> | null, waiting: readonly Approval[]): readonly Approval[] {
  return before === null ? [] : waiting.filter((approval) => !before.has(approval.id));
}

export function watchNotifications(): void {
  let knownIds: Set<string> | null = null;
  effect(() => {
    const waiting = pending.value;
    if (waiting === null) {
      knownIds = null;
      return;
    }
    const added = newlyPending(knownIds, waiting);
    knownIds = new Set([...(knownIds ?? []), ...waiting.map((approval) => approval.id)]);
    // While the page is visible and focused, the queue itself shows them.
    if (notificationState.peek() !== "granted" || (!document.hidden && document.hasFocus())) return;
    if (added.length > MAX_AT_ONCE) notify(`${added.length} calls are waiting for approval`, "", "");
    else {
      for (const { id, tool, principal } of added) {
        notify(`${spellOut(tool)} is waiting for approval`, `for ${spellOut(principal)}`, id);
      }
    }
  });
}

/** Shows names only: arguments are read in the console, where hidden characters are marked. */
function notify(title: string, body: string, id: string): void {
  try {
    const notification = new Notification(title, { body, tag: id || "ferrule" });
    notification.onclick = () => {
      window.focus();
      navigate(pathTo("approvals", id));
      notification.close();
    };
  } catch {
    // Mobile browsers define `Notification` but throw when one is created.
    notificationState.value = "none";
  }
}
