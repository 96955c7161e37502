/** What the user asked, and the calls that ran before: so that an approver can tell whether a call fits. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Approval } from "../../api/types";
import { VisibleText } from "../../parts/VisibleText";

export function RequestSection({ approval }: { readonly approval: Approval }) {
  const detail = useDetail(approval);
  const request = detail?.request;
  return (
    <>
      {approval.needed > 1 && (
        <p class="small votes">
          Needs {approval.needed} approvers; {approval.votes} so far
          {detail?.approved_by?.length ? (
            <>
              : <VisibleText text={detail.approved_by.join(", ")} mode="exact" />
            </>
          ) : null}
          .
        </p>
      )}
      {request && (
        <section class="stack" aria-labelledby="asked">
          <h3 id="asked">What was asked</h3>
          {request.asked !== null && (
            <blockquote class="quote asked">
              <VisibleText text={request.asked} />
            </blockquote>
          )}
          {request.calls.length > 0 && (
            <details class="small" open={request.calls.length <= 3}>
              <summary>
                {request.calls.length + request.earlier_calls}{" "}
                {request.calls.length + request.earlier_calls === 1 ? "call" : "calls"} before this one
              </summary>
              <ol class="earlier-calls">
                {request.calls.map((call, index) => (
                  <li key={index} {...(call.is_error ? { class: "bad" } : {})}>
                    <code>
                      <VisibleText text={`${call.tool} ${call.arguments}`} mode="exact" />
                    </code>
                    <span class="dim">
                      {" → "}
                      <VisibleText text={call.result} />
                    </span>
                  </li>
                ))}
              </ol>
            </details>
          )}
        </section>
      )}
    </>
  );
}

/** Fetches the approval with its request: again when its votes or arguments change. */
function useDetail(approval: Approval): Approval | null {
  const [detail, setDetail] = useState<Approval | null>(null);
  useEffect(() => {
    const request = new AbortController();
    void gateway.approval(approval.id, { signal: request.signal }).then((result) => {
      if (!request.signal.aborted && result.ok) setDetail(result.value);
    });
    return () => request.abort();
  }, [approval.id, approval.votes, approval.arguments_sha256]);
  return detail?.id === approval.id ? detail : null;
}
