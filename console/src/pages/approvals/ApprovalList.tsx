/** A list of approvals. Tab reaches only the current one; the arrow keys reach the others. */

import type { Approval } from "../../api/types";
import { stateOf } from "../../parts/approvalStates";
import { Badge } from "../../parts/Badge";
import { VisibleText } from "../../parts/VisibleText";
import { Time } from "../../parts/Time";
import { pathTo } from "../../router";
import { spellOut } from "../../text/hiddenCharacters";
import { selected, toggle } from "./selection";
import { TimeLeft } from "./TimeLeft";

interface Props {
  readonly label: string;
  readonly list: readonly Approval[];
  readonly current: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Whether approvals can be ticked, for a decision on several of them. */
  readonly tickable?: boolean;
}

export function ApprovalList({ label, list, current, query = {}, tickable = false }: Props) {
  const tabStop = list.some((approval) => approval.id === current) ? current : list[0]?.id;
  return (
    <ul class="queue" aria-label={label} data-list>
      {list.map((approval) => (
        <li key={approval.id} class={tickable ? "tickable" : ""}>
          {tickable && (
            <input
              type="checkbox"
              aria-label={`Select ${spellOut(approval.tool)}`}
              checked={selected.value.has(approval.id)}
              onChange={() => toggle(approval.id)}
            />
          )}
          <a
            href={pathTo("approvals", approval.id, query)}
            data-approval={approval.id}
            tabIndex={approval.id === tabStop ? 0 : -1}
            {...(approval.id === current ? { "aria-current": "true" as const } : {})}
          >
            <span class="queue-head">
              <strong>
                <VisibleText text={approval.tool} mode="exact" />
              </strong>
              {approval.state === "pending" ? <TimeLeft until={approval.expires_at} /> : <StateBadge approval={approval} />}
            </span>
            <span class="queue-preview">{approval.shown}</span>
            <span class="queue-meta dim tiny">
              <VisibleText text={approval.principal} mode="exact" />,{" "}
              <Time at={approval.decided_at ?? approval.requested_at} />
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function StateBadge({ approval }: { readonly approval: Approval }) {
  const { label, tone } = stateOf(approval);
  return <Badge tone={tone}>{label}</Badge>;
}
