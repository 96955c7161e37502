/** A schema as fields that people read, or as the JSON that it is. */

import { useMemo, useState } from "preact/hooks";
import type { Schema } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { JsonView } from "../../parts/Json";
import { Shown } from "../../parts/Shown";
import { shapeOf, type SchemaField } from "./schema";

const OPEN_DEPTH = 2;
const AT_ONCE = 60;

export function SchemaView({ schema }: { readonly schema: Schema }) {
  const [isRaw, setRaw] = useState(false);
  const shape = useMemo(() => shapeOf(schema), [schema]);
  return (
    <section class="stack" aria-labelledby="schema-title">
      <header class="page-head">
        <h2 id="schema-title">What it takes</h2>
        <button type="button" class="small" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          Raw JSON
        </button>
      </header>
      {isRaw ? (
        <div class="card schema-raw">
          <JsonView value={schema} label="The schema" />
        </div>
      ) : (
        <div class="card schema">
          <Whole shape={shape} />
        </div>
      )}
    </section>
  );
}

function Whole({ shape }: { readonly shape: SchemaField }) {
  const inner = shape.inner();
  return (
    <>
      {inner.length === 0 && <p class="dim">{shape.type === "object" ? "No fields are named." : shape.type}</p>}
      <Inner fields={inner} depth={0} />
      {(shape.limits.length > 0 || shape.description) && (
        <div class="schema-root small">
          <span class="dim">The whole:</span> <Shown text={shape.description} /> <Limits field={shape} />
        </div>
      )}
    </>
  );
}

function Inner({ fields, depth }: { readonly fields: readonly SchemaField[]; readonly depth: number }) {
  const [most, setMost] = useState(AT_ONCE);
  if (fields.length === 0) return null;
  return (
    <ul class="schema-fields">
      {fields.slice(0, most).map((field, at) => (
        <FieldLine key={at} field={field} depth={depth} />
      ))}
      {fields.length > most && (
        <li>
          <button type="button" class="quiet" onClick={() => setMost(most + AT_ONCE)}>
            {fields.length - most} more
          </button>
        </li>
      )}
    </ul>
  );
}

function FieldLine({ field, depth }: { readonly field: SchemaField; readonly depth: number }) {
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH);
  const inner = useMemo(field.inner, [field]);
  return (
    <li class="schema-field">
      <div class="schema-line">
        {field.isNamed ? (
          <code class="schema-name">
            <Shown text={field.name} manner="exact" />
          </code>
        ) : (
          <span class="schema-name dim">
            <Shown text={field.name} manner="exact" />
          </span>
        )}
        <span class="schema-type">
          <Shown text={field.type} manner="exact" />
        </span>
        {field.isRequired && <Badge tone="info">required</Badge>}
        <Limits field={field} />
      </div>
      {field.description && (
        <p class="schema-words small">
          <Shown text={field.description} />
        </p>
      )}
      {inner.length > 0 && depth >= OPEN_DEPTH && (
        <button type="button" class="quiet small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Fold" : `${inner.length} inside`}
        </button>
      )}
      {isOpen && <Inner fields={inner} depth={depth + 1} />}
    </li>
  );
}

function Limits({ field }: { readonly field: SchemaField }) {
  return field.limits.map((limit) => (
    <span key={limit.keywords.join()} class="chip schema-limit" title={limit.keywords.join(", ")}>
      <Shown text={limit.words} manner="exact" />
    </span>
  ));
}
