/** An object in the fields of its schema, to be filled in. What it holds besides them is shown and kept. */

import { useId, useState } from "preact/hooks";
import type { Fault } from "../api/types";
import { read, string, valueAt, valuesOf, withValue, word, written } from "../json/exact";
import { firstOf, suits, type Control, type FormField } from "../json/form";
import type { ObjectPart, Part } from "../json/partial";
import { hasHidden } from "../text/hidden";
import { useFocus } from "./focus";
import { Shown } from "./Shown";

interface Props {
  readonly fields: readonly FormField[];
  readonly value: ObjectPart;
  readonly faults: ReadonlyMap<string, readonly Fault[]>;
  readonly onChange: (value: ObjectPart) => void;
  /** A field has text that is no JSON, or has it no longer. */
  readonly onBroken: (name: string, isBroken: boolean) => void;
}

export function ArgumentsForm({ fields, value, faults, onChange, onBroken }: Props) {
  const given = fields.filter((field) => valueAt(value, field.shape.name) !== null);
  const absent = fields.filter((field) => valueAt(value, field.shape.name) === null);
  const known = new Set(fields.map((field) => field.shape.name));
  const others = valuesOf(value).filter(([name]) => !known.has(name));
  const first = given[0] ?? absent[0];
  /** The one that was just added is to be typed into. */
  const [added, setAdded] = useState("");
  const change = (name: string, part: Part | null): void => onChange(withValue(value, name, part));
  return (
    <>
      {given.map((field) => (
        <Line
          key={field.shape.name}
          field={field}
          part={valueAt(value, field.shape.name)!}
          faults={faults.get(field.shape.name) ?? []}
          isFirst={added ? field.shape.name === added : field === first}
          onChange={(part) => change(field.shape.name, part)}
          onBroken={(isBroken) => onBroken(field.shape.name, isBroken)}
        />
      ))}
      {absent.map((field) => (
        <Absent
          key={field.shape.name}
          field={field}
          faults={faults.get(field.shape.name) ?? []}
          isFirst={!added && field === first}
          onAdd={() => {
            setAdded(field.shape.name);
            change(field.shape.name, started(field));
          }}
        />
      ))}
      {others.map(([name, part]) => (
        <div key={name} class="form-absent small">
          <button type="button" onClick={() => change(name, null)}>
            Take out <Shown text={name} manner="exact" />
          </button>{" "}
          <code>
            <Shown text={written(part, 0)} manner="exact" />
          </code>
        </div>
      ))}
    </>
  );
}

interface AbsentProps {
  readonly field: FormField;
  readonly faults: readonly Fault[];
  readonly isFirst: boolean;
  readonly onAdd: () => void;
}

function Absent({ field, faults, isFirst, onAdd }: AbsentProps) {
  const { name, isRequired, description } = field.shape;
  const shown = useFocus<HTMLButtonElement>(isFirst);
  return (
    <div class="form-absent small">
      <button ref={shown} type="button" onClick={onAdd} aria-label={`Add ${name}`}>
        + <Shown text={name} manner="exact" />
      </button>{" "}
      <span class="dim">
        {isRequired ? "is missing" : "is not given"}
        {description && ": "}
        <Shown text={description} />
      </span>
      <Faults faults={faults} />
    </div>
  );
}

function started(field: FormField): Part {
  const found = read(firstOf(field.control, field.shape.schema));
  return "part" in found ? found.part : word("null");
}

interface LineProps {
  readonly field: FormField;
  readonly part: Part;
  readonly faults: readonly Fault[];
  readonly isFirst: boolean;
  readonly onChange: (part: Part | null) => void;
  readonly onBroken: (isBroken: boolean) => void;
}

