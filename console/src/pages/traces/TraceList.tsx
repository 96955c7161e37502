/** The traces that the key can see, newest first, with a search form. */

import { useEffect, useState } from "preact/hooks";
import type { TraceSummary } from "../../api/types";
import { EmptyState, Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { Table, type Column } from "../../parts/Table";
import { Time } from "../../parts/Time";
import { navigate, route, pathTo } from "../../router";
import { rights } from "../../state/session";
import { formatCost, formatCount, hasCost } from "./requests";
import { PERIODS, searchQuery, useTraces, parseSearch, type SearchTerms } from "./search";
import { isFailure, STATUS_NAMES, statusOf } from "./status";
import { StatusBadge } from "./StatusBadge";

const COLUMNS: readonly Column<TraceSummary>[] = [
  {
    title: "Conversation",
    cell: (trace) => (
      <span>
        <a class="trace-link" href={pathTo("traces", trace.id)}>
          {trace.title ? <VisibleText text={trace.title} /> : <TraceId id={trace.id} />}
        </a>
        {trace.title && <TraceId id={trace.id} class="trace-id dim" />}
      </span>
    ),
  },
  {
    title: "Status",
    cell: (trace) => (
      <span>
        <StatusBadge status={trace.status} />
        {trace.error && (
          <code class="trace-error bad-text">
            <VisibleText text={trace.error} mode="exact" />
          </code>
        )}
      </span>
    ),
  },
  { title: "Model", cell: (trace) => <VisibleText text={trace.model} mode="exact" /> },
  {
    title: "Requests",
    isNumeric: true,
    cell: (trace) => (
      <span>
        {trace.request_count.toLocaleString("en")}
        {trace.error_count > 0 && <span class="trace-errors bad-text">{formatCount(trace.error_count, "error")}</span>}
      </span>
    ),
  },
  {
    title: "Tokens in / out",
    isNumeric: true,
    cell: (trace) =>
      trace.request_count === 0 ? (
        <span class="dim">–</span>
      ) : (
        `${trace.prompt_tokens.toLocaleString("en")} / ${trace.completion_tokens.toLocaleString("en")}`
      ),
  },
  {
    title: "Cost",
    isNumeric: true,
    cell: (trace) => (trace.cost === null ? <span class="dim">–</span> : formatCost(trace.cost)),
  },
  { title: "Principal", cell: (trace) => <VisibleText text={trace.principal} mode="exact" /> },
  { title: "Started", cell: (trace) => <Time at={trace.began_at} /> },
];
const WITHOUT_COST = COLUMNS.filter((column) => column.title !== "Cost");

function TraceId({ id, class: name = "" }: { readonly id: string; readonly class?: string }) {
  return (
    <code class={name}>
      <VisibleText text={id} mode="exact" />
    </code>
  );
}

export function TraceList() {
  const terms = parseSearch(route.value.query);
  const { traces, hasMore, isLoading, problem, more, reload } = useTraces(terms);
  const isSearch = Object.keys(searchQuery(terms)).length > 0;
  return (
    <div class="page">
      <header class="page-head">
        <h1>Traces</h1>
        <button type="button" disabled={isLoading} onClick={reload}>
          Refresh
        </button>
      </header>
      <SearchForm terms={terms} />
      {problem && <Problem problem={problem} onRetry={reload} />}
      {!traces && !problem && <Loading what="the traces" />}
      {traces && (
        <p class="visually-hidden" role="status">
          {formatCount(traces.length, "trace")}
          {hasMore && ", and there are more"}
        </p>
      )}
      {traces?.length === 0 && (
        <EmptyState title={isSearch ? "No matching traces" : "No traces yet"}>
          {isSearch ? <a href={pathTo("traces")}>Show all</a> : <FirstTrace />}
        </EmptyState>
      )}
      {traces && traces.length > 0 && (
        <Table
          caption="Traces"
          columns={hasCost(traces) ? COLUMNS : WITHOUT_COST}
          rows={traces}
          keyOf={(trace) => trace.id}
          rowClass={(trace) => (isFailure(trace.status) ? "is-failed" : "")}
        />
      )}
      {hasMore && (
        <div>
          <button type="button" disabled={isLoading} onClick={more}>
            {isLoading ? "Loading…" : "More"}
          </button>
        </div>
      )}
    </div>
  );
}

function FirstTrace() {
  return (
    <>
      Every conversation with the gateway's models appears here.{" "}
      {rights.value.has("models") && (
        <>
          <a href={pathTo("chat")}>Start one in the chat</a>, or send a request to <code>/v1/chat/completions</code> at this
          address.
        </>
      )}
    </>
  );
}

const STATUS_CHOICES = STATUS_NAMES.map((name) => [name, statusOf(name).label] as const);
const TIME_CHOICES = Object.entries(PERIODS).map(([name, { label }]) => [name, label] as const);

function SearchForm({ terms }: { readonly terms: SearchTerms }) {
  const [draft, setDraft] = useState(terms);
  const name = JSON.stringify(terms);
  // The browser's back button returns to an earlier search.
  useEffect(() => setDraft(terms), [name]);
  const field = (name: keyof SearchTerms, label: string) => (
    <label class="search-field">
      <span class="small">{label}</span>
      <input
        type="search"
        name={name}
        autocomplete="off"
        spellcheck={false}
        maxLength={1000}
        value={draft[name]}
        onInput={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })}
      />
    </label>
  );
  const choice = (name: keyof SearchTerms, label: string, any: string, choices: readonly (readonly [string, string])[]) => (
    <label class="search-field">
      <span class="small">{label}</span>
      <select
        name={name}
        value={draft[name]}
        onChange={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })}
      >
        <option value="">{any}</option>
        {choices.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <form
      class="search"
      role="search"
      aria-label="Traces"
      onSubmit={(event) => {
        event.preventDefault();
        navigate(pathTo("traces", "", searchQuery(draft)));
      }}
    >
      {field("text", "Text")}
      {choice("status", "Status", "any status", STATUS_CHOICES)}
      {field("tool", "Tool")}
      {rights.value.has("admin") && field("principal", "Principal")}
      {choice("time", "Time", "any time", TIME_CHOICES)}
      <button type="submit" class="primary">
        Search
      </button>
    </form>
  );
}
