/** One approval: what exactly would run, with which tool, and warnings to read before you approve it. */

import type { ComponentChildren } from "preact";
import type { Approval } from "../../api/types";
import { stateOf } from "../../parts/approvalStates";
import { Badge } from "../../parts/Badge";
import { ExactJson, ExactText } from "../../parts/ExactJson";
import { JsonView } from "../../parts/Json";
import { VisibleText } from "../../parts/VisibleText";
import { Time } from "../../parts/Time";
import { pathTo } from "../../router";
import { rights, session } from "../../state/session";
import { segments } from "../../text/hiddenCharacters";
import { TimeLeft } from "./TimeLeft";
import { isOwnCall } from "./DecisionBar";
import { RequestSection } from "./RequestSection";
import { isQuestion, parseQuestion } from "./queue";
import { LastApprovalDiff } from "./LastApprovalDiff";

interface Props {
  readonly approval: Approval;
  /** Replaces the arguments while they are edited. */
  readonly editor: ComponentChildren;
}

export function ApprovalDetail({ approval, editor }: Props) {
  return (
    <>
      <DetailHeader approval={approval} />
      <Warnings approval={approval} />
      <RequestSection approval={approval} />
      {isQuestion(approval) ? (
        <QuestionSection approval={approval} editor={editor} />
      ) : (
        <CallSection approval={approval} editor={editor} />
      )}
    </>
  );
}

function CallSection({ approval, editor }: Props) {
  return (
    <>
      <section class="stack" aria-labelledby="what">
        <h3 id="what">What will run</h3>
        {editor ?? (
          <>
            <ExactJson text={approval.arguments} label="Arguments" />
            <RawBytes approval={approval} />
          </>
        )}
      </section>
      <LastApprovalDiff approval={approval} />
      <ToolSection approval={approval} />
    </>
  );
}

/** A question of an MCP server (elicitation), with everything that came with it. */
function QuestionSection({ approval, editor }: Props) {
  const { message, url, host, model, schema, answer } = parseQuestion(approval);
  return (
    <section class="stack" aria-labelledby="what">
      <h3 id="what">Question</h3>
      <blockquote class="quote">
        <ExactText text={message} />
        {url && (
          <>
            <p>
              Host: <ExactText text={host} />
            </p>
            <p class="small">
              URL: <ExactText text={url} />
            </p>
          </>
        )}
        {model && (
          <p>
            Model: <ExactText text={model} />
          </p>
        )}
      </blockquote>
      {editor}
      {url && approval.state === "pending" && (
        <p class="small">An approval lets the server continue. Open the address yourself, if you trust its host.</p>
      )}
      {!editor && schema !== null && approval.state !== "pending" && <ExactJson text={answer} label="Answer" />}
      <details class="small" open={model !== ""}>
        <summary>Full request</summary>
        <ExactJson text={approval.arguments} label="Question" />
      </details>
      <RawBytes approval={approval} />
    </section>
  );
}

function RawBytes({ approval }: { readonly approval: Approval }) {
  return (
    <details class="small">
      <summary>
        Raw bytes, SHA-256 <code class="hash">{approval.arguments_sha256.slice(0, 16)}</code>
      </summary>
      <pre class="exact-box">{approval.shown}</pre>
      <p class="hash">
        <code>{approval.arguments_sha256}</code>
      </p>
    </details>
  );
}

function DetailHeader({ approval }: { readonly approval: Approval }) {
  const { label, tone } = stateOf(approval);
  return (
    <header class="detail-head">
      <h2 tabIndex={-1} id="approval-title">
        <VisibleText text={approval.tool} mode="exact" />
      </h2>
      {approval.state === "pending" ? <TimeLeft until={approval.expires_at} /> : <Badge tone={tone}>{label}</Badge>}
      <p class="small dim detail-meta">
        for <VisibleText text={approval.principal} mode="exact" />, requested <Time at={approval.requested_at} />
        {canSeeConversation(approval) && (
          <>
            {" · "}
            <a href={pathTo("traces", approval.conversation)}>conversation</a>
          </>
        )}
      </p>
      {approval.decided_at !== null && approval.decided_by && (
        <p class="small detail-meta">
          Decided by <VisibleText text={approval.decided_by} mode="exact" />, <Time at={approval.decided_at} exact />
          {approval.why && (
            <>
              : “<VisibleText text={approval.why} />”
            </>
          )}
        </p>
      )}
    </header>
  );
}

/** The right to approve includes reading the conversation of what waits, and no other one. */
function canSeeConversation(approval: Approval): boolean {
  const current = session.value;
  if (approval.state === "pending" && rights.value.has("approve")) return true;
  return rights.value.has("admin") || (current.state === "signed-in" && current.principal.name === approval.principal);
}

function Warnings({ approval }: { readonly approval: Approval }) {
  const hidden = countHidden(approval.arguments);
  const inDescription = approval.definition ? countHidden(approval.definition.description) : 0;
  return (
    <div class="warnings">
      {approval.definition && !approval.definition.is_same && (
        <p class="warning bad">
          The tool's definition has changed since approval was requested, so this call cannot run. Deny it; the call can be
          requested again.
        </p>
      )}
      {approval.definition === null && !isQuestion(approval) && (
        <p class="warning">The gateway does not currently offer this tool, so this call cannot be approved.</p>
      )}
      {isOwnCall(approval) && approval.state === "pending" && (
        <p class="warning">You asked for this call, so another person must approve it.</p>
      )}
      {hidden > 0 && (
        <p class="warning">
          The arguments contain{" "}
          {hidden === 1 ? "a hidden character, shown as a marker" : `${hidden} hidden characters, each shown as a marker`}.
        </p>
      )}
      {inDescription > 0 && (
        <p class="warning">
          The tool's description contains{" "}
          {inDescription === 1 ? "a hidden character" : `${inDescription} hidden characters`}, which may be an attempt to
          deceive.
        </p>
      )}
    </div>
  );
}

/** Line breaks and tabs are marked too, but are no reason for a warning. */
function countHidden(text: string): number {
  return segments(text, "prose").filter((segment) => "hidden" in segment).length;
}

function ToolSection({ approval }: { readonly approval: Approval }) {
  const tool = approval.definition;
  return (
    <section class="stack" aria-labelledby="tool">
      <h3 id="tool">Tool</h3>
      {tool && (
        <blockquote class="quote">
          {tool.description ? <ExactText text={tool.description} /> : <span class="dim">No description.</span>}
        </blockquote>
      )}
      <dl class="facts">
        {tool && (
          <>
            <dt>Source</dt>
            <dd>
              <VisibleText text={tool.source} mode="exact" />
            </dd>
            <dt>Side effects</dt>
            <dd>{tool.side_effects ? "yes" : "no, according to the tool"}</dd>
          </>
        )}
        <dt>Definition</dt>
        <dd class="hash">
          <code>{approval.fingerprint}</code> {tool?.is_same && <Badge tone="good">current</Badge>}
        </dd>
        {tool && !tool.is_same && (
          <>
            <dt>Current definition</dt>
            <dd class="hash">
              <code>{tool.fingerprint}</code>
            </dd>
          </>
        )}
        <dt>Call</dt>
        <dd>
          <VisibleText text={approval.call_id} mode="exact" />
        </dd>
      </dl>
      {tool && (
        <details class="small">
          <summary>Schema</summary>
          <JsonView value={tool.parameters} label="Schema" />
        </details>
      )}
    </section>
  );
}
