/** Which tools models pick, miss and retry, as a plot with its table, and the names that models made up. */

import { useMemo, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { StatsPage } from "../../api/types";
import { useAnswer } from "../../parts/asked";
import { Empty, Loading } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { Shown } from "../../parts/Shown";
import { Table, type Column } from "../../parts/Table";
import { Bars } from "../../plots";
import { to } from "../../router";
import { spelled } from "../../text/hidden";
import { barsOf } from "./counted";
import { countColumns, wrongShare } from "./countColumns";
import { byTool, isUsed, modelsIn, type Figures } from "./figures";
import { Head } from "./Head";
import { Meanings } from "./Meanings";

const MOST_BARS = 12;
const DAY = 86_400;
const SPANS: readonly (readonly [days: number, words: string])[] = [
  [1, "last day"],
  [7, "last 7 days"],
  [30, "last 30 days"],
  [0, "all there is"],
];

export function Picked() {
  const [days, setDays] = useState(30);
  const [model, setModel] = useState("");
  const stats = useAnswer(`stats of ${days}`, () => {
    const since = days === 0 ? 0 : Math.floor(Date.now() / 1000) - days * DAY;
    return gateway.stats({ since, limit: 1000 });
  });
  const models = modelsIn(stats.value?.data ?? []);
  return (
    <div class="page">
      <Head />
      <div class="row">
        <label class="row">
          <span class="dim small">Model</span>
          <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
            <option value="">all</option>
            {models.map((one) => (
              <option key={one} value={one}>
                {spelled(one)}
              </option>
            ))}
          </select>
        </label>
        <label class="row">
          <span class="dim small">Since</span>
          <select value={String(days)} onChange={(event) => setDays(Number(event.currentTarget.value))}>
            {SPANS.map(([count, words]) => (
              <option key={count} value={String(count)}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <button type="button" class="quiet small" onClick={stats.again}>
          Count again
        </button>
      </div>
      {stats.problem && <Problem problem={stats.problem} again={stats.again} />}
      {!stats.value && !stats.problem && <Loading what="figures" />}
      {stats.value && <Shares page={stats.value} model={models.includes(model) ? model : ""} />}
    </div>
  );
}

function Shares({ page, model }: { readonly page: StatsPage; readonly model: string }) {
  const all = useMemo(() => byTool(page.data, model), [page, model]);
  const drawn = useMemo(() => all.filter((one) => one.name && isUsed(one)).slice(0, MOST_BARS), [all]);
  const [used, unused] = [all.filter(isUsed), all.filter((one) => !isUsed(one))];
  const bars = useMemo(() => barsOf(drawn), [drawn]);
  const groups = useMemo(() => drawn.map((one) => one.name), [drawn]);
  const misnamed = page.misnamed.filter((one) => !model || one.model === model);
  if (all.length === 0) {
    return (
      <Empty title="No model was offered a tool yet">
        Figures come from the ledger: from chats in which the gateway's own tools were on offer.
      </Empty>
    );
  }
  return (
    <>
      <section class="stack" aria-labelledby="picked-title">
        <h2 id="picked-title">Picked, retried, missed</h2>
        {drawn.length === 0 ? (
          <p class="dim">Tools were on offer, and no model has called one.</p>
        ) : (
          <div class="card plot-card">
            <Bars label="How often each tool was picked, retried and missed; the table below has the figures" groups={groups} series={bars} />
          </div>
        )}
        {drawn.length === MOST_BARS && <p class="dim small">The {MOST_BARS} that were used most. The table has all.</p>}
        <Meanings />
      </section>
      <section class="stack" aria-labelledby="figures-title">
        <h2 id="figures-title">All figures</h2>
        {used.length > 0 && (
          <div class="figure-cards">
            <Table caption="Figures by tool" columns={COLUMNS} rows={used} keyOf={(one) => one.name} />
          </div>
        )}
        {unused.length > 0 && (
          <details class="unused small">
            <summary>
              {unused.length} {unused.length === 1 ? "tool was" : "tools were"} on offer and never called
            </summary>
            <Table caption="Tools that were never called" columns={UNUSED} rows={unused} keyOf={(one) => one.name} />
          </details>
        )}
        {page.has_more && <p class="dim small">There is more than was counted here; take a shorter span.</p>}
      </section>
      {misnamed.length > 0 && (
        <section class="stack" aria-labelledby="misnamed-title">
          <h2 id="misnamed-title">Names that models made up</h2>
          <p class="dim small">A tool that goes by a name which models expect is missed less.</p>
          <Table
            caption="Names that models made up"
            columns={MISNAMED}
            rows={misnamed}
            keyOf={(one) => JSON.stringify([one.model, one.wrote, one.tool])}
          />
        </section>
      )}
    </>
  );
}

const COLUMNS: readonly Column<Figures>[] = [
  {
    title: "Tool",
    cell: (one) =>
      one.name ? (
        <a href={to("tools", one.name)}>
          <Shown text={one.name} manner="exact" />
        </a>
      ) : (
        <span class="dim">near to no tool</span>
      ),
  },
  ...countColumns(),
  wrongShare,
];

const UNUSED = COLUMNS.slice(0, 2);

const MISNAMED: readonly Column<StatsPage["misnamed"][number]>[] = [
  {
    title: "Written",
    cell: (one) => (
      <code>
        <Shown text={one.wrote} manner="exact" />
      </code>
    ),
  },
  { title: "Nearest tool", cell: (one) => (one.tool ? <Shown text={one.tool} manner="exact" /> : <span class="dim">none</span>) },
  { title: "Model", cell: (one) => <Shown text={one.model} /> },
  { title: "Times", isFigure: true, cell: (one) => one.count },
];
