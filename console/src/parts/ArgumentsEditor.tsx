/** Edits the arguments of a call that is waiting for approval: as form fields if its schema declares any, or as JSON. */

import { useId, useState } from "preact/hooks";
import type { Fault, JsonObject, Schema } from "../api/types";
import { stepsOf } from "../json/differences";
import { parse, parseObject, valueAt, withValue, stringify } from "../json/lossless";
import { formOf, type FormField } from "../json/form";
import type { ObjectNode } from "../json/partialParser";
import { ArgumentsForm } from "./ArgumentsForm";
import { useFocus } from "./useFocus";
import { Problem } from "./Problem";
import { VisibleText } from "./VisibleText";
import { useArgumentCheck, type ArgumentCheck } from "./useArgumentCheck";

/** The schema of the form: of the arguments themselves, or of the object under one of their keys. */
export interface FormSchema {
  readonly schema: Schema;
  readonly parentKey?: string;
}

interface Props {
  readonly approval: string;
  /** The arguments as JSON text. */
  readonly text: string;
  readonly form?: FormSchema | null;
  /** Whether `onApprove` sends the text. If not, numbers beyond JavaScript's precision are rejected. */
  readonly sendsText?: boolean;
  readonly isBusy?: boolean;
  readonly approveLabel?: string;
  readonly onApprove: (args: JsonObject, text: string) => void;
  readonly onCancel: () => void;
}

export function ArgumentsEditor(props: Props) {
  const { approval, text, form = null, sendsText: sendsText = false, isBusy = false, onApprove, onCancel } = props;
  const [original] = useState(() => indent(text));
  const [draft, setDraft] = useState(original);
  const [mode, setMode] = useState<"fields" | "json">(form && formOf(form.schema) ? "fields" : "json");
  /** Fields whose text is not valid JSON. The draft keeps their previous values. */
  const [invalidFields, setInvalidFields] = useState<ReadonlySet<string>>(new Set());
  const check = useArgumentCheck(approval, draft, sendsText);
  const parsed = parseObject(draft);
  const formState = "node" in parsed && form ? formStateOf(parsed.node, form) : null;
  const shownForm = mode === "fields" ? formState : null;
  const isReady = check.state === "fits" && invalidFields.size === 0 && !isBusy;
  const faults = check.state === "faults" ? check.faults : [];
  return (
    <form
      class="stack editor"
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady && check.state === "fits") onApprove(check.value, check.text);
      }}
      onKeyDown={(event) => {
        // Escape must not discard edits.
        if (event.key === "Escape" && draft === original) onCancel();
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
      }}
    >
      {formState && (
        <div class="row" role="group" aria-label="Edit as">
          <button type="button" aria-pressed={shownForm !== null} onClick={() => setMode("fields")}>
            Fields
          </button>
          <button
            type="button"
            aria-pressed={shownForm === null}
            disabled={invalidFields.size > 0}
            onClick={() => setMode("json")}
          >
            JSON
          </button>
        </div>
      )}
      {shownForm ? (
        <ArgumentsForm
          fields={shownForm.fields}
          value={shownForm.inner}
          faults={faultsByField(faults, shownForm.parentKey)}
          onChange={(changed) => setDraft(stringify(shownForm.withInner(changed)))}
          onInvalid={(name, isInvalid) => {
            if (invalidFields.has(name) === isInvalid) return;
            const others = [...invalidFields].filter((field) => field !== name);
            setInvalidFields(new Set(isInvalid ? [...others, name] : others));
          }}
        />
      ) : (
        <JsonTextArea draft={draft} isFaulty={check.state === "faults"} onInput={setDraft} />
      )}
      <div role="status">
        <CheckStatus check={check} faults={shownForm ? faultsOutsideForm(faults, shownForm) : faults} />
      </div>
      <div class="row">
        <button type="submit" class="primary" disabled={!isReady}>
          {props.approveLabel ?? "Approve with changes"}
        </button>
        <button type="button" onClick={onCancel}>
          Discard changes
        </button>
        <span class="dim tiny keyboard-only">
          <kbd>Ctrl</kbd>+<kbd>Enter</kbd> sends
        </span>
      </div>
    </form>
  );
}

interface JsonTextAreaProps {
  readonly draft: string;
  readonly isFaulty: boolean;
  readonly onInput: (draft: string) => void;
}

function JsonTextArea({ draft, isFaulty, onInput }: JsonTextAreaProps) {
  const id = useId();
  const textarea = useFocus<HTMLTextAreaElement>();
  return (
    <>
      <label for={id}>New arguments</label>
      <textarea
        id={id}
        ref={textarea}
        class="code-input"
        rows={Math.min(18, Math.max(4, draft.split("\n").length))}
        spellcheck={false}
        autocomplete="off"
        value={draft}
        aria-invalid={isFaulty}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </>
  );
}

interface CheckStatusProps {
  readonly check: ArgumentCheck;
  /** The faults that belong to no field of the form. */
  readonly faults: readonly Fault[];
}

function CheckStatus({ check, faults }: CheckStatusProps) {
  switch (check.state) {
    case "checking":
      return <p class="small dim">Checking…</p>;
    case "fits":
      return <p class="small good-text">✓ Valid</p>;
    case "problem":
      return <Problem problem={check.problem} />;
    case "faults":
      if (faults.length === 0) return <p class="small bad-text">Not valid yet: see above.</p>;
      return (
        <ul class="faults small">
          {faults.map((fault, index) => (
            <li key={index}>
              <code>
                <VisibleText text={fault.path || "/"} mode="exact" />
              </code>{" "}
              <VisibleText text={fault.message} />
            </li>
          ))}
        </ul>
      );
  }
}

/** The form fields, the object that they edit, and how to put it back into the arguments. */
interface FormState {
  readonly fields: readonly FormField[];
  readonly inner: ObjectNode;
  readonly parentKey: string | undefined;
  readonly withInner: (inner: ObjectNode) => ObjectNode;
}

function formStateOf(part: ObjectNode, { schema, parentKey }: FormSchema): FormState | null {
  const fields = formOf(schema);
  const inner = parentKey === undefined ? part : valueAt(part, parentKey);
  if (!fields || inner?.kind !== "object") return null;
  const withInner = (changed: ObjectNode): ObjectNode =>
    parentKey === undefined ? changed : withValue(part, parentKey, changed);
  return { fields, inner, parentKey, withInner };
}

/** Groups faults by field. Each keeps the rest of its path. */
function faultsByField(faults: readonly Fault[], parentKey: string | undefined): ReadonlyMap<string, readonly Fault[]> {
  const parsed = new Map<string, Fault[]>();
  for (const fault of faults) {
    const [name, ...rest] = faultSteps(fault, parentKey);
    if (name === undefined) continue;
    parsed.set(name, [...(parsed.get(name) ?? []), { ...fault, path: rest.join("/") }]);
  }
  return parsed;
}

function faultsOutsideForm(faults: readonly Fault[], { fields, parentKey }: FormState): readonly Fault[] {
  const names = new Set(fields.map((field) => field.shape.name));
  return faults.filter((fault) => !names.has(faultSteps(fault, parentKey)[0] ?? ""));
}

function faultSteps(fault: Fault, parentKey: string | undefined): readonly string[] {
  const steps = stepsOf(fault.path);
  if (parentKey === undefined) return steps;
  return steps[0] === parentKey ? steps.slice(1) : [];
}

function indent(text: string): string {
  const parsed = parse(text);
  return "node" in parsed ? stringify(parsed.node) : text;
}
