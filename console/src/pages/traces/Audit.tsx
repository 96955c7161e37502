/** The record itself: every row that was written, each hashed over the one before, and whether they still fit together. */

import { useState } from "preact/hooks";
import type { AuditRow, Conversation } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Chunks } from "../../parts/Chunks";
import { JsonText } from "../../parts/Json";
import { Shown } from "../../parts/Shown";
import { Time } from "../../parts/Time";
import { brokenAt } from "./kinds";

export function Audit({ one }: { readonly one: Conversation }) {
  const { rows, chain } = one.audit;
  const broken = chain.holds ? null : brokenAt(chain.breach);
  const [isOpen, setOpen] = useState(!chain.holds);
  return (
    <section id="audit" aria-labelledby="audit-title" class="stack" tabIndex={-1}>
      <h2 id="audit-title">The record</h2>
      {chain.holds ? (
        <p>
          <Badge tone="good">✓ holds</Badge> {rows.length.toLocaleString("en")} rows, each hashed over the one before it: none
          was changed, removed or put in.
        </p>
      ) : (
        <p class="chain-broken" role="alert">
          <strong>Broken.</strong> <Shown text={chain.breach} /> since it was written. What stands from there on cannot be
          relied on.
        </p>
      )}
      <details class="audit" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{rows.length.toLocaleString("en")} rows</summary>
        {isOpen && <Rows rows={rows} broken={broken} />}
      </details>
    </section>
  );
}

const ROW = 54;

interface RowsProps {
  readonly rows: readonly AuditRow[];
  readonly broken: number | null;
}

function Rows({ rows, broken }: RowsProps) {
  return (
    <Chunks
      label="Rows of the record"
      class="audit-rows"
      rows={rows}
      estimate={ROW}
      draw={(row, aria) => (
        <div key={row.seq} {...aria} class={row.seq === broken ? "audit-row is-broken" : "audit-row"}>
          <span class="figures dim">{row.seq}</span>
          <span>
            <strong>
              <Shown text={row.kind} manner="exact" />
            </strong>{" "}
            {row.seq === broken && <Badge tone="bad">broken here</Badge>}
          </span>
          <span class="small">
            <Shown text={[row.call_id && `call ${row.call_id}`, row.by && `by ${row.by}`].filter(Boolean).join(", ")} />
          </span>
          <span class="small dim">
            <Time at={row.at} exact />
          </span>
          <code class="hash" title={row.hash}>
            {row.hash.slice(0, 12)}
          </code>
          <Detail detail={row.detail} />
        </div>
      )}
    />
  );
}

function Detail({ detail }: { readonly detail: AuditRow["detail"] }) {
  const text = typeof detail === "string" ? detail : JSON.stringify(detail);
  if (text === "" || text === "{}" || text === "null") return null;
  return (
    <details class="audit-detail">
      <summary>
        <Shown text={text} manner="exact" />
      </summary>
      <JsonText text={text} label="Detail" />
    </details>
  );
}
