/** The page's one Stream, on the browser's WebSocket. */

import { effect, signal } from "@preact/signals";
import { key, protocols } from "./key";
import { Stream, type Link } from "./socket";

/** Whether there is a connection; nobody needs one before the first turn. */
export const link = signal<Link>("idle");

export const stream = new Stream({
  connect(events) {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/v1/stream`, protocols(key.value));
    socket.onopen = () => events.opened();
    socket.onmessage = (event) => {
      if (typeof event.data === "string") events.heard(event.data);
    };
    socket.onclose = () => events.closed();
    return socket;
  },
  later(milliseconds, run) {
    setTimeout(run, milliseconds);
  },
  now: () => performance.now(),
  link(state) {
    link.value = state;
  },
});

let first = true;
effect(() => {
  // Another key is another person: nothing of the one before may be followed with it.
  key.value;
  if (first) first = false;
  else stream.close();
});
