/** One approval: what exactly would run, by which tool, and what is to be known before saying yes. */

import type { ComponentChildren } from "preact";
import type { Approval } from "../../api/types";
import { stateOf } from "../../parts/approvalStates";
import { Badge } from "../../parts/Badge";
import { Exact, ExactText } from "../../parts/Exact";
import { JsonView } from "../../parts/Json";
import { Shown } from "../../parts/Shown";
import { Time } from "../../parts/Time";
import { to } from "../../router";
import { rights, session } from "../../state/session";
import { segments } from "../../text/hidden";
import { Left } from "./Left";
import { isQuestion, questionIn } from "./queue";
import { Since } from "./Since";

interface Props {
  readonly one: Approval;
  /** Stands where the arguments are, while they are being changed. */
  readonly editor: ComponentChildren;
}

export function Detail({ one, editor }: Props) {
  return (
    <>
      <Head one={one} />
      <Warnings one={one} />
      {isQuestion(one) ? <Question one={one} editor={editor} /> : <Call one={one} editor={editor} />}
    </>
  );
}

function Call({ one, editor }: Props) {
  return (
    <>
      <section class="stack" aria-labelledby="what">
        <h3 id="what">What will run</h3>
        {editor ?? (
          <>
            <Exact text={one.arguments} label="Arguments" />
            <Bytes one={one} />
          </>
        )}
      </section>
      <Since one={one} />
      <AboutTool one={one} />
    </>
  );
}

/** A server asks a person something: its words, and all that came with them. */
function Question({ one, editor }: Props) {
  const { message, url, answer } = questionIn(one);
  return (
    <section class="stack" aria-labelledby="what">
      <h3 id="what">What is asked</h3>
      <blockquote class="words">
        <ExactText text={message} />
        {url && (
          <p class="small">
            It names an address: <ExactText text={url} />
          </p>
        )}
      </blockquote>
      {editor}
      {!editor && one.state !== "pending" && <Exact text={answer} label="The answer" />}
      <details class="small">
        <summary>All that was asked</summary>
        <Exact text={one.arguments} label="The question" />
      </details>
      <Bytes one={one} />
    </section>
  );
}

function Bytes({ one }: { readonly one: Approval }) {
  return (
    <details class="small">
      <summary>
        The bytes, sha256 <code class="hash">{one.arguments_sha256.slice(0, 16)}</code>
      </summary>
      <pre class="exact-box">{one.shown}</pre>
      <p class="hash">
        <code>{one.arguments_sha256}</code>
      </p>
    </details>
  );
}

function Head({ one }: { readonly one: Approval }) {
  const { word, tone } = stateOf(one);
  return (
    <header class="detail-head">
      <h2 tabIndex={-1} id="approval-title">
        <Shown text={one.tool} manner="exact" />
      </h2>
      {one.state === "pending" ? <Left until={one.expires_at} /> : <Badge tone={tone}>{word}</Badge>}
      <p class="small dim detail-who">
        for <Shown text={one.principal} manner="exact" />, asked <Time at={one.requested_at} />
        {maySee(one) && (
          <>
            {" · "}
            <a href={to("traces", one.conversation)}>the conversation</a>
          </>
        )}
      </p>
      {one.decided_at !== null && one.decided_by && (
        <p class="small detail-who">
          Decided by <Shown text={one.decided_by} manner="exact" />, <Time at={one.decided_at} exact />
          {one.why && (
            <>
              : “<Shown text={one.why} />”
            </>
          )}
        </p>
      )}
    </header>
  );
}

/** Whoever may decide may not always read what others said. */
function maySee(one: Approval): boolean {
  const now = session.value;
  return rights.value.has("admin") || (now.state === "in" && now.who.name === one.principal);
}

function Warnings({ one }: { readonly one: Approval }) {
  const hidden = hiddenIn(one.arguments);
  const inWords = one.definition ? hiddenIn(one.definition.description) : 0;
  return (
    <div class="warnings">
      {one.definition && !one.definition.is_same && (
        <p class="warning bad">
          The tool is not what it was when leave was asked for, so this call will not run. Deny it; it can be asked for anew.
        </p>
      )}
      {one.definition === null && !isQuestion(one) && (
        <p class="warning">The gateway does not offer this tool now: its definition cannot be shown.</p>
      )}
      {hidden > 0 && (
        <p class="warning">
          {hidden === 1 ? "A hidden character is" : `${hidden} hidden characters are`} in the arguments. Each is drawn as a mark.
        </p>
      )}
      {inWords > 0 && (
        <p class="warning">
          {inWords === 1 ? "A hidden character is" : `${inWords} hidden characters are`} in the tool's description. Whoever
          wrote it may mean to deceive.
        </p>
      )}
    </div>
  );
}

/** Lines and tabs are drawn as marks too, and are no reason to warn. */
function hiddenIn(text: string): number {
  return segments(text, "prose").filter((part) => "hidden" in part).length;
}

function AboutTool({ one }: { readonly one: Approval }) {
  const tool = one.definition;
  return (
    <section class="stack" aria-labelledby="tool">
      <h3 id="tool">The tool</h3>
      {tool && (
        <blockquote class="words">
          {tool.description ? <ExactText text={tool.description} /> : <span class="dim">It says nothing of itself.</span>}
        </blockquote>
      )}
      <dl class="facts">
        {tool && (
          <>
            <dt>Source</dt>
            <dd>
              <Shown text={tool.source} manner="exact" />
            </dd>
            <dt>Changes the world</dt>
            <dd>{tool.side_effects ? "yes" : "it says no"}</dd>
          </>
        )}
        <dt>Definition</dt>
        <dd class="hash">
          <code>{one.fingerprint}</code> {tool?.is_same && <Badge tone="good">as it is now</Badge>}
        </dd>
        {tool && !tool.is_same && (
          <>
            <dt>Definition now</dt>
            <dd class="hash">
              <code>{tool.fingerprint}</code>
            </dd>
          </>
        )}
        <dt>Call</dt>
        <dd>
          <Shown text={one.call_id} manner="exact" />
        </dd>
      </dl>
      {tool && (
        <details class="small">
          <summary>Its schema</summary>
          <JsonView value={tool.parameters} label="Schema" />
        </details>
      )}
    </section>
  );
}
