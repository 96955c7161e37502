/** Every source with how it stands, and its tools. */

import { useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Tool } from "../../api/types";
import { useAnswer } from "../../parts/asked";
import { Badge } from "../../parts/Badge";
import { Empty, Loading } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { Shown } from "../../parts/Shown";
import { to } from "../../router";
import { rights } from "../../state/session";
import { spelled } from "../../text/hidden";
import { groupsOf, searched, type Group } from "./groups";
import { Head } from "./Head";
import { HeldTool } from "./HeldTool";
import { SourceState, SourceTrust } from "./standing";

/** Health changes by itself. */
const EVERY = 10;
const AT_ONCE = 100;

export function List() {
  const isAdmin = rights.value.has("admin");
  const tools = useAnswer("tools", gateway.tools, EVERY);
  const sources = useAnswer(isAdmin ? "sources" : "none", () => (isAdmin ? gateway.sources() : NO_SOURCES), EVERY);
  const [words, setWords] = useState("");
  if (!tools.value || (isAdmin && !sources.value && !sources.problem)) {
    return (
      <div class="page">
        <Head />
        {tools.problem ? <Problem problem={tools.problem} again={tools.again} /> : <Loading what="tools" />}
      </div>
    );
  }
  const groups = groupsOf(tools.value.data, isAdmin ? (sources.value?.data ?? null) : null);
  const found = searched(groups, words);
  return (
    <div class="page">
      <Head />
      {tools.problem && <Problem problem={tools.problem} again={tools.again} />}
      {isAdmin && sources.problem && <Problem problem={sources.problem} again={sources.again} />}
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
            value={words}
            onInput={(event) => setWords(event.currentTarget.value)}
          />
          <p class="dim small figures" role="status">
            {summary(groups, found)}
          </p>
        </div>
      )}
      {!isAdmin && groups.length > 0 && (
        <p class="dim small">
          How sources stand, and what is held back, is shown to keys with the right <code>admin</code>.
        </p>
      )}
      {groups.length === 0 && (
        <Empty title="This gateway offers no tools">
          Give it functions (<code>--tools tools.py:TOOLS</code>), MCP servers (<code>--mcp-config mcp.json</code>) or a bus (
          <code>--nats</code>).
        </Empty>
      )}
      {groups.length > 0 && found.length === 0 && <Empty title="No tool has these words" />}
      {found.map((group) => (
        <SourceGroup key={group.name} group={group} />
      ))}
    </div>
  );
}

const NO_SOURCES = Promise.resolve({ ok: true as const, value: null });

function summary(groups: readonly Group[], found: readonly Group[]): string {
  const count = (all: readonly Group[]): number => all.reduce((sum, one) => sum + one.tools.length, 0);
  const held = groups.reduce((sum, one) => sum + (one.source?.quarantined.length ?? 0), 0);
  const [some, all] = [count(found), count(groups)];
  return `${some === all ? "" : `${some} of `}${all} ${all === 1 ? "tool" : "tools"}${held > 0 ? `, ${held} held back` : ""}`;
}

function SourceGroup({ group }: { readonly group: Group }) {
  const { source } = group;
  const [most, setMost] = useState(AT_ONCE);
  return (
    <section class="card source" aria-label={`Source ${spelled(group.name)}`}>
      <header class="source-head">
        <h2>
          <Shown text={group.name} manner="exact" />
        </h2>
        {source && (
          <>
            <Badge>{source.kind}</Badge>
            <SourceState state={source.state} />
            <SourceTrust trust={source.trust} />
          </>
        )}
        <span class="dim small figures source-count">
          {group.tools.length} {group.tools.length === 1 ? "tool" : "tools"}
        </span>
      </header>
      {source?.why && (
        <p class="source-why small">
          <Shown text={source.why} />
        </p>
      )}
      {source?.quarantined.map((held) => <HeldTool key={held.tool} held={held} />)}
      <ul class="tool-list">
        {group.tools.slice(0, most).map((tool) => (
          <ToolLine key={tool.name} tool={tool} />
        ))}
      </ul>
      {group.tools.length > most && (
        <button type="button" class="quiet" onClick={() => setMost(most + AT_ONCE)}>
          {group.tools.length - most} more
        </button>
      )}
    </section>
  );
}

function ToolLine({ tool }: { readonly tool: Tool }) {
  return (
    <li class="tool-line">
      <a class="tool-name" href={to("tools", tool.name)}>
        <Shown text={tool.name} manner="exact" />
      </a>
      <span class="tool-words dim small">
        <Shown text={firstLine(tool.description)} />
      </span>
      {tool.side_effects && <Badge tone="warn">needs leave</Badge>}
    </li>
  );
}

function firstLine(text: string): string {
  const line = text.trimStart().split("\n", 1)[0] ?? "";
  return line.length > 240 ? `${line.slice(0, 239)}…` : line;
}
