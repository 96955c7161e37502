/** Signs in to a source. The gateway gives the address of the server's login, which opens in place of this page. */

import { useState } from "preact/hooks";
import * as gateway from "../../api/gateway";
import type { Problem as ProblemValue } from "../../api/result";
import { Problem } from "../../parts/Problem";

export function SourceLogin({ name }: { readonly name: string }) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ProblemValue | null>(null);

  async function signIn(): Promise<void> {
    setBusy(true);
    const answer = await gateway.beginLogin(name);
    setBusy(false);
    setProblem(answer.ok ? null : answer.problem);
    // The gateway returns nothing else, but an address of another kind would run here.
    if (answer.ok && answer.value.url && /^https?:/.test(answer.value.url)) window.location.assign(answer.value.url);
  }

  return (
    <>
      <p>
        <button type="button" disabled={isBusy} onClick={() => void signIn()}>
          Sign in
        </button>
      </p>
      {problem && <Problem problem={problem} />}
    </>
  );
}
