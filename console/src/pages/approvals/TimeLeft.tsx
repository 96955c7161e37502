/** The time until an approval expires. */

import { now } from "../../parts/Time";
import { formatCountdown } from "./countdown";

const URGENT_SECONDS = 60;

export function TimeLeft({ until }: { readonly until: number }) {
  const seconds = Math.floor(until - now.value);
  return (
    <span
      class={`tabular small ${seconds < URGENT_SECONDS ? "bad-text" : "dim"}`}
      title={new Date(until * 1000).toLocaleString()}
    >
      {seconds > 0 ? `${formatCountdown(seconds)} left` : "expired"}
    </span>
  );
}
