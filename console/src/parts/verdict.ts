/** What the gateway says of arguments that somebody is typing: asked when he pauses, and once. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../api/gateway";
import type { Problem } from "../api/result";
import type { Fault, JsonObject } from "../api/types";
import { isKeptByNumbers, readObject } from "../json/exact";

const PAUSE = 250;

export type Verdict =
  | { readonly state: "checking" }
  | { readonly state: "fits"; readonly value: JsonObject; readonly text: string }
  | { readonly state: "faults"; readonly faults: readonly Fault[] }
  | { readonly state: "problem"; readonly problem: Problem };

const ROUNDED =
  "There is a number here that would be rounded on the way. Change these arguments on the approvals page instead.";

/** `isTextKept`: they will be sent as they are written. Otherwise what numbers would lose is a fault. */
export function useVerdict(approval: string, draft: string, isTextKept: boolean): Verdict {
  const [verdict, setVerdict] = useState<Verdict>({ state: "checking" });
  useEffect(() => {
    const found = readObject(draft);
    const fault =
      "fault" in found ? found.fault : isTextKept || isKeptByNumbers(found.part) ? null : ROUNDED;
    if (fault !== null) {
      setVerdict({ state: "faults", faults: [{ path: "", message: fault }] });
      return;
    }
    setVerdict({ state: "checking" });
    const asking = new AbortController();
    const timer = setTimeout(async () => {
      const answer = await gateway.checkArguments(approval, draft, { signal: asking.signal });
      if (asking.signal.aborted) return;
      if (!answer.ok) setVerdict({ state: "problem", problem: answer.problem });
      else if (answer.value.fits) setVerdict({ state: "fits", value: JSON.parse(draft) as JsonObject, text: draft });
      else setVerdict({ state: "faults", faults: answer.value.faults });
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      asking.abort();
    };
  }, [approval, draft, isTextKept]);
  return verdict;
}
