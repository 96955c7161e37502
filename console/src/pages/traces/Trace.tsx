/** One conversation: what happened in it, moment by moment, and whether the record of it still stands as it was written. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Result } from "../../api/result";
import type { Conversation } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Loading } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { Shown } from "../../parts/Shown";
import { span, Time } from "../../parts/Time";
import { to } from "../../router";
import { Audit } from "./Audit";
import { sumsOf } from "./kinds";
import { Timeline } from "./Timeline";

/** One that is under way is looked at again and again. */
const EVERY = 3_000;

export function Trace({ id }: { readonly id: string }) {
  const [result, setResult] = useState<Result<Conversation> | null>(null);
  const [count, setCount] = useState(0);
  useEffect(() => {
    const asking = new AbortController();
    void gateway.conversation(id, { signal: asking.signal }).then((answer) => {
      if (!asking.signal.aborted) setResult(answer);
    });
    return () => asking.abort();
  }, [id, count]);
  const isHeld = result?.ok === true && result.value.is_held;
  useEffect(() => {
    if (!isHeld) return;
    const timer = setInterval(() => {
      if (!document.hidden) setCount((before) => before + 1);
    }, EVERY);
    return () => clearInterval(timer);
  }, [isHeld]);
  return (
    <div class="page trace">
      <header class="page-head">
        <div class="grow">
          <a class="small" href={to("traces")}>
            ← All conversations
          </a>
          <h1 class="trace-title">
            {result?.ok && result.value.title ? <Shown text={result.value.title} /> : "Conversation"}
          </h1>
          <code class="dim hash">{id}</code>
        </div>
        <div class="row">
          <CopyLink />
          <button type="button" onClick={() => setCount(count + 1)}>
            Look again
          </button>
        </div>
      </header>
      {!result && <Loading what="the conversation" />}
      {result && !result.ok && <Problem problem={result.problem} again={() => setCount(count + 1)} />}
      {result?.ok && <Whole one={result.value} />}
    </div>
  );
}

function Whole({ one }: { readonly one: Conversation }) {
  return (
    <>
      <Facts one={one} />
      <Timeline one={one} />
      <Audit one={one} />
    </>
  );
}

function Facts({ one }: { readonly one: Conversation }) {
  const sums = sumsOf(one.timeline);
  return (
    <dl class="figures-row">
      <Figure title="Principal">
        <Shown text={one.principal} manner="exact" />
      </Figure>
      <Figure title="Began">
        <Time at={one.opened_at} exact />
      </Figure>
      <Figure title="Took">{span(Math.max(0, sums.seconds))}</Figure>
      <Figure title="Calls">{sums.calls}</Figure>
      {sums.tokens && (
        <Figure title="Tokens">
          {sums.tokens.prompt.toLocaleString("en")} in, {sums.tokens.completion.toLocaleString("en")} out
        </Figure>
      )}
      <Figure title="State">
        {one.is_held ? (
          <Badge tone="info">under way</Badge>
        ) : one.is_unfinished ? (
          <Badge tone="warn">not finished</Badge>
        ) : (
          "at rest"
        )}
      </Figure>
      <Figure title="Record">
        <a href="#audit">
          {one.audit.chain.holds ? <Badge tone="good">holds</Badge> : <Badge tone="bad">broken</Badge>}
        </a>
      </Figure>
      {one.within && (
        <Figure title="Within">
          <a href={to("traces", one.within)}>
            <Shown text={one.within} manner="exact" />
          </a>
        </Figure>
      )}
    </dl>
  );
}

function Figure({ title, children }: { readonly title: string; readonly children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** The address is the permanent link; this only saves the way to the address bar. */
function CopyLink() {
  const [words, setWords] = useState("Copy link");
  if (typeof navigator.clipboard === "undefined") return null;
  return (
    <button
      type="button"
      onClick={() => {
        navigator.clipboard.writeText(location.href).then(
          () => setWords("Copied"),
          () => setWords("Not copied"),
        );
      }}
    >
      <span role="status">{words}</span>
    </button>
  );
}
