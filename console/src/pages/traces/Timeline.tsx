/** Every moment of a conversation on a line of its own, with a bar for how long it took. Each opens in its place. */

import { useMemo, useState } from "preact/hooks";
import type { Conversation, TimelineEntry } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Chunks, type RowAria } from "../../parts/Chunks";
import { Empty } from "../../parts/Empty";
import { Shown } from "../../parts/Shown";
import { span } from "../../parts/Time";
import { holds, isTrouble, kindOf, longestOf, offset, shareOf, sized } from "./kinds";
import { messageIn } from "./message";
import { Opened, type Record } from "./Opened";

const LINE = 38;

export function Timeline({ one }: { readonly one: Conversation }) {
  const [isTroubleOnly, setTroubleOnly] = useState(false);
  const [words, setWords] = useState("");
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const record = useMemo((): Record => {
    return {
      messages: one.messages.map(messageIn),
      timeline: one.timeline,
      calls: new Map(one.calls.map((call) => [call.id, call])),
      approvals: new Map(one.approvals.map((approval) => [approval.id, approval])),
    };
  }, [one]);
  const longest = useMemo(() => longestOf(one.timeline), [one]);
  const wanted = useMemo(() => {
    const lines = one.timeline.map((entry, at) => ({ entry, at }));
    return lines.filter(({ entry }) => (!isTroubleOnly || isTrouble(entry)) && holds(entry, words));
  }, [one, isTroubleOnly, words]);
  const troubles = one.timeline.filter(isTrouble).length;
  const began = one.timeline[0]?.at ?? one.opened_at;
  const toggle = (at: number): void =>
    setOpen((before) => {
      const others = new Set(before);
      if (!others.delete(at)) others.add(at);
      return others;
    });
  return (
    <section aria-labelledby="timeline" class="stack">
      <div class="timeline-head">
        <h2 id="timeline">
          Timeline <span class="dim small figures">{one.timeline.length.toLocaleString("en")} events</span>
        </h2>
        {troubles > 0 && (
          <button type="button" aria-pressed={isTroubleOnly} onClick={() => setTroubleOnly(!isTroubleOnly)}>
            Only errors and unknown ({troubles})
          </button>
        )}
        <input
          type="search"
          aria-label="Show only lines with"
          placeholder="Show only lines with…"
          autocomplete="off"
          spellcheck={false}
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </div>
      <p class="visually-hidden" role="status">
        {wanted.length < one.timeline.length && `${wanted.length} of ${one.timeline.length} events`}
      </p>
      {wanted.length === 0 && <Empty title={one.timeline.length === 0 ? "Nothing is told of it" : "No such line"} />}
      <Chunks
        label="Events"
        class="timeline"
        rows={wanted}
        estimate={LINE}
        draw={({ entry, at }, aria) => (
          <Line
            key={at}
            {...{ entry, at, record, began, longest, aria }}
            isOpen={open.has(at)}
            onToggle={() => toggle(at)}
          />
        )}
      />
    </section>
  );
}

interface LineProps {
  readonly entry: TimelineEntry;
  readonly at: number;
  readonly record: Record;
  readonly began: number;
  readonly longest: number;
  readonly aria: RowAria;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function Line({ entry, at, record, began, longest, aria, isOpen, onToggle }: LineProps) {
  const { word, tone } = kindOf(entry);
  return (
    <div {...aria} class={`moment${isTrouble(entry) ? " is-trouble" : ""}`} data-kind={entry.kind}>
      <button type="button" class="moment-line" aria-expanded={isOpen} onClick={onToggle}>
        <time
          class="moment-at figures"
          dateTime={momentOf(entry.at)?.toISOString() ?? ""}
          title={momentOf(entry.at)?.toLocaleString() ?? ""}
        >
          {offset(entry.at - began)}
        </time>
        <span class="moment-kind">
          <Badge tone={tone}>{word}</Badge>
        </span>
        <span class="moment-title">
          {isTrouble(entry) && (
            <strong class="bad-words">{entry.kind === "unknown" ? "outcome unknown: " : "error: "}</strong>
          )}
          <Shown text={entry.title} manner="exact" />
        </span>
        <span class="moment-figures figures dim">
          {entry.tokens && (
            <span title="tokens read, tokens written">
              {entry.tokens.prompt}→{entry.tokens.completion} tok
            </span>
          )}
          {entry.bytes !== null && <span>{sized(entry.bytes)}</span>}
        </span>
        <Bar entry={entry} longest={longest} />
      </button>
      {isOpen && <Opened entry={entry} at={at} record={record} />}
    </div>
  );
}

function Bar({ entry, longest }: { readonly entry: TimelineEntry; readonly longest: number }) {
  const share = shareOf(entry, longest);
  if (share === null || entry.seconds === null) return <span class="moment-bar" />;
  return (
    <span class="moment-bar">
      <span class="bar" aria-hidden="true">
        <span class="bar-fill" style={{ width: `${Math.max(1, share * 100)}%` }} />
      </span>
      <span class="figures">{span(entry.seconds)}</span>
    </span>
  );
}

function momentOf(at: number): Date | null {
  const moment = new Date(at * 1000);
  return Number.isNaN(moment.getTime()) ? null : moment;
}
