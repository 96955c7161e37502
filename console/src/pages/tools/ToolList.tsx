/** Every source with its status and its tools. */

import { useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Tool } from "../../api/types";
import { useFetch } from "../../parts/useFetch";
import { Badge } from "../../parts/Badge";
import { EmptyState, Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { pathTo } from "../../router";
import { rights } from "../../state/session";
import { spellOut } from "../../text/hiddenCharacters";
import { groupsOf, searchGroups, type Group } from "./groups";
import { ToolsHeader } from "./ToolsHeader";
import { QuarantinedTool } from "./QuarantinedTool";
import { SourceState, SourceTrust } from "./SourceStatus";

/** A source's status can change at any time. */
const POLL_SECONDS = 10;
const PAGE_SIZE = 100;

export function ToolList() {
  const isAdmin = rights.value.has("admin");
  const tools = useFetch("tools", gateway.tools, POLL_SECONDS);
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
  const groups = groupsOf(tools.value.data, isAdmin ? (sources.value?.data ?? null) : null);
  const matching = searchGroups(groups, query);
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
            placeholder="Search by name or description"
            autocomplete="off"
            spellcheck={false}
            value={query}
            onInput={(event) => setQuery(event.currentTarget.value)}
          />
          <p class="dim small tabular" role="status">
            {summary(groups, matching)}
          </p>
        </div>
      )}
      {!isAdmin && groups.length > 0 && (
        <p class="dim small">
          The status of sources and quarantined tools require a key with the <code>admin</code> right.
        </p>
      )}
      {groups.length === 0 && (
        <EmptyState title="This gateway offers no tools">
          Add functions (<code>--tools tools.py:TOOLS</code>), MCP servers (<code>--mcp-config mcp.json</code>) or a message bus
          (<code>--nats</code>).
        </EmptyState>
      )}
      {groups.length > 0 && matching.length === 0 && <EmptyState title="No matching tools" />}
      {matching.map((group) => (
        <SourceGroup key={group.name} group={group} />
      ))}
    </div>
  );
}

const NO_SOURCES = Promise.resolve({ ok: true as const, value: null });

function summary(groups: readonly Group[], matching: readonly Group[]): string {
  const count = (all: readonly Group[]): number => all.reduce((sum, one) => sum + one.tools.length, 0);
  const quarantined = groups.reduce((sum, one) => sum + (one.source?.quarantined.length ?? 0), 0);
  const [shown, all] = [count(matching), count(groups)];
  const tools = `${shown === all ? "" : `${shown} of `}${all} ${all === 1 ? "tool" : "tools"}`;
  return quarantined > 0 ? `${tools}, ${quarantined} quarantined` : tools;
}

function SourceGroup({ group }: { readonly group: Group }) {
  const { source } = group;
  const [limit, setLimit] = useState(PAGE_SIZE);
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
          {group.tools.length} {group.tools.length === 1 ? "tool" : "tools"}
        </span>
      </header>
      {source?.why && (
        <p class="source-why small">
          <VisibleText text={source.why} />
        </p>
      )}
      {source?.quarantined.map((entry) => <QuarantinedTool key={entry.tool} entry={entry} />)}
      <ul class="tool-list">
        {group.tools.slice(0, limit).map((tool) => (
          <ToolRow key={tool.name} tool={tool} />
        ))}
      </ul>
      {group.tools.length > limit && (
        <button type="button" class="quiet" onClick={() => setLimit(limit + PAGE_SIZE)}>
          {group.tools.length - limit} more
        </button>
      )}
    </section>
  );
}

function ToolRow({ tool }: { readonly tool: Tool }) {
  return (
    <li class="tool-line">
      <a class="tool-name" href={pathTo("tools", tool.name)}>
        <VisibleText text={tool.name} mode="exact" />
      </a>
      <span class="tool-summary dim small">
        <VisibleText text={firstLine(tool.description)} />
      </span>
      {tool.side_effects && <Badge tone="warn">needs approval</Badge>}
    </li>
  );
}

function firstLine(text: string): string {
  const line = text.trimStart().split("\n", 1)[0] ?? "";
  return line.length > 240 ? `${line.slice(0, 239)}…` : line;
}
