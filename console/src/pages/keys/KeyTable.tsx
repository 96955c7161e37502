/** Keys with their state, what they may do, and when they were used. */

import type { ApiKey } from "../../api/keyTypes";
import { Badge } from "../../parts/Badge";
import { Table, type Column } from "../../parts/Table";
import { now, Time } from "../../parts/Time";
import { VisibleText } from "../../parts/VisibleText";
import { spellOut } from "../../text/hiddenCharacters";
import { canRotate, hasEnded, stateOf, STATES } from "./keys";

const MAX_PATTERNS = 6;

interface Props {
  readonly keys: readonly ApiKey[];
  readonly onRotate: (key: ApiKey) => void;
  readonly onRevoke: (key: ApiKey) => void;
}

export function KeyTable({ keys, onRotate, onRevoke }: Props) {
  const actions: Column<ApiKey> = {
    title: "Change",
    cell: (key) => <KeyActions target={key} onRotate={() => onRotate(key)} onRevoke={() => onRevoke(key)} />,
  };
  return (
    <div class="key-table">
      <Table
        caption="Keys"
        columns={[...COLUMNS, actions]}
        rows={keys}
        keyOf={(key) => key.id}
        rowClass={(key) => (hasEnded(key, now.value) ? "has-ended" : "")}
      />
    </div>
  );
}

const COLUMNS: readonly Column<ApiKey>[] = [
  {
    title: "Key",
    cell: (key) => (
      <div>
        <strong>
          <VisibleText text={key.name} mode="exact" />
        </strong>
        <code class="key-id dim">{key.id}</code>
        <span class="key-line dim tiny">
          tenant <VisibleText text={key.tenant} mode="exact" />
        </span>
      </div>
    ),
  },
  { title: "State", cell: (key) => <State target={key} /> },
  { title: "May use", cell: (key) => <Patterns target={key} /> },
  { title: "Rights", cell: (key) => <Rights target={key} /> },
  {
    title: "Last used",
    cell: (key) => (key.last_used_at === null ? <span class="dim">never</span> : <Time at={key.last_used_at} />),
  },
  {
    title: "Created",
    cell: (key) => (
      <div>
        <Time at={key.created_at} />
        <span class="key-line dim tiny">
          by <VisibleText text={key.created_by} mode="exact" />
        </span>
      </div>
    ),
  },
];

function State({ target: key }: { readonly target: ApiKey }) {
  const state = stateOf(key, now.value);
  const { label, tone } = STATES[state];
  return (
    <div>
      <Badge tone={tone}>{label}</Badge>
      <span class="key-line dim tiny">
        {state === "revoked" && key.revoked_at !== null ? (
          <>
            <Time at={key.revoked_at} /> by <VisibleText text={key.revoked_by} mode="exact" />
          </>
        ) : key.expires_at === null ? (
          "does not expire"
        ) : (
          <>
            {state === "expired" ? "ended" : state === "rotated" ? "ends" : "expires"} <Time at={key.expires_at} />
          </>
        )}
      </span>
    </div>
  );
}

function Patterns({ target: key }: { readonly target: ApiKey }) {
  const rows = [
    ["models", key.models],
    ["tools", key.tools],
    ["sources", key.sources],
  ] as const;
  return (
    <dl class="key-patterns small">
      {rows.map(([name, patterns]) => (
        <div key={name}>
          <dt class="dim">{name}</dt>
          <dd>
            <PatternList patterns={patterns} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function PatternList({ patterns }: { readonly patterns: readonly string[] }) {
  if (patterns.length === 0) return <span class="dim">none</span>;
  if (patterns.includes("*")) return <>all</>;
  const more = patterns.length - MAX_PATTERNS;
  return (
    <>
      {patterns.slice(0, MAX_PATTERNS).map((pattern, index) => (
        <span key={pattern}>
          {index > 0 && ", "}
          <code>
            <VisibleText text={pattern} mode="exact" />
          </code>
        </span>
      ))}
      {more > 0 && <span class="dim"> and {more.toLocaleString("en")} more</span>}
    </>
  );
}

function Rights({ target: key }: { readonly target: ApiKey }) {
  const names = [
    key.approve && "approve",
    key.admin && "admin",
    key.operator && "operator",
    key.live_arguments && "live arguments",
  ].filter((name) => name !== false);
  const limits = [
    key.rate > 0 && `${key.rate.toLocaleString("en")} requests a minute`,
    key.width > 0 && `${key.width.toLocaleString("en")} answers at once`,
  ].filter((limit) => limit !== false);
  return (
    <div>
      {names.length === 0 && <span class="dim">none</span>}
      <span class="key-rights">
        {names.map((name) => (
          <Badge key={name} tone="info">
            {name}
          </Badge>
        ))}
      </span>
      {limits.map((limit) => (
        <span key={limit} class="key-line dim tiny">
          {limit}
        </span>
      ))}
    </div>
  );
}

interface ActionProps {
  readonly target: ApiKey;
  readonly onRotate: () => void;
  readonly onRevoke: () => void;
}

/** Several keys can have one name, so that the id belongs to the labels. */
function KeyActions({ target: key, onRotate, onRevoke }: ActionProps) {
  if (hasEnded(key, now.value)) return <span class="dim">–</span>;
  const name = `${spellOut(key.name)}, ${key.id}`;
  return (
    <div class="key-actions">
      {canRotate(key, now.value) && (
        <button type="button" aria-label={`Rotate ${name}`} onClick={onRotate}>
          Rotate…
        </button>
      )}
      <button type="button" class="danger" aria-label={`Revoke ${name}`} onClick={onRevoke}>
        Revoke…
      </button>
    </div>
  );
}
