import { Badge } from "../../parts/Badge";
import { statusOf } from "./status";

/** The status of a trace or a request. The title says what it means. */
export function StatusBadge({ status }: { readonly status: string }) {
  const { label, tone, meaning } = statusOf(status);
  return (
    <Badge tone={tone} title={meaning}>
      {label}
    </Badge>
  );
}
