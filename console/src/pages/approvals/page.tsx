/** Calls that wait for leave: the queue, live, and one of them beside it. By keyboard alone, if one likes. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Empty, Loading } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { go, place, to } from "../../router";
import { pending, pendingProblem } from "../../state/pending";
import type { PageProps } from "../props";
import { decided, decidedProblem, hasMore, loadDecided } from "./decided";
import { told } from "./decisions";
import { KeysHelp, KeysLine } from "./Keys";
import { List } from "./List";
import { Notices } from "./Notices";
import { One } from "./One";
import { afterwards, further, inOrder, type Action } from "./queue";
import { useKeys } from "./pressed";
import { useIsWide } from "./wide";
import "./approvals.css";

const DECIDED = { tab: "decided" } as const;
const TOO_MANY = 200;

export default function Approvals({ id }: PageProps) {
  const isDecided = place.value.query.get("tab") === "decided";
  const query = isDecided ? DECIDED : {};
  const waiting = pending.value && inOrder(pending.value);
  const list = (isDecided ? decided.value : waiting) ?? [];
  const isWide = useIsWide();
  const [isHelp, setHelp] = useState(false);
  const one = useRef<(action: Action) => void>(() => undefined);

  useEffect(() => {
    if (isDecided) void loadDecided();
  }, [isDecided, told.value]);

  // The address says which one it is, so that it stays the same one whatever comes and goes in the queue.
  const first = list[0]?.id ?? "";
  useEffect(() => {
    if (isWide && !id && first) go(to("approvals", first, query), true);
  }, [isWide, id, first, isDecided]);

  const turnTo = (next: string): void => {
    go(to("approvals", next, query));
    if (next) focusOn(next);
    else document.getElementById("content")?.focus();
  };

  useKeys((action) => {
    if (isHelp) return;
    if (action === "help") setHelp(true);
    else if (action === "tab") go(to("approvals", "", isDecided ? {} : DECIDED));
    else if (action === "next" || action === "previous") {
      const next = further(list, id, action === "next" ? 1 : -1);
      if (next) turnTo(next.id);
    } else one.current(action);
  });

  return (
    <div class={`page approvals${id ? " has-one" : ""}`}>
      <header class="page-head">
        <h1>Approvals</h1>
        <Notices />
      </header>
      <div class="approvals-panes">
        <div class="approvals-list">
          <nav class="tabs" aria-label="Which approvals">
            <a href={to("approvals")} {...(isDecided ? {} : { "aria-current": "true" as const })}>
              Waiting {waiting && <span class="figures">({waiting.length})</span>}
            </a>
            <a href={to("approvals", "", DECIDED)} {...(isDecided ? { "aria-current": "true" as const } : {})}>
              Decided
            </a>
          </nav>
          {isDecided ? <DecidedList id={id} /> : <WaitingList id={id} />}
        </div>
        <div class="approvals-one">
          {id && (
            <a class="approvals-back" href={to("approvals", "", query)}>
              ← All of them
            </a>
          )}
          {id ? (
            <One
              key={id}
              id={id}
              actions={one}
              onDecided={() => turnTo((isDecided ? undefined : afterwards(list, id))?.id ?? "")}
            />
          ) : (
            <Nothing isDecided={isDecided} />
          )}
        </div>
      </div>
      <p class="approvals-told small" role="status">
        {told.value}
      </p>
      <KeysLine onHelp={() => setHelp(true)} />
      {isHelp && <KeysHelp onClose={() => setHelp(false)} />}
    </div>
  );
}

function WaitingList({ id }: { readonly id: string }) {
  const waiting = pending.value;
  if (!waiting) {
    return pendingProblem.value ? <Problem problem={pendingProblem.value} /> : <Loading what="the queue" />;
  }
  return (
    <>
      {pendingProblem.value && <Problem problem={pendingProblem.value} />}
      {waiting.length === 0 && <p class="queue-empty dim">Nothing waits.</p>}
      <List label="Calls that wait for leave" list={inOrder(waiting)} current={id} />
      {waiting.length >= TOO_MANY && <p class="small dim">The first {TOO_MANY}; there may be more.</p>}
    </>
  );
}

function DecidedList({ id }: { readonly id: string }) {
  const known = decided.value;
  const problem = decidedProblem.value;
  if (!known) {
    return problem ? <Problem problem={problem} again={() => void loadDecided()} /> : <Loading what="what was decided" />;
  }
  return (
    <>
      {problem && <Problem problem={problem} again={() => void loadDecided()} />}
      {known.length === 0 && <p class="queue-empty dim">Nothing was decided yet.</p>}
      <List label="Approvals that were decided" list={known} current={id} query={DECIDED} />
      {hasMore.value && (
        <button type="button" onClick={() => void loadDecided(true)}>
          More
        </button>
      )}
    </>
  );
}

function Nothing({ isDecided }: { readonly isDecided: boolean }) {
  if (isDecided || (pending.value?.length ?? 0) > 0) return null;
  return (
    <Empty title="Nothing waits for leave">
      A call of a tool that changes the world appears here before it runs, as soon as a model or a program makes it.
    </Empty>
  );
}

/** To its line where the list can be seen, and otherwise to its title. */
function focusOn(id: string): void {
  requestAnimationFrame(() => {
    const line = document.querySelector<HTMLElement>(`[data-approval="${CSS.escape(id)}"]`);
    const shown = line?.offsetParent ? line : document.getElementById("approval-title");
    shown?.focus();
    shown?.scrollIntoView({ block: "nearest" });
  });
}
