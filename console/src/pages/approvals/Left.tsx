/** How long there still is. */

import { now } from "../../parts/Time";
import { counted } from "./counted";

const SOON = 60;

export function Left({ until }: { readonly until: number }) {
  const seconds = Math.floor(until - now.value);
  return (
    <span class={`figures small ${seconds < SOON ? "bad-words" : "dim"}`} title={new Date(until * 1000).toLocaleString()}>
      {seconds > 0 ? `${counted(seconds)} left` : "ran out"}
    </span>
  );
}
