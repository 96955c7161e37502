/** Validates arguments at the gateway while the user types, once per pause. */

import { useEffect, useState } from "preact/hooks";
import * as gateway from "../api/gateway";
import type { Problem } from "../api/result";
import type { Fault, JsonObject } from "../api/types";
import { isSafeAsFloat, parseObject } from "../json/lossless";

const DEBOUNCE = 250;

export type ArgumentCheck =
  | { readonly state: "checking" }
  | { readonly state: "fits"; readonly value: JsonObject; readonly text: string }
  | { readonly state: "faults"; readonly faults: readonly Fault[] }
  | { readonly state: "problem"; readonly problem: Problem };

const ROUNDING_FAULT =
  "A number here would be rounded by the browser. Edit these arguments on the Approvals page instead.";

/** `sendsText`: the text is sent unchanged. Otherwise a number that would be rounded is a fault. */
export function useArgumentCheck(approval: string, draft: string, sendsText: boolean): ArgumentCheck {
  const [check, setCheck] = useState<ArgumentCheck>({ state: "checking" });
  useEffect(() => {
    const parsed = parseObject(draft);
    const fault =
      "fault" in parsed ? parsed.fault : sendsText || isSafeAsFloat(parsed.node) ? null : ROUNDING_FAULT;
    if (fault !== null) {
      setCheck({ state: "faults", faults: [{ path: "", message: fault }] });
      return;
    }
    setCheck({ state: "checking" });
    const request = new AbortController();
    const timer = setTimeout(async () => {
      const answer = await gateway.checkArguments(approval, draft, { signal: request.signal });
      if (request.signal.aborted) return;
      if (!answer.ok) setCheck({ state: "problem", problem: answer.problem });
      else if (answer.value.fits) setCheck({ state: "fits", value: JSON.parse(draft) as JsonObject, text: draft });
      else setCheck({ state: "faults", faults: answer.value.faults });
    }, DEBOUNCE);
    return () => {
      clearTimeout(timer);
      request.abort();
    };
  }, [approval, draft, sendsText]);
  return check;
}
