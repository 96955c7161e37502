/** JSON for decisions: shows every character, numbers as they are written, and nothing folded. */

import { useMemo } from "preact/hooks";
import { parse, valuesOf } from "../json/lossless";
import type { JsonNode } from "../json/partialParser";
import { VisibleText } from "./VisibleText";

const LONG_TEXT = 4_000;

/** Text whose line breaks are marked and also rendered. */
export function ExactText({ text }: { readonly text: string }) {
  const lines = useMemo(() => text.split(/(?<=\n)/), [text]);
  return (
    <>
      {lines.map((line, index) => (
        <span key={index}>
          <VisibleText text={line.replace(/\n$/, "")} mode="exact" />
          {line.endsWith("\n") && <LineEnd />}
        </span>
      ))}
    </>
  );
}

function LineEnd() {
  return (
    <>
      <span class="hidden-marker line-end" title="U+000A line feed" role="img" aria-label="line feed">
        ↵
      </span>
      <br />
    </>
  );
}

export function ExactJson({ text, label }: { readonly text: string; readonly label: string }) {
  const parsed = useMemo(() => parse(text), [text]);
  return (
    <div class="exact-json" role="group" aria-label={label}>
      {"node" in parsed ? <Value node={parsed.node} /> : <ExactText text={text} />}
    </div>
  );
}

function Value({ node }: { readonly node: JsonNode }) {
  switch (node.kind) {
    case "literal":
      return <span class="json-number">{node.text}</span>;
    case "string":
      return <StringValue text={node.text} />;
    case "array":
      if (node.items.length === 0) return <span class="json-punctuation">[] (empty list)</span>;
      return <Rows rows={node.items.map((item, index) => [String(index), item] as const)} isList />;
    case "object":
      if (node.fields.length === 0) return <span class="json-punctuation">{"{}"} (empty object)</span>;
      return <Rows rows={valuesOf(node)} />;
  }
}

function StringValue({ text }: { readonly text: string }) {
  if (text.length <= LONG_TEXT) {
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
  readonly rows: readonly (readonly [string, JsonNode])[];
  readonly isList?: boolean;
}

function Rows({ rows, isList = false }: RowsProps) {
  return (
    <dl class={`exact-rows${isList ? " is-list" : ""}`}>
      {rows.map(([name, node], index) => (
        <div key={index} class={node.kind === "object" || node.kind === "array" ? "exact-row deep" : "exact-row"}>
          <dt class="json-key">
            <VisibleText text={name} mode="exact" />
          </dt>
          <dd>
            <Value node={node} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
