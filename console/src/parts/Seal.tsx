/** A receipt as a small seal: one word on how a call was guaranteed, and everything about it when opened. */

import { useId, useState } from "preact/hooks";
import type { How, Receipt } from "../api/frames";
import { Shown } from "./Shown";
import { span } from "./Time";
import type { Tone } from "./Badge";

const HOW: Record<How, { readonly word: string; readonly tone: Tone; readonly says: string }> = {
  grammar: { word: "grammar", tone: "good", says: "The engine could write nothing else." },
  validated: { word: "validated", tone: "info", says: "The engine could write anything; what it wrote was checked." },
  repaired: { word: "repaired", tone: "warn", says: "What was written first did not fit; its arguments were written again." },
  refused: { word: "refused", tone: "bad", says: "Nothing fitting came, and the call is not handed on." },
};

export function Seal({ receipt }: { readonly receipt: Receipt }) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const how = HOW[receipt.how] ?? { word: receipt.how, tone: "plain" as const, says: "" };
  return (
    <div class={`seal ${how.tone}`}>
      <button
        type="button"
        class="seal-face"
        aria-expanded={isOpen}
        aria-controls={id}
        title={how.says}
        onClick={() => setOpen(!isOpen)}
      >
        <Ring />
        <span class="seal-label">
          <span class="visually-hidden">Receipt: </span>
          {how.word}
        </span>
        {receipt.unchecked.length > 0 && <span class="seal-warn">{receipt.unchecked.length} by nobody</span>}
      </button>
      <div id={id} class="seal-body" hidden={!isOpen}>
        {isOpen && <Opened receipt={receipt} says={how.says} />}
      </div>
    </div>
  );
}

function Opened({ receipt, says }: { readonly receipt: Receipt; readonly says: string }) {
  return (
    <>
      <p>{says}</p>
      <dl class="facts">
        <Words name="Enforced while writing" words={receipt.enforced} none="nothing" />
        <Words name="Checked after" words={receipt.checked} none="nothing" />
        <Words name="Checked by nobody" words={receipt.unchecked} none="nothing" tone={receipt.unchecked.length ? "warn" : "plain"} />
        <dt>Tokens</dt>
        <dd class="figures">
          {receipt.tokens || "not told"} {receipt.tokens > 0 && "written"}
          {receipt.skipped > 0 && <span>, {receipt.skipped} skipped</span>}
        </dd>
        <dt>Took</dt>
        <dd class="figures">{span(receipt.seconds)}</dd>
        <dt>Engine</dt>
        <dd>
          <Shown text={receipt.engine} /> <span class="dim">by</span> <code>{receipt.path}</code>
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
              <Shown text={note} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

interface WordsProps {
  readonly name: string;
  readonly words: readonly string[];
  readonly none: string;
  readonly tone?: Tone;
}

/** Keywords of a schema, each as a chip. */
export function Words({ name, words, none, tone = "plain" }: WordsProps) {
  return (
    <>
      <dt>{name}</dt>
      <dd>
        {words.length === 0 && <span class="dim">{none}</span>}
        {words.map((word) => (
          <code key={word} class={`chip ${tone}`}>
            {word}
          </code>
        ))}
      </dd>
    </>
  );
}

function Ring() {
  return (
    <svg class="seal-ring" viewBox="0 0 16 16" aria-hidden="true">
      <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="3" />
    </svg>
  );
}
