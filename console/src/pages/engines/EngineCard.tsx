/** One engine: how it is, what it can be held by, and what was found there. */

import type { Engine } from "../../api/types";
import { Badge, type Tone } from "../../parts/Badge";
import { Shown } from "../../parts/Shown";
import { readings } from "./live";
import { ProfileView } from "./ProfileView";

const STATES: Readonly<Record<string, { readonly tone: Tone; readonly says: string }>> = {
  ready: { tone: "good", says: "It is asked." },
  resting: { tone: "bad", says: "It failed: others are asked first, until it is tried again." },
};

const CHOICES: Readonly<Record<string, string>> = {
  auto: "answer or call, as it likes",
  none: "answer without a call",
  required: "call some tool",
  one: "call this very tool",
  allowed: "call none but these tools",
};

const TARGETS: Readonly<Record<string, string>> = {
  lark: "Lark",
  gbnf: "GBNF",
  structural_tag: "structural tag",
};

export function EngineCard({ engine }: { readonly engine: Engine }) {
  const state = STATES[engine.state];
  return (
    <article class="card engine" aria-label={`Engine ${engine.engine}`}>
      <header class="row">
        <h3>
          <Shown text={engine.engine} />
        </h3>
        <Badge>{engine.kind}</Badge>
        <Badge tone={state?.tone ?? "plain"} title={state?.says ?? ""}>
          {engine.state}
        </Badge>
      </header>
      {engine.why && (
        <p class={engine.state === "ready" ? "small" : "small bad-words"}>
          {engine.state === "ready" && <span class="dim">It is to be tried again. Its last failure: </span>}
          <Shown text={engine.why} />
        </p>
      )}
      <dl class="facts">
        <dt>Held by</dt>
        <dd>
          {engine.targets.length > 0 ? (
            <>
              a grammar, while it decodes: {engine.targets.map((target) => TARGETS[target] ?? target).join(", or ")}
            </>
          ) : (
            "nothing of ours: every call is checked after it was written"
          )}
        </dd>
        <dt>Honours</dt>
        <dd>
          {Object.entries(CHOICES).map(([choice, says]) => (
            <Choice key={choice} choice={choice} says={says} isHonoured={engine.honours.includes(choice)} />
          ))}
          {engine.honours
            .filter((choice) => !(choice in CHOICES))
            .map((choice) => (
              <Choice key={choice} choice={choice} says="" isHonoured />
            ))}
        </dd>
        <dt>Skipping</dt>
        <dd>
          {engine.goes_on_cheaply
            ? "pays: what the rule forces is appended and not generated"
            : "does not pay, or is not known to: every token is generated"}
        </dd>
        <Counted engine={engine.engine} />
      </dl>
      <ProfileView engine={engine} />
    </article>
  );
}

function Choice({ choice, says, isHonoured }: { readonly choice: string; readonly says: string; readonly isHonoured: boolean }) {
  return (
    <span class={isHonoured ? "chip good" : "chip choice-not"} title={says}>
      <span aria-hidden="true">{isHonoured ? "✓" : "✗"}</span>
      <span class="visually-hidden">{isHonoured ? "yes: " : "no: "}</span> {choice}
    </span>
  );
}

/** Of /metrics, where the key may read it. */
function Counted({ engine }: { readonly engine: string }) {
  const last = readings.value.at(-1);
  if (!last) return null;
  const open = last.open.get(engine) ?? 0;
  const failures = last.failures.get(engine) ?? 0;
  return (
    <>
      <dt>Under way</dt>
      <dd class="figures">{open === 1 ? "1 answer" : `${open} answers`}</dd>
      <dt>Failures</dt>
      <dd class="figures">{failures > 0 ? `${failures} since the gateway began` : "none since the gateway began"}</dd>
    </>
  );
}
