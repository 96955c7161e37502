/** The Approvals page: the live queue, and one approval beside it. Usable by keyboard alone. */

import { useEffect, useRef, useState } from "preact/hooks";
import { EmptyState, Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { navigate, route, pathTo } from "../../router";
import { pending, pendingProblem } from "../../state/pending";
import { rights } from "../../state/session";
import type { PageProps } from "../props";
import { decidedApprovals, decidedProblem, hasMore, loadDecided } from "./decidedList";
import type { Approval } from "../../api/types";
import { announcement, sendingId } from "./decisions";
import { canApprove } from "./DecisionBar";
import { decideSelected, filter, matches, selected } from "./selection";
import { ShortcutsDialog, ShortcutsHint } from "./Shortcuts";
import { ApprovalList } from "./ApprovalList";
import { NotificationButton } from "./NotificationButton";
import { ApprovalCard } from "./ApprovalCard";
import { nextAfter, neighbour, sortByAge, type Action } from "./queue";
import { useShortcuts } from "./useShortcuts";
import { useIsWide } from "./useIsWide";
import "./approvals.css";

const DECIDED = { tab: "decided" } as const;
const LIST_LIMIT = 200;

export default function Approvals({ id }: PageProps) {
  const isDecided = route.value.query.get("tab") === "decided";
  const query = isDecided ? DECIDED : {};
  const waiting = pending.value && sortByAge(pending.value.filter((one) => matches(one, filter.value)));
  const list = (isDecided ? decidedApprovals.value : waiting) ?? [];
  const isWide = useIsWide();
  const [isHelpOpen, setHelpOpen] = useState(false);
  const runAction = useRef<(action: Action) => void>(() => undefined);

  useEffect(() => {
    if (isDecided) void loadDecided();
  }, [isDecided, announcement.value, filter.value]);

  // The selected approval is part of the URL, so that it stays selected while the queue changes.
  const first = list[0]?.id ?? "";
  useEffect(() => {
    if (isWide && !id && first) navigate(pathTo("approvals", first, query), true);
  }, [isWide, id, first, isDecided]);

  const select = (next: string): void => {
    navigate(pathTo("approvals", next, query));
    if (next) focusOn(next);
    else document.getElementById("content")?.focus();
  };

  useShortcuts((action) => {
    if (isHelpOpen) return;
    if (action === "help") setHelpOpen(true);
    else if (action === "tab") navigate(pathTo("approvals", "", isDecided ? {} : DECIDED));
    else if (action === "next" || action === "previous") {
      const next = neighbour(list, id, action === "next" ? 1 : -1);
      if (next) select(next.id);
    } else runAction.current(action);
  });

  return (
    <div class={`page approvals${id ? " has-selection" : ""}`}>
      <header class="page-head">
        <h1>Approvals</h1>
        <NotificationButton />
      </header>
      <div class="approvals-panes">
        <div class="approvals-list">
          <nav class="tabs" aria-label="Approvals by state">
            <a href={pathTo("approvals")} {...(isDecided ? {} : { "aria-current": "true" as const })}>
              Pending {waiting && <span class="tabular">({waiting.length})</span>}
            </a>
            <a href={pathTo("approvals", "", DECIDED)} {...(isDecided ? { "aria-current": "true" as const } : {})}>
              Decided
            </a>
          </nav>
          <input
            type="search"
            class="approvals-filter"
            aria-label="Filter approvals"
            placeholder="Filter by tool, principal or arguments"
            value={filter.value}
            onInput={(event) => (filter.value = event.currentTarget.value)}
          />
          {isDecided ? <DecidedList id={id} /> : <PendingList id={id} list={waiting} />}
        </div>
        <div class="approvals-detail">
          {id && (
            <a class="approvals-back" href={pathTo("approvals", "", query)}>
              ← All approvals
            </a>
          )}
          {id ? (
            <ApprovalCard
              key={id}
              id={id}
              actions={runAction}
              onDecided={() => select((isDecided ? undefined : nextAfter(list, id))?.id ?? "")}
            />
          ) : (
            <NothingPending isDecided={isDecided} />
          )}
        </div>
      </div>
      <p class="approvals-status small" role="status">
        {announcement.value}
      </p>
      <ShortcutsHint onHelp={() => setHelpOpen(true)} />
      {isHelpOpen && <ShortcutsDialog onClose={() => setHelpOpen(false)} />}
    </div>
  );
}

function PendingList({ id, list }: { readonly id: string; readonly list: readonly Approval[] | null }) {
  const waiting = pending.value;
  if (!waiting || !list) {
    return pendingProblem.value ? <Problem problem={pendingProblem.value} /> : <Loading what="the queue" />;
  }
  return (
    <>
      {pendingProblem.value && <Problem problem={pendingProblem.value} />}
      {waiting.length === 0 && <p class="queue-empty dim">No pending approvals.</p>}
      {waiting.length > 0 && list.length === 0 && <p class="queue-empty dim">None of them matches the filter.</p>}
      <SelectionBar list={list} />
      <ApprovalList label="Calls waiting for approval" list={list} current={id} tickable />
      {waiting.length >= LIST_LIMIT && <p class="small dim">Only the first {LIST_LIMIT} are shown; there may be more.</p>}
    </>
  );
}

/** The decision on the ticked approvals. Those that cannot be approved are left out of an approval. */
function SelectionBar({ list }: { readonly list: readonly Approval[] }) {
  const ticked = list.filter((approval) => selected.value.has(approval.id));
  if (!ticked.length) return null;
  const approvable = ticked.filter(canApprove);
  const isSending = sendingId.value !== "";
  return (
    <div class="row selection-bar" role="group" aria-label="Selected approvals">
      <span class="small">{ticked.length} selected</span>
      <button
        type="button"
        class="primary"
        disabled={isSending || approvable.length === 0}
        onClick={() => void decideSelected(approvable, true)}
      >
        Approve {approvable.length}
      </button>
      <button type="button" class="danger" disabled={isSending} onClick={() => void decideSelected(ticked, false)}>
        Deny {ticked.length}
      </button>
      <button type="button" class="quiet" onClick={() => (selected.value = new Set())}>
        Clear
      </button>
    </div>
  );
}

function DecidedList({ id }: { readonly id: string }) {
  const approvals = decidedApprovals.value;
  const problem = decidedProblem.value;
  if (!approvals) {
    if (problem) return <Problem problem={problem} onRetry={() => void loadDecided()} />;
    return <Loading what="the decided approvals" />;
  }
  return (
    <>
      {problem && <Problem problem={problem} onRetry={() => void loadDecided()} />}
      {approvals.length === 0 && (
        <p class="queue-empty dim">No decided approvals yet. What you approve or deny under Pending is listed here.</p>
      )}
      <ApprovalList label="Decided approvals" list={approvals} current={id} query={DECIDED} />
      {hasMore.value && (
        <button type="button" onClick={() => void loadDecided(true)}>
          More
        </button>
      )}
    </>
  );
}

function NothingPending({ isDecided }: { readonly isDecided: boolean }) {
  if (isDecided || (pending.value?.length ?? 0) > 0) return null;
  return (
    <EmptyState title="Nothing is waiting for approval">
      Calls of tools with side effects appear here before they run. To see one, mark a function of yours with{" "}
      <code>@tool(side_effects=True)</code>, and let a model call it
      {rights.value.has("models") ? (
        <>
          {" "}
          <a href={pathTo("chat")}>in the chat</a>.
        </>
      ) : (
        "."
      )}
    </EmptyState>
  );
}

/** Focuses the approval's row if the list is visible, and its title otherwise. */
function focusOn(id: string): void {
  requestAnimationFrame(() => {
    const row = document.querySelector<HTMLElement>(`[data-approval="${CSS.escape(id)}"]`);
    const target = row?.offsetParent ? row : document.getElementById("approval-title");
    target?.focus();
    target?.scrollIntoView({ block: "nearest" });
  });
}
