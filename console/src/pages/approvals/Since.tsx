/** What is not as it was when leave was given for this tool last. */

import { useMemo } from "preact/hooks";
import type { Approval, LastApproval } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Shown } from "../../parts/Shown";
import { Time } from "../../parts/Time";
import { differences, named, type Difference } from "../../json/differences";
import { read } from "../../json/exact";
import { to } from "../../router";

const MOST = 60;

export function Since({ one }: { readonly one: Approval }) {
  const last = one.last;
  if (last === undefined) return null;
  return (
    <section class="stack" aria-labelledby="since">
      <h3 id="since">Since it was last approved</h3>
      {last === null ? (
        <p class="small">
          <Badge tone="info">first time</Badge> Nobody has given leave for this tool before.
        </p>
      ) : (
        <Compared one={one} last={last} />
      )}
    </section>
  );
}

function Compared({ one, last }: { readonly one: Approval; readonly last: LastApproval }) {
  const found = useMemo(() => between(last.arguments, one.arguments), [last.arguments, one.arguments]);
  return (
    <>
      <p class="small">
        <a href={to("approvals", last.id, { tab: "decided" })}>
          <Time at={last.decided_at} />
        </a>{" "}
        by <Shown text={last.decided_by} manner="exact" />.{" "}
        {last.is_same_definition ? (
          <Badge tone="good">same definition</Badge>
        ) : (
          <Badge tone="bad">the definition has changed</Badge>
        )}{" "}
        {found?.length === 0 && <Badge tone="good">same arguments</Badge>}
      </p>
      {!last.is_same_definition && (
        <dl class="facts">
          <dt>Definition then</dt>
          <dd class="hash">
            <code>{last.fingerprint}</code>
          </dd>
          <dt>Definition now</dt>
          <dd class="hash">
            <code>{one.fingerprint}</code>
          </dd>
        </dl>
      )}
      {found === null && <p class="small dim">The arguments of either are no JSON, and cannot be compared.</p>}
      {found && found.length > 0 && <Changes found={found} />}
    </>
  );
}

function Changes({ found }: { readonly found: readonly Difference[] }) {
  return (
    <>
      <dl class="changes" aria-label="Arguments that are not the same">
        {found.slice(0, MOST).map((change, at) => (
          <div key={at} class="change">
            <dt>
              <code>
                <Shown text={named(change.path)} manner="exact" />
              </code>
            </dt>
            <dd class="change-before">
              <span class="visually-hidden">before: </span>
              <Side json={change.before} />
            </dd>
            <dd class="change-now">
              <span class="visually-hidden">now: </span>
              <Side json={change.now} />
            </dd>
          </div>
        ))}
      </dl>
      {found.length > MOST && <p class="small dim">and {found.length - MOST} more places</p>}
    </>
  );
}

function Side({ json }: { readonly json: string | null }) {
  if (json === null) return <span class="dim">not given</span>;
  return (
    <code>
      <Shown text={json} manner="exact" />
    </code>
  );
}

function between(before: string, now: string): readonly Difference[] | null {
  const [old, young] = [read(before), read(now)];
  return "part" in old && "part" in young ? differences(old.part, young.part) : null;
}
