/** What models did with one tool, for each definition that it has had: whether another wording helped. */

import { useMemo, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import { useAnswer } from "../../parts/asked";
import { Badge } from "../../parts/Badge";
import { Problem } from "../../parts/Problem";
import { Shown } from "../../parts/Shown";
import { Table, type Column } from "../../parts/Table";
import { Time } from "../../parts/Time";
import { Bars } from "../../plots";
import { barsOf } from "./counted";
import { countColumns, wrongShare } from "./countColumns";
import { byDefinition, type Figures } from "./figures";
import { Meanings } from "./Meanings";

const SHORT = 8;
const MOST_BARS = 6;

export function Definitions({ tool, now }: { readonly tool: string; readonly now: string }) {
  const [isAll, setAll] = useState(false);
  const stats = useAnswer(`${isAll}`, () => gateway.stats({ tool, limit: 1000, ...(isAll ? { since: 0 } : {}) }));
  const found = useMemo(() => byDefinition(stats.value?.data ?? []), [stats.value]);
  const bars = useMemo(() => barsOf(found.slice(0, MOST_BARS)), [found]);
  const groups = useMemo(() => found.slice(0, MOST_BARS).map((one) => one.name.slice(0, SHORT)), [found]);
  return (
    <section class="stack" aria-labelledby="definitions-title">
      <header class="page-head">
        <h2 id="definitions-title">What models did with it</h2>
        <button type="button" class="small" aria-pressed={isAll} onClick={() => setAll(!isAll)}>
          Older than 30 days too
        </button>
      </header>
      {stats.problem && <Problem problem={stats.problem} again={stats.again} />}
      {stats.value && found.length === 0 && <p class="dim">No model was offered it yet, as far as this key may see.</p>}
      {found.length > 0 && (
        <>
          <div class="card plot-card">
            <Bars label="Calls by definition; the table below has the figures" groups={groups} series={bars} />
          </div>
          <div class="figure-cards">
            <Table caption="By definition" columns={columns(now)} rows={found} keyOf={(one) => one.name} />
          </div>
          {found.length > 1 && <Wordings found={found} />}
          <Meanings />
        </>
      )}
    </section>
  );
}

function columns(now: string): readonly Column<Figures>[] {
  return [
    {
      title: "Definition",
      cell: (one) => (
        <span>
          <code title={one.name}>{one.name.slice(0, SHORT)}</code> {one.name === now && <Badge tone="good">now</Badge>}
        </span>
      ),
    },
    { title: "Last offered", cell: (one) => (one.lastAt === null ? "–" : <Time at={one.lastAt} />) },
    ...countColumns(),
    wrongShare,
  ];
}

function Wordings({ found }: { readonly found: readonly Figures[] }) {
  return (
    <details class="wordings">
      <summary>The wording of each</summary>
      <dl class="facts">
        {found.map((one) => (
          <>
            <dt>
              <code>{one.name.slice(0, SHORT)}</code>
            </dt>
            <dd>
              <Shown text={one.description} />
            </dd>
          </>
        ))}
      </dl>
    </details>
  );
}
