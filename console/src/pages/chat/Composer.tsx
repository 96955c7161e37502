/** Where a message is written. Enter sends it; Shift and Enter begin a line. */

import { useEffect, useState } from "preact/hooks";
import { useFocus } from "../../parts/focus";
import { isUnderWay, model, say, stop } from "./chat";

const TALLEST = 220;

export function Composer() {
  const [text, setText] = useState("");
  const box = useFocus<HTMLTextAreaElement>();
  const isBusy = isUnderWay();
  const canSend = !isBusy && text.trim() !== "" && model.value !== "";
  useEffect(() => {
    const shown = box.current;
    if (!shown) return;
    shown.style.height = "auto";
    shown.style.height = `${Math.min(shown.scrollHeight + 2, TALLEST)}px`;
  }, [text]);
  const send = (): void => {
    if (!canSend) return;
    say(text.trim());
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
        ref={box}
        rows={1}
        aria-label="Message"
        placeholder="Say something…"
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
