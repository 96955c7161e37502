/** The page's only Stream, on the browser's WebSocket. */

import { effect, signal } from "@preact/signals";
import { key, protocols } from "./key";
import { Stream, type ConnectionState } from "./socket";

/** The state of the connection. It is opened for the first turn. */
export const connection = signal<ConnectionState>("idle");

export const stream = new Stream({
  connect(events) {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/v1/stream`, protocols(key.value));
    socket.onopen = () => events.onOpen();
    socket.onmessage = (event) => {
      if (typeof event.data === "string") events.onMessage(event.data);
    };
    socket.onclose = () => events.onClose();
    return socket;
  },
  setTimer(milliseconds, run) {
    setTimeout(run, milliseconds);
  },
  now: () => performance.now(),
  onStateChange(state) {
    connection.value = state;
  },
});

let isFirstRun = true;
effect(() => {
  // Another key is another principal, who must not follow the turns of the previous one.
  key.value;
  if (isFirstRun) isFirstRun = false;
  else stream.close();
});
