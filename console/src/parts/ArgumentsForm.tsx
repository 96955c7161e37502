/** A form with the fields of an object's schema. Fields that the schema does not declare are shown and kept. */

import { useId, useState } from "preact/hooks";
import type { Fault } from "../api/types";
import { parse, stringNode, valueAt, valuesOf, withValue, literalNode, stringify } from "../json/lossless";
import { initialValue, canShow, type Control, type FormField } from "../json/form";
import type { ObjectNode, JsonNode } from "../json/partialParser";
import { hasHidden } from "../text/hiddenCharacters";
import { useFocus } from "./useFocus";
import { VisibleText } from "./VisibleText";

interface Props {
  readonly fields: readonly FormField[];
  readonly value: ObjectNode;
  readonly faults: ReadonlyMap<string, readonly Fault[]>;
  readonly onChange: (value: ObjectNode) => void;
  /** Reports whether the text of a field is invalid JSON. */
  readonly onInvalid: (name: string, isInvalid: boolean) => void;
}

export function ArgumentsForm({ fields, value, faults, onChange, onInvalid }: Props) {
  const present = fields.filter((field) => valueAt(value, field.shape.name) !== null);
  const absent = fields.filter((field) => valueAt(value, field.shape.name) === null);
  const names = new Set(fields.map((field) => field.shape.name));
  const extra = valuesOf(value).filter(([name]) => !names.has(name));
  const first = present[0] ?? absent[0];
  /** The field that was just added gets the focus. */
  const [addedField, setAddedField] = useState("");
  const change = (name: string, node: JsonNode | null): void => onChange(withValue(value, name, node));
  return (
    <>
      {present.map((field) => (
        <FieldRow
          key={field.shape.name}
          field={field}
          node={valueAt(value, field.shape.name)!}
          faults={faults.get(field.shape.name) ?? []}
          isFirst={addedField ? field.shape.name === addedField : field === first}
          onChange={(node) => change(field.shape.name, node)}
          onInvalid={(isInvalid) => onInvalid(field.shape.name, isInvalid)}
        />
      ))}
      {absent.map((field) => (
        <AbsentField
          key={field.shape.name}
          field={field}
          faults={faults.get(field.shape.name) ?? []}
          isFirst={!addedField && field === first}
          onAdd={() => {
            setAddedField(field.shape.name);
            change(field.shape.name, initialNode(field));
          }}
        />
      ))}
      {extra.map(([name, node]) => (
        <div key={name} class="form-absent small">
          <button type="button" onClick={() => change(name, null)}>
            Remove <VisibleText text={name} mode="exact" />
          </button>{" "}
          <code>
            <VisibleText text={stringify(node, 0)} mode="exact" />
          </code>
        </div>
      ))}
    </>
  );
}

interface AbsentFieldProps {
  readonly field: FormField;
  readonly faults: readonly Fault[];
  readonly isFirst: boolean;
  readonly onAdd: () => void;
}

function AbsentField({ field, faults, isFirst, onAdd }: AbsentFieldProps) {
  const { name, isRequired, description } = field.shape;
  const element = useFocus<HTMLButtonElement>(isFirst);
  return (
    <div class="form-absent small">
      <button ref={element} type="button" onClick={onAdd} aria-label={`Add ${name}`}>
        + <VisibleText text={name} mode="exact" />
      </button>{" "}
      <span class="dim">
        {isRequired ? "is missing" : "is not set"}
        {description && ": "}
        <VisibleText text={description} />
      </span>
      <Faults faults={faults} />
    </div>
  );
}

function initialNode(field: FormField): JsonNode {
  const parsed = parse(initialValue(field.control, field.shape.schema));
  return "node" in parsed ? parsed.node : literalNode("null");
}

interface FieldRowProps {
  readonly field: FormField;
  readonly node: JsonNode;
  readonly faults: readonly Fault[];
  readonly isFirst: boolean;
  readonly onChange: (node: JsonNode | null) => void;
  readonly onInvalid: (isInvalid: boolean) => void;
}

