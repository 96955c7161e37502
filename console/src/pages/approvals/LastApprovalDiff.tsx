/** The differences from the last approved call of this tool. */

import { useMemo } from "preact/hooks";
import type { Approval, LastApproval } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { VisibleText } from "../../parts/VisibleText";
import { Time } from "../../parts/Time";
import { differences, formatPath, type Difference } from "../../json/differences";
import { parse } from "../../json/lossless";
import { pathTo } from "../../router";

const MAX_CHANGES = 60;

export function LastApprovalDiff({ approval }: { readonly approval: Approval }) {
  const last = approval.last;
  if (last === undefined) return null;
  return (
    <section class="stack" aria-labelledby="since">
      <h3 id="since">Since the last approval</h3>
      {last === null ? (
        <p class="small">
          <Badge tone="info">first time</Badge> This tool has not been approved before.
        </p>
      ) : (
        <Comparison approval={approval} last={last} />
      )}
    </section>
  );
}

function Comparison({ approval, last }: { readonly approval: Approval; readonly last: LastApproval }) {
  const changes = useMemo(() => compareArguments(last.arguments, approval.arguments), [last.arguments, approval.arguments]);
  return (
    <>
      <p class="small">
        <a href={pathTo("approvals", last.id, { tab: "decided" })}>
          <Time at={last.decided_at} />
        </a>{" "}
        by <VisibleText text={last.decided_by} mode="exact" />.{" "}
        {last.is_same_definition ? (
          <Badge tone="good">same definition</Badge>
        ) : (
          <Badge tone="bad">definition changed</Badge>
        )}{" "}
        {changes?.length === 0 && <Badge tone="good">same arguments</Badge>}
      </p>
      {!last.is_same_definition && (
        <dl class="facts">
          <dt>Approved definition</dt>
          <dd class="hash">
            <code>{last.fingerprint}</code>
          </dd>
          <dt>Current definition</dt>
          <dd class="hash">
            <code>{approval.fingerprint}</code>
          </dd>
        </dl>
      )}
      {changes === null && <p class="small dim">The arguments cannot be compared: one of them is not valid JSON.</p>}
      {changes && changes.length > 0 && <ChangeList changes={changes} />}
    </>
  );
}

function ChangeList({ changes }: { readonly changes: readonly Difference[] }) {
  return (
    <>
      <dl class="changes" aria-label="Changed arguments">
        {changes.slice(0, MAX_CHANGES).map((change, index) => (
          <div key={index} class="change">
            <dt>
              <code>
                <VisibleText text={formatPath(change.path)} mode="exact" />
              </code>
            </dt>
            <dd class="change-before">
              <span class="visually-hidden">before: </span>
              <ChangedValue json={change.before} />
            </dd>
            <dd class="change-now">
              <span class="visually-hidden">now: </span>
              <ChangedValue json={change.now} />
            </dd>
          </div>
        ))}
      </dl>
      {changes.length > MAX_CHANGES && <p class="small dim">and {changes.length - MAX_CHANGES} more changes</p>}
    </>
  );
}

function ChangedValue({ json }: { readonly json: string | null }) {
  if (json === null) return <span class="dim">absent</span>;
  return (
    <code>
      <VisibleText text={json} mode="exact" />
    </code>
  );
}

function compareArguments(before: string, now: string): readonly Difference[] | null {
  const [previous, current] = [parse(before), parse(now)];
  return "node" in previous && "node" in current ? differences(previous.node, current.node) : null;
}
