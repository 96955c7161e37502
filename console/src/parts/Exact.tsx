/** JSON that somebody decides by: every character of it, numbers as they are written, and nothing folded away. */

import { useMemo } from "preact/hooks";
import { read, valuesOf } from "../json/exact";
import type { Part } from "../json/partial";
import { Shown } from "./Shown";

const LONG = 4_000;

/** Text in which a line break is marked and then made, so that lines are lines and none is hidden. */
export function ExactText({ text }: { readonly text: string }) {
  const lines = useMemo(() => text.split(/(?<=\n)/), [text]);
  return (
    <>
      {lines.map((line, at) => (
        <span key={at}>
          <Shown text={line.replace(/\n$/, "")} manner="exact" />
          {line.endsWith("\n") && <LineEnd />}
        </span>
      ))}
    </>
  );
}

function LineEnd() {
  return (
    <>
      <span class="hidden-mark line-end" title="U+000A line feed" role="img" aria-label="line feed">
        ↵
      </span>
      <br />
    </>
  );
}

export function Exact({ text, label }: { readonly text: string; readonly label: string }) {
  const found = useMemo(() => read(text), [text]);
  return (
    <div class="exact-json" role="group" aria-label={label}>
      {"part" in found ? <Value part={found.part} /> : <ExactText text={text} />}
    </div>
  );
}

function Value({ part }: { readonly part: Part }) {
  switch (part.kind) {
    case "word":
      return <span class="json-number">{part.text}</span>;
    case "string":
      return <Words text={part.text} />;
    case "list":
      if (part.items.length === 0) return <span class="json-mark">[] an empty list</span>;
      return <Rows rows={part.items.map((item, at) => [String(at), item] as const)} isList />;
    case "object":
      if (part.fields.length === 0) return <span class="json-mark">{"{}"} nothing in it</span>;
      return <Rows rows={valuesOf(part)} />;
  }
}

function Words({ text }: { readonly text: string }) {
  if (text.length <= LONG) {
    return (
      <span class="json-string">
        "<ExactText text={text} />"
      </span>
    );
  }
  return (
    <span class="exact-long">
      <span class="dim small">{text.length.toLocaleString("en")} characters:</span>
      <span class="json-string exact-box" tabIndex={0} role="group" aria-label="Long text">
        "<ExactText text={text} />"
      </span>
    </span>
  );
}

interface RowsProps {
  readonly rows: readonly (readonly [string, Part])[];
  readonly isList?: boolean;
}

function Rows({ rows, isList = false }: RowsProps) {
  return (
    <dl class={`exact-rows${isList ? " is-list" : ""}`}>
      {rows.map(([name, part], at) => (
        <div key={at} class={part.kind === "object" || part.kind === "list" ? "exact-row deep" : "exact-row"}>
          <dt class="json-key">
            <Shown text={name} manner="exact" />
          </dt>
          <dd>
            <Value part={part} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
