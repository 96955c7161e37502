/** Badges for a source's state and trust. The tooltip explains the label. */

import { Badge, type Tone } from "../../parts/Badge";

type StatusLabel = { readonly label: string; readonly tone: Tone; readonly description: string };

const STATES: Readonly<Record<string, StatusLabel>> = {
  ready: { label: "ready", tone: "good", description: "Its tools are available." },
  connecting: { label: "connecting", tone: "info", description: "The connection is being established." },
  needs_login: { label: "needs login", tone: "warn", description: "It can be reached, and somebody has to sign in to it first." },
  failed: { label: "failed", tone: "bad", description: "It could not be reached, or the connection was lost. It is retried." },
  closed: { label: "closed", tone: "plain", description: "The source was closed." },
};

const TRUST: Readonly<Record<string, StatusLabel>> = {
  own: { label: "local", tone: "plain", description: "Defined in the gateway's own code or configuration." },
  trusted: { label: "trusted", tone: "info", description: "Marked as trusted: the annotations of its tools are used." },
  untrusted: { label: "untrusted", tone: "warn", description: "Not marked as trusted: all of its tools need approval." },
};

export function SourceState({ state }: { readonly state: string }) {
  return <StatusBadge status={STATES[state]} value={state} />;
}

export function SourceTrust({ trust }: { readonly trust: string }) {
  return <StatusBadge status={TRUST[trust]} value={trust} />;
}

function StatusBadge({ status, value }: { readonly status: StatusLabel | undefined; readonly value: string }) {
  if (!status) return <Badge>{value}</Badge>;
  return (
    <Badge tone={status.tone} title={status.description}>
      {status.label}
    </Badge>
  );
}
