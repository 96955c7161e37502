/** One tool call, from its first character to its result. */

import type { Tool } from "../../api/types";
import { PartialParser } from "../../json/partialParser";
import { Badge, type Tone } from "../../parts/Badge";
import { JsonView } from "../../parts/Json";
import { ReceiptView } from "../../parts/ReceiptView";
import { VisibleText } from "../../parts/VisibleText";
import { ArgumentFields } from "./ArgumentFields";
import { ApprovalPrompt } from "./ApprovalPrompt";
import type { CallItem, CallState } from "./transcript";
import "./call.css";

const STATES: Record<CallState, { readonly label: string; readonly tone: Tone }> = {
  streaming: { label: "streaming", tone: "plain" },
  called: { label: "called", tone: "info" },
  pending: { label: "waiting for approval", tone: "warn" },
  running: { label: "running", tone: "info" },
  done: { label: "done", tone: "good" },
  failed: { label: "failed", tone: "bad" },
  denied: { label: "denied", tone: "bad" },
  abandoned: { label: "not decided", tone: "warn" },
  dropped: { label: "discarded", tone: "bad" },
  unknown: { label: "outcome unknown", tone: "warn" },
};

interface Props {
  readonly call: CallItem;
  readonly version: number;
  readonly tool: Tool | undefined;
}

export function CallView({ call, version, tool }: Props) {
  const { label, tone } = STATES[call.state];
  const schema = tool?.parameters ?? {};
  return (
    <article class={`call ${call.state}`} aria-label={`Call of ${call.name}`}>
      <header class="call-head">
        <h2 class="call-name">
          <VisibleText text={call.name} mode="exact" />
        </h2>
        {tool?.side_effects && <Badge tone="warn">side effects</Badge>}
        <Badge tone={tone}>{label}</Badge>
      </header>
      <ArgumentFields
        node={call.parser.root}
        schema={schema}
        root={schema}
        isStreaming={call.state === "streaming"}
        version={version}
      />
      {call.why && (
        <p class="small bad-text">
          <VisibleText text={call.why} />
        </p>
      )}
      {call.receipt && <ReceiptView receipt={call.receipt} />}
      {call.state === "pending" && <ApprovalPrompt call={call} />}
      {call.ranWith && <ChangedArguments text={call.ranWith} schema={schema} />}
      {call.state === "running" && <Progress call={call} version={version} />}
      {call.result && <Result content={call.result.content} isError={call.result.isError} />}
    </article>
  );
}

function ChangedArguments({ text, schema }: { readonly text: string; readonly schema: Tool["parameters"] }) {
  const parser = new PartialParser();
  parser.feed(text);
  return (
    <div class="changed">
      <p class="small">Ran with edited arguments:</p>
      <ArgumentFields node={parser.root} schema={schema} root={schema} isStreaming={false} version={0} />
    </div>
  );
}

function Progress({ call }: { readonly call: CallItem; readonly version: number }) {
  const progress = call.progress;
  return (
    <div class="progress small" role="status">
      <progress
        aria-label={`Progress of ${call.name}`}
        {...(progress?.total ? { value: progress.done, max: progress.total } : {})}
      />
      {progress?.message && <VisibleText text={progress.message} />}
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
      <p class="result-title">{isError ? "Error (as sent to the model)" : "Result"}</p>
      {typeof content === "string" ? (
        <pre class="result-text" tabIndex={0} aria-label="Result">
          <VisibleText text={content} />
        </pre>
      ) : (
        <JsonView value={content} label="Result" />
      )}
    </div>
  );
}
