/** One approval with what can be done about it. Another one is another instance: nothing typed goes over to the next. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Approval } from "../../api/types";
import { ArgumentsEditor, type FormOf } from "../../parts/ArgumentsEditor";
import { Loading } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { now } from "../../parts/Time";
import { rights } from "../../state/session";
import { Decide, mayApprove, mayEdit, type Manner } from "./Decide";
import { decide, sending, type Word } from "./decisions";
import { Detail } from "./Detail";
import { useApproval } from "./found";
import { isOpen, isQuestion, isSeen, questionIn, type Action } from "./queue";

interface Props {
  readonly id: string;
  /** Is given what keys ask for here. */
  readonly actions: { current: (action: Action) => void };
  readonly onDecided: () => void;
}

export function One({ id, actions, onDecided }: Props) {
  const { result, again } = useApproval(id);
  const [manner, setManner] = useState<Manner>("plain");
  const shownAt = useRef<number | null>(null);
  const one = result?.ok ? result.value : null;
  const isShown = one !== null;
  const mayDecide = one !== null && isOpen(one, now.value) && rights.value.has("approve");

  useEffect(() => {
    if (isShown) shownAt.current = performance.now();
  }, [isShown]);
  // What has run out while it was looked at is asked for again, to say what has become of it.
  useEffect(() => {
    if (one && !mayDecide) again();
  }, [mayDecide]);

  const say = async (word: Word): Promise<void> => {
    if (!one) return;
    if (await decide(one, word)) onDecided();
    else again();
  };

  actions.current = (action) => {
    if (!one || !mayDecide || manner !== "plain" || sending.value) return;
    if (shownAt.current === null || !isSeen(shownAt.current, performance.now())) return;
    if (action === "approve" && mayApprove(one)) void say({ kind: "approve" });
    else if (action === "deny") setManner("deny");
    else if (action === "edit" && mayEdit(one)) setManner("edit");
  };

  const back = (): void => {
    setManner("plain");
    document.getElementById("approval-title")?.focus();
  };

  if (!result) return <Loading what="this approval" />;
  if (!result.ok) return <Problem problem={result.problem} again={again} />;
  const shown = result.value;
  return (
    <article class="card approval" aria-labelledby="approval-title">
      <Detail
        one={shown}
        editor={
          manner === "edit" && mayDecide ? (
            <ArgumentsEditor
              approval={id}
              text={shown.arguments}
              form={formFor(shown)}
              isTextKept
              isBusy={sending.value !== ""}
              {...(isQuestion(shown) ? { approveWords: "Send the answer" } : {})}
              onApprove={(_, text) => void say({ kind: "change", text })}
              onCancel={back}
            />
          ) : null
        }
      />
      {mayDecide && (
        <Decide
          one={shown}
          manner={manner}
          setManner={(next) => (next === "plain" ? back() : setManner(next))}
          onApprove={() => void say({ kind: "approve" })}
          onDeny={(why) => void say({ kind: "deny", why })}
        />
      )}
    </article>
  );
}

/** A tool's arguments have its schema; a question brings the form of its answer along. */
function formFor(one: Approval): FormOf | null {
  if (!isQuestion(one)) return one.definition ? { schema: one.definition.parameters } : null;
  const { schema } = questionIn(one);
  return schema && { schema, under: "answer" };
}
