/** One approval with its actions. Each approval is its own instance, so that typed text never carries over to the next. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Approval } from "../../api/types";
import { ArgumentsEditor, type FormSchema } from "../../parts/ArgumentsEditor";
import { Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { now } from "../../parts/Time";
import { rights } from "../../state/session";
import { DecisionBar, canApprove, canEdit, type DecisionMode } from "./DecisionBar";
import { decide, sendingId, type DecisionInput } from "./decisions";
import { ApprovalDetail } from "./ApprovalDetail";
import { useApproval } from "./useApproval";
import { isDecidable, isQuestion, isSeenLongEnough, parseQuestion, type Action } from "./queue";

interface Props {
  readonly id: string;
  /** Receives the function that runs a shortcut's action. */
  readonly actions: { current: (action: Action) => void };
  readonly onDecided: () => void;
}

export function ApprovalCard({ id, actions, onDecided }: Props) {
  const { result, reload } = useApproval(id);
  const [mode, setMode] = useState<DecisionMode>("plain");
  const shownAt = useRef<number | null>(null);
  const approval = result?.ok ? result.value : null;
  const isLoaded = approval !== null;
  const canDecide = approval !== null && isDecidable(approval, now.value) && rights.value.has("approve");

  useEffect(() => {
    if (isLoaded) shownAt.current = performance.now();
  }, [isLoaded]);
  // If it expires while it is shown, fetch it again to show its new state.
  useEffect(() => {
    if (approval && !canDecide) reload();
  }, [canDecide]);

  const submit = async (decision: DecisionInput): Promise<void> => {
    if (!approval) return;
    if (await decide(approval, decision)) onDecided();
    else reload();
  };

  actions.current = (action) => {
    if (!approval || !canDecide || mode !== "plain" || sendingId.value) return;
    if (shownAt.current === null || !isSeenLongEnough(shownAt.current, performance.now())) return;
    if (action === "approve" && canApprove(approval)) void submit({ kind: "approve" });
    else if (action === "deny") setMode("deny");
    else if (action === "edit" && canEdit(approval)) setMode("edit");
  };

  const returnToDetail = (): void => {
    setMode("plain");
    document.getElementById("approval-title")?.focus();
  };

  if (!result) return <Loading what="the approval" />;
  if (!result.ok) return <Problem problem={result.problem} onRetry={reload} />;
  const loaded = result.value;
  return (
    <article class="card approval" aria-labelledby="approval-title">
      <ApprovalDetail
        approval={loaded}
        editor={
          mode === "edit" && canDecide ? (
            <ArgumentsEditor
              approval={id}
              text={loaded.arguments}
              form={formSchemaOf(loaded)}
              sendsText
              isBusy={sendingId.value !== ""}
              {...(isQuestion(loaded) ? { approveLabel: "Send answer" } : {})}
              onApprove={(_, text) => void submit({ kind: "change", text })}
              onCancel={returnToDetail}
            />
          ) : null
        }
      />
      {canDecide && (
        <DecisionBar
          approval={loaded}
          mode={mode}
          setMode={(next) => (next === "plain" ? returnToDetail() : setMode(next))}
          onApprove={() => void submit({ kind: "approve" })}
          onDeny={(why) => void submit({ kind: "deny", why })}
        />
      )}
    </article>
  );
}

/** The schema of a tool's arguments, or of the answer to a question. */
function formSchemaOf(approval: Approval): FormSchema | null {
  if (!isQuestion(approval)) return approval.definition ? { schema: approval.definition.parameters } : null;
  const { schema } = parseQuestion(approval);
  return schema && { schema, parentKey: "answer" };
}
