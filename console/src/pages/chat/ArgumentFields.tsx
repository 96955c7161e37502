/** A call's arguments as the fields of their schema, while they are streamed and afterwards. */

import type { Schema } from "../../api/types";
import { fieldsOf, itemsOf, type FieldShape } from "../../json/fields";
import type { Field, ObjectNode, JsonNode } from "../../json/partialParser";
import { VisibleText } from "../../parts/VisibleText";

const TAIL_LENGTH = 1_500;

interface Props {
  readonly node: JsonNode | null;
  readonly schema: Schema;
  readonly root: Schema;
  /** Whether more text may follow. */
  readonly isStreaming: boolean;
  /** The call's version. Nodes are mutated, and a component with unchanged props would not be rendered again. */
  readonly version: number;
}

export function ArgumentFields({ node, schema, root, isStreaming, version }: Props) {
  if (node && node.kind !== "object") {
    return <Value node={node} schema={schema} root={root} isStreaming={isStreaming} version={version} />;
  }
  const shapes = fieldsOf(schema, root);
  const present = node?.fields ?? [];
  const rows = [...rowsOf(shapes, present)];
  const visible = rows.filter((row) => row.field || isStreaming);
  const absent = isStreaming ? [] : rows.filter((row) => !row.field);
  if (rows.length === 0) return <p class="dim small">{isStreaming ? "…" : "no arguments"}</p>;
  return (
    <>
      {visible.length > 0 && (
        <dl class="fields">
          {visible.map((row, index) => (
            <Row key={index} {...row} node={node} root={root} isStreaming={isStreaming} version={version} />
          ))}
        </dl>
      )}
      {absent.length > 0 && (
        <p class="dim small">
          not set: <VisibleText text={absent.map((row) => row.name).join(", ")} />
        </p>
      )}
    </>
  );
}

interface FieldRow {
  readonly name: string;
  readonly shape: FieldShape | null;
  readonly field: Field | null;
}

/** In the schema's order, followed by fields that the schema does not declare. */
function* rowsOf(shapes: readonly FieldShape[], present: readonly Field[]): Iterable<FieldRow> {
  const names = new Set(shapes.map((shape) => shape.name));
  for (const shape of shapes) {
    const field = present.findLast((field) => field.key.isComplete && field.key.text === shape.name) ?? null;
    yield { name: shape.name, shape, field };
  }
  for (const field of present) {
    // A key that is still being streamed may become one of those above.
    if (field.key.isComplete && !names.has(field.key.text)) yield { name: field.key.text, shape: null, field };
  }
}

interface RowProps extends FieldRow {
  readonly root: Schema;
  readonly isStreaming: boolean;
  readonly node: ObjectNode | null;
  readonly version: number;
}

function Row({ name, shape, field, node, root, isStreaming, version }: RowProps) {
  const isCurrent = isStreaming && field !== null && field === node?.fields.at(-1) && !field.value?.isComplete;
  return (
    <div class={`field${isCurrent ? " current" : ""}${field ? "" : " empty-field"}`}>
      <dt {...(shape?.description ? { title: shape.description } : {})}>
        <VisibleText text={name} mode="exact" />
        {shape && !shape.isRequired && <span class="dim"> ?</span>}
        {shape?.type && <span class="field-type">{shape.type}</span>}
      </dt>
      <dd>
        {field?.value ? (
          <Value node={field.value} schema={shape?.schema ?? {}} root={root} isStreaming={isStreaming} version={version} />
        ) : (
          <span class="dim">{isCurrent ? <Caret /> : "·"}</span>
        )}
      </dd>
    </div>
  );
}

interface ValueProps {
  readonly node: JsonNode;
  readonly schema: Schema;
  readonly root: Schema;
  readonly isStreaming: boolean;
  readonly version: number;
}

function Value({ node, schema, root, isStreaming, version }: ValueProps) {
  const caret = isStreaming && !node.isComplete && <Caret />;
  switch (node.kind) {
    case "string":
      return (
        <span class="json-string">
          <StreamedText text={node.text} isStreaming={isStreaming && !node.isComplete} />
          {caret}
        </span>
      );
    case "literal":
      return (
        <span class="json-number">
          {node.text}
          {caret}
        </span>
      );
    case "object": {
      const isOpen = isStreaming && !node.isComplete;
      return <ArgumentFields node={node} schema={schema} root={root} isStreaming={isOpen} version={version} />;
    }
    case "array": {
      const isOpen = isStreaming && !node.isComplete;
      const items = itemsOf(schema, root);
      if (node.items.length === 0) return caret || <span class="dim">empty list</span>;
      return (
        <ol class="field-items">
          {node.items.map((item, index) => (
            <li key={index}>
              <Value node={item} schema={items} root={root} isStreaming={isOpen} version={version} />
            </li>
          ))}
        </ol>
      );
    }
  }
}

/** While a long text is streamed, shows only its end: rendering all of it for each token would be too slow. */
function StreamedText({ text, isStreaming }: { readonly text: string; readonly isStreaming: boolean }) {
  if (!isStreaming || text.length <= 2 * TAIL_LENGTH) return <VisibleText text={text} mode="exact" />;
  return (
    <>
      <span class="dim">{(text.length - TAIL_LENGTH).toLocaleString("en")} characters, then … </span>
      <VisibleText text={text.slice(-TAIL_LENGTH)} mode="exact" />
    </>
  );
}

function Caret() {
  return <span class="caret" aria-hidden="true" />;
}
