/** Arguments in the fields of their schema, while they are being written and after. */

import type { Schema } from "../../api/types";
import { fieldsOf, itemsOf, type FieldShape } from "../../json/fields";
import type { Field, ObjectPart, Part } from "../../json/partial";
import { Shown } from "../../parts/Shown";

const TAIL = 1_500;

interface Props {
  readonly part: Part | null;
  readonly schema: Schema;
  readonly root: Schema;
  /** More may come. */
  readonly isForming: boolean;
  /** Of the call: parts are changed in place, and a component whose props are the same is not drawn again. */
  readonly version: number;
}

export function Fields({ part, schema, root, isForming, version }: Props) {
  if (part && part.kind !== "object") {
    return <Value part={part} schema={schema} root={root} isForming={isForming} version={version} />;
  }
  const shapes = fieldsOf(schema, root);
  const given = part?.fields ?? [];
  const rows = [...rowsOf(shapes, given)];
  const shown = rows.filter((row) => row.field || isForming);
  const absent = isForming ? [] : rows.filter((row) => !row.field);
  if (rows.length === 0) return <p class="dim small">{isForming ? "…" : "no arguments"}</p>;
  return (
    <>
      {shown.length > 0 && (
        <dl class="fields">
          {shown.map((row, at) => (
            <Row key={at} {...row} part={part} root={root} isForming={isForming} version={version} />
          ))}
        </dl>
      )}
      {absent.length > 0 && (
        <p class="dim small">
          not given: <Shown text={absent.map((row) => row.name).join(", ")} />
        </p>
      )}
    </>
  );
}

interface RowOf {
  readonly name: string;
  readonly shape: FieldShape | null;
  readonly field: Field | null;
}

/** In the schema's order, and then what the schema does not name. */
function* rowsOf(shapes: readonly FieldShape[], given: readonly Field[]): Iterable<RowOf> {
  const known = new Set(shapes.map((shape) => shape.name));
  for (const shape of shapes) {
    const field = given.findLast((one) => one.key.isWhole && one.key.text === shape.name) ?? null;
    yield { name: shape.name, shape, field };
  }
  for (const field of given) {
    // A key that is still being written may become one of those above.
    if (field.key.isWhole && !known.has(field.key.text)) yield { name: field.key.text, shape: null, field };
  }
}

interface RowProps extends RowOf {
  readonly root: Schema;
  readonly isForming: boolean;
  readonly part: ObjectPart | null;
  readonly version: number;
}

function Row({ name, shape, field, part, root, isForming, version }: RowProps) {
  const isCurrent = isForming && field !== null && field === part?.fields.at(-1) && !field.value?.isWhole;
  return (
    <div class={`field${isCurrent ? " current" : ""}${field ? "" : " ahead"}`}>
      <dt {...(shape?.description ? { title: shape.description } : {})}>
        <Shown text={name} manner="exact" />
        {shape && !shape.isRequired && <span class="dim"> ?</span>}
        {shape?.type && <span class="field-type">{shape.type}</span>}
      </dt>
      <dd>
        {field?.value ? (
          <Value part={field.value} schema={shape?.schema ?? {}} root={root} isForming={isForming} version={version} />
        ) : (
          <span class="dim">{isCurrent ? <Caret /> : "·"}</span>
        )}
      </dd>
    </div>
  );
}

interface ValueProps {
  readonly part: Part;
  readonly schema: Schema;
  readonly root: Schema;
  readonly isForming: boolean;
  readonly version: number;
}

function Value({ part, schema, root, isForming, version }: ValueProps) {
  const caret = isForming && !part.isWhole && <Caret />;
  switch (part.kind) {
    case "string":
      return (
        <span class="json-string">
          <Written text={part.text} isForming={isForming && !part.isWhole} />
          {caret}
        </span>
      );
    case "word":
      return (
        <span class="json-number">
          {part.text}
          {caret}
        </span>
      );
    case "object":
      return <Fields part={part} schema={schema} root={root} isForming={isForming && !part.isWhole} version={version} />;
    case "list": {
      const items = itemsOf(schema, root);
      if (part.items.length === 0) return caret || <span class="dim">empty list</span>;
      return (
        <ol class="field-items">
          {part.items.map((item, at) => (
            <li key={at}>
              <Value part={item} schema={items} root={root} isForming={isForming && !part.isWhole} version={version} />
            </li>
          ))}
        </ol>
      );
    }
  }
}

/** While a long text is written, its end: drawing all of it anew with each word would fall behind. */
function Written({ text, isForming }: { readonly text: string; readonly isForming: boolean }) {
  if (!isForming || text.length <= 2 * TAIL) return <Shown text={text} manner="exact" />;
  return (
    <>
      <span class="dim">{(text.length - TAIL).toLocaleString("en")} characters, then … </span>
      <Shown text={text.slice(-TAIL)} manner="exact" />
    </>
  );
}

function Caret() {
  return <span class="caret" aria-hidden="true" />;
}
