/** A call's receipt: a button that says how the call was guaranteed, and opens the details. */

import { useId, useState } from "preact/hooks";
import type { Guarantee, Receipt } from "../api/frames";
import { VisibleText } from "./VisibleText";
import { formatDuration } from "./Time";
import type { Tone } from "./Badge";

const GUARANTEES: Record<Guarantee, { readonly label: string; readonly tone: Tone; readonly description: string }> = {
  grammar: { label: "grammar", tone: "good", description: "The grammar allowed only valid calls while decoding." },
  validated: { label: "validated", tone: "info", description: "Decoding was not constrained; the call was validated afterwards." },
  repaired: { label: "repaired", tone: "warn", description: "The first arguments were invalid; the model wrote them again." },
  refused: { label: "refused", tone: "bad", description: "No valid call was produced; the call was discarded." },
};

export function ReceiptView({ receipt }: { readonly receipt: Receipt }) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const guarantee = GUARANTEES[receipt.how] ?? { label: receipt.how, tone: "plain" as const, description: "" };
  return (
    <div class={`receipt ${guarantee.tone}`}>
      <button
        type="button"
        class="receipt-toggle"
        aria-expanded={isOpen}
        aria-controls={id}
        title={guarantee.description}
        onClick={() => setOpen(!isOpen)}
      >
        <Ring />
        <span class="receipt-label">
          <span class="visually-hidden">Receipt: </span>
          {guarantee.label}
        </span>
        {receipt.unchecked.length > 0 && <span class="receipt-warning">{receipt.unchecked.length} unchecked</span>}
      </button>
      <div id={id} class="receipt-body" hidden={!isOpen}>
        {isOpen && <ReceiptDetail receipt={receipt} description={guarantee.description} />}
      </div>
    </div>
  );
}

function ReceiptDetail({ receipt, description }: { readonly receipt: Receipt; readonly description: string }) {
  return (
    <>
      <p>{description}</p>
      <dl class="facts">
        <KeywordList name="Enforced while decoding" keywords={receipt.enforced} none="nothing" />
        <KeywordList name="Validated afterwards" keywords={receipt.checked} none="nothing" />
        <KeywordList
          name="Not checked"
          keywords={receipt.unchecked}
          none="nothing"
          tone={receipt.unchecked.length ? "warn" : "plain"}
        />
        <dt>Tokens</dt>
        <dd class="tabular">
          {receipt.tokens || "unknown"} {receipt.tokens > 0 && "generated"}
          {receipt.skipped > 0 && <span>, {receipt.skipped} skipped</span>}
        </dd>
        <dt>Duration</dt>
        <dd class="tabular">{formatDuration(receipt.seconds)}</dd>
        <dt>Engine</dt>
        <dd>
          <VisibleText text={receipt.engine} /> <span class="dim">via</span> <code>{receipt.path}</code>
        </dd>
        {receipt.format && (
          <>
            <dt>Format</dt>
            <dd>
              <code>{receipt.format}</code>
            </dd>
          </>
        )}
        {receipt.rule && (
          <>
            <dt>Rule</dt>
            <dd>
              <code class="hash">{receipt.rule}</code>
            </dd>
          </>
        )}
      </dl>
      {receipt.notes.length > 0 && (
        <ul class="notes">
          {receipt.notes.map((note) => (
            <li key={note}>
              <VisibleText text={note} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

interface KeywordListProps {
  readonly name: string;
  readonly keywords: readonly string[];
  readonly none: string;
  readonly tone?: Tone;
}

/** Schema keywords, each as a chip. */
export function KeywordList({ name, keywords, none, tone = "plain" }: KeywordListProps) {
  return (
    <>
      <dt>{name}</dt>
      <dd>
        {keywords.length === 0 && <span class="dim">{none}</span>}
        {keywords.map((keyword) => (
          <code key={keyword} class={`chip ${tone}`}>
            {keyword}
          </code>
        ))}
      </dd>
    </>
  );
}

function Ring() {
  return (
    <svg class="receipt-icon" viewBox="0 0 16 16" aria-hidden="true">
      <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="3" />
    </svg>
  );
}
