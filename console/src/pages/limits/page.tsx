/** The Limits page: how much the principal has used of each of its quotas. */

import * as gateway from "../../api/gateway";
import { success } from "../../api/result";
import { EmptyState, Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { useFetch } from "../../parts/useFetch";
import { VisibleText } from "../../parts/VisibleText";
import { QuotaCard } from "./QuotaCard";
import { timed } from "./quotas";
import "./limits.css";

const POLL_SECONDS = 15;
const EXAMPLE = `[quotas.tokens-of-a-key]
counts = "tokens"
most = 2_000_000
per = "day"`;

async function loadUsage() {
  const answer = await gateway.me();
  if (!answer.ok) return answer;
  const { name, tenant, quotas } = answer.value;
  return success({ name, tenant, quotas: timed(quotas, Date.now() / 1000) });
}

export default function Limits() {
  const usage = useFetch("usage", loadUsage, POLL_SECONDS);
  const value = usage.value;
  return (
    <div class="page">
      <header class="page-head">
        <h1>Usage and limits</h1>
        <button type="button" onClick={usage.retry}>
          Refresh
        </button>
      </header>
      {usage.problem && <Problem problem={usage.problem} onRetry={usage.retry} />}
      {!value && !usage.problem && <Loading what="your quotas" />}
      {value?.quotas.length === 0 && (
        <EmptyState title="No quota limits your key">
          <p>
            A quota says how many requests, tokens, tool calls or how much money may be used in a minute, an hour or a day. To set
            one, add it to <code>ferrule.toml</code> and reload the gateway:
          </p>
          <pre class="quota-example">{EXAMPLE}</pre>
        </EmptyState>
      )}
      {value && value.quotas.length > 0 && (
        <>
          <p class="dim small">
            The quotas of <VisibleText text={value.name} mode="exact" />, tenant{" "}
            <VisibleText text={value.tenant} mode="exact" />. A request beyond one of them gets status 429 with the code{" "}
            <code>quota_exceeded</code>.
          </p>
          <ul class="quotas" aria-label="Quotas">
            {value.quotas.map((quota) => (
              <QuotaCard key={quota.name} quota={quota} />
            ))}
          </ul>
          <p class="dim small">
            Without a shared quota store, each process of the gateway counts its part, and this is the count of the process that
            answered.
          </p>
        </>
      )}
      {value && (
        <p class="dim small">
          Not listed: quotas of single tools (<code>each = "tool"</code>), and the limits of your key itself for requests a minute
          and answers at once (<code>rate</code>, <code>width</code>).
        </p>
      )}
    </div>
  );
}
