/** Tools with their usage, a page at a time, so that thousands cost no more than a hundred. */

import { useState } from "preact/hooks";
import type { Tool, ToolSummary } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Table, type Column } from "../../parts/Table";
import { formatDuration } from "../../parts/Time";
import { VisibleText } from "../../parts/VisibleText";
import { pathTo } from "../../router";

const PAGE_SIZE = 100;

export type Summaries = ReadonlyMap<string, ToolSummary>;

interface Props {
  readonly caption: string;
  readonly tools: readonly Tool[];
  readonly summaries: Summaries;
  readonly showsSource?: boolean;
}

export function ToolTable({ caption, tools, summaries, showsSource = false }: Props) {
  const [limit, setLimit] = useState(PAGE_SIZE);
  if (tools.length === 0) return null;
  const columns = showsSource ? [TOOL, SOURCE, ...columnsOf(summaries)] : [TOOL, ...columnsOf(summaries)];
  return (
    <>
      <div class="tool-table">
        <Table caption={caption} columns={columns} rows={tools.slice(0, limit)} keyOf={(tool) => tool.name} />
      </div>
      {tools.length > limit && (
        <button type="button" class="quiet" onClick={() => setLimit(limit + PAGE_SIZE)}>
          {Math.min(PAGE_SIZE, tools.length - limit)} more of {(tools.length - limit).toLocaleString("en")}
        </button>
      )}
    </>
  );
}

const TOOL: Column<Tool> = {
  title: "Tool",
  cell: (tool) => (
    <div class="tool-cell">
      <div class="row">
        <a class="tool-name" href={pathTo("tools", tool.name)}>
          <VisibleText text={tool.name} mode="exact" />
        </a>
        {tool.side_effects && <Badge tone="warn">needs approval</Badge>}
      </div>
      <div class="tool-summary dim small">
        <VisibleText text={firstLine(tool.description)} />
      </div>
    </div>
  ),
};

const SOURCE: Column<Tool> = { title: "Source", cell: (tool) => <VisibleText text={tool.source} mode="exact" /> };

function columnsOf(summaries: Summaries): readonly Column<Tool>[] {
  const figure = (title: string, read: (summary: ToolSummary) => number | null, format = formatCount): Column<Tool> => ({
    title,
    isNumeric: true,
    cell: (tool) => {
      const summary = summaries.get(tool.name);
      const value = summary ? read(summary) : null;
      return value === null ? <span class="dim no-figure">–</span> : <span class={value === 0 ? "dim" : ""}>{format(value)}</span>;
    },
  });
  return [
    figure("Loaded", (summary) => summary.loaded),
    figure("Called", (summary) => summary.called),
    figure("Failed", (summary) => summary.failed),
    figure("Median time", (summary) => summary.seconds_p50, formatSeconds),
    figure("Tokens", (summary) => summary.definition_tokens),
  ];
}

/** Most local tools take less than a millisecond. */
const formatSeconds = (seconds: number): string => (seconds < 0.0005 ? "< 1 ms" : formatDuration(seconds));

const formatCount = (count: number): string => count.toLocaleString("en");

function firstLine(text: string): string {
  const line = text.trimStart().split("\n", 1)[0] ?? "";
  return line.length > 240 ? `${line.slice(0, 239)}…` : line;
}
