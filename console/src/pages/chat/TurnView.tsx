/** One turn: the user's message and the reply. Rendered again only when it has changed. */

import { useMemo } from "preact/hooks";
import type { Tool } from "../../api/types";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { pathTo } from "../../router";
import { CallView } from "./CallView";
import { StreamingText } from "./StreamingText";
import type { AnyItem, TextItem, Turn } from "./transcript";
import { isOver } from "./transcript";
import { RawView } from "./RawView";

interface Props {
  readonly turn: Turn;
  readonly version: number;
  readonly tools: readonly Tool[];
  readonly isRawShown: boolean;
}

export function TurnView({ turn, version, tools, isRawShown }: Props) {
  return useMemo(
    () => (
      <article class={`turn ${turn.state}`} aria-label={`Turn ${turn.number + 1}`}>
        <div class="user-message">
          <span class="visually-hidden">You: </span>
          <VisibleText text={turn.userText} />
        </div>
        <div class="answer">
          {turn.items.map((item) => (
            <ItemView key={item.number} item={item} version={item.version} tools={tools} isLast={isLast(turn, item)} />
          ))}
          {turn.state === "sent" && <p class="dim thinking">Sending…</p>}
          {turn.state === "writing" && turn.items.length === 0 && <p class="dim thinking">Processing the prompt…</p>}
          {turn.problem && <Problem problem={turn.problem} />}
          {isRawShown && <RawView turn={turn} version={version} />}
          {isOver(turn) && <TurnFooter turn={turn} />}
        </div>
      </article>
    ),
    [turn, version, tools, isRawShown],
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

function ItemView({ item, version, tools, isLast }: ItemProps) {
  return useMemo(() => {
    switch (item.kind) {
      case "text":
        return (
          <div class="text">
            <StreamingText text={item.text} version={version} separateLines />
            {isLast && <span class="caret" aria-hidden="true" />}
          </div>
        );
      case "reasoning":
        return <Reasoning item={item} version={version} isLast={isLast} />;
      case "call":
        return <CallView call={item} version={version} tool={tools.find((one) => one.name === item.name)} />;
      case "note":
        return (
          <p class="note small">
            <code>{item.code}</code> <VisibleText text={item.message} />{" "}
            {item.text && (
              <code>
                <VisibleText text={item.text} mode="exact" />
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
        <StreamingText text={item.text} version={version} separateLines />
      </div>
    </details>
  );
}

const FINISH_LABELS: Readonly<Record<string, string>> = { length: "cut off: token limit reached", cancelled: "stopped" };

function TurnFooter({ turn }: { readonly turn: Turn }) {
  const finish = FINISH_LABELS[turn.finish] ?? "";
  return (
    <p class="turn-footer tiny dim tabular">
      {turn.model && <span>{turn.model}</span>}
      {turn.usage && (
        <span>
          {turn.usage.prompt} + {turn.usage.completion} tokens
        </span>
      )}
      {finish && <span class="warn-text">{finish}</span>}
      {turn.limit && (
        <span class="warn-text">
          <VisibleText text={turn.limit} />
        </span>
      )}
      {turn.conversation && <a href={pathTo("traces", turn.conversation)}>Trace</a>}
    </p>
  );
}
