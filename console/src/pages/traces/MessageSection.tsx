/** A stored message: its text, its reasoning, its calls and their results. */

import type { Json } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { ExactJson } from "../../parts/ExactJson";
import { JsonView } from "../../parts/Json";
import { VisibleText } from "../../parts/VisibleText";
import type { Message, MessagePart } from "./message";

export function MessageSection({ message }: { readonly message: Message }) {
  return (
    <div class="message">
      <p class="small dim">
        <VisibleText text={message.role} mode="exact" />
      </p>
      {message.parts.map((part, index) => (
        <PartSection key={index} part={part} />
      ))}
    </div>
  );
}

function PartSection({ part }: { readonly part: MessagePart }) {
  switch (part.kind) {
    case "text":
      return (
        <p class="message-text">
          <VisibleText text={part.text} />
        </p>
      );
    case "reasoning":
      return (
        <details>
          <summary class="small dim">Reasoning</summary>
          <p class="message-text dim">
            <VisibleText text={part.text} />
          </p>
        </details>
      );
    case "call":
      return (
        <div>
          <p class="small">
            calls{" "}
            <strong>
              <VisibleText text={part.name} mode="exact" />
            </strong>{" "}
            {!part.isComplete && <Badge tone="bad">cut off</Badge>}
          </p>
          <ExactJson text={part.args} label={`Arguments of ${part.name}`} />
        </div>
      );
    case "result":
      return (
        <div>
          <p class="small">
            result of <VisibleText text={part.name} mode="exact" /> {part.isError && <Badge tone="bad">error</Badge>}
          </p>
          <ResultContent content={part.content} />
        </div>
      );
  }
}

export function ResultContent({ content }: { readonly content: Json }) {
  if (typeof content !== "string") return <JsonView value={content} label="Result" />;
  return (
    <pre class="exact-box" tabIndex={0} aria-label="Result">
      <VisibleText text={content} />
    </pre>
  );
}
