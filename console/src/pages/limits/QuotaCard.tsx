import { Badge } from "../../parts/Badge";
import { now } from "../../parts/Time";
import { VisibleText } from "../../parts/VisibleText";
import { amountText, levelOf, remainingText, resetText, scopeText, shareOf, type TimedQuota } from "./quotas";

/** A quota: how much is used, as a bar and as text, and when it begins again. */
export function QuotaCard({ quota }: { readonly quota: TimedQuota }) {
  const { label, tone } = levelOf(quota);
  return (
    <li class="card quota">
      <div class="quota-head">
        <h2 class="quota-name">
          <VisibleText text={quota.name} mode="exact" />
        </h2>
        <Badge tone={tone}>{label}</Badge>
      </div>
      {/* The text below says the same. */}
      <div class={`quota-bar ${tone}`} aria-hidden="true">
        <span class="quota-fill" style={{ width: `${shareOf(quota) * 100}%` }} />
      </div>
      <p class="quota-line tabular">
        <span>
          {amountText(quota)} used <span class="dim">· {remainingText(quota)}</span>
        </span>
        <time dateTime={new Date(quota.endsAt * 1000).toISOString()} title={new Date(quota.endsAt * 1000).toLocaleString()}>
          {resetText(quota.endsAt, now.value)}
        </time>
      </p>
      <p class="dim small">
        <VisibleText text={scopeText(quota)} />
      </p>
    </li>
  );
}
