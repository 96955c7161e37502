/** The timeline of a conversation: one expandable row per entry, with a bar for its duration. */

import { useMemo, useState } from "preact/hooks";
import type { TimelineEntry } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { VirtualList, type RowAria } from "../../parts/VirtualList";
import { EmptyState } from "../../parts/EmptyState";
import { VisibleText } from "../../parts/VisibleText";
import { formatDuration } from "../../parts/Time";
import { matches, isProblem, kindLabel, longestOf, shareOf, formatBytes } from "./entries";
import { parseMessage } from "./message";
import { EntryDetail, type ConversationData } from "./EntryDetail";
import { Offset } from "./Offset";
import { sectionNames, type SectionProps } from "./section";

const ROW_HEIGHT = 38;

export function Timeline({ conversation, number }: SectionProps) {
  const { titleId, labelledBy, Heading } = sectionNames("timeline", number);
  const [showsOnlyProblems, setShowsOnlyProblems] = useState(false);
  const [query, setQuery] = useState("");
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const data = useMemo((): ConversationData => {
    return {
      messages: conversation.messages.map(parseMessage),
      timeline: conversation.timeline,
      calls: new Map(conversation.calls.map((call) => [call.id, call])),
      approvals: new Map(conversation.approvals.map((approval) => [approval.id, approval])),
    };
  }, [conversation]);
  const longest = useMemo(() => longestOf(conversation.timeline), [conversation]);
  const visible = useMemo(() => {
    const entries = conversation.timeline.map((entry, index) => ({ entry, index }));
    return entries.filter(({ entry }) => (!showsOnlyProblems || isProblem(entry)) && matches(entry, query));
  }, [conversation, showsOnlyProblems, query]);
  const problemCount = conversation.timeline.filter(isProblem).length;
  const startedAt = conversation.timeline[0]?.at ?? conversation.opened_at;
  const toggle = (index: number): void =>
    setOpen((before) => {
      const next = new Set(before);
      if (!next.delete(index)) next.add(index);
      return next;
    });
  return (
    <section aria-labelledby={labelledBy} class="stack">
      <div class="timeline-head">
        <Heading id={titleId}>
          Timeline <span class="dim small tabular">{conversation.timeline.length.toLocaleString("en")} events</span>
        </Heading>
        {problemCount > 0 && (
          <button type="button" aria-pressed={showsOnlyProblems} onClick={() => setShowsOnlyProblems(!showsOnlyProblems)}>
            Errors and unknown only ({problemCount})
          </button>
        )}
        <input
          type="search"
          aria-label="Filter events"
          placeholder="Filter events…"
          autocomplete="off"
          spellcheck={false}
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
      </div>
      <p class="visually-hidden" role="status">
        {visible.length < conversation.timeline.length && `${visible.length} of ${conversation.timeline.length} events`}
      </p>
      {visible.length === 0 && <EmptyState title={conversation.timeline.length === 0 ? "No events" : "No matching events"} />}
      <VirtualList
        label="Events"
        class="timeline"
        rows={visible}
        estimatedHeight={ROW_HEIGHT}
        renderRow={({ entry, index }, aria) => (
          <EntryRow
            key={index}
            {...{ entry, index, data, startedAt, longest, aria }}
            isOpen={open.has(index)}
            onToggle={() => toggle(index)}
          />
        )}
      />
    </section>
  );
}

interface EntryRowProps {
  readonly entry: TimelineEntry;
  readonly index: number;
  readonly data: ConversationData;
  readonly startedAt: number;
  readonly longest: number;
  readonly aria: RowAria;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function EntryRow({ entry, index, data, startedAt, longest, aria, isOpen, onToggle }: EntryRowProps) {
  const { label, tone } = kindLabel(entry);
  return (
    <div {...aria} class={`entry${isProblem(entry) ? " is-problem" : ""}`} data-kind={entry.kind}>
      <button type="button" class="entry-row" aria-expanded={isOpen} onClick={onToggle}>
        <Offset at={entry.at} startedAt={startedAt} />
        <span class="entry-kind">
          <Badge tone={tone}>{label}</Badge>
        </span>
        <span class="entry-title">
          {isProblem(entry) && (
            <strong class="bad-text">{entry.kind === "unknown" ? "outcome unknown: " : "error: "}</strong>
          )}
          <VisibleText text={entry.title} mode="exact" />
        </span>
        <span class="entry-numbers tabular dim">
          {entry.tokens && (
            <span title="prompt tokens → completion tokens">
              {entry.tokens.prompt}→{entry.tokens.completion} tok
            </span>
          )}
          {entry.bytes !== null && <span>{formatBytes(entry.bytes)}</span>}
        </span>
        <DurationBar entry={entry} longest={longest} />
      </button>
      {isOpen && <EntryDetail entry={entry} index={index} data={data} />}
    </div>
  );
}

function DurationBar({ entry, longest }: { readonly entry: TimelineEntry; readonly longest: number }) {
  const share = shareOf(entry, longest);
  if (share === null || entry.seconds === null) return <span class="entry-bar" />;
  return (
    <span class="entry-bar">
      <span class="bar" aria-hidden="true">
        <span class="bar-fill" style={{ width: `${Math.max(1, share * 100)}%` }} />
      </span>
      <span class="tabular">{formatDuration(entry.seconds)}</span>
    </span>
  );
}
