/** Arguments of a call that waits for leave, to be changed: in fields where its schema has some, or as JSON. */

import { useId, useState } from "preact/hooks";
import type { Fault, JsonObject, Schema } from "../api/types";
import { stepsOf } from "../json/differences";
import { read, readObject, valueAt, withValue, written } from "../json/exact";
import { formOf, type FormField } from "../json/form";
import type { ObjectPart } from "../json/partial";
import { ArgumentsForm } from "./ArgumentsForm";
import { useFocus } from "./focus";
import { Problem } from "./Problem";
import { Shown } from "./Shown";
import { useVerdict, type Verdict } from "./verdict";

/** Whose fields: those of the whole, or of what stands under one of its keys. */
export interface FormOf {
  readonly schema: Schema;
  readonly under?: string;
}

interface Props {
  readonly approval: string;
  /** The arguments as JSON text. */
  readonly text: string;
  readonly form?: FormOf | null;
  /** Whether `onApprove` sends the text. If not, numbers that JavaScript cannot keep are refused. */
  readonly isTextKept?: boolean;
  readonly isBusy?: boolean;
  readonly approveWords?: string;
  readonly onApprove: (args: JsonObject, text: string) => void;
  readonly onCancel: () => void;
}

export function ArgumentsEditor(props: Props) {
  const { approval, text, form = null, isTextKept = false, isBusy = false, onApprove, onCancel } = props;
  const [first] = useState(() => indented(text));
  const [draft, setDraft] = useState(first);
  const [manner, setManner] = useState<"fields" | "json">(form && formOf(form.schema) ? "fields" : "json");
  /** Fields whose text is no JSON, so that the draft still has what was there before. */
  const [broken, setBroken] = useState<ReadonlySet<string>>(new Set());
  const verdict = useVerdict(approval, draft, isTextKept);
  const found = readObject(draft);
  const filled = "part" in found && form ? filledOf(found.part, form) : null;
  const shown = manner === "fields" ? filled : null;
  const isReady = verdict.state === "fits" && broken.size === 0 && !isBusy;
  const faults = verdict.state === "faults" ? verdict.faults : [];
  return (
    <form
      class="stack editor"
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady && verdict.state === "fits") onApprove(verdict.value, verdict.text);
      }}
      onKeyDown={(event) => {
        // What was typed is not thrown away by a key.
        if (event.key === "Escape" && draft === first) onCancel();
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
      }}
    >
      {filled && (
        <div class="row" role="group" aria-label="How to change it">
          <button type="button" aria-pressed={shown !== null} onClick={() => setManner("fields")}>
            Fields
          </button>
          <button type="button" aria-pressed={shown === null} disabled={broken.size > 0} onClick={() => setManner("json")}>
            JSON
          </button>
        </div>
      )}
      {shown ? (
        <ArgumentsForm
          fields={shown.fields}
          value={shown.inner}
          faults={belowOf(faults, shown.under)}
          onChange={(changed) => setDraft(written(shown.whole(changed)))}
          onBroken={(name, isBroken) => {
            if (broken.has(name) === isBroken) return;
            const others = [...broken].filter((one) => one !== name);
            setBroken(new Set(isBroken ? [...others, name] : others));
          }}
        />
      ) : (
        <AsText draft={draft} isFaulty={verdict.state === "faults"} onInput={setDraft} />
      )}
      <div role="status">
        <Said verdict={verdict} faults={shown ? asideOf(faults, shown) : faults} />
      </div>
      <div class="row">
        <button type="submit" class="primary" disabled={!isReady}>
          {props.approveWords ?? "Approve with these"}
        </button>
        <button type="button" onClick={onCancel}>
          Leave as it was
        </button>
        <span class="dim tiny keys-only">
          <kbd>Ctrl</kbd>+<kbd>Enter</kbd> sends it
        </span>
      </div>
    </form>
  );
}

interface TextProps {
  readonly draft: string;
  readonly isFaulty: boolean;
  readonly onInput: (draft: string) => void;
}

function AsText({ draft, isFaulty, onInput }: TextProps) {
  const id = useId();
  const shown = useFocus<HTMLTextAreaElement>();
  return (
    <>
      <label for={id}>Arguments to run instead</label>
      <textarea
        id={id}
        ref={shown}
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

interface SaidProps {
  readonly verdict: Verdict;
  /** Those that stand beside no field. */
  readonly faults: readonly Fault[];
}

function Said({ verdict, faults }: SaidProps) {
  switch (verdict.state) {
    case "checking":
      return <p class="small dim">Checking…</p>;
    case "fits":
      return <p class="small good-words">✓ Fits the schema.</p>;
    case "problem":
      return <Problem problem={verdict.problem} />;
    case "faults":
      if (faults.length === 0) return <p class="small bad-words">Does not fit yet: see above.</p>;
      return (
        <ul class="faults small">
          {faults.map((fault, at) => (
            <li key={at}>
              <code>
                <Shown text={fault.path || "/"} manner="exact" />
              </code>{" "}
              <Shown text={fault.message} />
            </li>
          ))}
        </ul>
      );
  }
}

/** The fields, what stands in them, and the whole around it. */
interface Filled {
  readonly fields: readonly FormField[];
  readonly inner: ObjectPart;
  readonly under: string | undefined;
  readonly whole: (inner: ObjectPart) => ObjectPart;
}

function filledOf(part: ObjectPart, { schema, under }: FormOf): Filled | null {
  const fields = formOf(schema);
  const inner = under === undefined ? part : valueAt(part, under);
  if (!fields || inner?.kind !== "object") return null;
  const whole = (changed: ObjectPart): ObjectPart =>
    under === undefined ? changed : withValue(part, under, changed);
  return { fields, inner, under, whole };
}

/** Faults by field, each with the rest of its path. */
function belowOf(faults: readonly Fault[], under: string | undefined): ReadonlyMap<string, readonly Fault[]> {
  const found = new Map<string, Fault[]>();
  for (const fault of faults) {
    const [name, ...rest] = stepsIn(fault, under);
    if (name === undefined) continue;
    found.set(name, [...(found.get(name) ?? []), { ...fault, path: rest.join("/") }]);
  }
  return found;
}

function asideOf(faults: readonly Fault[], { fields, under }: Filled): readonly Fault[] {
  const names = new Set(fields.map((field) => field.shape.name));
  return faults.filter((fault) => !names.has(stepsIn(fault, under)[0] ?? ""));
}

function stepsIn(fault: Fault, under: string | undefined): readonly string[] {
  const steps = stepsOf(fault.path);
  if (under === undefined) return steps;
  return steps[0] === under ? steps.slice(1) : [];
}

function indented(text: string): string {
  const found = read(text);
  return "part" in found ? written(found.part) : text;
}
