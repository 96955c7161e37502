/** Any JSON, as a tree that opens. Long ones come a piece at a time, so that nothing makes the page stall. */

import { useState } from "preact/hooks";
import type { Json } from "../api/types";
import { Shown } from "./Shown";

const AT_ONCE = 50;
const OPEN_DEPTH = 2;

interface Props {
  readonly value: Json;
  readonly label?: string;
}

export function JsonView({ value, label = "JSON" }: Props) {
  return (
    <div class="json" role="group" aria-label={label}>
      <Value value={value} depth={0} />
    </div>
  );
}

/** The JSON of a text where it is some, and otherwise the text. */
export function JsonText({ text, label }: { readonly text: string; readonly label?: string }) {
  const read = parsed(text);
  if (read === undefined) return <Shown text={text} manner="exact" />;
  return <JsonView value={read} {...(label ? { label } : {})} />;
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

function Value({ value, depth }: { readonly value: Json; readonly depth: number }) {
  if (typeof value === "string") {
    return (
      <span class="json-string">
        "<Shown text={value} manner="exact" />"
      </span>
    );
  }
  if (value === null || typeof value !== "object") return <span class={`json-${typeof value}`}>{String(value)}</span>;
  const isList = Array.isArray(value);
  const entries = isList ? value.map((one, at) => [String(at), one] as const) : Object.entries(value as object);
  if (entries.length === 0) return <span class="json-mark">{isList ? "[]" : "{}"}</span>;
  return <Branch entries={entries as readonly (readonly [string, Json])[]} isList={isList} depth={depth} />;
}

interface BranchProps {
  readonly entries: readonly (readonly [string, Json])[];
  readonly isList: boolean;
  readonly depth: number;
}

function Branch({ entries, isList, depth }: BranchProps) {
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && entries.length <= AT_ONCE);
  const [most, setMost] = useState(AT_ONCE);
  const count = isList ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <span class="json-branch">
      <button type="button" class="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {count}
      </button>
      {isOpen && (
        <ul>
          {entries.slice(0, most).map(([key, one]) => (
            <li key={key}>
              <span class="json-key">
                <Shown text={key} manner="exact" />
              </span>
              <span class="json-mark">: </span>
              <Value value={one} depth={depth + 1} />
            </li>
          ))}
          {entries.length > most && (
            <li>
              <button type="button" class="json-toggle" onClick={() => setMost(most + AT_ONCE * 4)}>
                {entries.length - most} more
              </button>
            </li>
          )}
        </ul>
      )}
    </span>
  );
}
