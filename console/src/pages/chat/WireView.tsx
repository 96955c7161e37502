/** For those who debug a model: what it was held to, and what it wrote before anybody read it. */

import { Badge } from "../../parts/Badge";
import { Growing } from "./Growing";
import type { Turn, WirePart } from "./transcript";
import { isOver } from "./transcript";

interface Props {
  readonly turn: Turn;
  readonly version: number;
}

export function WireView({ turn, version }: Props) {
  if (turn.wire.length === 0) {
    const words = turn.isWireAsked ? "This engine tells no raw text." : "It was not asked for with this message.";
    return isOver(turn) ? <p class="dim small">Wire: {words}</p> : null;
  }
  return (
    <div class="wire" role="group" aria-label="Wire">
      {turn.wire.map((part, at) => (
        <Part key={at} part={part} version={version} />
      ))}
    </div>
  );
}

function Part({ part, version }: { readonly part: WirePart; readonly version: number }) {
  return (
    <div class="wire-part">
      <p class="row small">
        <strong>Wire</strong>
        <span class="dim">round {part.round + 1}</span>
        {part.rule?.format && <Badge>{part.rule.format}</Badge>}
        {part.rule?.target && <Badge tone="info">{part.rule.target}</Badge>}
      </p>
      {part.rule?.prompt && <Folded title="Prompt" text={part.rule.prompt} />}
      {part.rule?.grammar && <Folded title="Rule" text={part.rule.grammar} />}
      {part.pieces.length > 0 && (
        <pre class="wire-text" tabIndex={0} aria-label="Raw text of the model">
          {part.pieces.map((piece, at) => (
            <span key={at} class={piece.isForced ? "forced" : ""} {...(piece.isForced ? { title: "appended: the rule left no choice" } : {})}>
              <Growing text={piece.text} version={version} />
            </span>
          ))}
        </pre>
      )}
    </div>
  );
}

function Folded({ title, text }: { readonly title: string; readonly text: string }) {
  return (
    <details class="folded">
      <summary>
        {title} <span class="dim figures">{text.length.toLocaleString("en")} characters</span>
      </summary>
      <pre class="wire-text" tabIndex={0} aria-label={title}>
        {text}
      </pre>
    </details>
  );
}
