/** The chat: a call as it forms, its receipt, its result. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Empty } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { drawn, isUnderWay, isWireShown, load, models, problem, tools, turns } from "./chat";
import { Composer } from "./Composer";
import { Settings } from "./Settings";
import { TurnView } from "./TurnView";
import type { Turn } from "./transcript";
import "./chat.css";

/** How near to its end a transcript is for being kept there. */
const NEAR = 80;

export default function Chat() {
  useEffect(() => void load(), []);
  return (
    <div class="chat">
      <header class="chat-head">
        <h1 class="visually-hidden">Chat</h1>
        <Settings />
      </header>
      <Transcript />
      <div class="chat-foot">
        <Composer />
        <p class="visually-hidden" role="status">
          <Told />
        </p>
      </div>
    </div>
  );
}

function Transcript() {
  const frame = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const top = useRef(0);
  const picture = drawn.value;
  const count = turns.value.length;
  useLayoutEffect(() => {
    isAtEnd.current = true;
  }, [count]);
  useLayoutEffect(() => {
    const shown = frame.current;
    if (shown && isAtEnd.current) shown.scrollTop = shown.scrollHeight;
  }, [picture, count]);
  useEffect(() => {
    // A form that opens while a call waits is to be seen whole; in what is over, a reader's own clicks move nothing.
    const watch = new ResizeObserver(() => {
      const shown = frame.current;
      if (shown && isAtEnd.current && isUnderWay()) shown.scrollTop = shown.scrollHeight;
    });
    if (inner.current) watch.observe(inner.current);
    return () => watch.disconnect();
  }, []);
  return (
    <section
      ref={frame}
      class="transcript"
      aria-label="Conversation"
      tabIndex={0}
      onScroll={(event) => {
        const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
        // Text that came meanwhile moves the end away; only who goes up wants to stay where he is.
        if (scrollHeight - scrollTop - clientHeight < NEAR) isAtEnd.current = true;
        else if (scrollTop < top.current) isAtEnd.current = false;
        top.current = scrollTop;
      }}
    >
      <div ref={inner} class="transcript-inner">
        {problem.value && <Problem problem={problem.value} again={() => void load()} />}
        {models.value?.length === 0 && <Empty title="There is no engine that your key may ask" />}
        {count === 0 && (models.value?.length ?? 0) > 0 && (
          <Empty title="Watch a call form">
            Ask for something that one of the tools can do. What the model writes appears as it is written; every call has a
            seal that says how it was guaranteed.
          </Empty>
        )}
        {turns.value.map((turn) => (
          <TurnView
            key={turn.number}
            turn={turn}
            version={turn.version}
            tools={tools.value}
            isWireShown={isWireShown.value}
          />
        ))}
      </div>
    </section>
  );
}

/** Said to who listens instead of looking: states, not every word. */
function Told() {
  drawn.value;
  const last = turns.value.at(-1);
  return <>{last ? stateOf(last) : ""}</>;
}

function stateOf(turn: Turn): string {
  const asking = turn.items.find((item) => item.kind === "call" && item.state === "asking");
  if (asking?.kind === "call") return `${asking.name} waits for your leave.`;
  return { asked: "Asking.", writing: "Answering.", done: "Answered.", failed: "It did not work." }[turn.state];
}
