/** A notification of the browser for each call that begins to wait, if the person has allowed it. Nobody is asked unasked. */

import { effect, signal } from "@preact/signals";
import type { Approval } from "../api/types";
import { go, to } from "../router";
import { spelled } from "../text/hidden";
import { pending } from "./pending";

/** `none`: this browser, or an address without TLS, has none. */
export type Leave = NotificationPermission | "none";

const MOST_AT_ONCE = 3;

export const noticeLeave = signal<Leave>(now());

function now(): Leave {
  return typeof Notification === "undefined" || !isSecureContext ? "none" : Notification.permission;
}

/** Asks the person; only ever called when he has pressed a button for it. */
export async function askForNotices(): Promise<void> {
  noticeLeave.value = await Notification.requestPermission();
}

/** Those that were not there before. What waited when the page was opened is no news. */
export function news(before: ReadonlySet<string> | null, waiting: readonly Approval[]): readonly Approval[] {
  return before === null ? [] : waiting.filter((one) => !before.has(one.id));
}

export function watchNotices(): void {
  let known: Set<string> | null = null;
  effect(() => {
    const waiting = pending.value;
    if (waiting === null) {
      known = null;
      return;
    }
    const fresh = news(known, waiting);
    known = new Set([...(known ?? []), ...waiting.map((one) => one.id)]);
    // Whoever looks at the page sees them there.
    if (noticeLeave.peek() !== "granted" || (!document.hidden && document.hasFocus())) return;
    if (fresh.length > MOST_AT_ONCE) tell(`${fresh.length} calls wait for leave`, "", "");
    else for (const one of fresh) tell(`${spelled(one.tool)} waits for leave`, `for ${spelled(one.principal)}`, one.id);
  });
}

/** Names only: what a call would do is read where hidden characters are marked. */
function tell(title: string, body: string, id: string): void {
  try {
    const notice = new Notification(title, { body, tag: id || "ferrule" });
    notice.onclick = () => {
      window.focus();
      go(to("approvals", id));
      notice.close();
    };
  } catch {
    // Browsers of phones have the name and refuse to make one.
    noticeLeave.value = "none";
  }
}
