/** What `ferrule doctor` found about an engine, or how to run it if it has not been run. */

import { useState } from "preact/hooks";
import type { Engine, Finding } from "../../api/types";
import { Badge, type Tone } from "../../parts/Badge";
import { VisibleText } from "../../parts/VisibleText";

/** The most important first. */
const VERDICTS: Readonly<Record<string, { readonly tone: Tone; readonly description: string }>> = {
  ignored: { tone: "bad", description: "accepted and silently ignored" },
  partly: { tone: "warn", description: "followed only sometimes, or with unexpected extra output" },
  refused: { tone: "info", description: "rejected by the server with an error" },
  unknown: { tone: "plain", description: "the model did not trigger it, so it could not be tested" },
  honoured: { tone: "good", description: "followed every time, and not followed when it was not requested" },
};

export function ProfileView({ engine }: { readonly engine: Engine }) {
  const [isOpen, setOpen] = useState(false);
  const { profile } = engine;
  if (!profile) return <NoProfile isConstrained={engine.targets.length > 0} />;
  return (
    <div class="profile" role="group" aria-label={`Doctor profile of ${engine.engine}`}>
      <div class="row">
        <h4>Doctor profile</h4>
        <time class="dim small" dateTime={profile.date}>
          {profile.date}
        </time>
        <button type="button" class="small profile-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Close" : `${profile.findings.length} findings`}
        </button>
      </div>
      <p class="row">
        {Object.entries(VERDICTS).map(([verdict, { tone, description }]) => {
          const count = profile.findings.filter((one) => one.verdict === verdict).length;
          return (
            count > 0 && (
              <Badge key={verdict} tone={tone} title={description}>
                {count} {verdict}
              </Badge>
            )
          );
        })}
      </p>
      {isOpen && (
        <>
          <p class="dim small">
            <VisibleText text={profile.model} />
            {profile.url && (
              <>
                {" at "}
                <VisibleText text={profile.url} />
              </>
            )}
          </p>
          <ul class="findings">
            {sortFindings(profile.findings).map((finding) => (
              <FindingLine key={finding.name} finding={finding} />
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

function FindingLine({ finding }: { readonly finding: Finding }) {
  const verdict = VERDICTS[finding.verdict];
  return (
    <li class="finding">
      <code>
        <VisibleText text={finding.name} mode="exact" />
      </code>
      <Badge tone={verdict?.tone ?? "plain"} title={verdict?.description ?? ""}>
        {finding.verdict}
      </Badge>
      <span class="small finding-evidence">
        <VisibleText text={finding.evidence} />
      </span>
    </li>
  );
}

function NoProfile({ isConstrained }: { readonly isConstrained: boolean }) {
  return (
    <p class="profile small dim">
      {isConstrained ? (
        "No doctor profile. None is needed: Ferrule's own grammar constrains this engine."
      ) : (
        <>
          No doctor profile. To test which options this engine supports, run <code>ferrule doctor URL</code> on the gateway's
          machine and as its user.
        </>
      )}
    </p>
  );
}

function sortFindings(findings: readonly Finding[]): readonly Finding[] {
  const order = Object.keys(VERDICTS);
  return [...findings].sort((one, other) => order.indexOf(one.verdict) - order.indexOf(other.verdict));
}
