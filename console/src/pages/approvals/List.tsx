/** A list of approvals. One of them is the current one, and the only one that Tab stops at; the others are arrows away. */

import type { Approval } from "../../api/types";
import { stateOf } from "../../parts/approvalStates";
import { Badge } from "../../parts/Badge";
import { Shown } from "../../parts/Shown";
import { Time } from "../../parts/Time";
import { to } from "../../router";
import { Left } from "./Left";

interface Props {
  readonly label: string;
  readonly list: readonly Approval[];
  readonly current: string;
  readonly query?: Readonly<Record<string, string>>;
}

export function List({ label, list, current, query = {} }: Props) {
  const stop = list.some((one) => one.id === current) ? current : list[0]?.id;
  return (
    <ul class="queue" aria-label={label} data-list>
      {list.map((one) => (
        <li key={one.id}>
          <a
            href={to("approvals", one.id, query)}
            data-approval={one.id}
            tabIndex={one.id === stop ? 0 : -1}
            {...(one.id === current ? { "aria-current": "true" as const } : {})}
          >
            <span class="queue-head">
              <strong>
                <Shown text={one.tool} manner="exact" />
              </strong>
              {one.state === "pending" ? <Left until={one.expires_at} /> : <State one={one} />}
            </span>
            <span class="queue-glimpse">{one.shown}</span>
            <span class="queue-foot dim tiny">
              <Shown text={one.principal} manner="exact" />, <Time at={one.decided_at ?? one.requested_at} />
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function State({ one }: { readonly one: Approval }) {
  const { word, tone } = stateOf(one);
  return <Badge tone={tone}>{word}</Badge>;
}
