/** What `ferrule doctor` found at an engine's address, or what to run where nobody has asked it. */

import { useState } from "preact/hooks";
import type { Engine, Finding } from "../../api/types";
import { Badge, type Tone } from "../../parts/Badge";
import { Shown } from "../../parts/Shown";

/** In the order of how much they matter. */
const VERDICTS: Readonly<Record<string, { readonly tone: Tone; readonly says: string }>> = {
  ignored: { tone: "bad", says: "taken without a word, and not kept" },
  partly: { tone: "warn", says: "kept sometimes, or with something that should not be there" },
  refused: { tone: "info", says: "the server says that it does not take it: nobody is deceived" },
  unknown: { tone: "plain", says: "the model could not be brought to show it" },
  honoured: { tone: "good", says: "kept every time, and shown not to be kept where it was not demanded" },
};

export function ProfileView({ engine }: { readonly engine: Engine }) {
  const [isOpen, setOpen] = useState(false);
  const { profile } = engine;
  if (!profile) return <NoProfile isHeld={engine.targets.length > 0} />;
  return (
    <div class="profile" role="group" aria-label={`The doctor's profile of ${engine.engine}`}>
      <div class="row">
        <h4>The doctor's profile</h4>
        <time class="dim small" dateTime={profile.date}>
          {profile.date}
        </time>
        <button type="button" class="small profile-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Close" : `${profile.findings.length} findings`}
        </button>
      </div>
      <p class="row">
        {Object.entries(VERDICTS).map(([verdict, { tone, says }]) => {
          const count = profile.findings.filter((one) => one.verdict === verdict).length;
          return (
            count > 0 && (
              <Badge key={verdict} tone={tone} title={says}>
                {count} {verdict}
              </Badge>
            )
          );
        })}
      </p>
      {isOpen && (
        <>
          <p class="dim small">
            <Shown text={profile.model} />
            {profile.url && (
              <>
                {" at "}
                <Shown text={profile.url} />
              </>
            )}
          </p>
          <ul class="findings">
            {sorted(profile.findings).map((finding) => (
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
        <Shown text={finding.name} manner="exact" />
      </code>
      <Badge tone={verdict?.tone ?? "plain"} title={verdict?.says ?? ""}>
        {finding.verdict}
      </Badge>
      <span class="small finding-words">
        <Shown text={finding.evidence} />
      </span>
    </li>
  );
}

function NoProfile({ isHeld }: { readonly isHeld: boolean }) {
  return (
    <p class="profile small dim">
      {isHeld ? (
        "No doctor's profile, and none is needed: it is held by our own grammar."
      ) : (
        <>
          No doctor's profile. Whether this engine keeps what it is asked is found out by <code>ferrule doctor ADDRESS</code>, on
          the machine and as the user that the gateway runs as.
        </>
      )}
    </p>
  );
}

function sorted(findings: readonly Finding[]): readonly Finding[] {
  const order = Object.keys(VERDICTS);
  return [...findings].sort((one, other) => order.indexOf(one.verdict) - order.indexOf(other.verdict));
}
