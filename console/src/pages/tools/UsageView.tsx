/** How models use tools: a plot and a table of picked, missed and retried calls, and unknown tool names. */

import { useMemo, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { StatsPage } from "../../api/types";
import { useFetch } from "../../parts/useFetch";
import { EmptyState, Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { Table, type Column } from "../../parts/Table";
import { Bars } from "../../plots";
import { pathTo } from "../../router";
import { spellOut } from "../../text/hiddenCharacters";
import { barsOf } from "./usageCounts";
import { countColumns, wrongShareColumn } from "./usageColumns";
import { byTool, isUsed, modelsIn, type Usage } from "./usage";
import { ToolsHeader } from "./ToolsHeader";
import { UsageGlossary } from "./UsageGlossary";

const MAX_BARS = 12;
const DAY = 86_400;
const PERIODS: readonly (readonly [days: number, label: string])[] = [
  [1, "last day"],
  [7, "last 7 days"],
  [30, "last 30 days"],
  [0, "all time"],
];

export function UsageView() {
  const [days, setDays] = useState(30);
  const [model, setModel] = useState("");
  const stats = useFetch(`stats of ${days}`, () => {
    const since = days === 0 ? 0 : Math.floor(Date.now() / 1000) - days * DAY;
    return gateway.stats({ since, limit: 1000 });
  });
  const models = modelsIn(stats.value?.data ?? []);
  return (
    <div class="page">
      <ToolsHeader />
      <div class="row">
        <label class="row">
          <span class="dim small">Model</span>
          <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
            <option value="">all</option>
            {models.map((row) => (
              <option key={row} value={row}>
                {spellOut(row)}
              </option>
            ))}
          </select>
        </label>
        <label class="row">
          <span class="dim small">Period</span>
          <select value={String(days)} onChange={(event) => setDays(Number(event.currentTarget.value))}>
            {PERIODS.map(([count, label]) => (
              <option key={count} value={String(count)}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <button type="button" class="quiet small" onClick={stats.retry}>
          Refresh
        </button>
      </div>
      {stats.problem && <Problem problem={stats.problem} onRetry={stats.retry} />}
      {!stats.value && !stats.problem && <Loading what="usage" />}
      {stats.value && <UsageTables page={stats.value} model={models.includes(model) ? model : ""} />}
    </div>
  );
}

function UsageTables({ page, model }: { readonly page: StatsPage; readonly model: string }) {
  const all = useMemo(() => byTool(page.data, model), [page, model]);
  const plotted = useMemo(() => all.filter((row) => row.name && isUsed(row)).slice(0, MAX_BARS), [all]);
  const [used, unused] = [all.filter(isUsed), all.filter((row) => !isUsed(row))];
  const bars = useMemo(() => barsOf(plotted), [plotted]);
  const groups = useMemo(() => plotted.map((row) => row.name), [plotted]);
  const misnamed = page.misnamed.filter((row) => !model || row.model === model);
  if (all.length === 0) {
    return (
      <EmptyState title="No tool has been offered to a model yet">
        Usage is counted in the ledger, for conversations in which the gateway's tools were offered.{" "}
        <a href={pathTo("chat")}>Start a chat</a> and select some tools, or choose a longer period.
      </EmptyState>
    );
  }
  return (
    <>
      <section class="stack" aria-labelledby="picked-title">
        <h2 id="picked-title">Picked, retried, missed</h2>
        {plotted.length === 0 ? (
          <p class="dim">Tools were offered, but no model has called one.</p>
        ) : (
          <div class="card plot-card">
            <Bars
              label="How often each tool was picked, retried and missed; the table below has the numbers"
              groups={groups}
              series={bars}
            />
          </div>
        )}
        {plotted.length === MAX_BARS && <p class="dim small">The {MAX_BARS} most used tools. The table has all of them.</p>}
        <UsageGlossary />
      </section>
      <section class="stack" aria-labelledby="figures-title">
        <h2 id="figures-title">All counts</h2>
        {used.length > 0 && (
          <div class="usage-cards">
            <Table caption="Counts by tool" columns={COLUMNS} rows={used} keyOf={(row) => row.name} />
          </div>
        )}
        {unused.length > 0 && (
          <details class="unused small">
            <summary>
              {unused.length} {unused.length === 1 ? "tool was" : "tools were"} offered but never called
            </summary>
            <Table caption="Tools that were never called" columns={UNUSED} rows={unused} keyOf={(row) => row.name} />
          </details>
        )}
        {page.has_more && <p class="dim small">Not all data is included. Select a shorter period.</p>}
      </section>
      {misnamed.length > 0 && (
        <section class="stack" aria-labelledby="misnamed-title">
          <h2 id="misnamed-title">Unknown tool names</h2>
          <p class="dim small">Models miss a tool less often if its name is one that they expect.</p>
          <Table
            caption="Unknown tool names"
            columns={MISNAMED}
            rows={misnamed}
            keyOf={(row) => JSON.stringify([row.model, row.wrote, row.tool])}
          />
        </section>
      )}
    </>
  );
}

const COLUMNS: readonly Column<Usage>[] = [
  {
    title: "Tool",
    cell: (row) =>
      row.name ? (
        <a href={pathTo("tools", row.name)}>
          <VisibleText text={row.name} mode="exact" />
        </a>
      ) : (
        <span class="dim">no similar tool</span>
      ),
  },
  ...countColumns(),
  wrongShareColumn,
];

const UNUSED = COLUMNS.slice(0, 2);

const MISNAMED: readonly Column<StatsPage["misnamed"][number]>[] = [
  {
    title: "Name",
    cell: (row) => (
      <code>
        <VisibleText text={row.wrote} mode="exact" />
      </code>
    ),
  },
  {
    title: "Most similar tool",
    cell: (row) => (row.tool ? <VisibleText text={row.tool} mode="exact" /> : <span class="dim">none</span>),
  },
  { title: "Model", cell: (row) => <VisibleText text={row.model} /> },
  { title: "Count", isNumeric: true, cell: (row) => row.count },
];
