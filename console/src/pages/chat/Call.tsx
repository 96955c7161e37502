/** One call, from its first character to its result. */

import type { Tool } from "../../api/types";
import { PartialReader } from "../../json/partial";
import { Badge, type Tone } from "../../parts/Badge";
import { JsonView } from "../../parts/Json";
import { Seal } from "../../parts/Seal";
import { Shown } from "../../parts/Shown";
import { Fields } from "./Fields";
import { Leave } from "./Leave";
import type { CallItem, CallState } from "./transcript";
import "./call.css";

const STATES: Record<CallState, { readonly word: string; readonly tone: Tone }> = {
  forming: { word: "being written", tone: "plain" },
  called: { word: "called", tone: "info" },
  asking: { word: "waits for leave", tone: "warn" },
  running: { word: "running", tone: "info" },
  done: { word: "done", tone: "good" },
  failed: { word: "no success", tone: "bad" },
  denied: { word: "no leave", tone: "bad" },
  left: { word: "left waiting", tone: "warn" },
  dropped: { word: "not handed on", tone: "bad" },
  unknown: { word: "outcome unknown", tone: "warn" },
};

interface Props {
  readonly call: CallItem;
  readonly version: number;
  readonly tool: Tool | undefined;
}

export function Call({ call, version, tool }: Props) {
  const { word, tone } = STATES[call.state];
  const schema = tool?.parameters ?? {};
  return (
    <article class={`call ${call.state}`} aria-label={`Call of ${call.name}`}>
      <header class="call-head">
        <h2 class="call-name">
          <Shown text={call.name} manner="exact" />
        </h2>
        {tool?.side_effects && <Badge tone="warn">changes the world</Badge>}
        <Badge tone={tone}>{word}</Badge>
      </header>
      <Fields
        part={call.reader.root}
        schema={schema}
        root={schema}
        isForming={call.state === "forming"}
        version={version}
      />
      {call.why && (
        <p class="small bad-words">
          <Shown text={call.why} />
        </p>
      )}
      {call.receipt && <Seal receipt={call.receipt} />}
      {call.state === "asking" && <Leave call={call} />}
      {call.ranWith && <Changed text={call.ranWith} schema={schema} />}
      {call.state === "running" && <Progress call={call} version={version} />}
      {call.result && <Result content={call.result.content} isError={call.result.isError} />}
    </article>
  );
}

function Changed({ text, schema }: { readonly text: string; readonly schema: Tool["parameters"] }) {
  const reader = new PartialReader();
  reader.feed(text);
  return (
    <div class="changed">
      <p class="small">A person changed the arguments; it ran with:</p>
      <Fields part={reader.root} schema={schema} root={schema} isForming={false} version={0} />
    </div>
  );
}

function Progress({ call }: { readonly call: CallItem; readonly version: number }) {
  const told = call.progress;
  return (
    <div class="progress small" role="status">
      <progress aria-label={`Progress of ${call.name}`} {...(told?.total ? { value: told.done, max: told.total } : {})} />
      {told?.message && <Shown text={told.message} />}
    </div>
  );
}

interface ResultProps {
  readonly content: NonNullable<CallItem["result"]>["content"];
  readonly isError: boolean;
}

function Result({ content, isError }: ResultProps) {
  return (
    <div class={`result${isError ? " is-error" : ""}`}>
      <p class="result-title">{isError ? "Error, as the model is told" : "Result"}</p>
      {typeof content === "string" ? (
        <pre class="result-text" tabIndex={0} aria-label="Result">
          <Shown text={content} />
        </pre>
      ) : (
        <JsonView value={content} label="Result" />
      )}
    </div>
  );
}
