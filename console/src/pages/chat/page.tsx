/** The Chat page: shows calls while they are streamed, their receipts and their results. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { EmptyState } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { paintCount, isActive, isRawShown, load, models, problem, tools, turns } from "./chat";
import { Composer } from "./Composer";
import { Settings } from "./Settings";
import { TurnView } from "./TurnView";
import type { Turn } from "./transcript";
import "./chat.css";

/** Within this distance of its end, in pixels, the transcript keeps scrolling to the end. */
const NEAR_END = 80;

export default function Chat() {
  useEffect(() => void load(), []);
  return (
    <div class="chat">
      <header class="chat-head">
        <h1 class="visually-hidden">Chat</h1>
        <Settings />
      </header>
      <Transcript />
      <div class="chat-footer">
        <Composer />
        <p class="visually-hidden" role="status">
          <StatusAnnouncement />
        </p>
      </div>
    </div>
  );
}

function Transcript() {
  const scroller = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const lastTop = useRef(0);
  const paint = paintCount.value;
  const count = turns.value.length;
  useLayoutEffect(() => {
    isAtEnd.current = true;
  }, [count]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && isAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [paint, count]);
  useEffect(() => {
    // Scroll to the end when a form opens during a turn. After the turn, the user's clicks must not scroll.
    const observer = new ResizeObserver(() => {
      const element = scroller.current;
      if (element && isAtEnd.current && isActive()) element.scrollTop = element.scrollHeight;
    });
    if (inner.current) observer.observe(inner.current);
    return () => observer.disconnect();
  }, []);
  return (
    <section
      ref={scroller}
      class="transcript"
      aria-label="Conversation"
      tabIndex={0}
      onScroll={(event) => {
        const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
        // New text moves the end away; only scrolling up means that the user wants to stay.
        if (scrollHeight - scrollTop - clientHeight < NEAR_END) isAtEnd.current = true;
        else if (scrollTop < lastTop.current) isAtEnd.current = false;
        lastTop.current = scrollTop;
      }}
    >
      <div ref={inner} class="transcript-inner">
        {problem.value && <Problem problem={problem.value} onRetry={() => void load()} />}
        {models.value?.length === 0 && (
          <EmptyState title="Your key cannot use any engine">
            Use a key whose <code>models</code> name one, or add an engine with <code>ferrule serve --engine llama:model.gguf</code>.
          </EmptyState>
        )}
        {count === 0 && (models.value?.length ?? 0) > 0 && (
          <EmptyState title="Start a chat">
            Ask for something that one of the tools can do. Replies are streamed, and every call has a receipt that says how it
            was guaranteed.
          </EmptyState>
        )}
        {turns.value.map((turn) => (
          <TurnView
            key={turn.number}
            turn={turn}
            version={turn.version}
            tools={tools.value}
            isRawShown={isRawShown.value}
          />
        ))}
      </div>
    </section>
  );
}

/** Announces the turn's state to screen readers, but not every token. */
function StatusAnnouncement() {
  paintCount.value;
  const last = turns.value.at(-1);
  return <>{last ? describeState(last) : ""}</>;
}

function describeState(turn: Turn): string {
  const pendingCall = turn.items.find((item) => item.kind === "call" && item.state === "pending");
  if (pendingCall?.kind === "call") return `${pendingCall.name} is waiting for your approval.`;
  return { sent: "Message sent.", writing: "Replying.", done: "Reply complete.", failed: "The reply failed." }[turn.state];
}