function FieldRow({ field, node, faults, isFirst, onChange, onInvalid }: FieldRowProps) {
  const id = useId();
  const { shape } = field;
  return (
    <div class="form-row">
      <label for={id}>
        <VisibleText text={shape.name} mode="exact" /> <span class="field-type dim small">{shape.type}</span>
        {shape.description && (
          <span class="form-description dim small">
            <VisibleText text={shape.description} />
          </span>
        )}
      </label>
      <FieldInput id={id} {...{ field, node, faults, isFirst, onChange, onInvalid }} />
      {!shape.isRequired && (
        <button
          type="button"
          class="quiet small"
          aria-label={`Remove ${shape.name}`}
          onClick={() => {
            onInvalid(false);
            onChange(null);
          }}
        >
          ✕
        </button>
      )}
      <div class="form-faults" id={`${id}-faults`} role="status">
        <Faults faults={faults} />
        {field.control.kind === "text" && node.kind === "string" && hasHidden(node.text, "prose") && (
          <p class="small dim">
            Hidden characters: <VisibleText text={node.text} />
          </p>
        )}
      </div>
    </div>
  );
}

function Faults({ faults }: { readonly faults: readonly Fault[] }) {
  if (faults.length === 0) return null;
  return (
    <ul class="faults small">
      {faults.map((fault, index) => (
        <li key={index}>
          {fault.path && (
            <code>
              <VisibleText text={fault.path} mode="exact" />{" "}
            </code>
          )}
          <VisibleText text={fault.message} />
        </li>
      ))}
    </ul>
  );
}

function FieldInput({ id, field, node, faults, isFirst, onChange, onInvalid }: FieldRowProps & { readonly id: string }) {
  const element = useFocus<HTMLInputElement & HTMLSelectElement & HTMLTextAreaElement>(isFirst);
  // The control does not change while the user types.
  const [control] = useState<Control>(canShow(field.control, node) ? field.control : { kind: "json" });
  const common = {
    id,
    ref: element,
    "aria-invalid": faults.length > 0,
    "aria-describedby": `${id}-faults`,
  };
  switch (control.kind) {
    case "text":
      return <TextInput common={common} text={node.kind === "string" ? node.text : ""} onChange={onChange} />;
    case "number":
      return (
        <input
          {...common}
          type="text"
          inputMode="decimal"
          autocomplete="off"
          value={node.kind === "literal" || node.kind === "string" ? node.text : ""}
          onInput={(event) => onChange(parseNumber(event.currentTarget.value))}
        />
      );
    case "boolean":
    case "choice": {
      const choices = control.kind === "choice" ? control.choices : ["true", "false"];
      const current = stringify(node, 0);
      return (
        <select
          {...common}
          value={current}
          onChange={(event) => {
            const parsed = parse(event.currentTarget.value);
            if ("node" in parsed) onChange(parsed.node);
          }}
        >
          {(choices.includes(current) ? choices : [current, ...choices]).map((choice) => (
            <option key={choice} value={choice}>
              {choice}
            </option>
          ))}
        </select>
      );
    }
    case "json":
      return <JsonInput common={common} node={node} onChange={onChange} onInvalid={onInvalid} />;
  }
}

interface TextInputProps {
  readonly common: object;
  readonly text: string;
  readonly onChange: (node: JsonNode) => void;
}

function TextInput({ common, text, onChange }: TextInputProps) {
  const [isMultiline] = useState(text.length > 60 || text.includes("\n"));
  const change = (event: { currentTarget: { value: string } }): void => onChange(stringNode(event.currentTarget.value));
  return isMultiline ? (
    <textarea {...common} rows={Math.min(12, text.split("\n").length + 1)} value={text} onInput={change} />
  ) : (
    <input {...common} type="text" autocomplete="off" spellcheck={false} value={text} onInput={change} />
  );
}

/** Keeps text that is not a number as a string: the schema then reports the error. */
function parseNumber(text: string): JsonNode {
  const parsed = parse(text);
  return "node" in parsed && parsed.node.kind === "literal" && /^-?[0-9]/.test(text) ? parsed.node : stringNode(text);
}

interface JsonInputProps {
  readonly common: object;
  readonly node: JsonNode;
  readonly onChange: (node: JsonNode) => void;
  readonly onInvalid: (isInvalid: boolean) => void;
}

function JsonInput({ common, node, onChange, onInvalid }: JsonInputProps) {
  const [text, setText] = useState(() => stringify(node));
  const [fault, setFault] = useState("");
  return (
    <div class="grow">
      <textarea
        {...common}
        class="code-input"
        rows={Math.min(12, text.split("\n").length)}
        spellcheck={false}
        value={text}
        onInput={(event) => {
          const value = event.currentTarget.value;
          setText(value);
          const parsed = parse(value);
          setFault("fault" in parsed ? parsed.fault : "");
          onInvalid("fault" in parsed);
          if ("node" in parsed) onChange(parsed.node);
        }}
      />
      {fault && <p class="small bad-text">{fault}</p>}
    </div>
  );
}
