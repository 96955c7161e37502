/** The conversations that one may see, the newest first, and a search among them. */

import { useEffect, useState } from "preact/hooks";
import type { ConversationLine } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Empty, Loading } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { Shown } from "../../parts/Shown";
import { Table, type Column } from "../../parts/Table";
import { span, Time } from "../../parts/Time";
import { go, place, to } from "../../router";
import { rights } from "../../state/session";
import { asQuery, useConversations, wantedIn, type Wanted } from "./search";

const COLUMNS: readonly Column<ConversationLine>[] = [
  {
    title: "Conversation",
    cell: (one) => (
      <span>
        <a class="trace-link" href={to("traces", one.id)}>
          {one.title ? <Shown text={one.title} /> : <code>{one.id}</code>}
        </a>
        {one.title && <code class="trace-id dim">{one.id}</code>}
      </span>
    ),
  },
  { title: "Principal", cell: (one) => <Shown text={one.principal} manner="exact" /> },
  { title: "Last change", cell: (one) => <Time at={one.changed_at} /> },
  {
    title: "From first to last",
    cell: (one) => (
      <span>
        {one.is_held && <Badge tone="info">under way</Badge>} {span(Math.max(0, one.changed_at - one.opened_at))}
      </span>
    ),
    isFigure: true,
  },
];

export function Conversations() {
  const wanted = wantedIn(place.value.query);
  const { lines, hasMore, isAsking, problem, more, again } = useConversations(wanted);
  const isSearch = Object.keys(asQuery(wanted)).length > 0;
  return (
    <div class="page">
      <header class="page-head">
        <h1>Traces</h1>
        <button type="button" disabled={isAsking} onClick={again}>
          Look again
        </button>
      </header>
      <SearchForm wanted={wanted} />
      {problem && <Problem problem={problem} again={again} />}
      {!lines && !problem && <Loading what="the conversations" />}
      {lines && (
        <p class="visually-hidden" role="status">
          {lines.length} conversations{hasMore && ", and there are more"}
        </p>
      )}
      {lines?.length === 0 && (
        <Empty title={isSearch ? "Nothing was found" : "There is no conversation yet"}>
          {isSearch ? (
            <a href={to("traces")}>Show all</a>
          ) : (
            "Whatever is asked of the gateway's tools is written down, and can be read here."
          )}
        </Empty>
      )}
      {lines && lines.length > 0 && (
        <Table caption="Conversations" columns={COLUMNS} rows={lines} keyOf={(one) => one.id} />
      )}
      {hasMore && (
        <div>
          <button type="button" disabled={isAsking} onClick={more}>
            {isAsking ? "Loading…" : "More"}
          </button>
        </div>
      )}
    </div>
  );
}

function SearchForm({ wanted }: { readonly wanted: Wanted }) {
  const [draft, setDraft] = useState(wanted);
  const name = JSON.stringify(wanted);
  // The browser's buttons go back to an earlier search.
  useEffect(() => setDraft(wanted), [name]);
  const field = (word: keyof Wanted, label: string) => (
    <label class="search-field">
      <span class="small">{label}</span>
      <input
        type="search"
        name={word}
        autocomplete="off"
        spellcheck={false}
        maxLength={1000}
        value={draft[word]}
        onInput={(event) => setDraft({ ...draft, [word]: event.currentTarget.value })}
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
        go(to("traces", "", asQuery(draft)));
      }}
    >
      {field("text", "Text in it")}
      {field("tool", "Tool that was called")}
      {rights.value.has("admin") && field("principal", "Principal")}
      <button type="submit" class="primary">
        Search
      </button>
    </form>
  );
}
