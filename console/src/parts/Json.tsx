/** JSON as a collapsible tree. Long lists are rendered a page at a time, so that they do not block the browser. */

import { useState } from "preact/hooks";
import type { Json } from "../api/types";
import { VisibleText } from "./VisibleText";

const PAGE_SIZE = 50;
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

/** Shows a text as a JSON tree if it is JSON, and as text otherwise. */
export function JsonText({ text, label }: { readonly text: string; readonly label?: string }) {
  const value = tryParse(text);
  if (value === undefined) return <VisibleText text={text} mode="exact" />;
  return <JsonView value={value} {...(label ? { label } : {})} />;
}

function tryParse(text: string): Json | undefined {
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
        "<VisibleText text={value} mode="exact" />"
      </span>
    );
  }
  if (value === null || typeof value !== "object") return <span class={`json-${typeof value}`}>{String(value)}</span>;
  const isList = Array.isArray(value);
  const entries = isList ? value.map((entry, at) => [String(at), entry] as const) : Object.entries(value as object);
  if (entries.length === 0) return <span class="json-punctuation">{isList ? "[]" : "{}"}</span>;
  return <Branch entries={entries as readonly (readonly [string, Json])[]} isList={isList} depth={depth} />;
}

interface BranchProps {
  readonly entries: readonly (readonly [string, Json])[];
  readonly isList: boolean;
  readonly depth: number;
}

function Branch({ entries, isList, depth }: BranchProps) {
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && entries.length <= PAGE_SIZE);
  const [limit, setLimit] = useState(PAGE_SIZE);
  const count = isList ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <span class="json-branch">
      <button type="button" class="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {count}
      </button>
      {isOpen && (
        <ul>
          {entries.slice(0, limit).map(([key, entry]) => (
            <li key={key}>
              <span class="json-key">
                <VisibleText text={key} mode="exact" />
              </span>
              <span class="json-punctuation">: </span>
              <Value value={entry} depth={depth + 1} />
            </li>
          ))}
          {entries.length > limit && (
            <li>
              <button type="button" class="json-toggle" onClick={() => setLimit(limit + PAGE_SIZE * 4)}>
                {entries.length - limit} more
              </button>
            </li>
          )}
        </ul>
      )}
    </span>
  );
}
