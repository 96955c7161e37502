/** Labels for the status of a trace or a request. */

import type { RequestStatus } from "../../api/types";
import type { Tone } from "../../parts/Badge";

export interface Status {
  readonly label: string;
  readonly tone: Tone;
  /** What it means, as a sentence; empty for a status that this page does not know. */
  readonly meaning: string;
}

const STATUSES: Readonly<Record<RequestStatus, Status>> = {
  running: { label: "in progress", tone: "info", meaning: "The request is in progress." },
  waiting: { label: "waiting", tone: "warn", meaning: "A call waits for approval." },
  completed: { label: "completed", tone: "good", meaning: "The answer is complete." },
  incomplete: { label: "incomplete", tone: "warn", meaning: "A limit cut the answer off." },
  failed: { label: "failed", tone: "bad", meaning: "An error was returned." },
  left: { label: "client left", tone: "plain", meaning: "The client disconnected before the end." },
  interrupted: { label: "interrupted", tone: "bad", meaning: "The gateway process stopped before the end." },
};
const NO_REQUEST: Status = {
  label: "no request",
  tone: "plain",
  meaning: "A program recorded it, or called a tool, without a request to a model.",
};
/** Nothing went wrong, so that the label says enough. */
const ORDINARY: ReadonlySet<string> = new Set(["running", "completed"]);

/** In the order in which a form lists them. */
export const STATUS_NAMES = Object.keys(STATUSES) as readonly RequestStatus[];

/** A status that this page does not know is shown as it is. */
export function statusOf(name: string): Status {
  if (name === "") return NO_REQUEST;
  return isStatus(name) ? STATUSES[name] : { label: name, tone: "plain", meaning: "" };
}

export function isStatus(name: string): name is RequestStatus {
  return Object.hasOwn(STATUSES, name);
}

/** Whether the request failed or was interrupted. */
export function isFailure(name: string): boolean {
  return statusOf(name).tone === "bad";
}

/** Why a request has no complete answer; empty if it has one or is in progress. */
export function explanationOf(name: string): string {
  return ORDINARY.has(name) ? "" : statusOf(name).meaning;
}
