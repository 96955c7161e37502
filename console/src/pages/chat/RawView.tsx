/** For debugging a model: the prompt, the grammar and the raw output, before parsing. */

import { Badge } from "../../parts/Badge";
import { StreamingText } from "./StreamingText";
import type { Turn, RawPart } from "./transcript";
import { isOver } from "./transcript";

interface Props {
  readonly turn: Turn;
  readonly version: number;
}

export function RawView({ turn, version }: Props) {
  if (turn.raw.length === 0) {
    const message = turn.isRawRequested
      ? "This engine does not report its raw output."
      : "It was not requested for this message.";
    return isOver(turn) ? <p class="dim small">Raw: {message}</p> : null;
  }
  return (
    <div class="raw" role="group" aria-label="Raw">
      {turn.raw.map((part, index) => (
        <RawRound key={index} part={part} version={version} />
      ))}
    </div>
  );
}

function RawRound({ part, version }: { readonly part: RawPart; readonly version: number }) {
  return (
    <div class="raw-round">
      <p class="row small">
        <strong>Raw</strong>
        <span class="dim">round {part.round + 1}</span>
        {part.rule?.format && <Badge>{part.rule.format}</Badge>}
        {part.rule?.target && <Badge tone="info">{part.rule.target}</Badge>}
      </p>
      {part.rule?.prompt && <FoldedText title="Prompt" text={part.rule.prompt} />}
      {part.rule?.grammar && <FoldedText title="Grammar" text={part.rule.grammar} />}
      {part.pieces.length > 0 && (
        <pre class="raw-text" tabIndex={0} aria-label="Raw model output">
          {part.pieces.map((piece, index) => (
            <span
              key={index}
              class={piece.isForced ? "forced" : ""}
              {...(piece.isForced ? { title: "appended: the grammar left no choice" } : {})}
            >
              <StreamingText text={piece.text} version={version} />
            </span>
          ))}
        </pre>
      )}
    </div>
  );
}

function FoldedText({ title, text }: { readonly title: string; readonly text: string }) {
  return (
    <details class="folded">
      <summary>
        {title} <span class="dim tabular">{text.length.toLocaleString("en")} characters</span>
      </summary>
      <pre class="raw-text" tabIndex={0} aria-label={title}>
        {text}
      </pre>
    </details>
  );
}
