/** What somebody said and what was answered. Drawn again only when it has changed. */

import { useMemo } from "preact/hooks";
import type { Tool } from "../../api/types";
import { Problem } from "../../parts/Problem";
import { Shown } from "../../parts/Shown";
import { to } from "../../router";
import { Call } from "./Call";
import { Growing } from "./Growing";
import type { AnyItem, TextItem, Turn } from "./transcript";
import { isOver } from "./transcript";
import { WireView } from "./WireView";

interface Props {
  readonly turn: Turn;
  readonly version: number;
  readonly tools: readonly Tool[];
  readonly isWireShown: boolean;
}

export function TurnView({ turn, version, tools, isWireShown }: Props) {
  return useMemo(
    () => (
      <article class={`turn ${turn.state}`} aria-label={`Turn ${turn.number + 1}`}>
        <div class="said">
          <span class="visually-hidden">You said: </span>
          <Shown text={turn.said} />
        </div>
        <div class="answer">
          {turn.items.map((item) => (
            <Item key={item.number} item={item} version={item.version} tools={tools} isLast={isLast(turn, item)} />
          ))}
          {turn.state === "asked" && <p class="dim thinking">Asking…</p>}
          {turn.state === "writing" && turn.items.length === 0 && <p class="dim thinking">Reading…</p>}
          {turn.problem && <Problem problem={turn.problem} />}
          {isWireShown && <WireView turn={turn} version={version} />}
          {isOver(turn) && <Foot turn={turn} />}
        </div>
      </article>
    ),
    [turn, version, tools, isWireShown],
  );
}

function isLast(turn: Turn, item: AnyItem): boolean {
  return !isOver(turn) && item === turn.items.at(-1);
}

interface ItemProps {
  readonly item: AnyItem;
  readonly version: number;
  readonly tools: readonly Tool[];
  readonly isLast: boolean;
}

function Item({ item, version, tools, isLast }: ItemProps) {
  return useMemo(() => {
    switch (item.kind) {
      case "text":
        return (
          <div class="text">
            <Growing text={item.text} version={version} isApart />
            {isLast && <span class="caret" aria-hidden="true" />}
          </div>
        );
      case "reasoning":
        return <Reasoning item={item} version={version} isLast={isLast} />;
      case "call":
        return <Call call={item} version={version} tool={tools.find((one) => one.name === item.name)} />;
      case "note":
        return (
          <p class="note small">
            <code>{item.code}</code> <Shown text={item.message} />{" "}
            {item.text && (
              <code>
                <Shown text={item.text} manner="exact" />
              </code>
            )}
          </p>
        );
    }
  }, [item, version, tools, isLast]);
}

interface ReasoningProps {
  readonly item: TextItem;
  readonly version: number;
  readonly isLast: boolean;
}

function Reasoning({ item, version, isLast }: ReasoningProps) {
  return (
    <details class="reasoning">
      <summary>{isLast ? "Reasoning…" : "Reasoning"}</summary>
      <div class="text">
        <Growing text={item.text} version={version} isApart />
      </div>
    </details>
  );
}

const FINISHES: Readonly<Record<string, string>> = { length: "cut off: no more tokens", cancelled: "stopped" };

function Foot({ turn }: { readonly turn: Turn }) {
  const finish = FINISHES[turn.finish] ?? "";
  return (
    <p class="turn-foot tiny dim figures">
      {turn.model && <span>{turn.model}</span>}
      {turn.usage && (
        <span>
          {turn.usage.prompt} + {turn.usage.completion} tokens
        </span>
      )}
      {finish && <span class="warn-words">{finish}</span>}
      {turn.limit && (
        <span class="warn-words">
          <Shown text={turn.limit} />
        </span>
      )}
      {turn.conversation && <a href={to("traces", turn.conversation)}>Trace</a>}
    </p>
  );
}
