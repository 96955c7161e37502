/** The message input. Enter sends; Shift+Enter starts a new line. */

import { useEffect, useState } from "preact/hooks";
import { useFocus } from "../../parts/useFocus";
import { hasFocusMoved } from "../../router";
import { isActive, model, sendMessage, stop } from "./chat";

const MAX_HEIGHT = 220;

export function Composer() {
  const [text, setText] = useState("");
  // The page is loaded when it is first opened: a user who moves on by keyboard meanwhile keeps the focus.
  const input = useFocus<HTMLTextAreaElement>(!hasFocusMoved());
  const isBusy = isActive();
  const canSend = !isBusy && text.trim() !== "" && model.value !== "";
  useEffect(() => {
    const element = input.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight + 2, MAX_HEIGHT)}px`;
  }, [text]);
  const send = (): void => {
    if (!canSend) return;
    sendMessage(text.trim());
    setText("");
  };
  return (
    <form
      class="composer card"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={input}
        rows={1}
        aria-label="Message"
        placeholder="Send a message…"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape" && isBusy) stop();
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      {isBusy ? (
        <button type="button" onClick={stop}>
          Stop
        </button>
      ) : (
        <button type="submit" class="primary" disabled={!canSend}>
          Send
        </button>
      )}
    </form>
  );
}
