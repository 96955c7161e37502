/** The audit log: every row, each hashed over the previous one, and whether the hash chain is intact. */

import { useState } from "preact/hooks";
import type { AuditRow } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { VirtualList } from "../../parts/VirtualList";
import { JsonText } from "../../parts/Json";
import { VisibleText } from "../../parts/VisibleText";
import { Time } from "../../parts/Time";
import { brokenAt } from "./entries";
import { sectionNames, type SectionProps } from "./section";

export function AuditLog({ conversation, number }: SectionProps) {
  const { id, titleId, labelledBy, Heading } = sectionNames("audit", number);
  const { rows, chain } = conversation.audit;
  const brokenSeq = chain.holds ? null : brokenAt(chain.breach);
  const [isOpen, setOpen] = useState(!chain.holds);
  return (
    <section id={id} aria-labelledby={labelledBy} class="stack" tabIndex={-1}>
      <Heading id={titleId}>Audit log</Heading>
      {chain.holds ? (
        <p>
          <Badge tone="good">✓ verified</Badge> {rows.length.toLocaleString("en")} rows, each hashed over the previous one. No
          row was changed, removed or inserted.
        </p>
      ) : (
        <p class="chain-broken" role="alert">
          <strong>Verification failed.</strong> <VisibleText text={chain.breach} /> since it was written. Rows from there on
          cannot be trusted.
        </p>
      )}
      <details class="audit" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{rows.length.toLocaleString("en")} rows</summary>
        {isOpen && <AuditRows rows={rows} brokenSeq={brokenSeq} />}
      </details>
    </section>
  );
}

const ROW_HEIGHT = 54;

interface RowsProps {
  readonly rows: readonly AuditRow[];
  readonly brokenSeq: number | null;
}

function AuditRows({ rows, brokenSeq }: RowsProps) {
  return (
    <VirtualList
      label="Audit log rows"
      class="audit-rows"
      rows={rows}
      estimatedHeight={ROW_HEIGHT}
      renderRow={(row, aria) => (
        <div key={row.seq} {...aria} class={row.seq === brokenSeq ? "audit-row is-broken" : "audit-row"}>
          <span class="tabular dim">{row.seq}</span>
          <span>
            <strong>
              <VisibleText text={row.kind} mode="exact" />
            </strong>{" "}
            {row.seq === brokenSeq && <Badge tone="bad">broken here</Badge>}
          </span>
          <span class="small">
            <VisibleText text={[row.call_id && `call ${row.call_id}`, row.by && `by ${row.by}`].filter(Boolean).join(", ")} />
          </span>
          <span class="small dim">
            <Time at={row.at} exact />
          </span>
          <code class="hash" title={row.hash}>
            {row.hash.slice(0, 12)}
          </code>
          <RowDetail detail={row.detail} />
        </div>
      )}
    />
  );
}

function RowDetail({ detail }: { readonly detail: AuditRow["detail"] }) {
  const text = typeof detail === "string" ? detail : JSON.stringify(detail);
  if (text === "" || text === "{}" || text === "null") return null;
  return (
    <details class="audit-detail">
      <summary>
        <VisibleText text={text} mode="exact" />
      </summary>
      <JsonText text={text} label="Detail" />
    </details>
  );
}
