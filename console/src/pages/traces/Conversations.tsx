/** The conversations that the key can see, newest first, with a search form. */

import { useEffect, useState } from "preact/hooks";
import type { ConversationSummary } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { EmptyState, Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { Table, type Column } from "../../parts/Table";
import { formatDuration, Time } from "../../parts/Time";
import { navigate, route, pathTo } from "../../router";
import { rights } from "../../state/session";
import { searchQuery, useConversations, parseSearch, type SearchTerms } from "./search";

const COLUMNS: readonly Column<ConversationSummary>[] = [
  {
    title: "Conversation",
    cell: (conversation) => (
      <span>
        <a class="trace-link" href={pathTo("traces", conversation.id)}>
          {conversation.title ? <VisibleText text={conversation.title} /> : <code>{conversation.id}</code>}
        </a>
        {conversation.title && <code class="trace-id dim">{conversation.id}</code>}
      </span>
    ),
  },
  { title: "Principal", cell: (conversation) => <VisibleText text={conversation.principal} mode="exact" /> },
  { title: "Last change", cell: (conversation) => <Time at={conversation.changed_at} /> },
  {
    title: "Duration",
    cell: (conversation) => (
      <span>
        {conversation.is_held && <Badge tone="info">in progress</Badge>}{" "}
        {formatDuration(Math.max(0, conversation.changed_at - conversation.opened_at))}
      </span>
    ),
    isNumeric: true,
  },
];

export function ConversationList() {
  const terms = parseSearch(route.value.query);
  const { conversations, hasMore, isLoading, problem, more, reload } = useConversations(terms);
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
      {!conversations && !problem && <Loading what="the conversations" />}
      {conversations && (
        <p class="visually-hidden" role="status">
          {conversations.length} conversations{hasMore && ", and there are more"}
        </p>
      )}
      {conversations?.length === 0 && (
        <EmptyState title={isSearch ? "No matching conversations" : "No conversations yet"}>
          {isSearch ? (
            <a href={pathTo("traces")}>Show all</a>
          ) : (
            "Every conversation that uses the gateway's tools is recorded and appears here."
          )}
        </EmptyState>
      )}
      {conversations && conversations.length > 0 && (
        <Table caption="Conversations" columns={COLUMNS} rows={conversations} keyOf={(conversation) => conversation.id} />
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
  return (
    <form
      class="search"
      role="search"
      aria-label="Conversations"
      onSubmit={(event) => {
        event.preventDefault();
        navigate(pathTo("traces", "", searchQuery(draft)));
      }}
    >
      {field("text", "Text")}
      {field("tool", "Tool")}
      {rights.value.has("admin") && field("principal", "Principal")}
      <button type="submit" class="primary">
        Search
      </button>
    </form>
  );
}
