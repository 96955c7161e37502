/** Every source with its status and its tools. */

import { useMemo, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { ToolSummary } from "../../api/types";
import { useFetch } from "../../parts/useFetch";
import { Badge } from "../../parts/Badge";
import { EmptyState, Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { useDebounced } from "../../parts/useDebounced";
import { VisibleText } from "../../parts/VisibleText";
import { rights } from "../../state/session";
import { spellOut } from "../../text/hiddenCharacters";
import { groupsOf, searchGroups, type Group } from "./groups";
import { ToolsHeader } from "./ToolsHeader";
import { mergeMatches } from "./search";
import { ToolTable, type Summaries } from "./ToolTable";
import { QuarantinedTool } from "./QuarantinedTool";
import { SourceLogin } from "./SourceLogin";
import { SourceState, SourceTrust } from "./SourceStatus";

/** A source's status can change at any time. */
const POLL_SECONDS = 10;
/** A list of thousands of tools is megabytes. */
const SLOW_POLL_SECONDS = 60;
const MANY_TOOLS = 500;
const MAX_SUMMARIES = 10_000;
const MAX_FOUND = 100;
const TYPING_PAUSE = 200;

export function ToolList() {
  const isAdmin = rights.value.has("admin");
  const [isLong, setLong] = useState(false);
  const tools = useFetch("tools", gateway.tools, isLong ? SLOW_POLL_SECONDS : POLL_SECONDS);
  const summaryPage = useFetch("summaries", () => gateway.toolSummaries(MAX_SUMMARIES), SLOW_POLL_SECONDS);
  const summaries = useMemo(() => summariesOf(summaryPage.value?.data ?? []), [summaryPage.value]);
  const sources = useFetch(isAdmin ? "sources" : "none", () => (isAdmin ? gateway.sources() : NO_SOURCES), POLL_SECONDS);
  const [query, setQuery] = useState("");
  if (!tools.value || (isAdmin && !sources.value && !sources.problem)) {
    return (
      <div class="page">
        <ToolsHeader />
        {tools.problem ? <Problem problem={tools.problem} onRetry={tools.retry} /> : <Loading what="tools" />}
      </div>
    );
  }
  if (!isLong && tools.value.data.length > MANY_TOOLS) setLong(true);
  const groups = groupsOf(tools.value.data, isAdmin ? (sources.value?.data ?? null) : null);
  return (
    <div class="page">
      <ToolsHeader />
      {tools.problem && <Problem problem={tools.problem} onRetry={tools.retry} />}
      {isAdmin && sources.problem && <Problem problem={sources.problem} onRetry={sources.retry} />}
      {groups.length > 0 && (
        <div class="row">
          <label class="visually-hidden" for="tools-search">
            Search tools
          </label>
          <input
            id="tools-search"
            class="grow"
            type="search"
            placeholder="What should a tool do?"
            autocomplete="off"
            spellcheck={false}
            value={query}
            onInput={(event) => setQuery(event.currentTarget.value)}
          />
          <p class="dim small tabular">{summary(groups)}</p>
        </div>
      )}
      {!isAdmin && groups.length > 0 && (
        <p class="dim small">
          The status of sources and quarantined tools require a key with the <code>admin</code> right.
        </p>
      )}
      {groups.length === 0 && (
        <EmptyState title="This gateway offers no tools">
          Restart it with functions (<code>--tools tools.py:TOOLS</code>), MCP servers (<code>--mcp-config mcp.json</code>) or a
          message bus (<code>--nats</code>), or describe an HTTP API under <code>[openapi.NAME]</code> in{" "}
          <code>ferrule.toml</code>. If it has tools, use a key whose <code>tools</code> name some.
        </EmptyState>
      )}
      {summaryPage.problem && <Problem problem={summaryPage.problem} onRetry={summaryPage.retry} />}
      {query.trim() === "" ? (
        groups.map((group) => <SourceGroup key={group.name} group={group} summaries={summaries} />)
      ) : (
        <SearchResults query={query.trim()} groups={groups} summaries={summaries} />
      )}
    </div>
  );
}

interface ResultProps {
  readonly query: string;
  readonly groups: readonly Group[];
  readonly summaries: Summaries;
}

/** The tools that the gateway's own search finds, the best first, then those whose names contain the text. */
function SearchResults({ query, groups, summaries }: ResultProps) {
  const settled = useDebounced(query, TYPING_PAUSE);
  const found = useFetch(`search ${settled}`, () => gateway.searchTools(settled, MAX_FOUND));
  const matching = useMemo(() => searchGroups(groups, settled), [groups, settled]);
  const tools = mergeMatches(found.value?.data ?? [], matching, groups);
  const quarantined = matching.flatMap((group) => group.source?.quarantined ?? []);
  const isLoading = !found.value && !found.problem;
  return (
    <section class="card source" aria-labelledby="found-title">
      <header class="source-head">
        <h2 id="found-title">Found</h2>
        <span class="dim small tabular source-count" role="status">
          {isLoading ? "Searching…" : `${tools.length} ${tools.length === 1 ? "tool" : "tools"}, the best first`}
        </span>
      </header>
      {found.problem && <Problem problem={found.problem} onRetry={found.retry} />}
      {quarantined.map((entry) => (
        <QuarantinedTool key={entry.tool} entry={entry} />
      ))}
      <ToolTable key={settled} caption="Found tools" tools={tools} summaries={summaries} showsSource />
      {!isLoading && tools.length === 0 && quarantined.length === 0 && <EmptyState title="No matching tools" />}
    </section>
  );
}

function summariesOf(data: readonly ToolSummary[]): Summaries {
  return new Map(data.map((one) => [one.tool, one]));
}

const NO_SOURCES = Promise.resolve({ ok: true as const, value: null });

function summary(groups: readonly Group[]): string {
  const count = groups.reduce((sum, one) => sum + one.tools.length, 0);
  const quarantined = groups.reduce((sum, one) => sum + (one.source?.quarantined.length ?? 0), 0);
  const tools = `${count.toLocaleString("en")} ${count === 1 ? "tool" : "tools"}`;
  return quarantined > 0 ? `${tools}, ${quarantined} quarantined` : tools;
}

interface GroupProps {
  readonly group: Group;
  readonly summaries: Summaries;
}

function SourceGroup({ group, summaries }: GroupProps) {
  const { source } = group;
  return (
    <section class="card source" aria-label={`Source ${spellOut(group.name)}`}>
      <header class="source-head">
        <h2>
          <VisibleText text={group.name} mode="exact" />
        </h2>
        {source && (
          <>
            <Badge>{source.kind}</Badge>
            <SourceState state={source.state} />
            <SourceTrust trust={source.trust} />
          </>
        )}
        <span class="dim small tabular source-count">
          {group.tools.length.toLocaleString("en")} {group.tools.length === 1 ? "tool" : "tools"}
        </span>
      </header>
      {source?.why && (
        <p class="source-why small">
          <VisibleText text={source.why} />
        </p>
      )}
      {source?.login && <SourceLogin name={source.name} />}
      {source?.quarantined.map((entry) => <QuarantinedTool key={entry.tool} entry={entry} />)}
      <ToolTable caption={`Tools of ${spellOut(group.name)}`} tools={group.tools} summaries={summaries} />
    </section>
  );
}
