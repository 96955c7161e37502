/** A schema as readable fields, or as raw JSON. */

import { useMemo, useState } from "preact/hooks";
import type { Schema } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { JsonView } from "../../parts/Json";
import { VisibleText } from "../../parts/VisibleText";
import { shapeOf, type SchemaField } from "./schema";

const OPEN_DEPTH = 2;
const PAGE_SIZE = 60;

export function SchemaView({ schema }: { readonly schema: Schema }) {
  const [isRaw, setRaw] = useState(false);
  const shape = useMemo(() => shapeOf(schema), [schema]);
  return (
    <section class="stack" aria-labelledby="schema-title">
      <header class="page-head">
        <h2 id="schema-title">Parameters</h2>
        <button type="button" class="small" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          Raw JSON
        </button>
      </header>
      {isRaw ? (
        <div class="card schema-raw">
          <JsonView value={schema} label="Schema" />
        </div>
      ) : (
        <div class="card schema">
          <RootFields shape={shape} />
        </div>
      )}
    </section>
  );
}

function RootFields({ shape }: { readonly shape: SchemaField }) {
  const inner = shape.inner();
  return (
    <>
      {inner.length === 0 && <p class="dim">{shape.type === "object" ? "No fields are declared." : shape.type}</p>}
      <FieldList fields={inner} depth={0} />
      {(shape.limits.length > 0 || shape.description) && (
        <div class="schema-root small">
          <span class="dim">All arguments:</span> <VisibleText text={shape.description} /> <LimitChips field={shape} />
        </div>
      )}
    </>
  );
}

function FieldList({ fields, depth }: { readonly fields: readonly SchemaField[]; readonly depth: number }) {
  const [limit, setLimit] = useState(PAGE_SIZE);
  if (fields.length === 0) return null;
  return (
    <ul class="schema-fields">
      {fields.slice(0, limit).map((field, index) => (
        <FieldRow key={index} field={field} depth={depth} />
      ))}
      {fields.length > limit && (
        <li>
          <button type="button" class="quiet" onClick={() => setLimit(limit + PAGE_SIZE)}>
            {fields.length - limit} more
          </button>
        </li>
      )}
    </ul>
  );
}

function FieldRow({ field, depth }: { readonly field: SchemaField; readonly depth: number }) {
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH);
  const inner = useMemo(field.inner, [field]);
  return (
    <li class="schema-field">
      <div class="schema-line">
        {field.isNamed ? (
          <code class="schema-name">
            <VisibleText text={field.name} mode="exact" />
          </code>
        ) : (
          <span class="schema-name dim">
            <VisibleText text={field.name} mode="exact" />
          </span>
        )}
        <span class="schema-type">
          <VisibleText text={field.type} mode="exact" />
        </span>
        {field.isRequired && <Badge tone="info">required</Badge>}
        <LimitChips field={field} />
      </div>
      {field.description && (
        <p class="schema-description small">
          <VisibleText text={field.description} />
        </p>
      )}
      {inner.length > 0 && depth >= OPEN_DEPTH && (
        <button type="button" class="quiet small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Collapse" : `${inner.length} fields`}
        </button>
      )}
      {isOpen && <FieldList fields={inner} depth={depth + 1} />}
    </li>
  );
}

function LimitChips({ field }: { readonly field: SchemaField }) {
  return field.limits.map((limit) => (
    <span key={limit.keywords.join()} class="chip schema-limit" title={limit.keywords.join(", ")}>
      <VisibleText text={limit.text} mode="exact" />
    </span>
  ));
}