function Line({ field, part, faults, isFirst, onChange, onBroken }: LineProps) {
  const id = useId();
  const { shape } = field;
  return (
    <div class="form-line">
      <label for={id}>
        <Shown text={shape.name} manner="exact" /> <span class="field-type dim small">{shape.type}</span>
        {shape.description && (
          <span class="form-words dim small">
            <Shown text={shape.description} />
          </span>
        )}
      </label>
      <Entry id={id} {...{ field, part, faults, isFirst, onChange, onBroken }} />
      {!shape.isRequired && (
        <button
          type="button"
          class="quiet small"
          aria-label={`Leave ${shape.name} out`}
          onClick={() => {
            onBroken(false);
            onChange(null);
          }}
        >
          ✕
        </button>
      )}
      <div class="form-faults" id={`${id}-faults`} role="status">
        <Faults faults={faults} />
        {field.control.kind === "text" && part.kind === "string" && hasHidden(part.text, "prose") && (
          <p class="small dim">
            It holds hidden characters: <Shown text={part.text} />
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
      {faults.map((fault, at) => (
        <li key={at}>
          {fault.path && (
            <code>
              <Shown text={fault.path} manner="exact" />{" "}
            </code>
          )}
          <Shown text={fault.message} />
        </li>
      ))}
    </ul>
  );
}

function Entry({ id, field, part, faults, isFirst, onChange, onBroken }: LineProps & { readonly id: string }) {
  const shown = useFocus<HTMLInputElement & HTMLSelectElement & HTMLTextAreaElement>(isFirst);
  // What it is filled in with does not change while somebody types.
  const [control] = useState<Control>(suits(field.control, part) ? field.control : { kind: "json" });
  const common = {
    id,
    ref: shown,
    "aria-invalid": faults.length > 0,
    "aria-describedby": `${id}-faults`,
  };
  switch (control.kind) {
    case "text":
      return <TextEntry common={common} text={part.kind === "string" ? part.text : ""} onChange={onChange} />;
    case "number":
      return (
        <input
          {...common}
          type="text"
          inputMode="decimal"
          autocomplete="off"
          value={part.kind === "word" || part.kind === "string" ? part.text : ""}
          onInput={(event) => onChange(asNumber(event.currentTarget.value))}
        />
      );
    case "truth":
    case "choice": {
      const choices = control.kind === "choice" ? control.choices : ["true", "false"];
      const now = written(part, 0);
      return (
        <select
          {...common}
          value={now}
          onChange={(event) => {
            const found = read(event.currentTarget.value);
            if ("part" in found) onChange(found.part);
          }}
        >
          {(choices.includes(now) ? choices : [now, ...choices]).map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      );
    }
    case "json":
      return <JsonEntry common={common} part={part} onChange={onChange} onBroken={onBroken} />;
  }
}

interface TextEntryProps {
  readonly common: object;
  readonly text: string;
  readonly onChange: (part: Part) => void;
}

function TextEntry({ common, text, onChange }: TextEntryProps) {
  const [isArea] = useState(text.length > 60 || text.includes("\n"));
  const change = (event: { currentTarget: { value: string } }): void => onChange(string(event.currentTarget.value));
  return isArea ? (
    <textarea {...common} rows={Math.min(12, text.split("\n").length + 1)} value={text} onInput={change} />
  ) : (
    <input {...common} type="text" autocomplete="off" spellcheck={false} value={text} onInput={change} />
  );
}

/** What is no number stays what was typed: the schema refuses it in its own words. */
function asNumber(text: string): Part {
  const found = read(text);
  return "part" in found && found.part.kind === "word" && /^-?[0-9]/.test(text) ? found.part : string(text);
}

interface JsonEntryProps {
  readonly common: object;
  readonly part: Part;
  readonly onChange: (part: Part) => void;
  readonly onBroken: (isBroken: boolean) => void;
}

function JsonEntry({ common, part, onChange, onBroken }: JsonEntryProps) {
  const [text, setText] = useState(() => written(part));
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
          const typed = event.currentTarget.value;
          setText(typed);
          const found = read(typed);
          setFault("fault" in found ? found.fault : "");
          onBroken("fault" in found);
          if ("part" in found) onChange(found.part);
        }}
      />
      {fault && <p class="small bad-words">{fault}</p>}
    </div>
  );
}
