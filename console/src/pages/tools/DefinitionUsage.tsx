/** How models used one tool, by definition, to compare different descriptions. */

import { useMemo, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import { useFetch } from "../../parts/useFetch";
import { Badge } from "../../parts/Badge";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { Table, type Column } from "../../parts/Table";
import { Time } from "../../parts/Time";
import { Bars } from "../../plots";
import { barsOf } from "./usageCounts";
import { countColumns, wrongShareColumn } from "./usageColumns";
import { byDefinition, type Usage } from "./usage";
import { UsageGlossary } from "./UsageGlossary";

const HASH_LENGTH = 8;
const MAX_BARS = 6;

export function DefinitionUsage({ tool, now }: { readonly tool: string; readonly now: string }) {
  const [isAll, setAll] = useState(false);
  const stats = useFetch(`${isAll}`, () => gateway.stats({ tool, limit: 1000, ...(isAll ? { since: 0 } : {}) }));
  const definitions = useMemo(() => byDefinition(stats.value?.data ?? []), [stats.value]);
  const bars = useMemo(() => barsOf(definitions.slice(0, MAX_BARS)), [definitions]);
  const groups = useMemo(
    () => definitions.slice(0, MAX_BARS).map((definition) => definition.name.slice(0, HASH_LENGTH)),
    [definitions],
  );
  return (
    <section class="stack" aria-labelledby="definitions-title">
      <header class="page-head">
        <h2 id="definitions-title">Usage by definition</h2>
        <button type="button" class="small" aria-pressed={isAll} onClick={() => setAll(!isAll)}>
          Include older than 30 days
        </button>
      </header>
      {stats.problem && <Problem problem={stats.problem} onRetry={stats.retry} />}
      {stats.value && definitions.length === 0 && (
        <p class="dim">This tool has not been offered to a model yet, as far as this key can see.</p>
      )}
      {definitions.length > 0 && (
        <>
          <div class="card plot-card">
            <Bars label="Calls by definition; the table below has the numbers" groups={groups} series={bars} />
          </div>
          <div class="usage-cards">
            <Table
              caption="By definition"
              columns={columnsOf(now)}
              rows={definitions}
              keyOf={(definition) => definition.name}
            />
          </div>
          {definitions.length > 1 && <Descriptions definitions={definitions} />}
          <UsageGlossary />
        </>
      )}
    </section>
  );
}

function columnsOf(now: string): readonly Column<Usage>[] {
  return [
    {
      title: "Definition",
      cell: (definition) => (
        <span>
          <code title={definition.name}>{definition.name.slice(0, HASH_LENGTH)}</code>{" "}
          {definition.name === now && <Badge tone="good">current</Badge>}
        </span>
      ),
    },
    { title: "Last offered", cell: (definition) => (definition.lastAt === null ? "–" : <Time at={definition.lastAt} />) },
    ...countColumns(),
    wrongShareColumn,
  ];
}

function Descriptions({ definitions }: { readonly definitions: readonly Usage[] }) {
  return (
    <details class="descriptions">
      <summary>Descriptions</summary>
      <dl class="facts">
        {definitions.map((definition) => (
          <>
            <dt>
              <code>{definition.name.slice(0, HASH_LENGTH)}</code>
            </dt>
            <dd>
              <VisibleText text={definition.description} />
            </dd>
          </>
        ))}
      </dl>
    </details>
  );
}
